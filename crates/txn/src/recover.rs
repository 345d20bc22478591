//! Finishes prepared transactions whose router died. Any router can, at any time; nothing is remembered between runs.
//!
//! For each prepared gid of this herd: the advisory lock of the decider's transaction tells whether it still runs; if it
//! does not, the decision row tells commit or abort. Foreign gids are never touched.

use std::collections::HashMap;

use catalog::NodeId;
use pool::{Conn, PoolError};

use crate::gid::Gid;

/// What one run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub committed: u64,
    pub rolled_back: u64,
    /// Left alone: their router still runs, or their decider can't be reached.
    pub left: u64,
}

/// Looks at every node that could be reached. `nodes` are superuser connections.
pub async fn recover(herd: &str, nodes: &mut HashMap<NodeId, Conn>) -> Result<Recovered, PoolError> {
    let mut done = Recovered::default();
    let mut found: Vec<(NodeId, String, Gid)> = Vec::new();
    for (node, conn) in nodes.iter_mut() {
        let sql = "SELECT gid FROM pg_catalog.pg_prepared_xacts WHERE database = pg_catalog.current_database() AND gid LIKE 'herd\\_%'";
        for row in conn.simple(sql).await? {
            let Some(Some(gid)) = row.into_iter().next() else { continue };
            match Gid::parse(&gid, herd) {
                Some((parsed, participant)) if participant == *node => found.push((*node, gid, parsed)),
                _ => {}
            }
        }
    }
    for (node, name, gid) in found {
        let Some(decider) = nodes.get_mut(&gid.decider) else {
            done.left += 1;
            continue;
        };
        // The lock is free only when the decider's transaction is over; then its row is there or never will be.
        let key = gid.lock_key();
        let sql = format!(
            "SELECT pg_catalog.pg_try_advisory_xact_lock({key})::int, (SELECT count(*) FROM herd.decision WHERE gid = '{}')",
            gid.decision()
        );
        let over = decider
            .simple(&format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_catalog.pg_try_advisory_xact_lock({key})::int"
            ))
            .await?;
        let over = over.first().and_then(|r| r[0].as_deref()) == Some("1");
        // A new statement: its snapshot is taken after the lock was.
        let decided = match over {
            true => decider.simple(&sql).await?.first().and_then(|r| r[1].clone()) == Some("1".into()),
            false => false,
        };
        decider.simple("COMMIT").await?;
        if !over {
            done.left += 1;
            continue;
        }
        let Some(participant) = nodes.get_mut(&node) else { continue };
        let verb = if decided { "COMMIT" } else { "ROLLBACK" };
        match participant.simple(&format!("{verb} PREPARED '{name}'")).await {
            Ok(_) if decided => done.committed += 1,
            Ok(_) => done.rolled_back += 1,
            // Another router was faster.
            Err(PoolError::Server(e)) if e.code() == "42704" => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
