//! A session's turn on a thread that serves others, too: who has much to do and need not wait for anybody gives way by time. It
//! does not know what is done.

use std::time::{Duration, Instant};

/// How long it may be a session's turn.
const TURN: Duration = Duration::from_millis(5);
/// The clock is looked at behind so much: of COPY data, bytes that take about a tenth of a millisecond.
const LOOK: usize = 16 << 10;
/// What a message of COPY data counts besides its bytes, and any other message.
pub const COPIED: usize = 200;
pub const MESSAGE: usize = LOOK / 8;

/// Since when the thread was not given away, as far as the clock was looked at.
#[derive(Default)]
pub struct Fair {
    done: usize,
    since: Option<Instant>,
}

impl Fair {
    /// Others have had their turn.
    pub fn waited(&mut self) {
        *self = Fair::default();
    }

    /// So much was done.
    pub fn did(&mut self, much: usize) {
        self.done += much;
    }

    /// Others get their turn, if it is time. Who takes something should have waited here before: who waits beside this one may drop it.
    pub async fn turn(&mut self) {
        if self.done <= LOOK {
            return;
        }
        self.done = 0;
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > TURN {
            tokio::task::yield_now().await;
            self.since = Some(Instant::now());
        }
    }
}
