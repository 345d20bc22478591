//! Keeps count of what a connection's node still owes, so that a reply can never reach the wrong client.
//!
//! Two counts must agree before a connection may be lent again: what its user said (`expect`) and what really was
//! written (`scan`). A user who forgets to say costs a connection, never a leak. It does not know sockets.

/// Message types that begin work for which a ReadyForQuery comes only after a Sync.
const WORK: &[u8] = b"PBEDC";
/// Message types that are each answered by one ReadyForQuery: Sync, Query, FunctionCall.
const ANSWERED: &[u8] = b"SQF";

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Ledger {
    /// ReadyForQuery messages to come, by what the user said.
    owed: u32,
    /// Last transaction status: `I`, `T` or `E`.
    status: u8,
    /// Messages written that will be answered by ReadyForQuery, less those the user spoke of.
    undeclared: i64,
    /// Work was written behind the last Sync.
    unsynced: bool,
    /// A ReadyForQuery came that nobody expected.
    surprised: bool,
    /// Bytes of the write buffer that were looked at already.
    scanned: usize,
    /// Bytes of the current outgoing message yet to be skipped.
    skip: usize,
    /// A message header that was cut by the end of the buffer.
    header: [u8; 5],
    header_len: usize,
    /// Parse messages written so far.
    parses: u64,
    /// How many of them had been, at each message that will be answered by ReadyForQuery.
    parses_before: VecDeque<u64>,
    /// How many of them were answered, or passed over behind an error.
    settled: u64,
}

impl Ledger {
    /// Of a connection that has just logged in: nothing is owed, and no transaction is open.
    pub fn new() -> Self {
        Ledger {
            owed: 0,
            status: b'I',
            undeclared: 0,
            unsynced: false,
            surprised: false,
            scanned: 0,
            skip: 0,
            header: [0; 5],
            header_len: 0,
            parses: 0,
            parses_before: VecDeque::new(),
            settled: 0,
        }
    }

    /// So many ReadyForQuery are to come: as many Syncs or Queries were declared.
    pub fn expect(&mut self, n: u32) {
        self.owed += n;
        self.undeclared -= i64::from(n);
    }

    /// A login is answered by a ReadyForQuery although no Sync was sent.
    pub fn expect_login(&mut self) {
        self.owed += 1;
    }

    /// A ReadyForQuery has come, with the transaction's status.
    pub fn ready(&mut self, status: u8) {
        self.status = status;
        if let Some(parses) = self.parses_before.pop_front() {
            self.settled = parses;
        }
        match self.owed.checked_sub(1) {
            Some(left) => self.owed = left,
            None => self.surprised = true,
        }
    }

    /// How many Parse messages were written.
    pub fn parses(&self) -> u64 {
        self.parses
    }

    /// A ParseComplete has come: the number of its Parse.
    pub fn parsed(&mut self) -> u64 {
        self.settled += 1;
        self.settled
    }

    /// The number of the last Parse of which nothing more will be heard, now or once an error has come.
    pub fn settled(&self, error: bool) -> u64 {
        match error {
            true => self.parses_before.front().copied().unwrap_or(self.parses),
            false => self.settled,
        }
    }

    /// How many ReadyForQuery are to come.
    pub fn owed(&self) -> u32 {
        self.owed
    }

    /// The transaction status byte of the last ReadyForQuery.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// Whether the user spoke of fewer Syncs than were written: a mistake in the caller worth a log line.
    pub fn is_undeclared(&self) -> bool {
        self.undeclared > 0 || self.surprised
    }

    /// Nothing is owed, nothing is open.
    pub fn is_clean(&self) -> bool {
        self.owed == 0
            && self.status == b'I'
            && !self.unsynced
            && self.undeclared <= 0
            && !self.surprised
            && self.skip == 0
            && self.header_len == 0
    }

    /// Nothing is owed but `ahead` answers, and no work waits for its Sync; a transaction may be open.
    pub fn is_even(&self, ahead: u32) -> bool {
        self.owed == ahead && !self.unsynced && self.undeclared <= 0 && !self.surprised
    }

    /// Looks at what was added to the write buffer since last time. Only headers are read.
    pub fn scan(&mut self, buf: &[u8]) {
        while self.scanned < buf.len() {
            let rest = &buf[self.scanned..];
            if self.skip > 0 {
                let n = self.skip.min(rest.len());
                self.skip -= n;
                self.scanned += n;
                continue;
            }
            let n = (5 - self.header_len).min(rest.len());
            self.header[self.header_len..self.header_len + n].copy_from_slice(&rest[..n]);
            self.header_len += n;
            self.scanned += n;
            if self.header_len == 5 {
                self.header_len = 0;
                let [tag, len @ ..] = self.header;
                self.skip = (u32::from_be_bytes(len) as usize).saturating_sub(4);
                self.parses += u64::from(tag == b'P');
                if ANSWERED.contains(&tag) {
                    self.parses_before.push_back(self.parses);
                    self.undeclared += 1;
                    self.unsynced = false;
                } else if WORK.contains(&tag) {
                    self.unsynced = true;
                }
            }
        }
    }

    /// `n` bytes left the front of the write buffer.
    pub fn written(&mut self, n: usize) {
        self.scanned = self.scanned.saturating_sub(n);
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use wire::put;

    use super::*;

    fn extended(sync: bool) -> BytesMut {
        let mut buf = BytesMut::new();
        put::parse(&mut buf, "", "select 1", &[]);
        put::bind_tail(&mut buf, "", "", &[0; 6]);
        put::execute(&mut buf, "", 0);
        if sync {
            put::sync(&mut buf);
        }
        buf
    }

    #[test]
    fn a_declared_and_answered_sync_is_clean_in_any_order() {
        for declare_first in [true, false] {
            let mut ledger = Ledger::new();
            if declare_first {
                ledger.expect(1);
            }
            ledger.scan(&extended(true));
            if !declare_first {
                ledger.expect(1);
            }
            assert!(!ledger.is_clean());
            ledger.ready(b'T');
            assert!(!ledger.is_clean(), "in a transaction");
            ledger.scan(&[]);
            ledger.expect(1);
            ledger.ready(b'I');
            assert!(ledger.is_clean());
        }
    }

    #[test]
    fn forgetting_to_declare_is_never_clean() {
        let mut ledger = Ledger::new();
        ledger.scan(&extended(true));
        assert!(!ledger.is_clean() && ledger.is_undeclared());
        ledger.ready(b'I');
        assert!(!ledger.is_clean(), "a surprise");
    }

    #[test]
    fn parses_are_told_apart_by_what_follows_their_sync() {
        let mut ledger = Ledger::new();
        for _ in 0..3 {
            let bytes = extended(true);
            ledger.scan(&bytes);
            ledger.written(bytes.len());
        }
        assert_eq!((ledger.parses(), ledger.parsed()), (3, 1));
        ledger.ready(b'I');
        assert_eq!((ledger.settled(false), ledger.settled(true)), (1, 2), "an error is of the second");
        ledger.ready(b'I');
        assert_eq!((ledger.settled(false), ledger.parsed()), (2, 3));
    }

    #[test]
    fn work_without_a_sync_is_not_clean() {
        let mut ledger = Ledger::new();
        ledger.scan(&extended(false));
        assert!(!ledger.is_clean());
    }

    #[test]
    fn headers_are_found_however_the_bytes_are_cut() {
        let bytes = extended(true);
        for cut in 0..bytes.len() {
            let mut ledger = Ledger::new();
            ledger.scan(&bytes[..cut]);
            ledger.written(cut);
            assert!(cut == 0 || !ledger.is_clean(), "cut at {cut}");
            ledger.scan(&bytes[cut..]);
            ledger.written(bytes.len() - cut);
            ledger.expect(1);
            ledger.ready(b'I');
            assert!(ledger.is_clean(), "cut at {cut}");
        }
    }
}
