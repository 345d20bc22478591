//! `herd psql`, and the commands that are one statement of admin SQL: they become psql.
//!
//! It does not know what the statements do; the router does.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::binaries;
use super::error::{Error, Result};
use super::files::Files;
use super::state::State;

/// Where a statement goes: the local herd of a directory, or any router.
#[derive(Debug, Clone)]
pub enum Target {
    Dir(PathBuf),
    Url(String),
}

/// Becomes psql, connected to the router of `dir`; returns only if that fails.
pub fn psql(dir: &Path, arguments: &[OsString]) -> Result<()> {
    let mut command = to_herd(dir)?;
    command.args(arguments);
    become_program(command)
}

/// Becomes psql running one statement; its exit code is psql's (1 when the statement fails).
pub fn run_sql(target: &Target, sql: &str) -> Result<()> {
    let mut command = match target {
        Target::Dir(dir) => to_herd(dir)?,
        Target::Url(url) => {
            let mut command = Command::new(binaries::psql());
            command.arg("--dbname").arg(url);
            command
        }
    };
    // --no-psqlrc, and no pager: the output is for scripts too.
    command.args(["-X", "-v", "ON_ERROR_STOP=1", "-P", "pager=off", "-c", sql]);
    become_program(command)
}

/// The environment names the herd, so that psql's own options can still choose a database or a user.
fn to_herd(dir: &Path) -> Result<Command> {
    let files = Files::new(dir)?;
    let state = State::load(&files.state())?.ok_or_else(|| Error::NoHerd { path: files.dir().to_owned() })?;
    let mut command = Command::new(binaries::psql());
    command.env_remove("PGSERVICE").env_remove("PGHOSTADDR");
    command.env("PGHOST", "127.0.0.1").env("PGPORT", state.port.to_string());
    command.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
    Ok(command)
}

impl Target {
    /// How libpq's programs reach it.
    pub fn url(&self) -> Result<String> {
        match self {
            Target::Url(url) => Ok(url.clone()),
            Target::Dir(dir) => {
                let files = Files::new(dir)?;
                let state =
                    State::load(&files.state())?.ok_or_else(|| Error::NoHerd { path: files.dir().to_owned() })?;
                Ok(state.url())
            }
        }
    }
}

fn become_program(mut command: Command) -> Result<()> {
    let source = command.exec();
    Err(Error::Spawn { program: PathBuf::from(command.get_program()), source })
}

/// Text as an SQL literal. (standard_conforming_strings is on in every PostgreSQL a herd can have.)
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
