//! Rows that wait in the router until the statement is done, as whole messages: in memory, within what the session may take of it, and behind
//! that on disk. It does not know why they wait.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::budget::{Allowance, Budget, Purpose, Taken};
use crate::error::Result;
use crate::spool::{Disk, Spool};

/// What a row takes besides its bytes.
const ROW: usize = 64;
/// What the rows of one statement take of memory, where the others can be on disk.
const MEMORY: usize = 16 << 20;
/// What a file may take of memory without being counted.
const SPOOL: usize = 1 << 20;

/// For the rows that a router holds; `disk`: where those go that are more than memory is for.
pub fn for_rows(session_max: usize, all_max: usize, disk: Option<Arc<Disk>>) -> Budget {
    let purpose = Purpose {
        name: "rows held by the router",
        advice: "Have the statement find, change or fetch fewer rows at once",
        limit: "row_bytes",
    };
    Budget::new(purpose, session_max, all_max).or_on(disk)
}

/// Rows that wait for the client, counted against what a session's may take; beyond some of it, and beyond what is left, on disk.
pub struct KeptRows {
    /// The first ones.
    rows: VecDeque<Bytes>,
    bytes: usize,
    taken: Taken,
    /// Those behind them.
    spool: Option<Spool>,
    /// How many of the spool's are gone.
    popped: usize,
}

impl KeptRows {
    /// No rows yet; those to come count against `memory`.
    pub fn new(memory: &Allowance) -> Self {
        Self::counted(memory.nothing())
    }

    /// None yet, for the same session.
    pub fn another(&self) -> Self {
        Self::counted(self.taken.another())
    }

    fn counted(taken: Taken) -> Self {
        KeptRows { rows: VecDeque::new(), bytes: 0, taken, spool: None, popped: 0 }
    }

    /// # Errors
    /// 53200 if there is no place for it, and those of the disk.
    pub fn push(&mut self, row: Bytes) -> Result<()> {
        if let Some(spool) = &mut self.spool {
            spool.push(&row)?;
            // Where others have all there is, it still goes on.
            return match spool.held() {
                ..=SPOOL => Ok(()),
                held => self.taken.grow_to(self.bytes + held),
            };
        }
        let bytes = self.bytes + row.len() + ROW;
        let disk = self.taken.disk().map(|(disk, own)| (disk.clone(), own.clone()));
        if let Some((disk, own)) = disk
            && (bytes > MEMORY || self.taken.grow_to(bytes).is_err())
        {
            return self.spool.insert(Spool::new(&disk, &own)?).push(&row);
        }
        self.taken.grow_to(bytes)?;
        self.bytes = bytes;
        self.rows.push_back(row);
        Ok(())
    }

    /// The oldest. Memory is given back with the last.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn pop(&mut self) -> Result<Option<Bytes>> {
        if let Some(row) = self.rows.pop_front() {
            return Ok(Some(row));
        }
        let Some(spool) = &self.spool else { return Ok(None) };
        let row = spool.get(self.popped)?;
        self.popped += usize::from(row.is_some());
        Ok(row)
    }

    /// The oldest first; they stay.
    pub fn iter(&self) -> impl Iterator<Item = Result<Bytes>> {
        (0..self.len()).filter_map(|at| self.get(at).transpose())
    }

    /// The row at this place, the oldest first.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn get(&self, at: usize) -> Result<Option<Bytes>> {
        match (at.checked_sub(self.rows.len()), &self.spool) {
            (None, _) => Ok(self.rows.get(at).cloned()),
            (Some(at), Some(spool)) => spool.get(self.popped + at),
            (Some(_), None) => Ok(None),
        }
    }

    /// No row waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows that wait.
    pub fn len(&self) -> usize {
        self.rows.len() + self.spool.as_ref().map_or(0, |spool| spool.len() - self.popped)
    }
}
