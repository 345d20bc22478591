//! How long this router may take its snapshot of the catalog for the newest, without asking home.
//!
//! Whoever changes the catalog waits [`crate::router::barrier::WAIT_MAX`] for routers that do not say that they use the change. So
//! a snapshot that home called the newest is good for less than that, counted from *before* it was asked. A statement that
//! begins later (the router was stopped, or starved) asks first; all that wait share one question. While home can't
//! be reached no catalog can change there, and the snapshot goes on serving.
//!
//! The clock is CLOCK_BOOTTIME, which goes on while the machine sleeps. Does not know what a snapshot holds, nor what
//! statements do.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use wire::sqlstate;

use pool::Conn;
use tokio::sync::Mutex;

use crate::error::{ExecError, Result};
use crate::router::barrier;
use crate::router::herd::Herd;

/// From asking home until home is asked again. What is left of [`barrier::WAIT_MAX`] is for statements to get to nodes.
pub const TERM: Duration = Duration::from_millis(1200);
const _: () = assert!(TERM.as_millis() + 500 <= barrier::WAIT_MAX.as_millis());

/// Shorter than what others wait for its reports, and than what they forget it after (`barrier.rs`).
const OVERDUE: Duration = Duration::from_millis(1700);
const _: () = assert!(OVERDUE.as_millis() + 100 <= barrier::WAIT_MAX.as_millis() - barrier::SLACK.as_millis());

/// How long a statement waits for home's answer before home counts as unreachable.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The same for those who look in the background whether home is back.
const PROBE_MAX: Duration = Duration::from_millis(800);

/// Until when the snapshot may be taken for the newest.
pub struct Lease {
    /// In nanoseconds of the clock.
    until: AtomicU64,
    /// When the last report was sent that home has heard, and how often none had been for [`barrier::WAIT_MAX`] before.
    reported: AtomicU64,
    gaps: AtomicU32,
    /// The connection by which home is asked.
    desk: Mutex<Option<Conn>>,
}

/// A moment of the lease's clock, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Moment(u64);

impl Moment {
    /// Of CLOCK_BOOTTIME.
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Moment(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }
}

impl Default for Lease {
    /// One that has run out.
    fn default() -> Self {
        Lease { until: AtomicU64::new(0), reported: AtomicU64::new(0), gaps: AtomicU32::new(0), desk: Mutex::new(None) }
    }
}

impl Lease {
    /// Whether a statement may begin without asking.
    #[inline]
    pub fn holds(&self) -> bool {
        Moment::now().0 < self.until.load(Ordering::Relaxed)
    }

    /// Home, asked at `sent` or later, has said that the snapshot in use is the newest.
    pub fn renew(&self, sent: Moment) {
        self.until.fetch_max(sent.0 + TERM.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Home has heard a report that was sent then: other routers see by it that this one lives. `alone`: there are none, and were none.
    pub fn reported(&self, sent: Moment, alone: bool) {
        if self.is_overdue() && !alone {
            self.passed_over();
        }
        self.reported.fetch_max(sent.0, Ordering::Relaxed);
    }

    /// Others may have changed tables without asking this router.
    pub fn passed_over(&self) {
        self.gaps.fetch_add(1, Ordering::Relaxed);
    }

    /// Home has heard no report for so long that other routers may take this one for dead, and wait for nothing that it does.
    pub fn is_overdue(&self) -> bool {
        Moment::now().0 > self.reported.load(Ordering::Relaxed) + OVERDUE.as_nanos() as u64
    }

    /// How often that was so.
    pub fn gaps(&self) -> u32 {
        self.gaps.load(Ordering::Relaxed)
    }

    /// Makes the snapshot the newest if it may have become old. An error: it is old and a newer one can't be had.
    pub async fn check(&self, herd: &Herd) -> Result<()> {
        let mut desk = self.desk.lock().await;
        if self.holds() {
            // Somebody asked while we waited for our turn.
            return Ok(());
        }
        Box::pin(self.ask(&mut desk, herd, ANSWER_MAX)).await.map(drop)
    }

    /// Whether home answers. Asked again and again while it does not, so that no statement has to wait to find out.
    pub async fn probe(&self, herd: &Herd) -> Result<bool> {
        let mut desk = self.desk.lock().await;
        self.ask(&mut desk, herd, PROBE_MAX).await
    }

    /// Whether home has answered. If it can't be reached, nothing changes there for now and the lease goes on.
    async fn ask(&self, desk: &mut Option<Conn>, herd: &Herd, limit: Duration) -> Result<bool> {
        let why = match tokio::time::timeout(limit, epoch(desk, herd)).await {
            Ok(Ok((sent, newest))) => {
                herd.refresh(Some(newest)).await?;
                self.renew(sent);
                return Ok(true);
            }
            Ok(Err(e)) if !is_away(&e) => return Err(e),
            Ok(Err(e)) => e.to_string(),
            Err(_) => format!("no answer within {limit:?}"),
        };
        tracing::debug!(error = why, "home can't be asked for the newest catalog: serving from the one that is here");
        *desk = None;
        self.renew(Moment::now());
        Ok(false)
    }
}

/// Home serves nobody. One that has no place for us may serve others.
fn is_away(e: &ExecError) -> bool {
    matches!(e, ExecError::Pool(e) if e.is_node_trouble() && e.sqlstate() != sqlstate::TOO_MANY_CONNECTIONS)
}

/// Home's epoch, and when the question was sent.
async fn epoch(desk: &mut Option<Conn>, herd: &Herd) -> Result<(Moment, i64)> {
    loop {
        let kept = desk.is_some();
        let conn = match desk {
            Some(conn) => conn,
            None => desk.insert(herd.own.connect(&herd.config.home).await?),
        };
        let sent = Moment::now();
        match conn.simple("SELECT epoch FROM herd.epoch").await {
            Ok(rows) => {
                let newest = rows.first().and_then(|r| r.first()?.as_deref()?.parse().ok());
                return Ok((sent, newest.ok_or_else(|| ExecError::internal("home has no epoch"))?));
            }
            // A connection that has stood for long may be dead while home is well.
            Err(_) if kept => *desk = None,
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself_and_is_never_shortened() {
        let lease = Lease::default();
        assert!(!lease.holds(), "nobody has asked yet");
        let now = Moment::now();
        lease.renew(Moment(now.0 - TERM.as_nanos() as u64));
        assert!(!lease.holds(), "asked too long ago");
        lease.renew(now);
        assert!(lease.holds());
        lease.renew(Moment(0));
        assert!(lease.holds(), "an older answer came late");
    }

    /// What the question costs each statement; printed, not judged: `cargo test -p exec --release lease -- --nocapture`.
    #[test]
    fn holding_costs_next_to_nothing() {
        let lease = Lease::default();
        lease.renew(Moment::now());
        let (started, rounds) = (std::time::Instant::now(), 1_000_000u32);
        let held = (0..rounds).filter(|_| std::hint::black_box(&lease).holds()).count();
        println!("{:?} each, {held} held", started.elapsed() / rounds);
    }
}
