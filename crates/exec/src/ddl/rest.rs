//! What a default partition takes changes whenever its table gets or loses another partition. PostgreSQL has all backends forget what
//! they know of the default partition then, but not of that one's own partitions (`heap_drop_with_catalog` in heap.c and
//! `DetachPartitionFinalize`, `ATExecAttachPartition` in tablecmds.c), which the shards are: a backend that has used one would go on to check its
//! rows by the old bounds. So each shard's row of `pg_class` is written once more, in the same transaction.
//!
//! Which statements do that is not known here (`plan/src/ddl/rest.rs`).

use catalog::Oid;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// No storage parameter of PostgreSQL's or an extension's: taking it away changes nothing, and writes the row.
const NO_PARAMETER: &str = "herd_bound";

impl<C: Client> Work<'_, C> {
    /// The partitions of these tables have changed on all nodes: the shards of their default partitions are looked at anew.
    pub(crate) async fn rest_has_changed(&mut self, tables: &[Oid]) -> Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        let defaults = self.default_partitions(tables).await?;
        if defaults.is_empty() {
            return Ok(());
        }
        let snapshot = self.snapshot_now().await?;
        for table in snapshot.relations.values().filter(|r| defaults.contains(&r.oid)) {
            for node in &snapshot.nodes {
                let shards = plan::ddl::place::partitions(table, node.id);
                if !shards.is_empty() {
                    let again = shards.into_iter().map(|shard| format!("ALTER TABLE {shard} RESET ({NO_PARAMETER})"));
                    self.run_on(node.id, again).await?;
                }
            }
        }
        Ok(())
    }

    /// Those that the tables have, by home's object ids.
    async fn default_partitions(&mut self, tables: &[Oid]) -> Result<Vec<Oid>> {
        let tables = tables.iter().map(Oid::to_string).collect::<Vec<_>>().join(",");
        let rows = self
            .ask_home(&format!(
                "SELECT p.partdefid FROM pg_catalog.pg_partitioned_table p \
                 WHERE p.partrelid OPERATOR(pg_catalog.=) ANY ('{{{tables}}}'::pg_catalog.oid[]) AND p.partdefid OPERATOR(pg_catalog.<>) 0"
            ))
            .await?;
        let oid = |row: catalog::Row| row.into_iter().next().flatten().and_then(|oid| oid.parse().ok());
        let oids = rows.into_iter().map(|row| oid(row).ok_or_else(|| ExecError::internal("a partition has no number")));
        oids.collect()
    }
}
