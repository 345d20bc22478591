//! What DROP and RENAME of a table mean for the catalog.
//!
//! Only the catalog's rows: the user's own statement is sent to the nodes by whoever plans DDL, in the same transaction.
//! Renaming a key column needs nothing here: the key is read from the partitioned table itself.

use super::{Builder, DistributionPlan};
use crate::{Placement, Snapshot, quote_literal};

/// After `DROP TABLE` of a distributed or reference table. None when it is local.
pub fn plan_drop(snapshot: &Snapshot, schema: &str, name: &str) -> Option<DistributionPlan> {
    let statements = forget(snapshot, schema, name);
    (!statements.is_empty()).then(|| on_home(snapshot, statements))
}

/// After `ALTER TABLE … RENAME TO` or `SET SCHEMA`. None when the table is local.
pub fn plan_rename(snapshot: &Snapshot, from: (&str, &str), to: (&str, &str)) -> Option<DistributionPlan> {
    if forget(snapshot, from.0, from.1).is_empty() {
        return None;
    }
    let statement = format!(
        "UPDATE herd.relation SET schema = {}, name = {} WHERE schema = {} AND name = {}",
        quote_literal(to.0),
        quote_literal(to.1),
        quote_literal(from.0),
        quote_literal(from.1)
    );
    Some(on_home(snapshot, vec![statement]))
}

/// After `ALTER SCHEMA … RENAME TO`. None when all its tables are local.
pub fn plan_rename_schema(snapshot: &Snapshot, from: &str, to: &str) -> Option<DistributionPlan> {
    let mut relations = snapshot.relations.values();
    relations.any(|r| r.schema == from && !matches!(r.placement, Placement::Local)).then(|| {
        let (from, to) = (quote_literal(from), quote_literal(to));
        on_home(snapshot, vec![format!("UPDATE herd.relation SET schema = {to} WHERE schema = {from}")])
    })
}

fn on_home(snapshot: &Snapshot, statements: Vec<String>) -> DistributionPlan {
    let mut builder = Builder::new(snapshot);
    builder.after(snapshot.home, statements);
    builder.finish()
}

/// Takes a table out of the catalog, and its group when it was the last one. Empty when the table is local or unknown.
pub(super) fn forget(snapshot: &Snapshot, schema: &str, name: &str) -> Vec<String> {
    let Some(relation) = snapshot.relations.get(&(schema.to_string(), name.to_string())) else { return Vec::new() };
    let (schema, name) = (quote_literal(schema), quote_literal(name));
    let delete = format!("DELETE FROM herd.relation WHERE schema = {schema} AND name = {name}");
    match &relation.placement {
        Placement::Local => Vec::new(),
        Placement::Reference => vec![delete],
        Placement::Distributed(distribution) => {
            let group = distribution.group.id;
            // Asked of the table, not the snapshot: one DROP TABLE may name several tables of a group.
            let unused = format!("NOT EXISTS (SELECT FROM herd.relation WHERE colocation = {group})");
            vec![delete, format!("DELETE FROM herd.colocation WHERE id = {group} AND {unused}")]
        }
    }
}
