//! How large tables are, as a node of theirs says. What is made of that is not known here.

use std::collections::BTreeSet;

use catalog::{Relation, quote_literal};

use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Bytes of a distributed table's rows on all nodes, about. Not in a transaction, which the node would take part in.
    pub async fn size_of(&mut self, table: &Relation) -> Result<u64> {
        let Some(d) = table.distribution() else { return Ok(0) };
        if let Some(known) = self.herd.sizes.known(table.oid) {
            return Ok(known);
        }
        let nodes: BTreeSet<_> = d.group.shards.iter().map(|s| s.node).collect();
        let Some(one) = nodes.first().copied() else { return Ok(0) };
        let sql = format!(
            "SELECT pg_catalog.sum(pg_catalog.pg_relation_size(t.relid)) FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace, \
             LATERAL pg_catalog.pg_partition_tree(c.oid) t \
             WHERE n.nspname OPERATOR(pg_catalog.=) {} AND c.relname OPERATOR(pg_catalog.=) {} AND t.isleaf",
            quote_literal(&table.schema),
            quote_literal(&table.name)
        );
        let rows = self.ask_node(one, &sql).await?;
        let bytes = rows.into_iter().flatten().flatten().find_map(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let bytes = bytes.saturating_mul(nodes.len() as u64);
        self.herd.sizes.keep(table.oid, bytes);
        Ok(bytes)
    }
}
