//! What is kept here are others' rows, and a password may be in the configuration: nobody else of this machine may read them. It does not
//! know what is in the files.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;

const OTHERS: u32 = 0o077;

/// From now on, what this process makes is its user's alone.
pub fn close() {
    rustix::process::umask(Mode::from_raw_mode(OTHERS));
}

/// Makes the directory; one that others may enter is refused, as PostgreSQL refuses its own.
pub fn directory(path: &Path) -> Result<(), String> {
    let make = || -> io::Result<u32> {
        fs::create_dir_all(path)?;
        Ok(fs::metadata(path)?.permissions().mode())
    };
    let mode = make().map_err(|e| format!("{}: {e}", path.display()))?;
    match mode & OTHERS {
        0 => Ok(()),
        _ => Err(format!(
            "{0} holds the rows of tables, and others than its owner may enter it (mode {1:04o}): chmod 700 {0}",
            path.display(),
            mode & 0o7777
        )),
    }
}

/// Whether others may read a file; what to say then.
pub fn readable(path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    (mode & OTHERS != 0).then(|| {
        format!(
            "{0} holds a password and others than its owner may read it (mode {1:04o}): chmod 600 {0}",
            path.display(),
            mode & 0o7777
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_kept_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(directory(&path).unwrap_err().contains("chmod 700"));
        assert!(readable(&path).is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!((directory(&path), readable(&path)), (Ok(()), None));
    }
}
