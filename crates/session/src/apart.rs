//! A large statement's own thread: reading and planning it takes long without waiting for anything, and meanwhile the thread
//! that serves others would serve nobody. All of a session's message is worked on there, so nothing of it is forgotten.
//!
//! It does not know what in a message takes long: its length tells.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::Frame;

use crate::session::{Result, Session};

/// Texts from this length on, in bytes: 16 KB take a few milliseconds to parse and to plan.
pub const LARGE: usize = 16 << 10;
/// Threads of large statements; who comes when all are taken is served with the others.
const THREADS: usize = 64;

/// Plans that take more than a moment, at a time: each may be some hundred megabytes while it is made.
const PLANS: usize = 2;

/// Places for large statements, and for large plans.
pub struct Apart {
    statements: Arc<Semaphore>,
    plans: Arc<Semaphore>,
}

impl Default for Apart {
    fn default() -> Self {
        Apart { statements: Arc::new(Semaphore::new(THREADS)), plans: Arc::new(Semaphore::new(PLANS)) }
    }
}

impl Apart {
    /// A place for a large plan, when there is one.
    pub async fn plan(&self) -> Option<OwnedSemaphorePermit> {
        self.plans.clone().acquire_owned().await.ok()
    }
}

/// Works on a message apart from other sessions. `None`: it ended in a panic, and the session with it.
pub async fn message(mut session: Box<Session>, frame: Frame) -> Option<(Box<Session>, Result<()>)> {
    let Ok(place) = session.router.apart.statements.clone().try_acquire_owned() else {
        let done = session.message(&frame).await;
        return Some((session, done));
    };
    let runtime = tokio::runtime::Handle::current();
    let router = session.router.clone();
    let worked = tokio::task::spawn_blocking(move || {
        let done = runtime.block_on(session.message(&frame));
        drop(place);
        (session, done)
    });
    let ended = |error: &tokio::task::JoinError| {
        router.metrics.panics.fetch_add(1, Ordering::Relaxed);
        tracing::error!(%error, "a session ended in a panic");
    };
    worked.await.inspect_err(ended).ok()
}

impl Session {
    /// Whether a message is to be worked on apart: what is in it, or the values of the portal that it runs, may take long to read.
    pub fn is_large(&self, frame: &Frame) -> bool {
        match frame.tag() {
            b'Q' | b'P' => frame.body().len() >= LARGE || self.large_statements,
            // They may lead to a statement that is planned again.
            b'B' => frame.body().len() >= LARGE || self.large_statements,
            b'E' => self.large_values || self.large_statements,
            b'D' => self.large_statements,
            _ => false,
        }
    }
}
