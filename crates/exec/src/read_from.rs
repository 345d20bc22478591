//! What a session has set for reads of standbys. It does not know which statements these can answer (crate `plan`), nor which
//! standbys there are (`router/standbys.rs`).

use std::time::{Duration, Instant};

/// Where reads go that standbys can answer as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWay {
    /// To a standby, unless none is fresh enough.
    Replica,
    /// To whichever has least to do.
    Any,
}

/// What a statement asks of a standby.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub way: ReadWay,
    /// All that was committed by then must be there: what the session itself has written, and what its catalog and its role rest on.
    pub since: Instant,
    /// So old may be what it sees.
    pub stale: Duration,
}

impl Need {
    /// The moment up to which a standby must have everything, now.
    pub fn least(&self, now: Instant) -> Instant {
        // A machine may not have been up for so long.
        now.checked_sub(self.stale).map_or(self.since, |stale| stale.max(self.since))
    }
}
