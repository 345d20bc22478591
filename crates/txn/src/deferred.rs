//! What code of users' own may still do at a commit: deferred triggers, and cursors WITH HOLD, whose queries COMMIT runs to their ends. All of it
//! runs, or is refused, before anybody waits for the commit. It does not know what waits.

use pool::PoolError;
use wire::{ErrorFields, sqlstate};

use crate::lane::Lane;

/// How often triggers may put off more than they were called for.
const ROUNDS_MAX: usize = 100;

/// What has happened, in this transaction, to tables that have something to defer: whatever is put off is put off by a row that is written.
/// Blocks, as TRUNCATE forgets rows.
const WRITTEN: &str = "SELECT pg_catalog.string_agg(pg_catalog.concat_ws(' ', t.oid, t.inserted, t.updated, t.deleted, t.blocks), ',' ORDER BY t.oid) \
     FROM (SELECT r.oid, pg_catalog.pg_stat_get_xact_tuples_inserted(r.oid) AS inserted, pg_catalog.pg_stat_get_xact_tuples_updated(r.oid) AS updated, \
            pg_catalog.pg_stat_get_xact_tuples_deleted(r.oid) AS deleted, pg_catalog.pg_stat_get_xact_blocks_fetched(r.oid) AS blocks \
           FROM (SELECT DISTINCT g.tgrelid AS oid FROM pg_catalog.pg_trigger g WHERE g.tgdeferrable) r) t \
     WHERE ROW(t.inserted, t.updated, t.deleted, t.blocks) OPERATOR(pg_catalog.<>) ROW(0, 0, 0, 0)";

/// Those of the session's own routers have materialized, and of former transactions nothing is left to run.
const HELD: &str = "SELECT c.name FROM pg_catalog.pg_cursors c \
     WHERE c.is_holdable AND c.creation_time OPERATOR(pg_catalog.>=) pg_catalog.transaction_timestamp() LIMIT 1";

/// Runs what is deferred on these nodes, side by side, until nothing more is, and sees that nothing else is left to COMMIT.
pub(crate) async fn run(lanes: &mut [&mut Lane]) -> Result<(), PoolError> {
    for lane in &mut *lanes {
        put_round(lane);
        // What goes wrong here is seen again when the answer is read.
        let _ = lane.conn.flush().await;
    }
    let mut failure = None;
    for lane in lanes {
        if let Err(e) = rounds(lane).await {
            failure.get_or_insert(e);
        }
    }
    failure.map_or(Ok(()), Err)
}

fn put_round(lane: &mut Lane) {
    for sql in [WRITTEN, "SET CONSTRAINTS ALL IMMEDIATE", WRITTEN, HELD] {
        lane.put_query(sql);
    }
}

/// What one round has put off (by saying SET CONSTRAINTS DEFERRED in a trigger) runs in the next.
async fn rounds(lane: &mut Lane) -> Result<(), PoolError> {
    for round in 0.. {
        if round > 0 {
            put_round(lane);
            lane.conn.flush().await?;
        }
        let before = lane.value().await;
        let done = lane.finish().await;
        let after = lane.value().await;
        let held = lane.value().await;
        // The first error is the reason of those behind it.
        let before = before?;
        done?;
        let (after, held) = (after?, held?);
        if let Some(name) = held {
            let message =
                format!("a cursor WITH HOLD that code has opened (\"{name}\") can't outlive this transaction");
            return Err(refused(message, "Close it before COMMIT, or declare it by a statement of its own."));
        }
        if before == after {
            return Ok(());
        }
        if round >= ROUNDS_MAX {
            let message = "deferred triggers put off others again and again";
            return Err(refused(message.into(), "Leave SET CONSTRAINTS out of triggers."));
        }
    }
    Ok(())
}

fn refused(message: String, hint: &str) -> PoolError {
    PoolError::Server(Box::new(ErrorFields::error(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(hint)))
}
