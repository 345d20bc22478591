//! The folder that files are written into. They are called `….part` until all of them are whole, so that nothing that looks like a
//! file of rows is half of one. It does not know what is in them.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::error::{Error, Result};

/// Whose export has the folder, as long as it works.
const LOCK: &str = ".herd-export.part";

/// An empty folder, and what is written into it.
pub struct Folder {
    dir: PathBuf,
    /// It was not there.
    is_made: bool,
    is_finished: bool,
    /// Files begun: as they are called now, and as they are to be called.
    parts: Mutex<Vec<(PathBuf, PathBuf)>>,
}

impl Folder {
    /// Makes it where it is missing.
    pub fn make(dir: &Path) -> Result<Folder> {
        let failed = |action| move |source| Error::Io { action, path: dir.to_owned(), source };
        let is_made = !dir.exists();
        // Rows are for nobody else to read.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed("make"))?;
        let not_empty = || Error::NotEmpty { path: dir.to_owned() };
        let lock = dir.join(LOCK);
        match File::options().write(true).create_new(true).open(&lock) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(not_empty()),
            made => drop(made.map_err(failed("make a file in"))?),
        }
        // From here on it is taken away again.
        let folder = Folder { dir: dir.to_owned(), is_made, is_finished: false, parts: Mutex::default() };
        let others = |entry: std::io::Result<fs::DirEntry>| entry.map_or(true, |entry| entry.file_name() != LOCK);
        if fs::read_dir(dir).map_err(failed("read"))?.any(others) {
            return Err(not_empty());
        }
        Ok(folder)
    }

    /// Begins a file, which is to have this name; the path it has now.
    pub fn begin(&self, name: &str) -> Result<(File, PathBuf)> {
        let (now, then) = (self.dir.join(format!("{name}.part")), self.dir.join(name));
        let failed = |source| Error::Io { action: "make", path: now.clone(), source };
        let file = File::options().write(true).create_new(true).open(&now).map_err(failed)?;
        self.parts.lock().push((now.clone(), then));
        Ok((file, now))
    }

    /// All files are whole, and are given their names; how many there are.
    pub fn finish(&mut self) -> Result<usize> {
        for (now, then) in self.parts.get_mut().iter_mut() {
            fs::rename(&*now, &*then).map_err(|source| Error::Io { action: "rename", path: now.clone(), source })?;
            // What is to go after an error.
            *now = then.clone();
        }
        let _ = fs::remove_file(self.dir.join(LOCK));
        let failed = |source| Error::Io { action: "write", path: self.dir.clone(), source };
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
        self.is_finished = true;
        Ok(std::mem::take(self.parts.get_mut()).len())
    }
}

impl Drop for Folder {
    /// Nothing stays of what was not finished.
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        for (now, _) in self.parts.get_mut() {
            let _ = fs::remove_file(now);
        }
        let _ = fs::remove_file(self.dir.join(LOCK));
        if self.is_made {
            // Others may have put something there.
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

/// A file name of a table's: letters and digits of any script, and nothing that folders, patterns or shells read.
pub fn plain(name: &str) -> String {
    let keep = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '_' };
    name.chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finished_goes() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/b");
        let names =
            || fs::read_dir(&dir).unwrap().flatten().map(|e| e.file_name().into_string().unwrap()).collect::<Vec<_>>();
        {
            let folder = Folder::make(&dir).unwrap();
            folder.begin("x.csv").unwrap();
            assert!(names().contains(&"x.csv.part".to_string()) && names().contains(&LOCK.to_string()));
            assert!(matches!(Folder::make(&dir), Err(Error::NotEmpty { .. })));
        }
        assert!(!dir.exists());
        let mut folder = Folder::make(&dir).unwrap();
        folder.begin("x.csv").unwrap();
        assert_eq!(folder.finish().unwrap(), 1);
        drop(folder);
        assert_eq!(names(), ["x.csv"]);
    }

    #[test]
    fn names_of_files() {
        assert_eq!(plain("Ev ents/../é*1"), "Ev_ents____é_1");
    }
}
