//! Cancel requests: which session a key belongs to, and what of it to cancel on which nodes.
//!
//! A node knows connections, not clients, and a pooled connection serves one client after another. So a session that
//! gives connections back waits first ([`CancelHandle::release`], [`CancelHandle::finish`]) until no cancel is on its
//! way to them. This file does not know statements or pools, nor other routers: a key unknown here may be theirs.

mod handle;

pub use handle::CancelHandle;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pool::CancelKey;
use smallvec::SmallVec;
use subtle::ConstantTimeEq;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use wire::startup::PROTOCOL_3_2;

use crate::activity::Shown;
use crate::shared_tcp::Watched;

/// So that sessions that come and go do not wait for each other.
const SHARDS: usize = 16;
/// What fits a BackendKeyData before protocol 3.2.
const SECRET_LEN_3_0: usize = 4;
/// As PostgreSQL 18's MAX_CANCEL_KEY_LENGTH.
const SECRET_LEN_3_2: usize = 32;
/// Below it a pid is random.
const NUMBER_SHIFT: u32 = 23;
/// The greatest number of a router: with it a pid is still positive.
pub const NUMBER_MAX: i32 = 255;
/// How long a node may take to act on a cancel; at most so long a session waits to give its connections back.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a statement is cancelled until it has ended: a cancel may find it between two steps.
pub const CANCEL_EVERY: Duration = Duration::from_millis(200);
/// Of looks at a statement whose client has left (two a second): the last that cancels it, a minute after the first.
const LOOKS_MAX: u32 = 128;

/// The sessions of this router that can be cancelled.
pub struct CancelRegistry {
    shards: [Mutex<HashMap<i32, Arc<Session>>>; SHARDS],
    node_timeout: Duration,
    /// This router's, in the upper bits of its sessions' pids: other routers know by it where a cancel request belongs.
    number: AtomicI32,
}

/// What a cancel request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The session is here, and what it ran has been told to stop, if it ran anything.
    Done,
    /// No session here has this key.
    Unknown,
}

/// Whether connections can be lent to others after a statement.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// No cancel will come to them.
    Clean,
    /// A cancel was sent and nobody knows whether it arrived: it may yet. Close those connections.
    Doubtful,
}

/// A session's place in the registry, which it leaves when this is dropped. [`CancelHandle::finish`] first.
pub struct Registration {
    pub pid: i32,
    /// What the client must show to cancel, besides `pid`.
    pub secret: Vec<u8>,
    pub handle: CancelHandle,
    registry: Arc<CancelRegistry>,
}

struct Session {
    secret: Vec<u8>,
    /// How long a node may take to act on a cancel.
    node_timeout: Duration,
    /// The job in whose course all of it is done.
    job: Option<i64>,
    state: Mutex<State>,
    /// A cancel was asked for, or one has been sent.
    changed: Notify,
}

/// How long a statement may run, and has.
#[derive(Default)]
struct Time {
    begun: Option<Instant>,
    /// It is known when its time is over, if ever.
    limited: bool,
    /// It was cancelled because its time was over; its client is told so.
    over: bool,
    /// Waits for that.
    _timer: Option<Timer>,
}

/// Ends with the statement whose time it waits for.
struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Default)]
struct State {
    /// Between `begin` and `finish`.
    active: bool,
    /// The statement has been cancelled by its client.
    cancelled: bool,
    /// It was cancelled to break a deadlock; its client is told so.
    deadlocked: bool,
    time: Time,
    /// What runs on nodes.
    keys: SmallVec<[CancelKey; 1]>,
    /// By which one sees whether the client is still there.
    socket: Watched,
    /// It is not.
    left: bool,
    left_looks: Attempts,
    /// The session has been told to end.
    ended: bool,
    /// What others may see of the session.
    shown: Option<Shown>,
    /// Cancels on their way to nodes.
    sending: usize,
    /// Of one on its way it is not known whether it has arrived.
    doubtful: bool,
}

impl State {
    /// Where it waits for its client it finds that nothing more comes.
    fn end(&mut self) {
        self.ended = true;
        self.socket.read_no_more();
    }
}

/// How often a statement whose client has left was looked at since it last went on to a backend. A cancel may come to a backend
/// before its statement, or to one that is gone: so it is sent again, ever more rarely, and not for ever.
#[derive(Default)]
struct Attempts(u32);

impl Attempts {
    /// One more; true if the statement is cancelled at it.
    fn is_due(&mut self) -> bool {
        self.0 = self.0.saturating_add(1);
        self.0.is_power_of_two() && self.0 <= LOOKS_MAX
    }
}

impl Default for CancelRegistry {
    fn default() -> Self {
        CancelRegistry::new(NODE_TIMEOUT)
    }
}

/// The number of the router that made `pid`; none makes negative ones.
pub fn router_of(pid: i32) -> Option<i32> {
    (pid > 0).then_some(pid >> NUMBER_SHIFT)
}

impl CancelRegistry {
    /// `node_timeout`: how long a cancel may take. The router's number is 0 until it is set.
    pub fn new(node_timeout: Duration) -> Self {
        CancelRegistry { shards: Default::default(), node_timeout, number: AtomicI32::new(0) }
    }

    /// A place for a session whose client speaks `protocol`, with a random pid no other session of this router has.
    /// `job`: whose call it makes, if the router made it for one.
    pub fn register(self: &Arc<Self>, protocol: u32, job: Option<i64>) -> Registration {
        let mut secret = vec![0; if protocol >= PROTOCOL_3_2 { SECRET_LEN_3_2 } else { SECRET_LEN_3_0 }];
        rand::fill(&mut secret[..]);
        let session = Arc::new(Session {
            secret: secret.clone(),
            node_timeout: self.node_timeout,
            job,
            state: Mutex::default(),
            changed: Notify::new(),
        });
        loop {
            let pid = self.router_number() << NUMBER_SHIFT | rand::random_range(1..1 << NUMBER_SHIFT);
            if let Entry::Vacant(place) = self.shard(pid).lock().entry(pid) {
                place.insert(session.clone());
                return Registration { pid, secret, handle: CancelHandle { session }, registry: self.clone() };
            }
        }
    }

    /// Up to [`NUMBER_MAX`]; for the pids of sessions that register from now on.
    pub fn set_router_number(&self, number: i32) {
        self.number.store(number & NUMBER_MAX, Ordering::Relaxed);
    }

    /// What [`router_of`] tells of pids that are made now.
    pub fn router_number(&self) -> i32 {
        self.number.load(Ordering::Relaxed)
    }

    /// How long a cancel may take.
    pub fn timeout(&self) -> Duration {
        self.node_timeout
    }

    /// Does what a client's cancel request asks for, and returns when the nodes have acted on it. What then becomes of
    /// the statement, its own client sees.
    pub async fn cancel(&self, pid: i32, secret: &[u8]) -> CancelOutcome {
        let session = self.shard(pid).lock().get(&pid).cloned();
        match session.filter(|s| s.secret.ct_eq(secret).into()) {
            Some(session) => {
                // Whatever else it was cancelled for: its client wants it no more.
                session.state.lock().deadlocked = false;
                session.cancel().await;
                CancelOutcome::Done
            }
            None => CancelOutcome::Unknown,
        }
    }

    /// Which session each backend that runs something now serves, by node and process id.
    pub fn owners(&self, node_of: &dyn Fn(&CancelKey) -> Option<i32>) -> HashMap<(i32, i32), i32> {
        let mut owners = HashMap::new();
        for shard in &self.shards {
            for (pid, session) in shard.lock().iter() {
                for key in &session.state.lock().keys {
                    if let Some(node) = node_of(key) {
                        owners.insert((node, key.pid), *pid);
                    }
                }
            }
        }
        owners
    }

    /// The sessions of this router, with their process ids.
    pub fn shown(&self) -> Vec<(i32, Shown)> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().iter().filter_map(|(pid, s)| Some((*pid, s.state.lock().shown.clone()?))));
        }
        all.sort_unstable_by_key(|(pid, _)| *pid);
        all
    }

    /// What others may see of one of them; `None`: it is no session of this router.
    pub fn shown_as(&self, pid: i32) -> Option<Shown> {
        self.shard(pid).lock().get(&pid)?.state.lock().shown.clone()
    }

    /// Cancels a session's statement because it is part of a deadlock across nodes.
    pub async fn cancel_for_deadlock(&self, pid: i32) {
        let session = self.shard(pid).lock().get(&pid).cloned();
        if let Some(session) = session {
            {
                let mut state = session.state.lock();
                if !state.active || state.cancelled {
                    return;
                }
                state.deadlocked = true;
            }
            session.cancel().await;
        }
    }

    /// Cancels what runs for clients that have left: nobody wants it any more, and it may hold locks.
    pub fn cancel_for_those_who_left(&self) {
        for shard in &self.shards {
            let running = |s: &&Arc<Session>| s.state.lock().active;
            let sessions: Vec<_> = shard.lock().values().filter(running).cloned().collect();
            for session in sessions {
                let socket = session.state.lock().socket.clone();
                if socket.has_left() {
                    let due = {
                        let mut state = session.state.lock();
                        state.left = true;
                        state.left_looks.is_due()
                    };
                    if due {
                        // Nobody waits for a node that does not answer before others' are told.
                        tokio::spawn(session.cancel());
                    }
                }
            }
        }
    }

    /// As `pg_cancel_backend`: what the session runs is cancelled, if it runs anything.
    pub async fn cancel_by_pid(&self, pid: i32) -> CancelOutcome {
        let Some(session) = self.shard(pid).lock().get(&pid).cloned() else { return CancelOutcome::Unknown };
        session.state.lock().deadlocked = false;
        session.cancel().await;
        CancelOutcome::Done
    }

    /// Ends a session as `pg_terminate_backend` does: what runs is cancelled, and where it waits for its client it finds
    /// that nothing more comes.
    pub async fn terminate(&self, pid: i32) -> CancelOutcome {
        let Some(session) = self.shard(pid).lock().get(&pid).cloned() else { return CancelOutcome::Unknown };
        session.state.lock().end();
        session.cancel().await;
        CancelOutcome::Done
    }

    /// The same of every session.
    pub async fn terminate_all(self: &Arc<Self>) {
        let pids: Vec<i32> = self.shards.iter().flat_map(|s| s.lock().keys().copied().collect::<Vec<_>>()).collect();
        let mut told = JoinSet::new();
        for pid in pids {
            let registry = self.clone();
            told.spawn(async move { registry.terminate(pid).await });
        }
        told.join_all().await;
    }

    /// The same of those that wait for their clients outside of a transaction.
    pub fn end_idle(&self) {
        for shard in &self.shards {
            for session in shard.lock().values() {
                let mut state = session.state.lock();
                let idle = state.shown.as_ref().is_some_and(|shown| shown.is_idle());
                if idle && !state.ended {
                    state.end();
                }
            }
        }
    }

    /// Sessions registered.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }

    /// No session is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, pid: i32) -> &Mutex<HashMap<i32, Arc<Session>>> {
        &self.shards[pid as usize % SHARDS]
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.shard(self.pid).lock().remove(&self.pid);
    }
}

impl Session {
    async fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            // Made before looking, so that what changes in between wakes it.
            let changed = self.changed.notified();
            if let Some(done) = ready(&mut self.state.lock()) {
                return done;
            }
            changed.await;
        }
    }

    /// Cancels at `end` what began at `begun`, if it still runs then.
    async fn cancel_at(self: Arc<Self>, begun: Instant, end: Instant) {
        tokio::time::sleep_until(end.into()).await;
        let begins = {
            let mut state = self.state.lock();
            if state.cancelled || state.time.begun != Some(begun) {
                return;
            }
            state.time.over = true;
            // Between two of its steps, too: whoever takes the next looks.
            state.cancelled = true;
            self.clone().begin_cancel(&mut state)
        };
        self.changed.notify_waiters();
        // Not of this task, which may end with the statement: whoever is sent a cancel is sent all of it.
        if let Some((sending, keys)) = begins {
            tokio::spawn(sending.to(keys));
        }
    }

    async fn cancel(self: Arc<Self>) {
        let begins = self.clone().begin_cancel(&mut self.state.lock());
        if let Some((sending, keys)) = begins {
            self.changed.notify_waiters();
            sending.to(keys).await;
        }
    }

    /// From now on whoever gives connections back waits. `None`: nothing runs.
    fn begin_cancel(self: Arc<Self>, state: &mut State) -> Option<(Sending, SmallVec<[CancelKey; 1]>)> {
        if !state.active {
            return None;
        }
        state.cancelled = true;
        state.sending += 1;
        Some((Sending { session: self, arrived: false }, state.keys.clone()))
    }
}

impl Sending {
    async fn to(mut self, keys: SmallVec<[CancelKey; 1]>) {
        let timeout = self.session.node_timeout;
        let mut requests = JoinSet::new();
        for key in keys {
            requests.spawn(async move {
                let sent = pool::cancel(&key, timeout).await;
                sent.inspect_err(|e| tracing::warn!(node = %key.target, "could not cancel a statement: {e}")).is_ok()
            });
        }
        let mut arrived = true;
        while let Some(sent) = requests.join_next().await {
            arrived &= sent.unwrap_or(false);
        }
        self.arrived = arrived;
    }
}

/// A cancel on its way. If whoever sends it is stopped in between, it may have been sent or not.
struct Sending {
    session: Arc<Session>,
    arrived: bool,
}

impl Drop for Sending {
    fn drop(&mut self) {
        {
            let mut state = self.session.state.lock();
            state.sending -= 1;
            state.doubtful |= !self.arrived;
        }
        self.session.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_for_nobody_is_cancelled_ever_more_rarely_and_not_for_ever() {
        let mut looks = Attempts::default();
        let sent: Vec<u32> = (1..100_000).filter(|_| looks.is_due()).collect();
        assert_eq!(sent, [1, 2, 4, 8, 16, 32, 64, 128]);
    }

    #[tokio::test]
    async fn a_statement_that_goes_on_elsewhere_is_cancelled_there_too() {
        let registry = Arc::new(CancelRegistry::default());
        let registration = registry.register(PROTOCOL_3_2, None);
        let handle = &registration.handle;
        let looked = |n: u32| (0..n).filter(|_| handle.session.state.lock().left_looks.is_due()).count();
        handle.begin();
        assert_eq!(looked(1000), 8);
        let target = Arc::new(pool::NodeTarget::new("127.0.0.1", 1, ""));
        let key = CancelKey { address: target.clone(), target, pid: 1, secret: [1].into() };
        handle.add_running(key.clone());
        assert_eq!(looked(1000), 8);
        handle.add_running(key);
        assert_eq!(looked(1000), 0, "the same backend");
    }
}
