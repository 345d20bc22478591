//! Sequences on home that are behind their columns: rows were written past the routers, and the next ones would meet them. A sequence is brought to the
//! furthest value that there is; values that a router has taken ahead for many sessions are still given out.

use std::sync::Arc;

use catalog::{NodeId, Placement, Relation, quote_literal};
use wire::type_oid;

use super::{Finding, Repair, name, regclass, texts};
use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    pub(super) async fn repair_sequences(&mut self, repair: &Repair, table: &Arc<Relation>) -> Result<Vec<Finding>> {
        let home = self.home();
        let nodes: Vec<NodeId> = match table.placement {
            // What other copies have is not looked at here.
            Placement::Distributed(_) => self.epoch.snapshot.nodes.iter().map(|n| n.id).collect(),
            _ => vec![home],
        };
        let mut findings = Vec::new();
        for column in table.columns.iter().filter(|c| type_oid::is_integer(c.type_oid)) {
            let Some(sequence) = &column.sequence else { continue };
            let sequence_sql = regclass(sequence);
            let falls = format!(
                "SELECT s.seqincrement OPERATOR(pg_catalog.<) 0 FROM pg_catalog.pg_sequence s WHERE s.seqrelid OPERATOR(pg_catalog.=) {sequence_sql}"
            );
            let falls = self.ask_home(&falls).await?.into_iter().flatten().flatten().next().as_deref() == Some("t");
            let ask =
                format!("SELECT herd.furthest({}, {}, {falls})", regclass(&name(table)), quote_literal(&column.name));
            let mut furthest: Option<i64> = None;
            for node in &nodes {
                self.ask_node(*node, &format!("SELECT herd.ask_rows({}, NULL)", texts([name(table)]))).await?;
                let rows = self.ask_node(*node, &ask).await?;
                let Some(value) = rows.first().and_then(|row| row.first()?.as_deref()?.parse::<i64>().ok()) else {
                    continue;
                };
                furthest =
                    Some(furthest.map_or(value, |known| if falls { known.min(value) } else { known.max(value) }));
            }
            let Some(reached) = furthest else { continue };
            let ask = |how: &str| format!("SELECT herd.{how}({sequence_sql}, {reached})");
            let first = |rows: Vec<catalog::Row>| rows.into_iter().flatten().flatten().next();
            let mut was = first(self.ask_home(&ask("behind")).await?);
            if was.is_some() && !repair.dry_run {
                self.need_transaction();
                was = first(self.write_on(home, &ask("advance")).await?);
            }
            let Some(was) = was else { continue };
            findings.push(Finding {
                node: self.node_name(home),
                object: sequence.clone(),
                problem: format!("it is at {was}, and column \"{}\" of {} at {reached}", column.name, name(table)),
                mended: !repair.dry_run,
                action: if repair.dry_run { "it would go on from there" } else { "it goes on from there" }.into(),
            });
        }
        Ok(findings)
    }
}
