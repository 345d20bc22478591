//! A batch of reads that takes long: where it waits for a lock (of who changes a table, say), it is cancelled, and its statements run by themselves, so
//! that nobody waits for somebody else's lock. Reads do no harm when they are run again, so they need no `lock_timeout` of their own, which would be
//! one more statement for each batch; writes do. It does not know what is read.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pool::{CancelKey, cancel};

use crate::STUCK;
use crate::queue::SharedQueue;

/// Between one look and the next, twice as long each time: a look takes all of a node's lock table for a moment.
const AGAIN_FIRST: Duration = Duration::from_millis(20);
const AGAIN_LAST: Duration = Duration::from_secs(1);
/// How long a node may take to act on a cancel.
const CANCEL_MAX: Duration = Duration::from_secs(5);

/// Runs `batch` to its end. False: a cancel may still be on its way to the connection.
pub(super) async fn run(mut batch: Pin<&mut impl Future<Output = ()>>, queue: &SharedQueue, key: &CancelKey) -> bool {
    let (mut clean, mut pause) = (true, STUCK);
    loop {
        if tokio::time::timeout(pause, &mut batch).await.is_ok() {
            return clean;
        }
        // A task of its own: given up in the middle, it would cost a connection.
        let asked = tokio::spawn(waits(queue, key.pid));
        let waits = tokio::select! {
            biased;
            () = &mut batch => return clean,
            waits = asked => waits.unwrap_or(false),
        };
        if waits {
            // No cancel is left on its way when this has returned, and the batch ends in between only.
            clean &= cancel(key, CANCEL_MAX).await.is_ok();
        }
        pause = if pause == STUCK { AGAIN_FIRST } else { (pause * 2).min(AGAIN_LAST) };
    }
}

/// Whether a process of the node waits for a lock. The router's own connections ask: clients' may all be taken, by those who wait. A node that can't be
/// asked is asked again.
fn waits(queue: &SharedQueue, pid: i32) -> impl Future<Output = bool> + Send + 'static {
    let (own, target) = (queue.own.clone(), queue.target.clone());
    async move {
        let sql = format!(
            "SELECT FROM pg_catalog.pg_lock_status() AS l WHERE l.pid OPERATOR(pg_catalog.=) {pid} AND NOT l.granted"
        );
        own.rows(&target, &sql).await.is_ok_and(|rows| !rows.is_empty())
    }
}
