//! Queues of rows: INSERTs of different clients into one table, put together while the nodes are busy with earlier ones.
//!
//! Whoever comes while nothing is at work runs his own statement by himself, at once; what gathers meanwhile is sent as
//! one batch by a worker (`share/batch.rs`). It does not know how rows are sent, nor which statements may come here.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use catalog::{Column, Relation};
use parking_lot::Mutex;
use pool::{ClientLogin, Settings};
use share::{Outcome, SharedStats};
use tokio::sync::oneshot;

use crate::router::compiled::Epoch;
use crate::router::herd::Herd;

/// Batches of one queue at work at once: while one commits, the next one's rows are on their way.
const AT_ONCE: usize = 2;
/// Rows and bytes of a batch, at most, but for the last statement's.
const SHARED_ROWS: usize = 2000;
const SHARED_BYTES: usize = 256 << 10;
/// Queues kept; those that nobody uses are forgotten when there are more.
const QUEUES_MAX: usize = 256;

/// A row: its text for COPY without the end of the line, and the values of its key columns that are given.
pub struct Row {
    pub data: Range<usize>,
    pub keys: Vec<Option<Range<usize>>>,
}

/// The rows of one statement.
pub struct QueuedRows {
    pub data: Bytes,
    /// Key values as they are, unescaped.
    pub keys: Bytes,
    pub rows: Vec<Row>,
}

/// A statement that waits with its rows.
pub struct Job {
    pub rows: QueuedRows,
    /// Of what is done the messages are the last row's values from sequences.
    pub reply: oneshot::Sender<Outcome>,
    number: u64,
}

/// INSERTs of one form, by one user under the same settings.
pub struct RowQueue {
    pub relation: Arc<Relation>,
    pub columns: Vec<usize>,
    pub positional: bool,
    pub herd: Arc<Herd>,
    pub epoch: Arc<Epoch>,
    pub login: ClientLogin,
    pub settings: Settings,
    state: Mutex<State>,
    /// What begins to send batches.
    start: fn(Turn),
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// Workers, and statements that run by themselves.
    at_work: usize,
    numbers: u64,
}

/// The right to be at work in a queue; with its end what waits is sent.
pub struct Turn {
    queue: Arc<RowQueue>,
}

/// What a statement comes to in a queue.
pub enum Entered {
    Alone(Turn),
    /// It waits; its number leads out again.
    Waits(u64, oneshot::Receiver<Outcome>),
}

impl RowQueue {
    /// Columns that take their values from sequences.
    pub fn filled(&self) -> impl Iterator<Item = (usize, &Column)> {
        let columns = self.relation.columns.iter().enumerate();
        columns.filter(|(i, c)| c.sequence.is_some() && !self.columns.contains(i))
    }

    /// The sequences that fill columns of its rows, by object id and name.
    pub fn sequences(&self) -> impl Iterator<Item = (catalog::Oid, &str)> {
        self.filled().filter_map(|(_, c)| Some((c.sequence_oid, c.sequence.as_deref()?)))
    }

    /// `make` is asked for the rows only if they have to wait; `None`: they can't be shared.
    pub fn enter(self: &Arc<Self>, make: impl FnOnce() -> Option<QueuedRows>) -> Option<Entered> {
        {
            let mut state = self.state.lock();
            if state.at_work == 0 {
                state.at_work += 1;
                return Some(Entered::Alone(Turn { queue: self.clone() }));
            }
        }
        let rows = make()?;
        let (reply, outcome) = oneshot::channel();
        let mut state = self.state.lock();
        state.numbers += 1;
        let number = state.numbers;
        state.queue.push_back(Job { rows, reply, number });
        self.go_on(&mut state);
        Some(Entered::Waits(number, outcome))
    }

    /// Takes a statement back, if nothing has begun with it.
    pub fn withdraw(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let at = state.queue.iter().position(|job| job.number == number);
        at.and_then(|at| state.queue.remove(at)).is_some()
    }

    /// What waits, up to a batch.
    pub fn take(&self) -> Vec<Job> {
        let mut state = self.state.lock();
        let (mut jobs, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while rows < SHARED_ROWS && bytes < SHARED_BYTES {
            let Some(job) = state.queue.pop_front() else { break };
            rows += job.rows.rows.len();
            bytes += job.rows.data.len();
            jobs.push(job);
        }
        jobs
    }

    fn go_on(self: &Arc<Self>, state: &mut State) {
        if !state.queue.is_empty() && state.at_work < AT_ONCE {
            state.at_work += 1;
            (self.start)(Turn { queue: self.clone() });
        }
    }
}

impl Turn {
    /// The queue it is a turn in.
    pub fn queue(&self) -> &Arc<RowQueue> {
        &self.queue
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.at_work -= 1;
        self.queue.go_on(&mut state);
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    epoch: i64,
    table: u32,
    columns: Vec<usize>,
    positional: bool,
    login: ClientLogin,
    settings: u64,
}

/// All queues of rows of a router.
#[derive(Default)]
pub struct RowQueues {
    queues: Mutex<HashMap<Key, Arc<RowQueue>>>,
    batches: AtomicU64,
    statements: AtomicU64,
    sent_away: AtomicU64,
}

impl RowQueues {
    /// The queue for such rows of this login under these settings, by this catalog; made if there is none. `start` sends its batches.
    pub fn queue(
        &self,
        herd: &Arc<Herd>,
        epoch: &Arc<Epoch>,
        rows: &plan::ShareRows,
        login: &ClientLogin,
        settings: &Settings,
        start: fn(Turn),
    ) -> Arc<RowQueue> {
        let key = Key {
            epoch: epoch.snapshot.epoch,
            table: rows.relation.oid,
            columns: rows.columns.clone(),
            positional: rows.positional,
            login: login.clone(),
            settings: settings.fingerprint(),
        };
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(&key) {
            return queue.clone();
        }
        if queues.len() >= QUEUES_MAX {
            queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        }
        let queue = Arc::new(RowQueue {
            relation: rows.relation.clone(),
            columns: rows.columns.clone(),
            positional: rows.positional,
            herd: herd.clone(),
            epoch: epoch.clone(),
            login: login.clone(),
            settings: settings.clone(),
            state: Mutex::default(),
            start,
        });
        queues.insert(key, queue.clone());
        queue
    }

    /// A batch of so many statements was written.
    pub fn count(&self, statements: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.statements.fetch_add(statements as u64, Ordering::Relaxed);
    }

    /// A statement that waited ran by itself after all.
    pub fn count_sent_away(&self) {
        self.sent_away.fetch_add(1, Ordering::Relaxed);
    }

    /// Of all queues since the router began.
    pub fn stats(&self) -> SharedStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SharedStats {
            batches: get(&self.batches),
            statements: get(&self.statements),
            merged: 0,
            sent_away: get(&self.sent_away),
        }
    }
}
