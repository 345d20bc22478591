//! The one thread that writes to DuckDB: it reads pgoutput's messages, nets them, and commits whole transactions in their order together
//! with how far that is. It does not know where the messages come from. Any error undoes what is not committed, and the stream is
//! read anew from what is; an error of one copy is the end of that copy alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duckdb::Connection;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wire::Frame;

use crate::batch::{KeyText, Net, key_text};
use crate::duck;
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use crate::pgoutput::{self, Cell, Message, Streamed, Tuple};
use crate::shape::Shape;
use crate::shared::{Position, Shared, State};
use crate::value::Val;

/// While nobody waits, DuckDB commits this often at most.
const COMMIT_EVERY: Duration = Duration::from_millis(50);
/// That nothing happened is put down this often.
const STORE_IDLE_EVERY: Duration = Duration::from_secs(10);
/// A batch that takes as many bytes goes to DuckDB, also in the middle of a transaction.
const BATCH_BYTES: usize = 64 << 20;
/// What waits for the thread.
const JOBS: usize = 16;

type Call = Box<dyn FnOnce(&mut Writer) + Send>;

enum Job {
    /// CopyData of the stream.
    Frames(Vec<Frame>),
    /// Somebody waits for what is not committed yet.
    Nudge,
    Call(Call),
}

/// Hands work to the thread.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
}

impl Handle {
    /// Runs this on the thread, in its turn.
    pub async fn call<R: Send + 'static>(&self, f: impl FnOnce(&mut Writer) -> R + Send + 'static) -> Result<R> {
        let (answer, answered) = oneshot::channel();
        let call: Call = Box::new(move |writer| {
            let _ = answer.send(f(writer));
        });
        self.jobs.send(Job::Call(call)).await.map_err(|_| Error::Gone)?;
        answered.await.map_err(|_| Error::Gone)
    }

    /// Room for one more run of frames; waits for it.
    pub async fn room(&self) -> Result<Room<'_>> {
        self.jobs.reserve().await.map(Room).map_err(|_| Error::Gone)
    }

    /// What is whole is committed soon; who is busy looks by himself.
    pub fn nudge(&self) {
        let _ = self.jobs.try_send(Job::Nudge);
    }
}

/// See [`Handle::room`].
pub struct Room<'h>(mpsc::Permit<'h, Job>);

impl Room<'_> {
    /// Hands over messages of the stream, in order.
    pub fn frames(self, frames: Vec<Frame>) {
        self.0.send(Job::Frames(frames));
    }
}

/// The thread's own.
pub struct Writer {
    pub(crate) conn: Connection,
    pub(crate) shared: Arc<Shared>,
    /// By their tables' oids.
    pub(crate) copies: HashMap<u32, Vec<Held>>,
    /// The transaction that is being read: where its commit begins, and whether it was applied before.
    current: Option<(Lsn, bool)>,
    /// All before this is applied, or in the batch.
    done: Lsn,
    /// DuckDB has a transaction.
    open: bool,
    /// Whole transactions wait for being committed.
    pending: bool,
    /// The stream is not read any more until it begins anew.
    failed: bool,
    last_commit: Instant,
    last_stored: Instant,
}

/// A copy that follows its table.
pub(crate) struct Held {
    pub id: i64,
    pub shape: Shape,
    pub fingerprint: String,
    /// Transactions whose commits begin before this are in it already.
    pub since: Lsn,
    /// Where its columns are in the rows that are told; `None`: of another table, or not told yet.
    pub places: Option<Vec<usize>>,
    pub net: Net,
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
            done,
            open: false,
            pending: false,
            failed: true,
            last_commit: now,
            last_stored: now,
        }
    }

    /// To open others to the same database.
    pub fn connection(&self) -> &Connection {
        &self.conn
    }

    /// Begins the thread; it ends with the last handle.
    pub fn spawn(mut self) -> std::io::Result<Handle> {
        let (jobs, mut coming) = mpsc::channel(JOBS);
        let runtime = tokio::runtime::Handle::current();
        let work = move || {
            loop {
                let job = match self.pending {
                    true => {
                        let due = self.last_commit + COMMIT_EVERY;
                        runtime.block_on(async { tokio::time::timeout_at(due, coming.recv()).await })
                    }
                    false => Ok(coming.blocking_recv()),
                };
                let done = match job {
                    Ok(None) => return,
                    Ok(Some(Job::Call(call))) => {
                        call(&mut self);
                        Ok(())
                    }
                    Ok(Some(Job::Frames(frames))) if !self.failed => self.read(&frames),
                    Ok(Some(Job::Frames(_) | Job::Nudge)) | Err(_) => Ok(()),
                };
                if let Err(error) = done.and_then(|()| self.settle(coming.is_empty())) {
                    self.fail(&error);
                }
            }
        };
        std::thread::Builder::new().name("duckdb".into()).spawn(work)?;
        Ok(Handle { jobs })
    }

    /// The stream begins (again): from where it is to be read.
    pub fn begin_stream(&mut self) -> Result<Lsn> {
        self.undo()?;
        self.failed = false;
        let Position { applied, stored } = *self.shared.position.borrow();
        self.done = applied;
        Ok(stored)
    }

    /// Nothing more comes of the stream for now.
    pub fn end_stream(&mut self) -> Result<()> {
        self.failed = true;
        self.undo()
    }

    /// Whatever is not committed is as if it had not been read.
    fn undo(&mut self) -> Result<()> {
        (self.current, self.pending) = (None, false);
        for held in self.copies.values_mut().flatten() {
            held.net = Net::default();
            held.places = None;
        }
        if std::mem::take(&mut self.open) {
            self.conn.execute_batch("ROLLBACK")?;
        }
        Ok(())
    }

    fn fail(&mut self, error: &Error) {
        tracing::warn!("what was read of the node's stream can't be used: {error}");
        self.failed = true;
        let mut undone = self.undo();
        if let Error::Copy { id, why } = error {
            undone = undone.and_then(|()| self.lose(*id, why));
        }
        if let Err(error) = undone {
            tracing::error!("{error}");
        }
        self.shared.failures.send_modify(|n| *n += 1);
    }

    /// The copy is no more, and will be made anew.
    fn lose(&mut self, id: i64, why: &str) -> Result<()> {
        self.drop_copy(id)?;
        self.shared.set_state(id, State::Rebuilding, why);
        self.shared.attention.notify_one();
        Ok(())
    }

    fn read(&mut self, frames: &[Frame]) -> Result<()> {
        for frame in frames.iter().filter(|frame| frame.tag() == b'd') {
            match pgoutput::streamed(frame.body())? {
                Streamed::Data(data) => self.message(pgoutput::message(data)?)?,
                Streamed::Keepalive { end, .. } if self.current.is_none() => self.done = self.done.max(end),
                Streamed::Keepalive { .. } => {}
            }
        }
        Ok(())
    }

    fn message(&mut self, message: Message<'_>) -> Result<()> {
        match message {
            Message::Begin { last } => self.current = Some((last, last < self.done)),
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
                let (key, _) = held.key(places, &new, held.id)?;
                let vals = held.vals(places, &new)?;
                held.net.insert(key, vals).map_err(|e| held.broken(e.to_string()))
            })?,
            Message::Update { relation, old, new } => self.change(relation, |held, places| {
                let (key, _) = held.key(places, &new, held.id).or_else(|e| match &old {
                    // A key may be long, too.
                    Some(old) => held.key(places, old, held.id),
                    None => Err(e),
                })?;
                let (before, was) = held.key(places, old.as_ref().unwrap_or(&new), held.id)?;
                let vals = held.vals(places, &new)?;
                held.net.update(before, was, key, vals).map_err(|e| held.broken(e.to_string()))
            })?,
            Message::Delete { relation, old } => self.change(relation, |held, places| {
                let (key, was) = held.key(places, &old, held.id)?;
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
        let Some((last, was_applied)) = self.current else {
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
            is_full |= held.net.bytes() >= BATCH_BYTES;
        }
        if is_full { self.flush() } else { Ok(()) }
    }

    /// What has been read goes to DuckDB, if it is time.
    fn settle(&mut self, nothing_waits: bool) -> Result<()> {
        if self.failed || self.current.is_some() {
            return Ok(());
        }
        if self.pending {
            let wanted = self.shared.wanted().is_some_and(|wanted| nothing_waits || self.done >= wanted);
            if wanted || self.last_commit.elapsed() >= COMMIT_EVERY {
                self.commit()?;
            }
            return Ok(());
        }
        let Position { applied, stored } = *self.shared.position.borrow();
        if self.done > stored && self.last_stored.elapsed() >= STORE_IDLE_EVERY {
            self.commit()?;
        } else if self.done > applied {
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
            duck::apply(&self.conn, held.id, &held.shape, &mut net)
                .map_err(|e| if let Error::Duck(e) = &e { blamed(held.id, e) } else { e })?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.flush()?;
        self.conn.execute("UPDATE herd_state SET lsn = ?", [self.done.0])?;
        self.open = false;
        self.conn.execute_batch("COMMIT")?;
        self.pending = false;
        (self.last_commit, self.last_stored) = (Instant::now(), Instant::now());
        self.shared.position.send_replace(Position { applied: self.done, stored: self.done });
        Ok(())
    }
}

/// An error of DuckDB while a copy is written to. One of the system's would come again, and again for every other copy.
fn blamed(id: i64, error: &duckdb::Error) -> Error {
    let why = error.to_string();
    let of_the_system =
        ["IO Error", "Out of Memory", "FATAL", "INTERNAL", "INTERRUPT"].iter().any(|kind| why.contains(kind));
    if of_the_system { Error::surprise(why) } else { Error::Copy { id, why } }
}

impl Held {
    fn broken(&self, why: String) -> Error {
        Error::Copy { id: self.id, why }
    }

    /// A row's key, as it is told and as it is in DuckDB.
    fn key(&self, places: &[usize], tuple: &Tuple<'_>, id: i64) -> Result<(KeyText, Box<[Val]>)> {
        let lacks = || Error::Copy { id, why: "a row came without its key".into() };
        let mut texts = Vec::with_capacity(self.shape.key.len());
        let mut vals = Vec::with_capacity(self.shape.key.len());
        for at in &self.shape.key {
            let Some(Cell::Text(text)) = tuple.get(places[*at]) else { return Err(lacks()) };
            texts.push(*text);
            vals.push(self.val(*at, text)?);
        }
        Ok((key_text(texts.into_iter()), vals.into()))
    }

    fn vals(&self, places: &[usize], tuple: &Tuple<'_>) -> Result<Box<[Val]>> {
        let val = |(at, place): (usize, &usize)| match tuple.get(*place) {
            Some(Cell::Text(text)) => self.val(at, text),
            Some(Cell::Null) => Ok(Val::Null),
            Some(Cell::Unchanged) => Ok(Val::Kept),
            None => Err(self.broken("a row has fewer values than its table has columns".into())),
        };
        places.iter().enumerate().map(val).collect()
    }

    fn val(&self, at: usize, text: &str) -> Result<Val> {
        let column = &self.shape.columns[at];
        Val::parse(column.kind(), text).ok_or_else(|| self.broken(unfit(&column.name, text)))
    }
}

/// Says which value has no place in DuckDB.
pub(crate) fn unfit(column: &str, text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    format!("a value of column \"{column}\" can't be held here: {shown}")
}
