//! Which user runs PostgreSQL: it refuses to run as root, so root lends it another user.
//!
//! Knows users, owners and permissions. It does not know what the programs it prepares do.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use super::error::{Error, Result};

/// The user PostgreSQL runs as, when it is not the one who runs `herd`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// `None`: whoever runs this may run PostgreSQL too. As root: HERD_PG_USER, else `postgres`, else `nobody`.
pub fn for_new_data() -> Result<Option<Account>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let passwd = read_passwd()?;
    let find = |name: &str| passwd.iter().find(|account| account.name == name).cloned();
    if let Some(name) = std::env::var("HERD_PG_USER").ok().filter(|name| !name.is_empty()) {
        let remedy = "set HERD_PG_USER to a user that exists";
        return match find(&name) {
            Some(account) if account.uid == 0 => {
                Err(Error::NoUser { name, remedy: "PostgreSQL does not run as root; set HERD_PG_USER to another user" })
            }
            Some(account) => Ok(Some(account)),
            None => Err(Error::NoUser { name, remedy }),
        };
    }
    let found = ["postgres", "nobody"].iter().find_map(|name| find(name));
    found.map(Some).ok_or(Error::NoUser {
        name: "nobody".to_owned(),
        remedy: "PostgreSQL does not run as root; set HERD_PG_USER to the user who shall run it",
    })
}

/// The user a data directory belongs to, who alone can run PostgreSQL on it.
pub fn owner_of(data: &Path) -> Result<Option<Account>> {
    let meta = fs::metadata(data).map_err(Error::io("look at", data))?;
    if meta.uid() == geteuid().as_raw() && meta.uid() != 0 {
        return Ok(None);
    }
    if !geteuid().is_root() {
        return Err(Error::Owner { path: data.to_owned(), owner: meta.uid() });
    }
    if meta.uid() == 0 {
        // Left by an interrupted `herd up`, before the directory changed hands.
        return for_new_data();
    }
    let name = read_passwd()?.into_iter().find(|account| account.uid == meta.uid()).map(|account| account.name);
    let name = name.unwrap_or_else(|| meta.uid().to_string());
    Ok(Some(Account { name, uid: meta.uid(), gid: meta.gid() }))
}

/// Beginnings of names of variables by which programs are told what a herd decides itself.
const DECIDED: [&str; 3] = ["PG", "PATRONI_", "ETCD_"];

/// A program that will run as `account`, in `folder`, without the caller's settings of PostgreSQL, Patroni and etcd.
pub fn command(account: Option<&Account>, program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    // The caller's working directory may be closed to the account.
    command.current_dir(folder).stdin(std::process::Stdio::null()).env("LC_ALL", "C");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| DECIDED.iter().any(|decided| name.starts_with(decided))) {
            command.env_remove(name);
        }
    }
    if let Some(account) = account {
        // As root, the standard library also empties the list of supplementary groups.
        command.uid(account.uid).gid(account.gid).env("HOME", folder).env("USER", &account.name);
    }
    command
}

/// Hands a file or an empty folder over to the account.
pub fn give(account: Option<&Account>, path: &Path) -> Result<()> {
    match account {
        Some(account) => std::os::unix::fs::chown(path, Some(account.uid), Some(account.gid))
            .map_err(Error::io("change the owner of", path)),
        None => Ok(()),
    }
}

/// The first folder on the way to `path` (or `path` itself) that is closed to the account. A path that does not
/// exist yet is judged by what exists of it.
pub fn blocker(account: Option<&Account>, path: &Path) -> Option<PathBuf> {
    let account = account?;
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    way.into_iter()
        .filter_map(|folder| Some((folder, fs::metadata(folder).ok()?)))
        .find(|(_, meta)| !may_enter(account, meta))
        .map(|(folder, _)| folder.to_owned())
}

/// Whether the permission bits let the account pass a folder, or execute a file.
fn may_enter(account: &Account, meta: &Metadata) -> bool {
    let mode = meta.permissions().mode();
    let bit = if meta.uid() == account.uid {
        0o100
    } else if meta.gid() == account.gid {
        0o010
    } else {
        0o001
    };
    mode & bit != 0
}

fn read_passwd() -> Result<Vec<Account>> {
    let path = Path::new("/etc/passwd");
    let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
    Ok(parse_passwd(&text))
}

fn parse_passwd(text: &str) -> Vec<Account> {
    let account = |line: &str| {
        let mut fields = line.split(':');
        let (name, _password, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        Some(Account { name: name.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()? })
    };
    text.lines().filter_map(account).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwd_is_read_and_odd_lines_are_skipped() {
        let text = "root:x:0:0:root:/root:/bin/bash\n+::::::\n\nnobody:x:65534:65533::/:/bin/false\n";
        let accounts = parse_passwd(text);
        assert_eq!(accounts.len(), 2);
        assert_eq!(accounts[1], Account { name: "nobody".to_owned(), uid: 65534, gid: 65533 });
    }

    #[test]
    fn a_closed_folder_blocks_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let closed = root.join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let stranger = Account { name: "stranger".to_owned(), uid: 54_321, gid: 54_321 };
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(blocker(Some(&stranger), &closed.join("not/yet")), Some(closed.clone()));
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(blocker(Some(&stranger), &closed.join("not/yet")), None);
        assert_eq!(blocker(None, &closed), None);
    }
}
