//! The one thread that writes to DuckDB: it reads pgoutput's messages, nets them, and commits whole transactions in their order together
//! with how far that is. It does not know where the messages come from. Any error undoes what is not committed, and the stream is
//! read anew from what is; an error of one copy is the end of that copy alone.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use duckdb::Connection;
use tokio::time::Instant;
use wire::Frame;
use wire::walsender::{Streamed, streamed};

use crate::batch::Net;
use crate::duck;
use crate::duck_error::is_of_the_system;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::lsn::Lsn;
use crate::pgoutput::{self, Message};
use crate::shared::{Position, Shared, State};

/// While nobody waits, this is between two commits of DuckDB at least, and so many times as long as the last one took, up to the second: what is
/// left of the processor is the node's.
const COMMIT_EVERY: Duration = Duration::from_millis(50);
const COMMIT_EVERY_MAX: Duration = Duration::from_secs(1);
const COMMIT_SHARE: u32 = 3;
/// That nothing happened is put down this often.
const STORE_IDLE_EVERY: Duration = Duration::from_secs(10);
/// A batch that takes as many bytes goes to DuckDB, also in the middle of a transaction.
const BATCH_BYTES: usize = 64 << 20;

/// The thread's own.
pub struct Writer {
    pub(crate) conn: Connection,
    pub(crate) shared: Arc<Shared>,
    /// By their tables' oids.
    pub(crate) copies: HashMap<u32, Vec<Held>>,
    /// The transaction that is being read.
    current: Option<Current>,
    /// Which ones are to be committed.
    transactions: Vec<u32>,
    /// All before this is applied, or in the batch.
    done: Lsn,
    /// DuckDB has a transaction.
    open: bool,
    /// Whole transactions wait for being committed.
    pending: bool,
    /// Copies that have their first zero with a sign by what DuckDB's transaction has done.
    signed: Vec<i64>,
    /// The same of copies that have lost rows by it.
    removed: BTreeSet<i64>,
    /// The stream is not read any more until it begins anew.
    failed: bool,
    /// What could not be written ends here at the latest, if anything could not.
    stuck_at: Option<Lsn>,
    /// How many there have been.
    stream: u64,
    /// The same of sorts of copies.
    pub(crate) sorts: u64,
    last_commit: Instant,
    pause: Duration,
    last_stored: Instant,
}

/// A transaction of the node's.
#[derive(Clone, Copy, Debug)]
struct Current {
    /// Where its commit begins.
    last: Lsn,
    number: u32,
    was_applied: bool,
}

impl Writer {
    pub(crate) fn new(conn: Connection, shared: Arc<Shared>, copies: HashMap<u32, Vec<Held>>) -> Self {
        let now = Instant::now();
        let (current, done) = (None, Lsn(0));
        Writer {
            conn,
            shared,
            copies,
            current,
            transactions: Vec::new(),
            done,
            open: false,
            pending: false,
            signed: Vec::new(),
            removed: BTreeSet::new(),
            failed: true,
            stuck_at: None,
            stream: 0,
            sorts: 0,
            last_commit: now,
            pause: COMMIT_EVERY,
            last_stored: now,
        }
    }

    /// To open others to the same database.
    pub fn connection(&self) -> &Connection {
        &self.conn
    }

    /// Something is written that is not committed.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The stream begins (again): from where it is to be read, and the number of this one.
    pub fn begin_stream(&mut self) -> (Lsn, u64) {
        self.undo();
        self.failed = false;
        self.stream += 1;
        let Position { applied, stored } = *self.shared.position.borrow();
        self.done = applied;
        (stored, self.stream)
    }

    /// Nothing more comes of the stream for now.
    pub fn end_stream(&mut self) {
        self.failed = true;
        self.undo();
    }

    /// Whatever is not committed is as if it had not been read.
    fn undo(&mut self) {
        (self.current, self.pending) = (None, false);
        self.signed.clear();
        self.removed.clear();
        self.transactions.clear();
        for held in self.copies.values_mut().flatten() {
            held.net = Net::default();
            held.places = None;
        }
        self.open = false;
        // There may be none.
        let _ = self.conn.execute_batch("ROLLBACK");
    }

    fn fail(&mut self, error: &Error) {
        tracing::warn!("what was read of the node's stream can't be used: {error}");
        self.failed = true;
        let at = self.current.map_or(self.done, |current| current.last.max(self.done));
        self.undo();
        if let Error::Copy { id, why } = error {
            if let Err(error) = self.lose(*id, why) {
                tracing::error!("{error}");
            }
        } else {
            self.stuck_at = self.stuck_at.max(Some(at));
            self.shared.is_stuck(&error.to_string());
        }
        self.shared.failures.send_modify(|n| *n += 1);
    }

    /// Tells of it once the stream is beyond what could not be written, although nothing had to be: what comes before that says nothing.
    fn goes_on(&mut self) {
        if self.stuck_at.take_if(|at| self.done > *at).is_some() {
            self.shared.goes_on();
        }
    }

    /// The copy is no more, and will be made anew.
    fn lose(&mut self, id: i64, why: &str) -> Result<()> {
        self.shared.set_state(id, State::Rebuilding, why);
        self.shared.attention.notify_one();
        self.drop_copy(id)
    }

    /// Reads messages of a stream, in order. Who reads one that has ended may not have heard of it yet.
    pub(crate) fn read(&mut self, stream: u64, frames: &[Frame]) {
        if !self.failed
            && stream == self.stream
            && let Err(error) = self.read_all(frames)
        {
            self.fail(&error);
        }
    }

    fn read_all(&mut self, frames: &[Frame]) -> Result<()> {
        for frame in frames.iter().filter(|frame| frame.tag() == b'd') {
            match streamed(frame.body())? {
                Streamed::Data { data, .. } => self.message(pgoutput::message(data)?)?,
                Streamed::Keepalive { end, .. } if self.current.is_none() => self.done = self.done.max(Lsn(end)),
                Streamed::Keepalive { .. } => {}
            }
        }
        Ok(())
    }

    fn message(&mut self, message: Message<'_>) -> Result<()> {
        match message {
            Message::Begin { last, transaction } => {
                self.current = Some(Current { last, number: transaction, was_applied: last < self.done });
            }
            Message::Commit { end } => {
                self.current = None;
                self.done = self.done.max(end);
            }
            Message::Relation(relation) => {
                for held in self.copies.get_mut(&relation.id).into_iter().flatten() {
                    held.places = held.shape.places_in(&relation);
                }
            }
            Message::Insert { relation, new } => self.change(relation, |held, places| {
                let key = held.key_text(places, &new, None)?;
                let vals = held.vals(places, &new)?;
                held.net.insert(key, vals).map_err(|e| held.broken(e.to_string()))
            })?,
            Message::Update { relation, old, new } => self.change(relation, |held, places| {
                let was = old.as_ref().unwrap_or(&new);
                let (before, was) = (held.key_text(places, was, None)?, held.key_vals(places, was)?);
                let key = match &old {
                    None => before.clone(),
                    old => held.key_text(places, &new, old.as_ref())?,
                };
                let vals = held.vals(places, &new)?;
                held.net.update(before, was, key, vals).map_err(|e| held.broken(e.to_string()))
            })?,
            Message::Delete { relation, old } => self.change(relation, |held, places| {
                let (key, was) = (held.key_text(places, &old, None)?, held.key_vals(places, &old)?);
                held.net.delete(key, was).map_err(|e| held.broken(e.to_string()))
            })?,
            Message::Truncate { relations } => {
                for relation in relations {
                    self.change(relation, |held, _| {
                        held.net.truncate();
                        Ok(())
                    })?;
                }
            }
            Message::Other => {}
        }
        Ok(())
    }

    fn change(&mut self, relation: u32, f: impl Fn(&mut Held, &[usize]) -> Result<()>) -> Result<()> {
        let Some(Current { last, number, was_applied }) = self.current else {
            return Err(Error::surprise("a change came outside of a transaction"));
        };
        let mut is_full = false;
        for held in self.copies.get_mut(&relation).into_iter().flatten() {
            if was_applied || last < held.since {
                continue;
            }
            let Some(places) = held.places.take() else {
                return Err(held.broken("the table has other columns than it had".into()));
            };
            f(held, &places)?;
            held.places = Some(places);
            self.pending = true;
            if self.transactions.last() != Some(&number) {
                self.transactions.push(number);
            }
            is_full |= held.net.bytes() >= BATCH_BYTES;
        }
        if is_full { self.flush() } else { Ok(()) }
    }

    /// When what has been read is to go to DuckDB at the latest; `None`: nothing is whole.
    pub(crate) fn due(&self) -> Option<Instant> {
        (self.pending && self.current.is_none()).then(|| self.last_commit + self.pause)
    }

    /// What has been read goes to DuckDB, if it is time.
    pub(crate) fn settle(&mut self, nothing_waits: bool) {
        if !self.failed
            && self.current.is_none()
            && let Err(error) = self.settle_whole(nothing_waits)
        {
            self.fail(&error);
        }
    }

    fn settle_whole(&mut self, nothing_waits: bool) -> Result<()> {
        if self.pending {
            let wanted = self.shared.wanted().is_some_and(|wanted| nothing_waits || self.done >= wanted);
            if wanted || self.last_commit.elapsed() >= self.pause {
                self.commit()?;
            }
            return Ok(());
        }
        let Position { applied, stored } = *self.shared.position.borrow();
        if self.done > stored && self.last_stored.elapsed() >= STORE_IDLE_EVERY {
            self.commit()?;
        } else if self.done > applied {
            self.goes_on();
            self.shared.position.send_modify(|position| position.applied = self.done);
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        if !self.open {
            self.conn.execute_batch("BEGIN TRANSACTION")?;
            self.open = true;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.begin()?;
        for held in self.copies.values_mut().flatten().filter(|held| !held.net.is_empty()) {
            let mut net = std::mem::take(&mut held.net);
            if net.emptied || !net.gone.is_empty() {
                self.removed.insert(held.id);
            }
            // A key's own value may be a long one.
            let done = duck::complete(&self.conn, held.id, &held.shape, &mut net);
            let signed = done
                .and_then(|()| held.note(&self.conn, &net))
                .and_then(|()| duck::apply(&self.conn, held.id, &held.shape, &mut net))
                .map_err(|e| if let Error::Duck(e) = &e { blamed(held.id, e) } else { e })?;
            if signed && self.shared.made.read().get(&held.id).is_some_and(|made| !made.signed_zeros) {
                self.signed.push(held.id);
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let began = Instant::now();
        self.flush()?;
        self.conn.execute("UPDATE herd_state SET lsn = ?", [self.done.0])?;
        self.open = false;
        let mut made = (!self.signed.is_empty()).then(|| self.shared.made.write());
        let removals: Vec<_> =
            std::mem::take(&mut self.removed).into_iter().map(|id| self.shared.removals.of(id)).collect();
        let changes: Vec<_> = removals.iter().map(|of| of.changes()).chain([self.shared.content.changes()]).collect();
        self.shared.unseen.applied(self.transactions.drain(..));
        self.conn.execute_batch("COMMIT")?;
        drop(changes);
        for id in self.signed.drain(..) {
            if let Some(made) = made.as_mut().and_then(|made| made.get_mut(&id)) {
                made.signed_zeros = true;
            }
        }
        drop(made);
        self.pending = false;
        (self.last_commit, self.last_stored) = (Instant::now(), Instant::now());
        self.pause = (began.elapsed() * COMMIT_SHARE).clamp(COMMIT_EVERY, COMMIT_EVERY_MAX);
        // DuckDB takes what it is given.
        self.stuck_at = None;
        self.shared.goes_on();
        self.shared.position.send_replace(Position { applied: self.done, stored: self.done });
        Ok(())
    }
}

/// An error of DuckDB while a copy is written to.
fn blamed(id: i64, error: &duckdb::Error) -> Error {
    let why = error.to_string();
    if is_of_the_system(error) { Error::surprise(why) } else { Error::Copy { id, why } }
}
