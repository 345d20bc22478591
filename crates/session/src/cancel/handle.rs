//! What a session says of its statement, and hears of cancels: which connections it runs on, that it is over, that somebody cancels it.

use std::sync::Arc;
use std::time::Instant;

use pool::CancelKey;

use super::{Attempts, Session, Settled, State, Time, Timer};
use crate::activity::Shown;
use crate::shared_tcp::Watched;

/// By which a session says what it runs.
#[derive(Clone)]
pub struct CancelHandle {
    pub(super) session: Arc<Session>,
}

impl CancelHandle {
    /// The job in whose course the session does all it does.
    pub fn job(&self) -> Option<i64> {
        self.session.job
    }

    /// A statement begins. From here on a cancel is remembered, even while nothing runs on a node: see
    /// [`is_cancelled`](Self::is_cancelled).
    pub fn begin(&self) {
        self.begin_time();
        self.begin_again();
    }

    /// The same statement anew: its time goes on.
    pub fn begin_again(&self) {
        let mut state = self.session.state.lock();
        // What has no time left does not get it back.
        (state.active, state.cancelled, state.deadlocked) = (true, state.time.over, false);
        state.left_looks = Attempts::default();
    }

    /// The time of a statement counts from now.
    pub fn begin_time(&self) {
        self.session.state.lock().time = Time { begun: Some(Instant::now()), ..Time::default() };
    }

    /// Since when the statement runs, where it is not known yet when its time is over.
    pub fn unlimited_since(&self) -> Option<Instant> {
        let state = self.session.state.lock();
        if state.time.limited { None } else { state.time.begun }
    }

    /// What runs is cancelled then, if it is the statement that runs now; `None`: it has no limit.
    pub fn end_at(&self, end: Option<Instant>) {
        let mut state = self.session.state.lock();
        state.time.limited = true;
        if let (Some(begun), Some(end)) = (state.time.begun, end) {
            let waits = tokio::spawn(self.session.clone().cancel_at(begun, end));
            state.time._timer = Some(Timer(waits.abort_handle()));
        }
    }

    /// The statement was cancelled and goes on: cancels that were meant are over with. Wait for this first.
    pub async fn survive(&self) -> Settled {
        {
            let mut state = self.session.state.lock();
            (state.cancelled, state.deadlocked) = (state.ended, false);
        }
        self.settle().await
    }

    /// Whether the statement was cancelled to break a deadlock.
    pub fn is_deadlocked(&self) -> bool {
        self.session.state.lock().deadlocked
    }

    /// Whether the statement was cancelled because its time was over; asking forgets it.
    pub fn take_late(&self) -> bool {
        std::mem::take(&mut self.session.state.lock().time.over)
    }

    /// The statement goes on after it gave connections back, and waits in the router: a cancel can meet it there.
    pub fn goes_on(&self) {
        self.session.state.lock().active = true;
    }

    /// The session waits for its client: if nothing is left on nodes, a cancel has nothing to meet.
    pub fn idle(&self) {
        let mut state = self.session.state.lock();
        state.time = Time::default();
        if state.keys.is_empty() {
            (state.active, state.cancelled) = (false, false);
        }
    }

    /// One more connection the statement runs on.
    pub fn add_running(&self, key: CancelKey) {
        let mut state = self.session.state.lock();
        state.active = true;
        // A session that keeps a connection says so for each statement.
        if !state.keys.iter().any(|k| k.pid == key.pid && k.secret == key.secret && k.target == key.target) {
            state.keys.push(key);
            state.left_looks = Attempts::default();
        }
    }

    /// Nothing runs on nodes, but the session keeps its connections.
    pub fn clear(&self) {
        self.session.state.lock().keys.clear();
    }

    /// The statement goes on, but gives this connection back. Wait for this first. What is doubtful stays so for the others.
    pub async fn give_back(&self, key: &CancelKey) -> Settled {
        self.session.state.lock().keys.retain(|own| own != key);
        let settled = |state: &mut State| match (state.sending, state.doubtful) {
            (0, true) => Some(Settled::Doubtful),
            (0, false) => Some(Settled::Clean),
            _ => None,
        };
        self.session.wait(settled).await
    }

    /// The statement goes on, but gives connections back. Wait for this first.
    pub async fn release(&self) -> Settled {
        self.clear();
        self.settle().await
    }

    /// The statement has ended. Wait for this before giving connections back: at most for as long as a node may take
    /// to act on a cancel, and not at all if there is none.
    pub async fn finish(&self) -> Settled {
        {
            let mut state = self.session.state.lock();
            (state.active, state.cancelled) = (false, false);
            state.keys.clear();
        }
        self.settle().await
    }

    /// By which one sees whether the client is still there.
    pub fn watch(&self, socket: Watched) {
        self.session.state.lock().socket = socket;
    }

    /// What others may see of the session.
    pub fn show(&self, shown: Shown) {
        self.session.state.lock().shown = Some(shown);
    }

    /// Whether the session has been told to end.
    pub fn is_ended(&self) -> bool {
        self.session.state.lock().ended
    }

    /// Whether the client was found to have left.
    pub fn has_left(&self) -> bool {
        self.session.state.lock().left
    }

    /// Whether the statement was cancelled to break a deadlock; asking forgets it.
    pub fn take_deadlocked(&self) -> bool {
        std::mem::take(&mut self.session.state.lock().deadlocked)
    }

    /// Whether the client has cancelled the statement that runs.
    pub fn is_cancelled(&self) -> bool {
        self.session.state.lock().cancelled
    }

    /// Does what the client's own cancel request would.
    pub async fn cancel(&self) {
        self.session.state.lock().deadlocked = false;
        self.session.clone().cancel().await;
    }

    /// Waits until the client cancels. For waits in the router itself: for a connection, for a lock.
    pub async fn cancelled(&self) {
        self.session.wait(|state| state.cancelled.then_some(())).await
    }

    async fn settle(&self) -> Settled {
        let settled = |state: &mut State| match (state.sending, std::mem::take(&mut state.doubtful)) {
            (0, true) => Some(Settled::Doubtful),
            (0, false) => Some(Settled::Clean),
            (_, doubtful) => {
                state.doubtful = doubtful;
                None
            }
        };
        self.session.wait(settled).await
    }
}
