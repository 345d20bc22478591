//! Changes that are decided and not yet done on every node.
//!
//! Home's commit of a change of the schema is the decision; other nodes follow a moment later. Who plans by home's new
//! catalog may find a node that still has the old one: no partition of that name, no such table. So he waits until what
//! stands prepared there now is finished, and tries again. It does not know which statement failed.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use catalog::{NodeId, Snapshot};

use crate::error::Result;
use crate::router::herd::Herd;

/// Longer than recovery needs where a router has died.
const WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY_MAX: Duration = Duration::from_millis(50);

/// Whether there were any. A node that can't be asked has none that a statement could wait for.
pub async fn wait_for_changes(herd: &Herd, snapshot: &Snapshot) -> bool {
    let started = Instant::now();
    let mut waited = false;
    for node in snapshot.nodes.iter().map(|n| n.id).filter(|n| *n != snapshot.home) {
        let Ok(first) = prepared(herd, snapshot, node).await else { continue };
        let mut left = first;
        let mut pause = Duration::from_millis(2);
        while !left.is_empty() && started.elapsed() < WAIT_MAX {
            waited = true;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_EVERY_MAX);
            match prepared(herd, snapshot, node).await {
                Ok(now) => left.retain(|gid| now.contains(gid)),
                Err(_) => break,
            }
        }
    }
    waited
}

async fn prepared(herd: &Herd, snapshot: &Snapshot, node: NodeId) -> Result<HashSet<String>> {
    let rows = herd.own.rows(&herd.target(snapshot, node)?, &txn::gate::list(&snapshot.herd_id)).await?;
    Ok(rows.into_iter().flatten().flatten().collect())
}
