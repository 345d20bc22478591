//! Rows on the router's disk: what a statement has to hold beyond its memory, in a file without a name that is gone with it, or with the
//! router. What the rows are, and why they wait, is not known here.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use wire::{ErrorFields, sqlstate};

use crate::error::{ExecError, Result};

/// What is written at a time.
const BUFFER: usize = 256 << 10;

/// Where rows may wait, and how much of them.
#[derive(Debug)]
pub struct Disk {
    directory: PathBuf,
    /// Bytes of all files together.
    bytes_max: u64,
    used: AtomicU64,
}

impl Disk {
    /// `bytes_max`: of all statements together; 0: none.
    pub fn new(directory: PathBuf, bytes_max: u64) -> Self {
        Disk { directory, bytes_max, used: AtomicU64::new(0) }
    }

    /// Bytes that are there now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether anything may wait here.
    pub fn is_there(&self) -> bool {
        self.bytes_max > 0
    }
}

/// Rows in the order in which they came.
pub struct Spool {
    disk: Arc<Disk>,
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
    pub fn new(disk: &Arc<Disk>) -> Result<Self> {
        let file = tempfile::tempfile_in(&disk.directory).map_err(|e| {
            let fields = ErrorFields::error(
                sqlstate::IO_ERROR,
                format!("could not make a temporary file in \"{}\": {e}", disk.directory.display()),
            );
            ExecError::Sql(Box::new(fields.hint("See limits.spool_directory in herd.toml.")))
        })?;
        Ok(Spool { disk: disk.clone(), file, written: 0, buffer: Vec::new(), ends: vec![] })
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
        let all = self.disk.used.fetch_add(more, Ordering::Relaxed) + more;
        if all > self.disk.bytes_max {
            self.disk.used.fetch_sub(more, Ordering::Relaxed);
            let fields = ErrorFields::error(
                sqlstate::CONFIGURATION_LIMIT_EXCEEDED,
                "no room for the rows that wait in the router's temporary files",
            )
            .detail(format!("{all} bytes would be in use by all sessions, {} are the limit.", self.disk.bytes_max))
            .hint("Have the statement find, change or fetch fewer rows at once, or raise limits.spool_bytes in herd.toml.");
            return Err(ExecError::Sql(Box::new(fields)));
        }
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
        self.disk.used.fetch_sub(self.ends.last().copied().unwrap_or_default(), Ordering::Relaxed);
    }
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
        let disk = Arc::new(Disk::new(std::env::temp_dir(), 4 * BUFFER as u64));
        let mut spool = Spool::new(&disk).unwrap();
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
        drop(spool);
        assert_eq!(disk.used(), 0);
    }
}
