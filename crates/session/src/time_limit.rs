//! `statement_timeout` while the router itself reads and plans a statement: nodes keep it while they work. Each
//! counts for itself: reading, planning, a node. What is done in a moment is not counted. It does not know what takes long.

use std::time::{Duration, Instant};

use exec::ExecError;

use crate::session::{Result, Session};

/// What took less is not worth asking how long it may take.
const MOMENT: Duration = Duration::from_millis(200);
/// How long home may be asked for it.
const ASKED_MAX: Duration = Duration::from_secs(1);

impl Session {
    /// Between steps that take long, as PostgreSQL looks between its own: whether the client has cancelled, or its time is over
    /// for what began then.
    pub async fn unless_late(&mut self, begun: Instant) -> Result<()> {
        self.unless_cancelled()?;
        if begun.elapsed() < MOMENT {
            return Ok(());
        }
        match Box::pin(self.late_at(begun)).await {
            Some(end) if end <= Instant::now() => Err(ExecError::late()),
            _ => Ok(()),
        }
    }

    /// When the time is over for what began then. `None`: it has no limit, or nobody can be asked.
    pub async fn late_at(&mut self, begun: Instant) -> Option<Instant> {
        // Whoever has a connection to home already, and waits for another, could be waiting for others who do the same.
        let manner = tokio::time::timeout(ASKED_MAX, self.work().manner()).await.ok()?.ok()?;
        begun.checked_add(manner.statement_timeout?)
    }
}

/// Waits for a moment; for ever, where there is none.
pub async fn reached(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
