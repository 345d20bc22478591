//! Owners, privileges and row-level security of distributed tables that were changed without a router: by DO, in a function,
//! on a node itself. Shards follow their parents on each node, parents follow home.
//!
//! A node is looked at only when its catalogs have been written to since, by PostgreSQL's own count; parents are made to
//! follow home when home has said the same twice, so that a GRANT that is just being committed over all nodes is not
//! taken back. Who reads standbys is told that rights may have changed, by whichever router. What follows from what is decided in the catalog's `schema/rights.sql`.

use std::collections::{HashMap, HashSet};

use catalog::{NodeId, Row, quote_literal};
use futures_util::future::join_all;
use pool::{Conn, PoolError};

/// Rows written in the catalogs that rights are in.
const WRITTEN: &str = "SELECT pg_catalog.sum(pg_catalog.pg_stat_get_tuples_inserted(c) OPERATOR(pg_catalog.+) \
     pg_catalog.pg_stat_get_tuples_updated(c) OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_tuples_deleted(c)) \
     FROM pg_catalog.unnest('{pg_catalog.pg_class,pg_catalog.pg_attribute,pg_catalog.pg_namespace,pg_catalog.pg_authid,pg_catalog.pg_auth_members}'::pg_catalog.regclass[]) AS c";
const OF_HOME: &str =
    "SELECT pg_catalog.jsonb_object_agg(d::pg_catalog.text, herd.rights(d)) FROM herd.distributed() AS d";
/// A change that is being committed holds its rows: the next round sees what came of it. (For each table there is less.)
const PATIENCE: &str = "SET LOCAL lock_timeout = '500ms'";

#[derive(Default)]
pub struct Follower {
    /// What each node had written when it was last found in order.
    written: HashMap<NodeId, String>,
    /// What home said last.
    home: Option<String>,
    /// Tables that did not follow, and were told of.
    known: HashSet<(NodeId, String)>,
}

const KNOWN_MAX: usize = 1000;

impl Follower {
    /// One round; `may_have_changed` is called if anything may have changed. `nodes` are the router's own connections.
    pub async fn follow(
        &mut self,
        home: NodeId,
        nodes: &mut HashMap<NodeId, Conn>,
        may_have_changed: impl FnOnce(),
    ) -> Result<(), PoolError> {
        let asked = nodes
            .iter_mut()
            .map(|(node, conn)| async { Ok::<_, PoolError>((*node, value(conn, WRITTEN).await?.unwrap_or_default())) });
        let written: HashMap<NodeId, String> = all_of(asked).await?.into_iter().collect();
        let unchanged = |node: &NodeId| written.get(node) == self.written.get(node);
        let changed: HashSet<NodeId> = nodes.keys().copied().filter(|node| !unchanged(node)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        may_have_changed();
        let mut all_follow = true;
        let settled = nodes.iter_mut().filter(|(node, _)| changed.contains(node)).map(|(node, conn)| async {
            Ok::<_, PoolError>((*node, in_transaction(conn, "SELECT object, problem FROM herd.settle()").await?))
        });
        for (node, tables) in all_of(settled).await? {
            all_follow &= self.told(node, tables);
        }
        let Some(mut of_home) = nodes.remove(&home) else { return Ok(()) };
        let followed = self.follow_home(&mut of_home, nodes).await;
        nodes.insert(home, of_home);
        all_follow &= followed?;
        // What does not follow yet is tried again.
        if all_follow {
            self.written = written;
        }
        Ok(())
    }

    /// Has parents on the other `nodes` follow home; whether all do.
    async fn follow_home(&mut self, home: &mut Conn, nodes: &mut HashMap<NodeId, Conn>) -> Result<bool, PoolError> {
        let wanted = value(home, OF_HOME).await?;
        if wanted != self.home {
            self.home = wanted;
            return Ok(false);
        }
        let Some(wanted) = wanted else { return Ok(true) };
        let follow = format!(
            "BEGIN; {PATIENCE}; SELECT object, problem FROM herd.follow_home({}::pg_catalog.jsonb)",
            quote_literal(&wanted)
        );
        let done = nodes.iter_mut().map(|(node, conn)| async { (*node, conn.simple(&follow).await) });
        let done = join_all(done).await;
        // What home has taken back meanwhile is not given again: a change after this waits for the nodes' rows.
        let still = value(home, OF_HOME).await.is_ok_and(|now| now.as_ref() == Some(&wanted));
        let failed: HashSet<NodeId> = done.iter().filter(|(_, done)| done.is_err()).map(|(node, _)| *node).collect();
        let ended = nodes.iter_mut().map(|(node, conn)| {
            let end = if still && !failed.contains(node) { "COMMIT" } else { "ROLLBACK" };
            async move { conn.simple(end).await }
        });
        all_of(ended).await?;
        let mut all_follow = still;
        for (node, tables) in done {
            let tables = tables?;
            all_follow &= still && self.told(node, tables);
        }
        Ok(all_follow)
    }

    /// Tables with what keeps them from following, if anything: whether nothing does. Each is told of once.
    fn told(&mut self, node: NodeId, tables: Vec<Row>) -> bool {
        let mut all_follow = true;
        for row in tables {
            let mut cells = row.into_iter().map(|cell| cell.unwrap_or_default());
            let (table, problem) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
            if problem.is_empty() {
                tracing::info!(node, table, "rights follow home's");
                continue;
            }
            all_follow = false;
            if self.known.len() < KNOWN_MAX && self.known.insert((node, table.clone())) {
                tracing::warn!(
                    node,
                    table,
                    problem,
                    "shards do not have their table's rights yet; herd.verify shows what differs"
                );
            }
        }
        if all_follow {
            self.known.retain(|(of, _)| *of != node);
        }
        all_follow
    }
}

/// Runs a query in a transaction of its own that does not wait long.
async fn in_transaction(conn: &mut Conn, sql: &str) -> Result<Vec<Row>, PoolError> {
    let done = conn.simple(&format!("BEGIN; {PATIENCE}; {sql}")).await;
    conn.simple(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    done
}

/// All at once. Each is waited for, so that no connection is left with an answer to come.
async fn all_of<T>(
    asked: impl Iterator<Item = impl Future<Output = Result<T, PoolError>>>,
) -> Result<Vec<T>, PoolError> {
    join_all(asked).await.into_iter().collect()
}

async fn value(conn: &mut Conn, sql: &str) -> Result<Option<String>, PoolError> {
    Ok(conn.simple(sql).await?.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
}
