//! Rows of a MERGE's source on their way to the nodes of their shards. They wait in the router, a batch for each node.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{Distribution, NodeId, Relation};
use key::Bound;
use plan::Split;
use wire::{sqlstate, type_oid};

use crate::arrays::Arrays;
use crate::budget::Taken;
use crate::carried::Carriers;
use crate::error::{ExecError, Result};
use crate::router::described::PartColumns;
use crate::work::row_node::node_of;
use crate::write::capture::Consumer;

/// Rows by the nodes they go to.
pub struct SplitRows<'m> {
    relation: Arc<Relation>,
    bounds: Arc<[Bound]>,
    /// Of columns the statement sees; the keys are behind them.
    carriers: &'m Carriers,
    keys: usize,
    /// Rows that go to all nodes.
    rest: Arrays,
    pub nodes: BTreeMap<NodeId, Arrays>,
    /// Who says what there is to say of rows that can have no place.
    first: NodeId,
    before: usize,
    pub bytes: usize,
    memory: &'m mut Taken,
}

fn distribution(split: &Split) -> Result<&Distribution> {
    split.relation.distribution().ok_or_else(|| ExecError::internal("not a distributed table"))
}

/// The columns the statement sees of what is read. The router must be able to tell the key's value by what is behind them.
pub fn seen(split: &Split, columns: &mut PartColumns) -> Result<()> {
    let d = distribution(split)?;
    let width = columns.fields.len().saturating_sub(split.hidden());
    for ((field, ty), at) in columns.fields[width..].iter().zip(&d.group.key_types).zip(&d.key) {
        let both = |is: fn(u32) -> bool| is(field.type_oid) && is(*ty);
        let from_integer = *ty == type_oid::NUMERIC && type_oid::is_integer(field.type_oid);
        if field.type_oid != *ty && !both(type_oid::is_integer) && !both(type_oid::is_text) && !from_integer {
            let key = split.relation.columns.get(*at).map_or("", |c| c.name.as_str());
            let message = format!(
                "MERGE over several nodes that inserts rows by a value of another type than the distribution key \"{key}\" is not supported"
            );
            let hint = "Cast it to the key's type, in ON and in INSERT.";
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(hint));
        }
    }
    columns.fields.truncate(width);
    columns.types.truncate(width);
    Ok(())
}

impl<'m> SplitRows<'m> {
    /// No rows so far. `carriers`: of columns the statement sees; `before`: bytes that are held already.
    pub fn new(
        split: &Split,
        bounds: Arc<[Bound]>,
        carriers: &'m Carriers,
        before: usize,
        memory: &'m mut Taken,
    ) -> Result<SplitRows<'m>> {
        let d = distribution(split)?;
        let all = || d.group.shards.iter().map(|s| s.node);
        let first = all().min().ok_or_else(|| ExecError::internal("no shards"))?;
        let nodes =
            if split.everywhere { all().map(|n| (n, Arrays::new(carriers))).collect() } else { BTreeMap::new() };
        let (relation, rest, keys) = (split.relation.clone(), Arrays::new(carriers), split.keys);
        Ok(SplitRows { relation, bounds, carriers, keys, rest, nodes, first, before, bytes: 0, memory })
    }

    /// Rows by the nodes they go to, and those that go to all. At least one node says what comes of it.
    pub fn finish(mut self) -> (BTreeMap<NodeId, Arrays>, Arrays) {
        if self.nodes.is_empty() {
            self.nodes.insert(self.first, Arrays::new(self.carriers));
        }
        (self.nodes, self.rest)
    }
}

impl Consumer for SplitRows<'_> {
    fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        let (seen, keys) = values
            .split_at_checked(self.carriers.iter().len())
            .ok_or_else(|| ExecError::internal("a row has another number of columns than described"))?;
        let (keys, goes) = keys.split_at(self.keys);
        let rows = match goes {
            [Some(b"f")] => &mut self.rest,
            _ => {
                let node = node_of(&self.relation, &self.bounds, keys, false)?.unwrap_or(self.first);
                self.nodes.entry(node).or_insert_with(|| Arrays::new(self.carriers))
            }
        };
        let held = rows.bytes();
        rows.push(seen)?;
        self.bytes += rows.bytes() - held;
        // They are here, and on their way to their node.
        self.memory.grow_to(2 * self.bytes + self.before)
    }
}
