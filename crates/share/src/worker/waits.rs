//! A batch of reads that takes long: where it waits for a lock (of who changes a table, say), it is cancelled, and its statements run by themselves, so
//! that nobody waits for somebody else's lock. Reads do no harm when they are run again, so they need no `lock_timeout` of their own, which would be
//! one more statement for each batch; writes do. It does not know what is read.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use pool::{CancelKey, cancel};

use crate::queue::SharedQueue;

/// Between one look and the next.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a node may take to act on a cancel, and to be asked.
const CANCEL_MAX: Duration = Duration::from_secs(5);
const ASK_MAX: Duration = Duration::from_secs(1);
/// A batch whose node can't be asked is left at work for so long.
const UNKNOWN_MAX: Duration = Duration::from_secs(1);

/// Runs `batch` to its end. False: a cancel may still be on its way to the connection.
pub(super) async fn run(
    mut batch: Pin<&mut impl Future<Output = ()>>,
    queue: &SharedQueue,
    key: &CancelKey,
    pid: i32,
) -> bool {
    let (mut clean, since) = (true, Instant::now());
    loop {
        let waits = tokio::select! {
            biased;
            () = &mut batch => return clean,
            waits = waits(queue, pid) => waits,
        };
        if waits.unwrap_or_else(|| since.elapsed() > UNKNOWN_MAX) {
            // No cancel is left on its way when this has returned, and the batch ends in between only.
            clean &= cancel(key, CANCEL_MAX).await.is_ok();
        }
        if tokio::time::timeout(AGAIN, &mut batch).await.is_ok() {
            return clean;
        }
    }
}

/// Whether a process of the node waits for a lock. `None`: the node can't be asked.
async fn waits(queue: &SharedQueue, pid: i32) -> Option<bool> {
    let asked = async {
        let mut conn = queue.pools.get(&queue.target, &queue.login).await?;
        conn.simple(&format!(
            "SELECT FROM pg_catalog.pg_lock_status() AS l WHERE l.pid OPERATOR(pg_catalog.=) {pid} AND NOT l.granted"
        ))
        .await
    };
    match tokio::time::timeout(ASK_MAX, asked).await {
        Ok(Ok(rows)) => Some(!rows.is_empty()),
        _ => None,
    }
}
