//! Rows on the router's disk: what a statement has to hold beyond its memory, in a file without a name that is gone with it, or with the
//! router. What the rows are, and why they wait, is not known here.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use wire::{ErrorFields, sqlstate};

use crate::budget::Own;
use crate::error::{ExecError, Result};

/// What is written at a time.
const BUFFER: usize = 256 << 10;

/// Where rows may wait, and how much of them.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
    /// Bytes of one session's files, and of all together.
    session_max: u64,
    bytes_max: u64,
    used: AtomicU64,
}

impl Disk {
    /// `session_max`: of one session's statements; `bytes_max`: of all together; 0: none.
    pub fn new(directory: PathBuf, session_max: u64, bytes_max: u64) -> Self {
        Disk { directory, session_max, bytes_max, used: AtomicU64::new(0) }
    }

    /// Bytes that are there now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether anything may wait here.
    pub fn is_there(&self) -> bool {
        self.bytes_max > 0 && self.session_max > 0
    }

    fn take(&self, own: &Arc<Own>, more: u64) -> Result<()> {
        let all = self.used.fetch_add(more, Ordering::Relaxed) + more;
        let session = own.disk.fetch_add(more, Ordering::Relaxed) + more;
        let refusal = if session > self.session_max {
            no_room(format!("{session} bytes would be in use by this session"), self.session_max, "_per_session")
        } else if all > self.bytes_max {
            no_room(format!("{all} bytes would be in use by all sessions"), self.bytes_max, "")
        } else {
            return Ok(());
        };
        self.give_back(own, more);
        Err(refusal)
    }

    fn give_back(&self, own: &Arc<Own>, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        own.disk.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Rows in the order in which they came.
pub struct Spool {
    disk: Arc<Disk>,
    own: Arc<Own>,
    file: File,
    /// Bytes in the file, behind which the buffer goes on.
    written: u64,
    buffer: Vec<u8>,
    /// Where each row ends.
    ends: Vec<u64>,
}

impl Spool {
    /// None yet.
    ///
    /// # Errors
    /// 58030 if no file can be made.
    pub fn new(disk: &Arc<Disk>, own: &Arc<Own>) -> Result<Self> {
        let file = tempfile::tempfile_in(&disk.directory).map_err(|e| {
            let fields = ErrorFields::error(
                sqlstate::IO_ERROR,
                format!("could not make a temporary file in \"{}\": {e}", disk.directory.display()),
            );
            ExecError::Sql(Box::new(fields.hint("See limits.spool_directory in herd.toml.")))
        })?;
        Ok(Spool { disk: disk.clone(), own: own.clone(), file, written: 0, buffer: Vec::new(), ends: vec![] })
    }

    /// Rows that are here.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// What it takes of memory.
    pub fn held(&self) -> usize {
        BUFFER + self.ends.capacity() * size_of::<u64>()
    }

    /// # Errors
    /// 53400 if there is more on the disk than may be, 53100 if it is full, 58030 if it fails.
    pub fn push(&mut self, row: &[u8]) -> Result<()> {
        let more = row.len() as u64;
        self.disk.take(&self.own, more)?;
        self.ends.push(self.ends.last().copied().unwrap_or_default() + more);
        self.buffer.extend_from_slice(row);
        if self.buffer.len() >= BUFFER {
            self.file.write_all_at(&self.buffer, self.written).map_err(failed)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// The row at this place.
    ///
    /// # Errors
    /// 58030 if the disk fails.
    pub fn get(&self, at: usize) -> Result<Option<Bytes>> {
        let Some(end) = self.ends.get(at) else { return Ok(None) };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        // A row is written whole.
        if let Some(start) = start.checked_sub(self.written) {
            let end = end - self.written;
            return Ok(Some(Bytes::copy_from_slice(&self.buffer[start as usize..end as usize])));
        }
        let mut row = vec![0; (end - start) as usize];
        self.file.read_exact_at(&mut row, start).map_err(failed)?;
        Ok(Some(row.into()))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.disk.give_back(&self.own, self.ends.last().copied().unwrap_or_default());
    }
}

fn no_room(would_be: String, max: u64, of: &str) -> ExecError {
    let message = "no room for the rows that wait in the router's temporary files";
    let fields = ErrorFields::error(sqlstate::CONFIGURATION_LIMIT_EXCEEDED, message)
        .detail(format!("{would_be}, {max} are the limit."))
        .hint(format!(
            "Have the statement find, change or fetch fewer rows at once, or raise limits.spool_bytes{of} in herd.toml."
        ));
    ExecError::Sql(Box::new(fields))
}

fn failed(error: std::io::Error) -> ExecError {
    let state = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => sqlstate::DISK_FULL,
        _ => sqlstate::IO_ERROR,
    };
    ExecError::Sql(Box::new(ErrorFields::error(
        state,
        format!("could not keep rows in a temporary file of the router: {error}"),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_went_and_room_is_given_back() {
        let disk = Arc::new(Disk::new(std::env::temp_dir(), 4 * BUFFER as u64, 7 * BUFFER as u64));
        let (one, other) = (Arc::<Own>::default(), Arc::<Own>::default());
        let mut spool = Spool::new(&disk, &one).unwrap();
        let row = |n: usize| vec![n as u8; n * 7 % 1000];
        let mut bytes = 0;
        for n in 0..1500 {
            spool.push(&row(n)).unwrap();
            bytes += row(n).len() as u64;
        }
        assert!(spool.written > 0 && !spool.buffer.is_empty(), "some are written, some wait");
        for n in (0..1500).rev().chain(0..1500) {
            assert_eq!(spool.get(n).unwrap().unwrap(), row(n), "{n}");
        }
        assert_eq!(spool.get(1500).unwrap(), None);
        assert_eq!((disk.used(), spool.len()), (bytes, 1500));
        let refused = spool.push(&vec![0; 3 * BUFFER]).unwrap_err();
        assert_eq!(refused.code(), "53400");
        let mut another = Spool::new(&disk, &other).unwrap();
        another.push(&vec![0; 7 * BUFFER / 2]).unwrap();
        let all = spool.push(&vec![0; BUFFER]).unwrap_err();
        assert!(refused.to_fields().get(b'H').unwrap().contains("spool_bytes_per_session"));
        assert!(!all.to_fields().get(b'H').unwrap().contains("_per_session"));
        drop((spool, another));
        assert_eq!((disk.used(), one.disk.load(Ordering::Relaxed), other.disk.load(Ordering::Relaxed)), (0, 0, 0));
    }
}
