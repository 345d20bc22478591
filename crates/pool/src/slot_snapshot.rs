//! The snapshot of a logical slot that was just made (`CREATE_REPLICATION_SLOT … (SNAPSHOT 'use')`), before anything is read at it.
//!
//! Such a snapshot has as committed whatever the log says is. A commit is in the log a moment before the server itself knows of it: it is
//! flushed, then entered in the commit status, then the transaction leaves the list of those that run (`RecordTransactionCommit` in xact.c). Whoever
//! reads a row of it in that moment, at this snapshot, takes it for aborted, and notes that on the row for everybody (HEAP_XMIN_INVALID,
//! HEAP_XMAX_INVALID; `HeapTupleSatisfiesMVCC`): a row is lost, or an old version lives on, in what is copied and in the table itself. PostgreSQL's
//! own initial copies are not safe from it either (pgsql-hackers, "Race conditions in logical decoding"). Other snapshots count as running what is
//! on that list, so that it can't happen to them.
//!
//! It does not know what is read.

use std::time::{Duration, Instant};

use crate::{Conn, PoolError};

const NOW: &str = "SELECT pg_catalog.pg_current_snapshot()";
/// Between two looks.
const EVERY: Duration = Duration::from_millis(1);
/// A commit takes that long where it waits for a standby that is away.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Waits until the server itself knows of every commit that the slot's snapshot has. `slot` is in the transaction with that snapshot, `other` any
/// connection to the same server, in no transaction.
pub async fn settled(slot: &mut Conn, other: &mut Conn) -> Result<(), PoolError> {
    let begun = Instant::now();
    loop {
        let now = other.simple(NOW).await?.into_iter().flatten().flatten().next().unwrap_or_default();
        let is_settled = slot.simple(&question(&now)).await?;
        if is_settled.first().and_then(|row| row.first()?.as_deref()) == Some("t") {
            return Ok(());
        }
        if begun.elapsed() > WAIT_MAX {
            let doing = "ending transactions whose commits are in its log";
            return Err(PoolError::Timeout { node: other.target().to_string(), doing });
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Asked at the slot's snapshot, which is no input of `pg_snapshot` (its xmin may be above its xmax): whether none of those that run `now`, in the
/// list or behind its end, is one whose commit it has.
fn question(now: &str) -> String {
    format!(
        "SELECT pg_catalog.pg_snapshot_xmax(s) OPERATOR(pg_catalog.<=) pg_catalog.pg_snapshot_xmax(n) \
         AND pg_catalog.pg_snapshot_xmin(s) OPERATOR(pg_catalog.<=) pg_catalog.pg_snapshot_xmax(n) \
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_snapshot_xip(n) AS x WHERE pg_catalog.pg_visible_in_snapshot(x, s)) \
         FROM pg_catalog.pg_current_snapshot() AS s, CAST('{}' AS pg_catalog.pg_snapshot) AS n",
        now.replace('\'', "")
    )
}
