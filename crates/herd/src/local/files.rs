//! The files of a herd directory: their names, the lock, and how they are written.
//!
//! ```text
//! .herd/herd.json     the herd's shape, written by `herd up`        (state.rs)
//! .herd/herd.toml     the router's configuration; yours to edit     (router_process.rs)
//! .herd/herd.lock     held while a `herd` command changes something
//! .herd/router.pid    .herd/router.log
//! .herd/node1/        PostgreSQL's data directory                   (node.rs)
//! .herd/node1.log     its log
//! .herd/column1/      its store of column copies, if there are any  (stores.rs)
//! .herd/column1.toml  .herd/column1.log
//! .herd/node1a/       of a herd with standbys: a member's own folder, with data/ and patroni.yml   (ha/member.rs)
//! .herd/node1a.log    what its Patroni and its PostgreSQL say
//! .herd/watch.log     what the watch over these has done            (ha/watch.rs)
//! .herd/etcd1/        .herd/etcd1.log                               (ha/etcd.rs)
//! ```
//! It does not know what stands in them.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::error::{Error, Result};

/// How long one `herd` command waits for another in the same directory.
const LOCK_WAIT: Duration = Duration::from_secs(60);

/// A herd directory, by its absolute path.
#[derive(Debug, Clone)]
pub struct Files {
    dir: PathBuf,
}

impl Files {
    /// Of a directory that may not exist yet.
    pub fn new(dir: &Path) -> Result<Files> {
        let dir = match dir.canonicalize() {
            Ok(dir) => dir,
            Err(_) => std::path::absolute(dir).map_err(Error::io("resolve", dir))?,
        };
        Ok(Files { dir })
    }

    /// Its absolute path, links resolved if it existed.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// What the herd is made of: `State`, as JSON.
    pub fn state(&self) -> PathBuf {
        self.dir.join("herd.json")
    }
    /// The router's configuration.
    pub fn config(&self) -> PathBuf {
        self.dir.join("herd.toml")
    }
    /// Where the router's process is noted while it runs.
    pub fn router_pid(&self) -> PathBuf {
        self.dir.join("router.pid")
    }
    /// Where the router writes what it has to say.
    pub fn router_log(&self) -> PathBuf {
        self.dir.join("router.log")
    }
    /// Nodes count from 1, as in `node1`.
    pub fn node(&self, number: u16) -> PathBuf {
        self.dir.join(format!("node{number}"))
    }
    /// Where the node's PostgreSQL writes its log.
    pub fn node_log(&self, number: u16) -> PathBuf {
        self.dir.join(format!("node{number}.log"))
    }

    /// The directory of the store beside a node.
    pub fn store(&self, number: u16) -> PathBuf {
        self.dir.join(format!("column{number}"))
    }
    /// Its configuration.
    pub fn store_config(&self, number: u16) -> PathBuf {
        self.dir.join(format!("column{number}.toml"))
    }
    /// Its log.
    pub fn store_log(&self, number: u16) -> PathBuf {
        self.dir.join(format!("column{number}.log"))
    }

    /// The folder of a member (`node1a`) of a node that has a standby.
    pub fn member(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
    /// What the member's programs say.
    pub fn member_log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }
    /// What the watch over members has done.
    pub fn watch_log(&self) -> PathBuf {
        self.dir.join("watch.log")
    }
    /// The data of an etcd.
    pub fn etcd(&self, number: u16) -> PathBuf {
        self.dir.join(format!("etcd{number}"))
    }
    /// Its log.
    pub fn etcd_log(&self, number: u16) -> PathBuf {
        self.dir.join(format!("etcd{number}.log"))
    }

    /// Makes the directory where it is missing, closed to others. Where PostgreSQL runs as another user it may pass through
    /// to its data directory.
    pub fn create(&self) -> Result<()> {
        if self.dir.is_dir() {
            return Ok(());
        }
        fs::create_dir_all(&self.dir).map_err(Error::io("create", &self.dir))?;
        set_mode(&self.dir, if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 })
    }

    /// Waits until no other `herd` command works in this directory. The lock ends with the returned value, or with
    /// the process, however it ends.
    pub fn lock(&self) -> Result<File> {
        let started = Instant::now();
        let mut told = false;
        loop {
            let (mut file, path) = self.lock_file()?;
            if lock(&mut file).map_err(Error::io("write", &path))? {
                return Ok(file);
            }
            let mut owner = String::new();
            file.rewind().and_then(|()| file.read_to_string(&mut owner)).map_err(Error::io("read", &path))?;
            let owner = format!("process {}", owner.trim());
            if started.elapsed() > LOCK_WAIT {
                return Err(Error::Locked { path: self.dir.clone(), owner });
            }
            if !told {
                eprintln!("waiting for another `herd` command ({owner}) in {}", self.dir.display());
                told = true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The same, if no other one works in it now.
    pub fn try_lock(&self) -> Result<Option<File>> {
        let (mut file, path) = self.lock_file()?;
        Ok(lock(&mut file).map_err(Error::io("write", &path))?.then_some(file))
    }

    fn lock_file(&self) -> Result<(File, PathBuf)> {
        let path = self.dir.join("herd.lock");
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        Ok((file.map_err(Error::io("open", &path))?, path))
    }
}

/// Locks it and writes who has. False: another has.
fn lock(file: &mut File) -> std::io::Result<bool> {
    if flock(&*file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    file.rewind()?;
    file.set_len(0)?;
    write!(file, "{}", std::process::id())?;
    Ok(true)
}

/// Writes a file whole or not at all, also when the machine stops in the middle.
pub fn write_whole(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        // The rename itself lasts only once the folder is on disk.
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(Error::io("write", path))
}

/// Opens a log file to write at its end. Statements are in it, and what is in them: nobody else may read it.
pub fn open_log(path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
    let file = file.map_err(Error::io("open", path))?;
    set_mode(path, 0o600)?;
    Ok(file)
}

/// The permissions of a file or folder, as `chmod` takes them.
pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(Error::io("set the mode of", path))
}

/// The last `lines` lines of a log file, for a message; a missing file is empty.
pub fn tail(path: &Path, lines: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_is_the_end_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        assert_eq!(tail(&log, 2), "");
        fs::write(&log, "a\nb\nc\n").unwrap();
        assert_eq!(tail(&log, 2), "b\nc");
        assert_eq!(tail(&log, 9), "a\nb\nc");
    }

    #[test]
    fn the_lock_is_held_until_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path()).unwrap();
        let held = files.lock().unwrap();
        let other = File::open(dir.path().join("herd.lock")).unwrap();
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(held);
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_ok());
    }
}
