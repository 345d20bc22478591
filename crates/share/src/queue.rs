//! Statements that wait for a connection to a node, and who may run now. It does not know how statements are sent.
//!
//! Invariant, under one lock: while statements wait, as many workers as allowed are at work or on their way.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use pool::{ClientLogin, NodeTarget, OwnConns, PoolError, Pools, Settings};
use tokio::sync::{Notify, oneshot};

use crate::pace::Pace;
use crate::{BATCH_BYTES_MAX, BATCH_MAX, Counters, Job, LATE, Outcome, QueueKind, STUCK, SharedStatement, worker};

/// A queue this much longer than a batch is worth one more connection.
const CROWD: usize = BATCH_MAX;
/// Connections a crowd, or batches that are stuck, may add.
const MORE_MAX: usize = 6;
/// Connections a queue uses at once: short statements go together, and each more connection makes smaller batches.
const AT_ONCE: usize = 1;
/// The same of reads that are not short: their node works on several better than on one behind another.
const AT_ONCE_LONG: usize = 4;

/// Statements for one node, by one user under the same settings, and its workers.
pub struct SharedQueue {
    pub(super) pools: Pools,
    /// Asked why a batch takes long.
    pub(super) own: OwnConns,
    pub(super) target: NodeTarget,
    pub(super) login: ClientLogin,
    pub(super) settings: Settings,
    pub(super) kind: QueueKind,
    pub(super) counters: Arc<Counters>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    /// The number of the next job: those that wait are in order.
    next: u64,
    /// Batches being run.
    workers: usize,
    /// Statements that go alone.
    alone: usize,
    /// Of those, how many have run for too long to be waited for.
    stuck_workers: usize,
    stuck_alone: usize,
    /// How long a statement takes.
    pace: Pace,
}

impl State {
    /// Those worth waiting for.
    fn busy(&self) -> usize {
        self.workers + self.alone - self.stuck_workers - self.stuck_alone
    }
}

/// The right to run one statement alone; what gathered meanwhile is sent when it ends.
pub struct Alone {
    queue: Arc<SharedQueue>,
    since: Instant,
}

impl SharedQueue {
    pub(super) fn new(
        (pools, own): (Pools, OwnConns),
        target: NodeTarget,
        login: ClientLogin,
        settings: Settings,
        kind: QueueKind,
        counters: Arc<Counters>,
    ) -> Self {
        SharedQueue { pools, own, target, login, settings, kind, counters, state: Mutex::default() }
    }

    /// Whether this queue is the one for these settings.
    pub fn is_for(&self, login: &ClientLogin, settings: &Settings) -> bool {
        self.login == *login && self.settings.fingerprint() == settings.fingerprint()
    }

    /// Whether reads or writes wait in it.
    pub fn kind(&self) -> QueueKind {
        self.kind
    }

    /// The node its statements run on.
    pub fn target(&self) -> &NodeTarget {
        &self.target
    }

    fn at_once(&self, state: &State) -> usize {
        match self.kind {
            QueueKind::Read if state.pace.is_long() => AT_ONCE_LONG,
            _ => AT_ONCE,
        }
    }

    /// Runs alone if there is nobody to share with.
    pub fn alone(self: &Arc<Self>) -> Option<Alone> {
        let mut state = self.state.lock();
        if state.busy() >= self.at_once(&state) || !state.queue.is_empty() {
            return None;
        }
        state.alone += 1;
        Some(Alone { queue: self.clone(), since: Instant::now() })
    }

    /// Runs with others; waits for its own outcome. Once `given_up` has come, what waits is withdrawn, and what runs by itself is cancelled on its node;
    /// what runs with others ends soon, one way or the other.
    pub async fn run(
        self: &Arc<Self>,
        statement: Arc<SharedStatement>,
        bind: Bytes,
        given_up: impl Future<Output = ()>,
    ) -> Outcome {
        let (reply, outcome) = oneshot::channel();
        let told = Arc::new(Notify::new());
        let (number, begin, behind_alone) = {
            let mut state = self.state.lock();
            let number = state.next;
            state.next += 1;
            state.queue.push_back(Job { number, statement, bind, reply, given_up: told.clone() });
            let more = (state.queue.len() / CROWD).min(MORE_MAX);
            let begin = state.busy() < self.at_once(&state) + more;
            state.workers += usize::from(begin);
            (number, begin, !begin && state.workers == state.stuck_workers)
        };
        if begin {
            worker::begin(self.clone());
        }
        let outcome = self.outcome(outcome, behind_alone);
        tokio::pin!(outcome);
        tokio::select! {
            biased;
            outcome = &mut outcome => return outcome,
            () = given_up => {}
        }
        if self.withdraw(number) {
            return Outcome::Withdrawn;
        }
        told.notify_one();
        outcome.await
    }

    async fn outcome(self: &Arc<Self>, mut outcome: oneshot::Receiver<Outcome>, behind_alone: bool) -> Outcome {
        // Workers see for themselves that they are late; who runs alone does not.
        if behind_alone {
            match tokio::time::timeout(self.patience(), &mut outcome).await {
                Ok(outcome) => return outcome.unwrap_or_else(|_| self.unanswered()),
                Err(_) => self.stuck_alone(),
            }
        }
        outcome.await.unwrap_or_else(|_| self.unanswered())
    }

    /// For so long a statement waits for others to be done before it is sent beside them.
    pub(super) fn patience(&self) -> Duration {
        match self.kind {
            QueueKind::Read => LATE,
            QueueKind::Write => STUCK,
        }
    }

    /// Takes a statement back, if nobody has taken it.
    fn withdraw(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let at = state.queue.binary_search_by_key(&number, |job| job.number);
        at.ok().and_then(|at| state.queue.remove(at)).is_some()
    }

    /// Nothing waits: the worker's right to run has ended with this call.
    pub(super) fn ends(&self) -> bool {
        let mut state = self.state.lock();
        let ends = state.queue.is_empty();
        state.workers -= usize::from(ends);
        ends
    }

    /// A worker was stopped (the router ends).
    fn unanswered(&self) -> Outcome {
        match self.kind {
            QueueKind::Read => Outcome::Rerun,
            QueueKind::Write => Outcome::Lost(PoolError::Closed {
                node: self.target.to_string(),
                reason: "the router gave it up".into(),
            }),
        }
    }

    /// What waits, up to a batch, into `jobs`. Nothing: the worker's right to run has ended with this call.
    pub(super) fn take(&self, jobs: &mut Vec<Job>) {
        let mut state = self.state.lock();
        let mut bytes = 0;
        while jobs.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            let Some(job) = state.queue.pop_front() else { break };
            bytes += job.bind.len();
            jobs.push(job);
        }
        if jobs.is_empty() {
            state.workers -= 1;
        }
    }

    /// A worker has run for too long: others need not wait for it.
    pub(super) fn stuck_worker(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.stuck_workers += 1;
        self.go_on(state);
    }

    pub(super) fn unstuck_worker(&self) {
        self.state.lock().stuck_workers -= 1;
    }

    fn stuck_alone(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.stuck_alone = state.alone;
        self.go_on(state);
    }

    /// A worker ends without having asked for more.
    pub(super) fn left(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.workers -= 1;
        self.go_on(state);
    }

    /// Somebody has made room: if statements wait, they are sent.
    fn go_on(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let at_once = self.at_once(&state);
        let begin = !state.queue.is_empty() && state.busy() < at_once && state.workers <= at_once + MORE_MAX;
        state.workers += usize::from(begin);
        drop(state);
        if begin {
            worker::begin(self.clone());
        }
    }

    /// Rows of its table can't be put together: what a node says of them must be told to whose row it was.
    pub(super) fn refuse(&self, statement: &SharedStatement) {
        if let Some(many) = &statement.many {
            many.refuse();
            self.counters.speaking.lock().insert(many.table().to_string());
        }
    }

    /// A batch of so many has taken so long.
    pub(super) fn took(&self, statements: usize, time: Duration) {
        self.state.lock().pace.took(statements, time);
    }

    pub(super) fn count(&self, statements: usize) {
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        self.counters.statements.fetch_add(statements as u64, Ordering::Relaxed);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.pace.took(1, self.since.elapsed());
        state.alone -= 1;
        state.stuck_alone = state.stuck_alone.min(state.alone);
        self.queue.go_on(state);
    }
}
