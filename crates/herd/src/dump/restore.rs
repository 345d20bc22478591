//! `herd restore`: a dump into an empty database, of a plain PostgreSQL or of another herd.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::{Error, Result};
use super::manifest::{Archive, Manifest};
use super::program;
use super::progress::Progress;
use super::schema::{self, For};
use crate::local::Target;

#[derive(Debug)]
pub struct Restore {
    pub dir: PathBuf,
    pub to: Target,
    /// Connections at once.
    pub jobs: u16,
    /// Make the roles that are missing there.
    pub roles: bool,
}

/// Schema, rows, then indexes and constraints; what was restored before an error stays.
pub fn restore(asked: &Restore) -> Result<()> {
    let manifest = Manifest::load(&asked.dir)?;
    let server = asked.to.url()?;
    // Only a router knows the setting; that nobody answers at all is said by the next statement.
    let to = if program::value(&server, "SHOW herd.snapshot").is_ok() { For::Herd } else { For::Plain };
    program::value(&server, "SELECT 1")?;
    if asked.roles {
        roles(&server, &asked.dir)?;
    }
    let script = read(&asked.dir.join("pre-data.sql"))?;
    let script = match to {
        For::Plain => script,
        For::Herd => schema::adapt(&script, &manifest.tables, For::Herd)?,
    };
    run_script(&server, &script)?;
    let progress = Progress::new(&manifest.archives);
    for archive in &manifest.archives {
        rows(&server, archive, asked, &progress)?;
    }
    progress.done();
    let script = read(&asked.dir.join("post-data.sql"))?;
    let script = match to {
        For::Plain => script,
        For::Herd => schema::adapt_post_data(&script, &manifest.tables)?,
    };
    run_script(&server, &script)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|source| Error::Io { action: "read", path: path.to_owned(), source })
}

/// A script by psql, from a file of its own, so that its length does not matter.
fn run_script(server: &str, script: &str) -> Result<()> {
    let file = tempfile::NamedTempFile::new();
    let failed = |source| Error::Io { action: "write", path: std::env::temp_dir(), source };
    let file = file.map_err(failed)?;
    fs::write(file.path(), script).map_err(failed)?;
    let mut command = program::psql(server);
    command.arg("-f").arg(file.path());
    program::run("psql", server, command, |_| {}).map(|_| ())
}

fn roles(server: &str, dir: &Path) -> Result<()> {
    let there = program::value(server, "SELECT rolname FROM pg_catalog.pg_roles")?;
    let there: HashSet<String> = there.lines().map(str::to_owned).collect();
    run_script(server, &schema::without_roles(&read(&dir.join("roles.sql"))?, &there)?)
}

fn rows(server: &str, archive: &Archive, asked: &Restore, progress: &Progress) -> Result<()> {
    progress.archive("restoring", archive);
    let mut command = program::command("pg_restore", server);
    command.args(["--data-only", "--exit-on-error", "--verbose", &format!("--jobs={}", asked.jobs)]);
    command.arg(asked.dir.join("data").join(&archive.folder));
    let heard = |line: &str| {
        progress.heard(line, archive);
    };
    program::run("pg_restore", server, command, heard).map(|_| ())
}
