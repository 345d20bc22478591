//! Telling other routers of a change of the catalog, and waiting until they use it.
//!
//! Every router reports the epoch it uses in `herd.router` on home. Who changes the catalog looks there until all have
//! reported the new one. A router that says nothing for as long as that lasts is taken for dead and forgotten; should
//! it live, its lease (`router/lease.rs`) has run out by then, so that it asks before it serves anybody, and its next report
//! brings it back. Does not know how a router reports: that is the router's background work.

use std::time::{Duration, Instant};

use pool::PoolError;

use crate::router::herd::Herd;

/// At most so long a change waits for other routers; longer than any lease.
pub const WAIT_MAX: Duration = Duration::from_secs(2);
/// By so much less than that a router may have said nothing that is forgotten.
pub const SLACK: Duration = Duration::from_millis(200);
/// How often to look, at first; then ever less often.
const LOOK_EVERY_MIN: Duration = Duration::from_millis(2);
const LOOK_EVERY_MAX: Duration = Duration::from_millis(20);

/// Other routers have been told of the catalog's epoch.
pub struct Told {
    pub epoch: i64,
    since: Instant,
    /// There are some that use an older one.
    behind: bool,
}

/// Runs what belongs after the commit and tells other routers.
pub async fn tell(herd: &Herd, after_commit: Vec<String>) -> Result<Told, PoolError> {
    let (own, home) = (&herd.own, &herd.config.home);
    let mut statements = after_commit;
    statements.dedup();
    for sql in statements {
        if let Err(e) = own.rows(home, &sql).await {
            tracing::warn!(error = %e, sql, "what follows a change of the catalog failed");
        }
    }
    let since = Instant::now();
    // One message, so that a lone router pays no further round trip.
    let look = behind(herd, "e.epoch");
    let tell = format!("NOTIFY {}; SELECT e.epoch, EXISTS ({look}) FROM herd.epoch e", catalog::schema::EPOCH_CHANNEL);
    let rows = own.rows(home, &tell).await?;
    let cell = |n: usize| rows.first().and_then(|r| r.get(n)?.as_deref());
    let epoch = cell(0).and_then(|e| e.parse().ok()).unwrap_or(i64::MAX);
    Ok(Told { epoch, since, behind: cell(1) == Some("t") })
}

impl Told {
    /// Until all routers that live use the epoch, or [`WAIT_MAX`] is over.
    pub async fn wait(self, herd: &Herd) -> Result<(), PoolError> {
        if !self.behind {
            return Ok(());
        }
        let (own, home) = (&herd.own, &herd.config.home);
        let look = format!("SELECT EXISTS ({})", behind(herd, &self.epoch.to_string()));
        let mut pause = LOOK_EVERY_MIN;
        loop {
            let rows = own.rows(home, &look).await?;
            if rows.first().and_then(|r| r.first()?.as_deref()) != Some("t") {
                return Ok(());
            }
            if self.since.elapsed() >= WAIT_MAX {
                break;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_EVERY_MAX);
        }
        let forget = format!(
            "DELETE FROM herd.router WHERE id <> {} AND epoch < {} AND seen < clock_timestamp() - interval '{} ms' RETURNING address",
            herd.router as i64,
            self.epoch,
            (WAIT_MAX - SLACK).as_millis()
        );
        for row in own.rows(home, &forget).await? {
            let address = row.into_iter().next().flatten().unwrap_or_default();
            tracing::warn!(address, "a router does not report any more and is forgotten");
        }
        Ok(())
    }
}

/// The other routers that use an older epoch. One that has been silent for long may still live, and hold a lease.
fn behind(herd: &Herd, epoch: &str) -> String {
    format!("SELECT FROM herd.router r WHERE r.id <> {} AND r.epoch < {epoch}", herd.router as i64)
}
