//! How large tables are, as a node of theirs says. What is made of that is not known here.

use std::collections::BTreeSet;

use catalog::{Relation, quote_literal};
use wire::{backend, frame};

use crate::client::Client;
use crate::error::Result;
use crate::render::NodeStatement;
use crate::request::Keep;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Bytes of a distributed table's rows on all nodes, about. Not in a transaction, which the node would take part in.
    pub async fn size_of(&mut self, table: &Relation) -> Result<u64> {
        let Some(d) = table.distribution() else { return Ok(0) };
        if let Some(known) = self.herd.sizes.known(table.oid) {
            return Ok(known);
        }
        let nodes: BTreeSet<_> = d.group.shards.iter().map(|s| s.node).collect();
        let one: BTreeSet<_> = nodes.first().copied().into_iter().collect();
        let sql = format!(
            "SELECT pg_catalog.sum(pg_catalog.pg_relation_size(t.relid)) FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace, \
             LATERAL pg_catalog.pg_partition_tree(c.oid) t \
             WHERE n.nspname OPERATOR(pg_catalog.=) {} AND c.relname OPERATOR(pg_catalog.=) {} AND t.isleaf",
            quote_literal(&table.schema),
            quote_literal(&table.name)
        );
        let statement = NodeStatement { sql, once: true, ..NodeStatement::default() };
        let lanes = self.ask_part(&one, &statement, &[], Keep::No).await?;
        let mut bytes = 0;
        for row in self.read_answers(lanes, false).await?.iter().flat_map(|a| a.rows.iter()) {
            let values = backend::parse_data_row(&row[frame::HEADER_LEN..])?;
            let text = values.first().copied().flatten().and_then(|v| std::str::from_utf8(v).ok());
            bytes += text.and_then(|t| t.parse::<u64>().ok()).unwrap_or(0);
        }
        let bytes = bytes.saturating_mul(nodes.len() as u64);
        self.herd.sizes.keep(table.oid, bytes);
        Ok(bytes)
    }
}
