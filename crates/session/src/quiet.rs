//! Whether one session has the router to itself. Then it pays to look for an answer again and again for some
//! microseconds rather than to sleep: for a single client, sleeping and waking take most of a short statement's time.
//! It does not know what sessions do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Looks before sleeping; each takes about half a microsecond, a wake-up several.
const PATIENCE: u32 = 60;
/// How long a session must have been the only one.
const ALONE_FOR_MICROS: u64 = 1000;

/// Which session spoke last, and when.
pub struct Quiet {
    start: Instant,
    /// The session that spoke last, and since when no other has.
    last: AtomicU64,
    since_micros: AtomicU64,
}

impl Default for Quiet {
    fn default() -> Self {
        Quiet { start: Instant::now(), last: AtomicU64::new(0), since_micros: AtomicU64::new(0) }
    }
}

impl Quiet {
    /// A session has something to do: how patient it may be with waits.
    pub fn patience(&self, session: u64) -> u32 {
        let now = self.start.elapsed().as_micros() as u64;
        if self.last.swap(session, Ordering::Relaxed) != session {
            self.since_micros.store(now, Ordering::Relaxed);
            return 0;
        }
        match now.saturating_sub(self.since_micros.load(Ordering::Relaxed)) > ALONE_FOR_MICROS {
            true => PATIENCE,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_by_itself_is_patient() {
        let quiet = Quiet::default();
        assert_eq!(quiet.patience(1), 0, "just come");
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(quiet.patience(1), PATIENCE);
        assert_eq!((quiet.patience(2), quiet.patience(1)), (0, 0), "two take turns");
    }
}
