//! Tables whose partitions get new names, as statements may have been planned for them under another meaning.
//!
//! A statement on one shard names its partition, so nothing but that name tells whether the table is still what it was
//! planned for. Whatever gives a table another name, schema or names of columns, or has its statements go through
//! the parent from now on, therefore renames its partitions, in the same transaction and under the same locks. The statement
//! finds no partition then (42P01) and is planned anew; those over several nodes look for a partition behind themselves
//! (`exec/src/router/looks.rs`). Where new names come from is not known here.

use std::collections::HashSet;
use std::sync::Arc;

use catalog::{NodeId, Relation, Snapshot, quote_ident};
use sql::NodeEnum;
use sql::ast::{self, AlterTableType as T, ObjectType as O};
use sql::names;

use super::place::{self, object_type};
use super::{Facts, Step, subtype};

/// A distributed table whose partitions get new names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Before the statement, quoted and qualified.
    pub table: String,
    /// What the table is called afterwards.
    pub name: String,
    /// What its partitions' names begin with.
    pub prefix: String,
    /// The node of each shard, and its number.
    pub shards: Vec<(NodeId, i32)>,
}

/// The tables whose statements must be planned anew once this is committed, though their texts would still find something.
pub fn renewed(statement: &NodeEnum, snapshot: &Snapshot, facts: &Facts) -> Vec<Renewed> {
    let of = |rv: Option<&ast::RangeVar>, name: Option<&str>| -> Vec<Renewed> {
        let found = rv.map(names::table).and_then(|(schema, table)| match schema {
            None if facts.temporary.iter().any(|t| t == table) => None,
            _ => snapshot.resolve(schema, table, &facts.search_path),
        });
        found.map(|r| renew(r, name.unwrap_or(&r.name))).unwrap_or_default()
    };
    match statement {
        NodeEnum::RenameStmt(s) => match object_type(s.rename_type) {
            O::ObjectSchema => {
                let mut tables: Vec<_> = snapshot.relations.values().filter(|r| r.schema == s.subname).collect();
                tables.sort_by(|a, b| a.name.cmp(&b.name));
                let mut seen = HashSet::new();
                let renewed = tables.into_iter().flat_map(|r| renew(r, &r.name));
                renewed.filter(|r| seen.insert(r.prefix.clone())).collect()
            }
            O::ObjectColumn => of(s.relation.as_ref(), None),
            O::ObjectTable | O::ObjectView | O::ObjectSequence | O::ObjectIndex => {
                of(s.relation.as_ref(), Some(&s.newname))
            }
            _ => vec![],
        },
        NodeEnum::AlterObjectSchemaStmt(s) => of(s.relation.as_ref(), None),
        // Whoever writes to the whole runs it, too, and has looked at another partition perhaps.
        NodeEnum::CreateTrigStmt(s) => {
            let own = of(s.relation.as_ref(), None);
            let parts = |r: &Arc<Relation>| r.distribution().and_then(|d| d.partitions.clone());
            let holds = |r: &&Arc<Relation>| parts(r).is_some_and(|p| own.iter().any(|o| p.contains(&o.prefix)));
            snapshot.relations.values().find(holds).map(|r| renew(r, &r.name)).unwrap_or(own)
        }
        NodeEnum::RuleStmt(s) => of(s.relation.as_ref(), None),
        NodeEnum::AlterTableStmt(s) => {
            let secures = |n: &ast::Node| match &n.node {
                Some(NodeEnum::AlterTableCmd(c)) => {
                    matches!(subtype(c), T::AtEnableRowSecurity | T::AtForceRowSecurity | T::AtEnableTrig)
                }
                _ => false,
            };
            // Statements on the whole looked at the shards of what is no part of it any more.
            let leaves = s.cmds.iter().filter_map(place::detached).flat_map(|rv| of(Some(rv), None));
            let secured = if s.cmds.iter().any(secures) { of(s.relation.as_ref(), None) } else { vec![] };
            leaves.chain(secured).collect()
        }
        _ => vec![],
    }
}

/// Of a table that its owner has split, all that is looked at for it.
fn renew(r: &Relation, name: &str) -> Vec<Renewed> {
    let Some(d) = r.distribution() else { return vec![] };
    let prefixes = d.partitions.as_deref().unwrap_or(std::slice::from_ref(&d.prefix));
    let renewed = |prefix: &String| Renewed {
        table: catalog::qualified(&r.schema, &r.name),
        name: name.to_string(),
        prefix: prefix.clone(),
        shards: d.group.shards.iter().map(|s| (s.node, s.number)).collect(),
    };
    prefixes.iter().map(renewed).collect()
}

impl Renewed {
    /// What a node runs.
    pub fn steps(&self, node: NodeId, prefix: &str) -> Option<Step> {
        let rename = |n: i32| {
            let (old, new) = (format!("{}_{n}", self.prefix), format!("{prefix}_{n}"));
            format!("ALTER TABLE herd_shards.{} RENAME TO {}", quote_ident(&old), quote_ident(&new))
        };
        let texts: Vec<String> = self.shards.iter().filter(|s| s.0 == node).map(|s| rename(s.1)).collect();
        (!texts.is_empty()).then(|| Step::new(texts.join("; ")))
    }
}
