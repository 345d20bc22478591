//! Partitions, by time say, of a table whose partitions are distributed by its key: made, attached, detached.
//!
//! What becomes one is made or attached on home first, in the client's words; that it is distributed then, and attached on the
//! other nodes, is for whoever runs it.

use catalog::Relation;
use sql::ast::{self, AlterTableCmd, AlterTableType as T, Node, RangeVar};
use sql::{NodeEnum, names};

use super::place::{Cx, is_partitioned, key_columns, of_relation};
use super::{Ddl, Decided, subtype};
use crate::Refusal;

/// A table becomes a partition of `parent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Schema and name.
    pub parent: (String, String),
    /// Schema and name of what is distributed already, and alike.
    pub distributed: Option<(String, String)>,
    /// What home runs.
    pub sql: String,
}

fn of(parent: &Relation, distributed: Option<&Relation>, sql: &str) -> Decided {
    let name = |r: &Relation| (r.schema.clone(), r.name.clone());
    let partition = Partition { parent: name(parent), distributed: distributed.map(name), sql: sql.into() };
    Ok(Ddl::Partition(Box::new(partition)))
}

/// CREATE TABLE … PARTITION OF.
pub fn create(cx: &Cx, s: &ast::CreateStmt, parent: &Relation) -> Decided {
    if s.partspec.is_some() {
        return Err(one_level(s.relation.as_ref().map_or("", |rv| &rv.relname)));
    }
    of(parent, None, cx.sql)
}

/// The refusal of partitions of partitions.
fn one_level(name: &str) -> Refusal {
    Refusal::new(
        format!(
            "\"{name}\" cannot be partitioned itself: it is split by the key of the distributed table it is a partition of"
        ),
        "Use one level of partitions.",
    )
}

/// ALTER TABLE … ATTACH PARTITION. `None`: it is another command.
pub fn attach(cx: &Cx, c: &AlterTableCmd, parent: &Relation) -> Option<Decided> {
    let (T::AtAttachPartition, Some(NodeEnum::PartitionCmd(p))) = (subtype(c), c.def.as_deref()?.node.as_ref()) else {
        return None;
    };
    let rv = p.name.as_ref()?;
    let table = cx.find(names::table(rv));
    let herd = table.filter(|r| super::place::is_herd(r));
    Some(match herd {
        None => of(parent, None, cx.sql),
        Some(r) => alike(parent, r).and_then(|()| of(parent, Some(r), cx.sql)),
    })
}

fn alike(parent: &Relation, r: &Relation) -> Result<(), Refusal> {
    if is_partitioned(r) {
        return Err(one_level(&r.name));
    }
    let group = |r: &Relation| r.distribution().map(|d| d.group.id);
    match group(parent) == group(r) && key_columns(parent) == key_columns(r) {
        true => Ok(()),
        false => Err(Refusal::new(
            format!("\"{}\" is not distributed as \"{}\" is", r.name, parent.name),
            format!(
                "Call undistribute_table() for it first, or distribute it by ({}), colocate_with => '{}'.",
                key_columns(parent).join(", "),
                of_relation(parent)
            ),
        )),
    }
}

/// DETACH PARTITION, with or without CONCURRENTLY: over several nodes it is one transaction, whose locks are had for a moment only.
pub fn detach(c: &AlterTableCmd) -> Option<AlterTableCmd> {
    let (T::AtDetachPartition, Some(NodeEnum::PartitionCmd(p))) = (subtype(c), c.def.as_deref()?.node.as_ref()) else {
        return None;
    };
    let plain = NodeEnum::PartitionCmd(ast::PartitionCmd { concurrent: false, ..p.clone() });
    Some(AlterTableCmd { def: Some(Box::new(Node { node: Some(plain) })), ..c.clone() })
}

/// ONLY the table, and not its partitions, is what nothing is done to.
pub fn refuse_only(rv: &RangeVar, r: &Relation) -> Result<(), Refusal> {
    match is_partitioned(r) && !rv.inh {
        true => Err(Refusal::new(
            format!("ONLY with \"{}\", whose partitions are distributed, is not supported here", r.name),
            "Leave ONLY out.",
        )),
        false => Ok(()),
    }
}
