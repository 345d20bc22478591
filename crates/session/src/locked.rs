//! Waits with a statement that names what could not be read when the catalog was loaded, because somebody has locked it: to the
//! end of that lock, or as long as the client's limits let it. The catalog is looked at by the router, not in the lock's queue;
//! a transaction that may hold the lock itself reads its own. It does not know what statements are.

use std::time::{Duration, Instant};

use exec::ExecError;

use crate::session::{Result, Session};

/// Between looks: the longer it has waited, the longer.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// A statement was refused because what it names could not be read behind somebody's lock.
pub fn is_locked(e: &ExecError) -> bool {
    matches!(e, ExecError::Refused(refusal) if refusal.is_locked())
}

impl Session {
    /// A statement could not be planned for this reason; afterwards it may be tried again. Any other error comes back.
    pub async fn wait_for_definition(&mut self, e: ExecError, begun: Instant) -> Result<()> {
        if !is_locked(&e) || self.transaction.has_failed() {
            return Err(e);
        }
        if self.own_catalog.is_own() || self.transaction.is_block() && self.transaction.has(self.epoch.snapshot.home) {
            let before = self.epoch.snapshot.locked.clone();
            self.load_own_catalog().await?;
            if self.epoch.snapshot.locked != before {
                return Ok(());
            }
        }
        let limits = self.work().limits(begun).await?;
        let pause = (begun.elapsed() / 4).clamp(PAUSE_MIN, PAUSE_MAX);
        self.work().rest(Some(&limits), pause).await?;
        let (herd, seen) = (self.router.herd.clone(), self.epoch.clone());
        if !self.own_catalog.is_own() {
            herd.look_again(&seen).await?;
            self.take_epoch();
        }
        Ok(())
    }
}
