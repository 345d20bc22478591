//! Writes what sessions answer into files, several at once. The first thing that goes wrong ends all of them. It does not know where
//! the rows are from.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::csv::{self, Counter};
use super::error::{Error, Result};
use super::files::Folder;
use super::parquet::{Columns, Rows};
use super::progress::Progress;
use super::{Export, Format};
use crate::dump::session::{Data, Session, Stopper};

/// Rows between two looks at whether it is to end.
const ROWS_AT_ONCE: u64 = 1000;

/// A file to be written.
pub struct Source {
    pub file: String,
    /// With a transaction that sees what is to be read.
    pub session: Session,
    /// The statement whose rows are to be read, for COPY.
    pub query: String,
    /// What must hold behind it, as a statement that fails if it does not.
    pub check: String,
}

/// What all files have in common.
pub struct Writing<'w> {
    pub asked: &'w Export,
    pub folder: &'w Folder,
    /// Of Parquet.
    pub columns: Option<Columns>,
    pub progress: Progress,
    is_over: AtomicBool,
}

impl<'w> Writing<'w> {
    /// Nothing is written yet.
    pub fn new(asked: &'w Export, folder: &'w Folder, columns: Option<Columns>, progress: Progress) -> Writing<'w> {
        Writing { asked, folder, columns, progress, is_over: AtomicBool::new(false) }
    }

    /// Writes all of them; the number of rows.
    pub fn all(&self, sources: Vec<Source>) -> Result<u64> {
        let options = if self.asked.format == Format::Csv { csv::OPTIONS } else { "" };
        // All nodes begin at once, and wait for whoever reads.
        let begin = |source: Source| {
            let stopper = source.session.stopper();
            let script = format!("COPY (\n{}\n) TO STDOUT{options};\n{}", source.query, source.check);
            (stopper, (source.file, source.session.into_data(&script)))
        };
        let (stoppers, begun): (Vec<Stopper>, VecDeque<(String, Data)>) = sources.into_iter().map(begin).unzip();
        let threads = begun.len().min(usize::from(self.asked.jobs));
        let (begun, failure, rows) = (Mutex::new(begun), Mutex::new(None), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let next = begun.lock().pop_front();
                        let Some((file, data)) = next else { return };
                        match self.file(&file, data) {
                            Ok(n) => rows.fetch_add(n, Ordering::Relaxed),
                            Err(error) => {
                                // What the others say from now on is only that they were stopped.
                                failure.lock().get_or_insert(error);
                                self.is_over.store(true, Ordering::Relaxed);
                                return stoppers.iter().for_each(Stopper::stop);
                            }
                        };
                    }
                });
            }
        });
        self.progress.done();
        failure.into_inner().map_or(Ok(rows.into_inner()), Err)
    }

    fn file(&self, name: &str, data: Data) -> Result<u64> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        let (file, path) = self.folder.begin(name)?;
        let (file, rows) = match &self.columns {
            None => self.csv(file, &path, data)?,
            Some(columns) => self.parquet(columns, file, &path, data)?,
        };
        file.sync_all().map_err(|source| Error::Io { action: "write", path, source })?;
        self.progress.file(name, rows);
        Ok(rows)
    }

    fn csv(&self, mut file: File, path: &Path, mut data: Data) -> Result<(File, u64)> {
        let failed = |source| Error::Io { action: "write", path: path.to_owned(), source };
        let (mut counter, mut lines) = (Counter::default(), 0);
        loop {
            let piece = data.fill_buf().map_err(unread)?;
            if piece.is_empty() {
                break;
            }
            let (more, taken) = (counter.lines(piece), piece.len());
            file.write_all(piece).map_err(failed)?;
            data.consume(taken);
            // The first line is the header.
            self.came(if lines == 0 { more.saturating_sub(1) } else { more })?;
            lines += more;
        }
        data.finish()?;
        Ok((file, lines.saturating_sub(1)))
    }

    fn parquet(&self, columns: &Columns, file: File, path: &Path, mut data: Data) -> Result<(File, u64)> {
        let mut rows = Rows::new(columns, file, path)?;
        let (mut line, mut count, mut uncounted) = (Vec::new(), 0, 0);
        let mut is_whole = true;
        loop {
            line.clear();
            if data.read_until(b'\n', &mut line).map_err(unread)? == 0 {
                break;
            }
            is_whole = line.pop() == Some(b'\n');
            // Why it was cut off is said at the end.
            if !is_whole {
                break;
            }
            rows.push(&line)?;
            (count, uncounted) = (count + 1, uncounted + 1);
            if uncounted == ROWS_AT_ONCE {
                self.came(std::mem::take(&mut uncounted))?;
            }
        }
        data.finish()?;
        if !is_whole {
            return Err(rows.strange());
        }
        self.came(uncounted)?;
        Ok((rows.finish()?, count))
    }

    /// Rows have been written; `Err`: no more are wanted.
    fn came(&self, rows: u64) -> Result<()> {
        self.progress.rows(rows);
        if self.is_over.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }
}

fn unread(source: std::io::Error) -> Error {
    Error::Io { action: "read", path: PathBuf::from("psql's output"), source }
}
