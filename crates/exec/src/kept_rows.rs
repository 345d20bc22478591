//! Rows that wait in the router until the statement is done, as whole messages, within what the session may take of its
//! memory. It does not know why they wait.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::budget::{Allowance, Budget, Purpose, Taken};
use crate::error::Result;

/// What a row takes besides its bytes.
const ROW: usize = 64;

/// For the rows that a router holds.
pub fn for_rows(session_max: usize, all_max: usize) -> Budget {
    let purpose = Purpose {
        name: "rows held by the router",
        advice: "Have the statement find, change or fetch fewer rows at once",
        limit: "row_bytes",
    };
    Budget::new(purpose, session_max, all_max)
}

/// Rows that wait for the client, counted against what a session's may take.
pub struct KeptRows {
    rows: VecDeque<Bytes>,
    bytes: usize,
    taken: Taken,
}

impl KeptRows {
    /// No rows yet; those to come count against `memory`.
    pub fn new(memory: &Allowance) -> Self {
        KeptRows { rows: VecDeque::new(), bytes: 0, taken: memory.nothing() }
    }

    /// None yet, for the same session.
    pub fn another(&self) -> Self {
        KeptRows { rows: VecDeque::new(), bytes: 0, taken: self.taken.another() }
    }

    /// # Errors
    /// 53200 if there is no place for it.
    pub fn push(&mut self, row: Bytes) -> Result<()> {
        self.bytes += row.len() + ROW;
        self.taken.grow_to(self.bytes)?;
        self.rows.push_back(row);
        Ok(())
    }

    /// The oldest. Memory is given back with the last.
    pub fn pop(&mut self) -> Option<Bytes> {
        self.rows.pop_front()
    }

    /// The oldest first; they stay.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.rows.iter()
    }

    /// The row at this place, the oldest first.
    pub fn get(&self, at: usize) -> Option<&Bytes> {
        self.rows.get(at)
    }

    /// No row waits.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows that wait.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
}
