//! Shared queues: short autocommit statements of different clients, put together on few connections.
//!
//! While a node is busy, statements for it gather in a queue. Whoever becomes free takes all that wait and sends them
//! back to back, each as Bind and Execute of a prepared statement (or as rows of one, `many.rs`), with one Sync: one
//! transaction, one flush, one commit for all of them. If any fails, none of the writes has happened, and each client runs its own statement by
//! itself, so that only the faulty one sees an error. An idle queue adds nothing: the first comer is told to go alone.
//!
//! Reads and writes have queues of their own: a read is handed out when it is complete, a write when all are
//! committed. Statements under other settings, of other users or for other nodes never meet.
//!
//! It does not know which statements may share (they must be short, autocommit, and mean the same inside of
//! somebody else's transaction), nor what their rows are.

mod many;
mod pace;
mod queue;
mod reply;
mod worker;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use pool::{ClientLogin, NodeTarget, OwnConns, PoolError, Pools, Settings, StatementKey};
use tokio::sync::{Notify, oneshot};
use wire::backend::{self, Field};

pub use many::Many;
pub use queue::{Alone, SharedQueue};
pub use reply::Reply;

/// Statements that travel together at most, and their bytes.
pub(crate) const BATCH_MAX: usize = 128;
pub(crate) const BATCH_BYTES_MAX: usize = 256 << 10;
/// A statement that waits for a lock would make all behind it wait: after this it fails and is run alone.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_millis(20);
/// Bind's tail for a statement without parameters: no formats, no values, results as text.
pub const NO_PARAMETERS: [u8; 6] = [0; 6];
/// Nobody waits longer than this for somebody else's statement.
pub(crate) const STUCK: Duration = Duration::from_millis(30);
/// The same of reads that wait to be sent: several of them on a node do no harm, where writes would.
pub(crate) const LATE: Duration = Duration::from_millis(3);
/// A statement that made others wait goes alone for so long.
const APART: Duration = Duration::from_secs(1);
/// Queues kept; those that nobody uses are forgotten when there are more.
const QUEUES_MAX: usize = 1024;

/// Reads and writes travel apart: a write waits for its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    Read,
    Write,
}

/// A statement that can be prepared on any connection of a queue.
pub struct SharedStatement {
    pub key: StatementKey,
    pub text: String,
    /// Parameter types, 0 where PostgreSQL infers them.
    pub types: Vec<u32>,
    /// What is run behind the batch a write is in, and fails if the write must not stand.
    pub guard: Option<(StatementKey, String)>,
    /// How it is one of many rows.
    pub many: Option<Arc<Many>>,
    /// The columns that clients were told of, and their mark.
    columns: OnceLock<(u64, Vec<Field>)>,
    apart: Apart,
}

impl SharedStatement {
    /// Without a guard, and not one of many rows.
    pub fn new(key: StatementKey, text: String, types: Vec<u32>) -> Self {
        SharedStatement { key, text, types, guard: None, many: None, columns: OnceLock::new(), apart: Apart::default() }
    }

    /// With a statement behind it that fails if this one must not stand.
    pub fn guarded(self, sql: Option<String>) -> Self {
        SharedStatement { guard: sql.map(|sql| (StatementKey::of(&sql, &[]), sql)), ..self }
    }

    /// It can be a row of these.
    pub fn one_of(self, many: Option<Arc<Many>>) -> Self {
        SharedStatement { many, ..self }
    }

    /// Clients were told of these columns; what is told first holds.
    pub fn returns(&self, columns: &[Field]) {
        self.columns.get_or_init(|| (backend::mark_of(columns), columns.to_vec()));
    }

    pub(crate) fn many_key(&self) -> Option<StatementKey> {
        self.many.as_ref()?.key()
    }

    /// It made others wait not long ago.
    pub fn is_apart(&self) -> bool {
        self.apart.is()
    }

    pub(crate) fn set_apart(&self) {
        self.apart.set();
    }
}

/// Milliseconds since the process began until which something goes by itself.
#[derive(Default)]
struct Apart(AtomicU64);

impl Apart {
    fn is(&self) -> bool {
        let until = self.0.load(Ordering::Relaxed);
        until != 0 && now_ms() < until
    }

    fn set(&self) {
        self.0.store(now_ms() + APART.as_millis() as u64, Ordering::Relaxed);
    }

    fn set_for_good(&self) {
        self.0.store(u64::MAX, Ordering::Relaxed);
    }
}

fn now_ms() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_millis() as u64
}

/// One execution: all of Bind behind the names.
pub(crate) struct Job {
    /// By which it is found while it waits.
    pub number: u64,
    pub statement: Arc<SharedStatement>,
    pub bind: Bytes,
    pub reply: oneshot::Sender<Outcome>,
    /// Told when its client gives it up, and it was taken already.
    pub given_up: Arc<Notify>,
}

/// What became of a shared execution.
#[derive(Debug)]
pub enum Outcome {
    Done(Reply),
    /// It has not happened, nor can it any more: run it by itself.
    Rerun,
    /// Its client gave it up before anything had begun.
    Withdrawn,
    /// The connection broke while it was being committed: nobody knows whether it happened.
    Lost(PoolError),
}

/// How much was shared, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedStats {
    pub batches: u64,
    pub statements: u64,
    /// Of these, INSERTs sent as rows of one.
    pub merged: u64,
    /// Statements told to run by themselves because one of their batch failed.
    pub sent_away: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub batches: AtomicU64,
    pub statements: AtomicU64,
    pub merged: AtomicU64,
    pub sent_away: AtomicU64,
    /// Tables, as they are called, whose rows make a node say something besides.
    pub speaking: Mutex<HashSet<String>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct QueueKey {
    target: NodeTarget,
    login: ClientLogin,
    settings: u64,
    kind: QueueKind,
}

/// All shared queues of a router.
pub struct SharedQueues {
    pools: Pools,
    own: OwnConns,
    queues: RwLock<HashMap<QueueKey, Arc<SharedQueue>>>,
    counters: Arc<Counters>,
}

impl SharedQueues {
    /// None yet.
    pub fn new(pools: Pools, own: OwnConns) -> Self {
        SharedQueues { pools, own, queues: RwLock::default(), counters: Arc::default() }
    }

    /// The queue for statements of one role under these settings. Keep it for as long as they stay the same.
    pub fn queue(
        &self,
        target: &NodeTarget,
        login: &ClientLogin,
        settings: &Settings,
        kind: QueueKind,
    ) -> Arc<SharedQueue> {
        let key = QueueKey { target: target.clone(), login: login.clone(), settings: settings.fingerprint(), kind };
        if let Some(queue) = self.queues.read().get(&key) {
            return queue.clone();
        }
        let mut queues = self.queues.write();
        if queues.len() >= QUEUES_MAX {
            queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        }
        let new = || {
            let (pools, own, counters) = (self.pools.clone(), self.own.clone(), self.counters.clone());
            Arc::new(SharedQueue::new((pools, own), target.clone(), login.clone(), settings.clone(), kind, counters))
        };
        queues.entry(key).or_insert_with(new).clone()
    }

    /// Rows of the table, as it is called, have made a node say something besides, which must be told to whose row it was.
    pub fn speaks(&self, table: &str) -> bool {
        self.counters.speaking.lock().contains(table)
    }

    /// What all queues have done since the router started.
    pub fn stats(&self) -> SharedStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SharedStats {
            batches: get(&self.counters.batches),
            statements: get(&self.counters.statements),
            merged: get(&self.counters.merged),
            sent_away: get(&self.counters.sent_away),
        }
    }
}
