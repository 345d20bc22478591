//! Which of the herd's tables a utility statement locks on all nodes before it does anything. How they are taken is not known here.

use std::sync::Arc;

use catalog::{Distribution, Oid, Relation, Snapshot};
use sql::NodeEnum;
use sql::ast::{self, AlterTableType as T, ObjectType as O};
use sql::names;

use super::place::{detached, is_herd, name_of, object_type, of_relation, range_vars, strings_of, text};
use super::{Facts, subtype};

/// Locks that a statement is going to need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLocks {
    /// By home's object ids, with their names, quoted and qualified.
    pub tables: Vec<(Oid, String)>,
    pub mode: LockMode,
    pub right: Right,
}

/// Who may do what the locks are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Who owns the table.
    Owner,
    /// Who owns the table or its schema.
    Drop,
    /// Whoever has the privilege.
    Has(&'static str),
    /// That is known already.
    Known,
}

/// PostgreSQL's lock modes that stop others' statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    AccessExclusive,
    /// It stops those that write.
    Share,
    /// And others of its kind.
    ShareRowExclusive,
}

impl LockMode {
    /// As LOCK TABLE has it.
    pub fn as_str(self) -> &'static str {
        match self {
            LockMode::AccessExclusive => "ACCESS EXCLUSIVE",
            LockMode::Share => "SHARE",
            LockMode::ShareRowExclusive => "SHARE ROW EXCLUSIVE",
        }
    }
}

/// Those of the herd's tables that the statement changes; none where what it needs stops nobody.
pub fn locks(statement: &NodeEnum, snapshot: &Snapshot, facts: &Facts) -> Option<TableLocks> {
    const ALL: LockMode = LockMode::AccessExclusive;
    let find = |(schema, name): (Option<&str>, &str)| {
        let hidden = schema.is_none() && facts.temporary.iter().any(|t| t == name);
        snapshot.resolve(schema, name, &facts.search_path).filter(|r| !hidden && is_herd(r))
    };
    let of = |rv: Option<&ast::RangeVar>| rv.map(names::table).and_then(find).into_iter().collect::<Vec<_>>();
    let (tables, mode) = match statement {
        NodeEnum::RenameStmt(s) if object_type(s.rename_type) != O::ObjectIndex => (of(s.relation.as_ref()), ALL),
        NodeEnum::AlterObjectSchemaStmt(s) => (of(s.relation.as_ref()), ALL),
        NodeEnum::AlterTableStmt(s) if s.cmds.iter().any(stops_others) => {
            let detached = s.cmds.iter().filter_map(detached).flat_map(|rv| of(Some(rv)));
            (of(s.relation.as_ref()).into_iter().chain(detached).collect(), ALL)
        }
        NodeEnum::TruncateStmt(s) => (range_vars(&s.relations).map(names::table).filter_map(find).collect(), ALL),
        NodeEnum::IndexStmt(s) if !s.concurrent => (of(s.relation.as_ref()), LockMode::Share),
        NodeEnum::CreateTrigStmt(s) => (of(s.relation.as_ref()), ALL),
        NodeEnum::RuleStmt(s) => (of(s.relation.as_ref()), ALL),
        NodeEnum::DropStmt(s) => {
            let objects: Vec<_> = s.objects.iter().map(strings_of).collect();
            let named = objects.iter().filter_map(|o| name_of(o));
            let tables = match object_type(s.remove_type) {
                O::ObjectTable => with_parents(named.filter_map(find).collect(), snapshot),
                O::ObjectIndex => named
                    .filter_map(|name| facts.indexes.get(&text(name)))
                    .filter_map(|table| snapshot.relations.get(table).filter(|r| is_herd(r)))
                    .collect(),
                _ => vec![],
            };
            (tables, ALL)
        }
        _ => return None,
    };
    let mut tables: Vec<(Oid, String)> = tables.into_iter().map(|r| (r.oid, of_relation(r))).collect();
    tables.sort();
    tables.dedup();
    let right = match statement {
        NodeEnum::TruncateStmt(_) => Right::Has("TRUNCATE"),
        NodeEnum::CreateTrigStmt(_) => Right::Has("TRIGGER"),
        NodeEnum::DropStmt(_) => Right::Drop,
        _ => Right::Owner,
    };
    (!tables.is_empty()).then_some(TableLocks { tables, mode, right })
}

fn cascades(behavior: i32) -> bool {
    behavior == ast::DropBehavior::DropCascade as i32
}

/// Whether it may change tables that it does not name: those that refer to these, or that have columns of a type.
pub fn reaches_others(statement: &NodeEnum) -> bool {
    match statement {
        NodeEnum::TruncateStmt(s) => cascades(s.behavior),
        NodeEnum::DropStmt(s) => cascades(s.behavior) && object_type(s.remove_type) != O::ObjectIndex,
        NodeEnum::DropOwnedStmt(_) => true,
        _ => false,
    }
}

/// These, and the partitions of those that are partitioned by something else than their key.
pub fn with_partitions(tables: impl IntoIterator<Item = Oid>, snapshot: &Snapshot) -> Vec<Oid> {
    let mut oids: Vec<Oid> = tables.into_iter().collect();
    let of = distributed(snapshot, |r| oids.contains(&r.oid));
    let mut prefixes: Vec<&String> = of.filter_map(|(_, d)| d.partitions.as_ref()).flat_map(|p| p.iter()).collect();
    while !prefixes.is_empty() {
        let parts: Vec<_> = distributed(snapshot, |_| true).filter(|(_, d)| prefixes.contains(&&d.prefix)).collect();
        oids.extend(parts.iter().map(|(r, _)| r.oid));
        prefixes = parts.into_iter().filter_map(|(_, d)| d.partitions.as_ref()).flat_map(|p| p.iter()).collect();
    }
    oids.sort_unstable();
    oids.dedup();
    oids
}

/// Those by which rows of these are read, too: their partitions, and what they are partitions of.
pub fn read_by(tables: impl IntoIterator<Item = Oid>, snapshot: &Snapshot) -> Vec<Oid> {
    let mut oids: Vec<Oid> = tables.into_iter().collect();
    let mut below: Vec<&String> = distributed(snapshot, |r| oids.contains(&r.oid)).map(|(_, d)| &d.prefix).collect();
    oids = with_partitions(oids, snapshot);
    while !below.is_empty() {
        let holds =
            |d: &Distribution| d.partitions.as_ref().is_some_and(|parts| parts.iter().any(|p| below.contains(&p)));
        let above: Vec<_> = distributed(snapshot, |_| true).filter(|(_, d)| holds(d)).collect();
        oids.extend(above.iter().map(|(r, _)| r.oid));
        below = above.into_iter().map(|(_, d)| &d.prefix).collect();
    }
    oids.sort_unstable();
    oids.dedup();
    oids
}

fn distributed(
    snapshot: &Snapshot,
    is: impl Fn(&Relation) -> bool,
) -> impl Iterator<Item = (&Arc<Relation>, &Distribution)> {
    snapshot.relations.values().filter_map(|r| Some((r, r.distribution()?))).filter(move |(r, _)| is(r))
}

/// A partition is taken out of the table that it is one of.
fn with_parents<'s>(mut tables: Vec<&'s Arc<Relation>>, snapshot: &'s Snapshot) -> Vec<&'s Arc<Relation>> {
    let prefixes: Vec<&String> = tables.iter().filter_map(|r| Some(&r.distribution()?.prefix)).collect();
    let holds = |r: &&Arc<Relation>| {
        let parts = r.distribution().and_then(|d| d.partitions.as_deref());
        parts.is_some_and(|parts| prefixes.iter().any(|p| parts.contains(p)))
    };
    let parents: Vec<_> = snapshot.relations.values().filter(holds).collect();
    tables.extend(parents);
    tables
}

/// What PostgreSQL does under SHARE UPDATE EXCLUSIVE (`AlterTableGetLockLevel` in tablecmds.c) goes on beside writers.
fn stops_others(cmd: &ast::Node) -> bool {
    let Some(NodeEnum::AlterTableCmd(c)) = &cmd.node else { return true };
    !matches!(
        subtype(c),
        T::AtSetStatistics
            | T::AtClusterOn
            | T::AtDropCluster
            | T::AtSetOptions
            | T::AtResetOptions
            | T::AtSetRelOptions
            | T::AtResetRelOptions
            | T::AtReplaceRelOptions
            | T::AtValidateConstraint
    )
}
