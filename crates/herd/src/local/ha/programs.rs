//! Finds `etcd` and `patroni`: programs of others, that PostgreSQL's user has to be able to run.
//!
//! HERD_ETCD and HERD_PATRONI, and nothing else where they are set; `patroni` in a private venv, as PostgreSQL
//! (`binaries.rs`); PATH. Whether that user can run one is seen by running it.

use std::path::{Path, PathBuf};

use crate::local::account::{self, Account};
use crate::local::binaries;
use crate::local::error::{Error, Result};

/// Where they are.
#[derive(Debug, Clone)]
pub struct Programs {
    pub etcd: PathBuf,
    pub patroni: PathBuf,
}

/// One of them, and what to do without it.
struct Wanted {
    name: &'static str,
    variable: &'static str,
    remedy: &'static str,
}

const ETCD: Wanted = Wanted { name: "etcd", variable: "HERD_ETCD", remedy: "Debian: `apt-get install etcd-server`" };
const PATRONI: Wanted = Wanted {
    name: "patroni",
    variable: "HERD_PATRONI",
    remedy: "`pip install 'patroni[etcd3,psycopg3]'`, Debian: `apt-get install patroni`",
};

/// Both, as the account can run them.
pub fn find(account: Option<&Account>) -> Result<Programs> {
    let venvs = binaries::venvs().into_iter().map(|venv| venv.join("bin")).collect();
    Ok(Programs { etcd: ETCD.find(Vec::new(), account)?, patroni: PATRONI.find(venvs, account)? })
}

impl Wanted {
    fn find(&self, folders: Vec<PathBuf>, account: Option<&Account>) -> Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places: Vec<PathBuf> = match std::env::var_os(self.variable).filter(|value| !value.is_empty()) {
            Some(given) => vec![PathBuf::from(given)],
            None => {
                let places = folders.into_iter().chain(std::env::split_paths(&path)).map(|f| f.join(self.name));
                places.filter(|place| place.is_file()).collect()
            }
        };
        let mut looked = Vec::new();
        for place in places {
            match try_it(&place, account) {
                // A link in a venv says which Python's packages there are: it is not resolved.
                Ok(()) => return std::path::absolute(&place).map_err(Error::io("resolve", place)),
                Err(why) => looked.push(format!("\n{}: {why}", place.display())),
            }
        }
        let user = account.map_or_else(|| "you".to_owned(), |account| format!("user \"{}\"", account.name));
        let (program, variable, remedy) = (self.name, self.variable, self.remedy);
        Err(Error::NoProgram { program, user, remedy, variable, looked: looked.concat() })
    }
}

/// Why the account can't run it.
fn try_it(program: &Path, account: Option<&Account>) -> std::result::Result<(), String> {
    let who = account.map_or_else(String::new, |account| format!("user \"{}\" ", account.name));
    let mut command = account::command(account, program, Path::new("/"));
    let output = command.arg("--version").output().map_err(|error| format!("{who}cannot run it: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{who}ran it, and it failed: {}", said.trim().lines().last().unwrap_or("it said nothing")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn one_that_cannot_be_run_is_told_with_what_it_said() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("patroni");
        std::fs::write(&program, "#!/bin/sh\necho no module psycopg >&2\nexit 3\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(try_it(&program, None).unwrap_err(), "ran it, and it failed: no module psycopg");
        std::fs::write(&program, "#!/nowhere/python\n").unwrap();
        assert!(try_it(&program, None).unwrap_err().starts_with("cannot run it: "));
        assert_eq!(try_it(Path::new("/bin/true"), None), Ok(()));
    }
}
