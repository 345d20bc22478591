//! Where an execution of a planned statement goes. It does not know what is done there.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{NodeId, Placement, Relation};
use plan::{Change, Made, Planned, Refusal, Whole};
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::request::Request;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::shards::Targets;

/// Its rows may go to other nodes than they are on.
fn moves(change: &Change) -> bool {
    match change {
        Change::Move(_) | Change::Stay(_) => true,
        Change::From(from) => matches!(from.made, Made::Move(_) | Made::Stay(_)),
        Change::Refused(_) | Change::Each(_) | Change::Copies(_) => false,
    }
}

fn parent_needed() -> Refusal {
    Refusal::new(
        "WHERE CURRENT OF a cursor is not supported where a distributed table has row-level security, statement triggers or \
         is reached through a view",
        "Select the key and use it in WHERE.",
    )
}

/// Where an execution goes.
pub enum Placed {
    /// One node; with the one shard all of it is in, if it is just one.
    One(i32, Option<i32>),
    Several(BTreeSet<i32>),
}

/// The session's cursors, for who changes the rows they stand on.
pub trait Stands {
    /// The node whose own cursor this is, and the one shard of these colocated tables that it reads, if it is just one.
    fn stands(&self, cursor: &str, group: i32) -> Option<(NodeId, i32)>;
}

impl<C: Client> Work<'_, C> {
    /// Where this execution goes.
    pub async fn place(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Placed> {
        if self.transaction.began_with.is_some() {
            Box::pin(self.as_it_began(compiled)).await?;
        }
        let whole = compiled.plan.whole();
        if whole.unread {
            // A mistake in what no node gets is found where all of it is understood.
            Box::pin(self.described(compiled, request.types())).await?;
        }
        if !whole.planned.is_empty() {
            Box::pin(self.may_read_all(&whole.planned)).await?;
        }
        match &compiled.plan {
            Planned::Forward(_) => return Ok(Placed::One(self.any_node(whole.needs_home), None)),
            Planned::Modify { change, .. } if moves(change) => {
                return Ok(Placed::Several(Box::pin(self.targets(compiled, request)).await?.nodes));
            }
            // Its rows go where their keys say.
            Planned::Modify { change: Change::From(from), .. } if let Made::InTwo(m) = &from.made => {
                return Ok(Placed::Several(self.nodes_of(&m.relation)));
            }
            Planned::InTurn { split: true, .. } => {
                return Ok(Placed::Several(self.epoch.snapshot.nodes.iter().map(|n| n.id).collect()));
            }
            Planned::Query { .. } | Planned::Insert { .. } | Planned::Modify { .. } | Planned::InTurn { .. } => {}
        }
        if let Some(relation) = compiled.plan.written() {
            return Ok(Placed::Several(self.nodes_of(relation)));
        }
        if let Some(cursor) = &whole.current_of
            && let Some(placed) = self.under_cursor(cursor, whole)?
        {
            return Ok(placed);
        }
        if let Some((node, shard)) = self.one_shard(compiled, request)? {
            return Ok(Placed::One(node, Some(shard)));
        }
        let Targets { nodes, shard } = Box::pin(self.targets(compiled, request)).await?;
        let mut each = nodes.iter();
        match (each.next(), each.next()) {
            (Some(node), None) => Ok(Placed::One(*node, shard)),
            _ => Ok(Placed::Several(nodes)),
        }
    }

    /// Refuses a role that may not read all of these.
    async fn may_read_all(&mut self, tables: &[Arc<Relation>]) -> Result<()> {
        let one = |(i, r): (usize, &Arc<Relation>)| {
            let table = format!("'{}'::pg_catalog.oid", r.named_oid());
            format!(
                "SELECT {i}, pg_catalog.has_table_privilege({table}, 'SELECT'), \
                 pg_catalog.has_any_column_privilege({table}, 'SELECT')"
            )
        };
        let sql = tables.iter().enumerate().map(one).collect::<Vec<_>>().join(" UNION ALL ");
        let rows = self.ask_home(&sql).await?;
        let Some(row) = rows.iter().find(|row| row.get(1).is_none_or(|v| v.as_deref() != Some("t"))) else {
            return Ok(());
        };
        let of = row.first().cloned().flatten().and_then(|n| n.parse::<usize>().ok()).and_then(|n| tables.get(n));
        let name = of.map_or("", |r| r.name.as_str());
        Err(match row.get(2).is_some_and(|v| v.as_deref() == Some("t")) {
            true => ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("a WITH query that only others name which nobody reads, of table {name}, of which you may read some columns, is not supported over several nodes"),
            )
            .hint("Take it out of the statement."),
            false => ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied for table {name}")),
        })
    }

    /// Where the row is that a cursor stands on, if that reads a single shard. PostgreSQL looks for it in the partitions that
    /// the cursor reads, and fails at others: the partition is named.
    fn under_cursor(&self, cursor: &str, whole: &Whole) -> Result<Option<Placed>> {
        let Some(d) = whole.tables.first().and_then(|t| t.relation.distribution()) else { return Ok(None) };
        let Some((node, shard)) = self.cursors.and_then(|c| c.stands(cursor, d.group.id)) else { return Ok(None) };
        match whole.splices.is_none() && d.group.shards.len() > 1 {
            true => Err(parent_needed().into()),
            false => Ok(Some(Placed::One(node, Some(shard)))),
        }
    }

    /// Nodes that have a part or a copy of a table.
    fn nodes_of(&self, relation: &Relation) -> BTreeSet<NodeId> {
        match &relation.placement {
            Placement::Local => BTreeSet::from([self.home()]),
            Placement::Reference => self.epoch.snapshot.nodes.iter().map(|n| n.id).collect(),
            Placement::Distributed(d) => d.group.shards.iter().map(|s| s.node).collect(),
        }
    }

    /// A statement over reference tables alone runs where the transaction already is, or on home.
    fn any_node(&self, needs_home: bool) -> i32 {
        let home = self.home();
        if needs_home || self.transaction.has(home) {
            return home;
        }
        self.transaction.participants.first().map_or(home, |p| p.lane.node)
    }
}
