//! `herd.export_snapshot()`: the snapshots of a transaction that is one cut over all nodes, so that others, such as
//! pg_dump on each node, can read that very cut (`SET TRANSACTION SNAPSHOT`).
//!
//! How the cut is taken: `work/cut.rs`. Who uses the snapshots, and for what, is not known here.

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;
use txn::Cuts;
use wire::sqlstate;

impl<C: Client> Work<'_, C> {
    /// `{"1": "00000003-0000001B-1", …}`: for each node's id its exported snapshot. They last as long as the transaction.
    pub(crate) async fn export_snapshot(&mut self) -> Result<String> {
        let mut nodes: Vec<_> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        nodes.sort_unstable();
        let wants = self.transaction.wants != Cuts::None;
        if !self.transaction.is_block() || !wants || !self.manner().await?.repeatable {
            return Err(ExecError::sql(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                "herd.export_snapshot() needs one snapshot over all nodes",
            )
            .hint("BEGIN ISOLATION LEVEL REPEATABLE READ; then call it, and keep the transaction open."));
        }
        self.cut_for_read().await?;
        let mut exported = Vec::with_capacity(nodes.len());
        for node in nodes {
            let rows = self.ask_node(node, "SELECT pg_catalog.pg_export_snapshot()").await?;
            let id = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
            let id = id.ok_or_else(|| ExecError::internal("a node exported no snapshot"))?;
            exported.push(format!("\"{node}\": \"{id}\""));
        }
        Ok(format!("{{{}}}", exported.join(", ")))
    }
}
