//! Which server a node is at present: a store beside it answers for that one alone. Nodes are asked a moment ahead, by the router's own connections,
//! which go to where the node is now. What stores do with it is not known here.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{NodeId, Snapshot};
use parking_lot::Mutex;

use crate::error::{ExecError, Result};
use crate::router::herd::Herd;

/// A node that has become another server is taken for what it was for so long, at most.
const LASTS: Duration = Duration::from_secs(1);

const WHICH: &str = "SELECT (pg_catalog.pg_control_system()).system_identifier::pg_catalog.text OPERATOR(pg_catalog.||) '/' \
     OPERATOR(pg_catalog.||) pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8)";

/// What nodes have said, and when they were asked.
#[derive(Default)]
pub struct Servers(Mutex<HashMap<NodeId, (Instant, Arc<str>)>>);

impl Herd {
    /// Of each of these, asked at once.
    pub async fn servers_of(&self, snapshot: &Snapshot, nodes: BTreeSet<NodeId>) -> Result<Vec<(NodeId, Arc<str>)>> {
        let one = async |node| Ok((node, self.server(snapshot, node).await?));
        futures_util::future::try_join_all(nodes.into_iter().map(one)).await
    }

    /// The node's system identifier and timeline, between them `/`.
    async fn server(&self, snapshot: &Snapshot, node: NodeId) -> Result<Arc<str>> {
        if let Some((asked, server)) = self.servers.0.lock().get(&node)
            && asked.elapsed() < LASTS
        {
            return Ok(server.clone());
        }
        let asked = Instant::now();
        let rows = self.own.rows(&self.target(snapshot, node)?, WHICH).await?;
        let server = rows.into_iter().flatten().flatten().next();
        let server: Arc<str> =
            server.ok_or_else(|| ExecError::internal("a node does not say which server it is"))?.into();
        self.servers.0.lock().insert(node, (asked, server.clone()));
        Ok(server)
    }
}
