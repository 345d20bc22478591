//! What begins again by itself: a statement that was planned by a catalog which has moved on, and a change of the schema that
//! lost a deadlock, or to another change. Only where nobody has seen anything of it: by itself, the first of its
//! transaction, or the first on its nodes; and nothing of its answer has left. It does not know how statements run.

use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::sqlstate;

use exec::{Bound, ExecError};

use crate::session::{Result, Session};

/// How often a change of the schema begins again by itself.
const CHANGES_MAX: u32 = 20;
/// How long a statement is tried again that meets a catalog which is being changed.
const STALE_MAX: Duration = Duration::from_secs(10);
/// How long a change of a reference table is tried again that meets others on some copies only.
const COPIES_DIFFER_MAX: Duration = Duration::from_secs(10);
/// How often it is tried again though nothing has moved.
const FRUITLESS_MAX: usize = 5;
const FRUITLESS_PAUSE: Duration = Duration::from_millis(20);
/// The same where a node says that it has other tables or columns than home, however often home is asked.
const STILL_MAX: usize = 50;

/// What it was like when the statement began.
pub struct Retry {
    /// It is a transaction of its own.
    pub fresh: bool,
    /// It is the first of its transaction: nothing else is undone with it.
    first: bool,
    /// How many nodes took part in the transaction before.
    took_part: usize,
    /// What the client had been answered.
    pub before: u64,
    pub begun: Instant,
    /// When it proved stale first: until then it may have waited for a lock for as long as it likes.
    stale: Option<Instant>,
    /// When it met copies of a reference table that differed first, and how often since: the same as with `stale`.
    apart: Option<(Instant, u32)>,
    attempt: u32,
    fruitless: usize,
}

impl Retry {
    /// It met copies of a reference table that differ: whether they have not differed for too long.
    pub fn may_wait_for_copies(&mut self) -> bool {
        let (since, times) = self.apart.get_or_insert_with(|| (Instant::now(), 0));
        *times += 1;
        since.elapsed() < COPIES_DIFFER_MAX
    }

    /// None at first: the other's commit is everywhere in a moment. Longer from time to time where many change the table.
    pub fn pause_for_copies(&self) -> Duration {
        let times = self.apart.map_or(0, |(_, times)| times);
        match times {
            0 | 1 => Duration::ZERO,
            _ => Duration::from_millis(1 << (times - 2).min(6)).mul_f64(0.5 + rand::random::<f64>()),
        }
    }
}

/// The schema of partitions.
const SHARDS: &str = "herd_shards";

impl Session {
    /// To be called before a statement that begins now.
    pub fn retry(&mut self) -> Retry {
        self.retry_since(Instant::now())
    }

    /// The same for a statement that began at `begun`.
    pub fn retry_since(&mut self, begun: Instant) -> Retry {
        self.transaction.statement += 1;
        let fresh = !self.transaction.is_active();
        self.transaction.held = !fresh && !self.transaction.is_fresh();
        Retry {
            fresh,
            first: !fresh && self.transaction.is_fresh() && !self.transaction.has_failed(),
            took_part: self.transaction.participants.len(),
            before: self.io.answered(),
            begun,
            stale: None,
            apart: None,
            attempt: 0,
            fruitless: 0,
        }
    }

    /// The statement failed so. If that is no wonder, all of it is undone, the session has the catalog as it is now, and
    /// the statement is to be planned by that. Otherwise the error.
    pub async fn begin_anew(&mut self, e: ExecError, retry: &mut Retry, written: Written<'_>) -> Result<()> {
        let may = is_stale(&e)
            && !(names_partition(&e) && written.names_partition())
            && self.io.take_back(retry.before)
            && !self.io.has_left();
        // In the middle of a transaction only on nodes that had no part in it.
        let undone = may && (retry.fresh || retry.first || self.undo_on_new_nodes(retry).await);
        if !undone || !self.moved_since(&e, retry).await {
            return Err(shown(e, written));
        }
        match (retry.fresh, retry.first) {
            (true, _) => self.finish_implicit(true).await?,
            (_, true) => self.begin_again().await,
            _ => {}
        }
        self.take_epoch();
        Ok(())
    }

    async fn undo_on_new_nodes(&mut self, retry: &Retry) -> bool {
        use exec::Client;
        if self.own_catalog.is_own() || self.transaction.has_failed() || !self.transaction.is_active() {
            return false;
        }
        self.transaction.doubtful |= !self.io.settled().await;
        self.transaction.undo_statement(retry.took_part).await
    }

    /// Whether a statement that failed so is worth another try: the catalog has moved on, or a change of it was about to
    /// be finished on some node.
    async fn moved_since(&mut self, e: &ExecError, retry: &mut Retry) -> bool {
        if retry.stale.get_or_insert_with(Instant::now).elapsed() > STALE_MAX {
            return false;
        }
        let ours = self.epoch.snapshot.epoch;
        let stale = match e {
            ExecError::Stale => self.kinds_moved().await && (self.moved_beyond(ours) || retry.fruitless < STILL_MAX),
            _ => self.catalog_moved().await,
        };
        if stale && !self.moved_beyond(ours) {
            // Some node is ahead of home, or behind it; or differs from it for good.
            retry.fruitless += 1;
            tokio::time::sleep(FRUITLESS_PAUSE).await;
            return true;
        }
        // What was decided by the time of our catalog is done on all nodes after this; that needs to be seen once.
        if !stale && retry.fruitless == 0 && e.code() != sqlstate::CHECK_VIOLATION {
            retry.fruitless = 1;
            exec::wait_for_changes(&self.router.herd, &self.epoch.snapshot).await;
            return true;
        }
        if !stale && names_partition(e) && retry.fruitless < FRUITLESS_MAX {
            retry.fruitless += 1;
            tokio::time::sleep(FRUITLESS_PAUSE).await;
            return true;
        }
        if stale {
            retry.fruitless = 0;
        }
        stale
    }

    fn moved_beyond(&self, epoch: i64) -> bool {
        self.router.herd.epoch.load().snapshot.epoch > epoch
    }

    /// Kinds of tables are not what our catalog says: it is loaded anew, unless somebody has done that.
    async fn kinds_moved(&mut self) -> bool {
        let herd = self.router.herd.clone();
        !Arc::ptr_eq(&herd.epoch.load(), &self.epoch) || herd.refresh(None).await.is_ok()
    }

    /// Whether home's catalog is newer than ours; if so it is loaded.
    pub async fn catalog_moved(&mut self) -> bool {
        let ours = self.epoch.snapshot.epoch;
        if self.router.herd.epoch.load().snapshot.epoch > ours {
            return true;
        }
        let herd = self.router.herd.clone();
        let asked = herd.own.rows(&herd.config.home, "SELECT epoch FROM herd.epoch").await;
        let Ok(rows) = asked else { return false };
        let theirs: i64 = rows.first().and_then(|r| r[0].as_deref()?.parse().ok()).unwrap_or(ours);
        theirs > ours && herd.refresh(Some(theirs)).await.is_ok()
    }

    /// A change of the schema failed so. If it lost to others all of it is undone, and it may begin again in a moment, as
    /// long as the client lets it. Otherwise the error.
    pub async fn change_anew(&mut self, e: ExecError, retry: &mut Retry) -> Result<()> {
        let deadlock = match e.code().as_str() {
            sqlstate::T_R_DEADLOCK_DETECTED => true,
            // Cancelled to break a deadlock over several nodes.
            sqlstate::QUERY_CANCELED => self.io.is_deadlocked(),
            _ => false,
        };
        let lost = match e.code().as_str() {
            _ if deadlock => true,
            sqlstate::T_R_SERIALIZATION_FAILURE => true,
            // A router that has rights followed meanwhile; or another client, and then it is no worse.
            _ if e.to_fields().is_overtaken() => true,
            _ => false,
        };
        // What the transaction has read is what the other waits for: that would not end.
        let alone = retry.fresh || retry.first && !(deadlock && self.reading.is_some());
        let may = lost && alone && retry.attempt < CHANGES_MAX && !matches!(e, ExecError::Partial(_));
        if !may || self.io.has_left() || !self.io.take_back(retry.before) {
            return Err(e);
        }
        match retry.fresh {
            true => self.finish_implicit(true).await?,
            false => self.begin_again().await,
        }
        let pause = Duration::from_millis(20 << retry.attempt.min(5)).mul_f64(0.5 + rand::random::<f64>());
        retry.attempt += 1;
        let mut work = self.work();
        let limits = work.limits(retry.begun).await?;
        work.rest(Some(&limits), pause).await?;
        self.io.begin_again();
        self.newest_epoch().await
    }
}

/// Errors that a catalog which has moved on may explain.
fn is_stale(e: &ExecError) -> bool {
    let code = e.code();
    let codes = [
        sqlstate::UNDEFINED_TABLE,
        sqlstate::UNDEFINED_COLUMN,
        sqlstate::UNDEFINED_OBJECT,
        sqlstate::UNDEFINED_FUNCTION,
        sqlstate::CHECK_VIOLATION,
        sqlstate::INVALID_SCHEMA_NAME,
    ];
    !matches!(e, ExecError::Client(_) | ExecError::Partial(_))
        && (matches!(e, ExecError::Stale) || e.to_fields().has_other_columns() || codes.contains(&code.as_str()))
}

/// What a client has written: a statement, and its parameters' values.
#[derive(Clone, Copy)]
pub struct Written<'w> {
    pub sql: &'w str,
    pub bound: Option<&'w Bound>,
}

impl Written<'_> {
    fn names_partition(&self) -> bool {
        let names = |bytes: &[u8]| bytes.windows(SHARDS.len()).any(|w| w == SHARDS.as_bytes());
        self.sql.contains(SHARDS) || self.bound.iter().flat_map(|b| b.values.iter().flatten()).any(|v| names(v))
    }
}

/// A name that the client did not write is nothing to show.
pub fn shown(e: ExecError, written: Written<'_>) -> ExecError {
    if names_partition(&e) && !written.names_partition() { ExecError::Stale } else { e }
}

/// A partition it was planned for has another name by now, or is gone.
fn names_partition(e: &ExecError) -> bool {
    e.to_fields().misses_relation_in(SHARDS)
}
