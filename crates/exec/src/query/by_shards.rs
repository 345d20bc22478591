//! Nodes join colocated tables shard by shard where they are large: each join is then of a shard's rows, which fit, and each has a plan of
//! its own. PostgreSQL does not do so by itself, since planning takes as many times longer as there are shards. Whether tables are joined by
//! their keys is not known here: if they are not, planners look once more in vain.

use std::collections::BTreeMap;

use catalog::Relation;

use crate::client::Client;
use crate::error::Result;
use crate::router::compiled::Compiled;
use crate::work::Work;

/// Bytes of colocated tables, on all nodes together, from which on what planning takes is little beside the join.
const LARGE: u64 = 256 << 20;
/// Shards of these on a node: planning takes longer with each.
const SHARDS_MAX: usize = 64;
/// Distributed tables that the query names: planning takes many times longer with each.
const TABLES_MAX: usize = 4;

/// What the client has set counts.
const SETTING: &str = "enable_partitionwise_join";
/// What nodes are told, for a transaction.
pub const BY_SHARDS: &str = "SET LOCAL enable_partitionwise_join = on";

impl<C: Client> Work<'_, C> {
    /// Before a read over several nodes that is a transaction of its own.
    pub async fn join_by_shards(&mut self, compiled: &Compiled) -> Result<()> {
        let tables = &compiled.plan.whole().tables;
        let may = (2..=TABLES_MAX).contains(&tables.len()) && !self.transaction.is_active() && !self.is_source;
        if !may || self.settings.get(SETTING).is_some() {
            return Ok(());
        }
        let mut groups: BTreeMap<i32, Vec<&Relation>> = BTreeMap::new();
        for table in tables {
            let Some(d) = table.relation.distribution() else { continue };
            groups.entry(d.group.id).or_default().push(&table.relation);
        }
        for joined in groups.into_values().filter(|joined| joined.len() > 1) {
            let shards: usize = joined.iter().filter_map(|r| r.distribution()).map(|d| d.group.shards.len()).sum();
            if shards > SHARDS_MAX * self.epoch.snapshot.nodes.len() {
                continue;
            }
            let mut bytes = 0;
            for table in joined {
                bytes += self.size_of(table).await?;
            }
            if bytes >= LARGE {
                self.need_transaction();
                self.transaction.note_setting(BY_SHARDS);
                return Ok(());
            }
        }
        Ok(())
    }
}
