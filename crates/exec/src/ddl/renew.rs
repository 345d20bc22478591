//! New names for the partitions of a table that statements may have been planned for under another meaning.
//!
//! A statement on one shard names its partition, so nothing but that name tells whether the table is still what it was
//! planned for. Whatever gives a table another name, schema or names of columns, or has its statements go through
//! the parent from now on, therefore renames its partitions, in the same transaction and under the same locks. The statement
//! finds no partition then (42P01) and is planned anew; those over several nodes look for a partition behind themselves
//! (`router/looks.rs`). A prefix is never used twice (`herd.new_prefix`), so it finds no other table's either. It does not know
//! how utility statements run.

use catalog::{NodeId, Relation, Snapshot, new_prefix_sql, quote_ident, quote_literal};
use sql::NodeEnum;
use sql::ast::{self, AlterTableType as T, ObjectType as O};
use sql::names;

use plan::ddl::place::object_type;
use plan::ddl::{Facts, Rights, Spread, Step, subtype};

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// A distributed table whose partitions get new names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Before the statement, quoted and qualified.
    table: String,
    /// What the table is called afterwards.
    name: String,
    prefix: String,
    shards: Vec<(NodeId, i32)>,
}

/// The tables whose statements must be planned anew once this is committed, though their texts would still find something.
pub fn renewed(statement: &NodeEnum, snapshot: &Snapshot, facts: &Facts) -> Vec<Renewed> {
    let of = |rv: Option<&ast::RangeVar>, name: Option<&str>| -> Vec<Renewed> {
        let found = rv.map(names::table).and_then(|(schema, table)| match schema {
            None if facts.temporary.iter().any(|t| t == table) => None,
            _ => snapshot.resolve(schema, table, &facts.search_path),
        });
        found.and_then(|r| renew(r, name.unwrap_or(&r.name))).into_iter().collect()
    };
    match statement {
        NodeEnum::RenameStmt(s) => match object_type(s.rename_type) {
            O::ObjectSchema => {
                let mut tables: Vec<_> = snapshot.relations.values().filter(|r| r.schema == s.subname).collect();
                tables.sort_by(|a, b| a.name.cmp(&b.name));
                tables.into_iter().filter_map(|r| renew(r, &r.name)).collect()
            }
            O::ObjectColumn => of(s.relation.as_ref(), None),
            O::ObjectTable | O::ObjectView | O::ObjectSequence | O::ObjectIndex => {
                of(s.relation.as_ref(), Some(&s.newname))
            }
            _ => vec![],
        },
        NodeEnum::AlterObjectSchemaStmt(s) => of(s.relation.as_ref(), None),
        NodeEnum::CreateTrigStmt(s) => of(s.relation.as_ref(), None),
        NodeEnum::RuleStmt(s) => of(s.relation.as_ref(), None),
        NodeEnum::AlterTableStmt(s) => {
            let secures = |n: &ast::Node| match &n.node {
                Some(NodeEnum::AlterTableCmd(c)) => {
                    matches!(subtype(c), T::AtEnableRowSecurity | T::AtForceRowSecurity | T::AtEnableTrig)
                }
                _ => false,
            };
            if s.cmds.iter().any(secures) { of(s.relation.as_ref(), None) } else { vec![] }
        }
        _ => vec![],
    }
}

fn renew(r: &Relation, name: &str) -> Option<Renewed> {
    let d = r.distribution()?;
    Some(Renewed {
        table: catalog::qualified(&r.schema, &r.name),
        name: name.to_string(),
        prefix: d.prefix.clone(),
        shards: d.group.shards.iter().map(|s| (s.node, s.number)).collect(),
    })
}

impl Renewed {
    /// What a node runs.
    fn steps(&self, node: NodeId, prefix: &str) -> Option<Step> {
        let rename = |n: i32| {
            let (old, new) = (format!("{}_{n}", self.prefix), format!("{prefix}_{n}"));
            format!("ALTER TABLE herd_shards.{} RENAME TO {}", quote_ident(&old), quote_ident(&new))
        };
        let texts: Vec<String> = self.shards.iter().filter(|s| s.0 == node).map(|s| rename(s.1)).collect();
        (!texts.is_empty()).then(|| Step::new(texts.join("; ")))
    }
}

impl<C: Client> Work<'_, C> {
    /// Adds the steps, and sees to the rights they need.
    pub(super) async fn renew(&mut self, spread: &mut Spread, renewed: &[Renewed]) -> Result<()> {
        for r in renewed {
            // By the router itself: nobody else may take names.
            let mut conn = self.herd.own.get(&self.herd.config.home).await?;
            let rows = conn.simple(&new_prefix_sql(&r.name, false)).await?;
            drop(conn);
            let prefix = rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
            let prefix = prefix.ok_or_else(|| ExecError::internal("home gives no names for partitions"))?;
            let rights = Rights { table: r.table.clone(), new_owner: None };
            self.grant_rights(&rights, spread.nodes.iter().map(|n| n.node)).await?;
            for n in &mut spread.nodes {
                n.steps.extend(r.steps(n.node, &prefix));
            }
            let token = self.herd.config.seal.token_hex(&format!("prefix {} {} {prefix}", r.prefix.len(), r.prefix));
            let (old, new) = (quote_literal(&r.prefix), quote_literal(&prefix));
            spread.push_home(format!("SELECT herd.follow_prefix({old}, {new}, pg_catalog.decode('{token}', 'hex'))"));
        }
        Ok(())
    }
}
