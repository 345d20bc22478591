//! Owners, privileges and row-level security of distributed tables that were changed without a router: by DO, in a function,
//! on a node itself. Shards follow their parents on each node, parents follow home.
//!
//! A node is looked at only when its catalogs have been written to since, by PostgreSQL's own count; parents are made to
//! follow home when home has said the same twice, so that a GRANT that is just being committed over all nodes is not
//! taken back. What follows from what is decided in the catalog's `schema/rights.sql`.

use std::collections::HashMap;

use catalog::{NodeId, quote_literal};
use pool::{Conn, PoolError};

/// Rows written in the catalogs that rights are in.
const WRITTEN: &str = "SELECT pg_catalog.sum(pg_catalog.pg_stat_get_tuples_inserted(c) OPERATOR(pg_catalog.+) \
     pg_catalog.pg_stat_get_tuples_updated(c) OPERATOR(pg_catalog.+) pg_catalog.pg_stat_get_tuples_deleted(c)) \
     FROM pg_catalog.unnest('{pg_catalog.pg_class,pg_catalog.pg_attribute,pg_catalog.pg_namespace}'::pg_catalog.regclass[]) AS c";
const OF_HOME: &str =
    "SELECT pg_catalog.jsonb_object_agg(object, rights) FROM herd.verify() WHERE problem OPERATOR(pg_catalog.=) ''";
/// A change that is being committed holds its rows: the next round sees what came of it.
const PATIENCE: &str = "SET LOCAL lock_timeout = '500ms'";

#[derive(Default)]
pub struct Follower {
    /// What each node had written when it was last found in order.
    written: HashMap<NodeId, String>,
    /// What home said last.
    home: Option<String>,
}

impl Follower {
    /// One round. `nodes` are the router's own connections.
    pub async fn follow(&mut self, home: NodeId, nodes: &mut HashMap<NodeId, Conn>) -> Result<(), PoolError> {
        let mut written = HashMap::new();
        for (node, conn) in nodes.iter_mut() {
            written.insert(*node, value(conn, WRITTEN).await?.unwrap_or_default());
        }
        let changed = |node: &NodeId| written.get(node) != self.written.get(node);
        if !nodes.keys().any(changed) {
            return Ok(());
        }
        for (_, conn) in nodes.iter_mut().filter(|(node, _)| changed(node)) {
            in_transaction(conn, "SELECT herd.settle()").await?;
        }
        let Some(conn) = nodes.get_mut(&home) else { return Ok(()) };
        let wanted = value(conn, OF_HOME).await?;
        if wanted != self.home {
            self.home = wanted;
            return Ok(());
        }
        if let Some(wanted) = &wanted {
            let follow = format!("SELECT herd.follow_home({}::pg_catalog.jsonb)", quote_literal(wanted));
            for (node, conn) in nodes.iter_mut().filter(|(node, _)| **node != home) {
                let followed = in_transaction(conn, &follow).await?;
                if followed.as_deref().is_some_and(|n| n != "0") {
                    tracing::info!(node, tables = followed, "rights follow home's");
                }
            }
        }
        self.written = written;
        Ok(())
    }
}

/// Runs a query in a transaction of its own that does not wait long; its first value.
async fn in_transaction(conn: &mut Conn, sql: &str) -> Result<Option<String>, PoolError> {
    let done = value(conn, &format!("BEGIN; {PATIENCE}; {sql}")).await;
    conn.simple(if done.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    done
}

async fn value(conn: &mut Conn, sql: &str) -> Result<Option<String>, PoolError> {
    Ok(conn.simple(sql).await?.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
}
