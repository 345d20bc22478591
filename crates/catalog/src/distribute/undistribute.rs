//! From a distributed or reference table back to a local one.

use super::foreign::{Becomes, check_foreign_keys};
use super::rename::forget;
use super::{Builder, CopyRows, CopyTarget, DistributionPlan};
use crate::definition::{Definition, TableKind};
use crate::{ColumnCopy, Placement, Refusal, RefusalKind, Relation, Snapshot};

/// Plans `undistribute_table`.
pub fn plan_undistribute(snapshot: &Snapshot, definition: &Definition) -> Result<DistributionPlan, Refusal> {
    let relation = super::known(snapshot, &definition.schema, &definition.name)?;
    check_foreign_keys(snapshot, definition, Becomes::Local)?;
    match &relation.placement {
        Placement::Local => {
            let message = format!("table \"{}\" is not distributed", definition.name);
            Err(Refusal::new(RefusalKind::ObjectNotInPrerequisiteState, message, ""))
        }
        Placement::Reference => from_reference(snapshot, definition, relation),
        Placement::Distributed(d) if d.is_partitioned() => from_partitioned(snapshot, definition),
        Placement::Distributed(_) => from_distributed(snapshot, definition),
    }
}

fn from_reference(
    snapshot: &Snapshot,
    definition: &Definition,
    relation: &Relation,
) -> Result<DistributionPlan, Refusal> {
    for key in &definition.blockers.referenced_by {
        let relation = super::known(snapshot, &key.schema, &key.table)?;
        if !matches!(relation.placement, Placement::Local) {
            let message = format!(
                "table \"{}\" is referenced by foreign key \"{}\" of \"{}\", which is on every node",
                definition.name, key.constraint, key.table
            );
            return Err(Refusal::new(RefusalKind::DependentObjects, message, "Drop the constraint first."));
        }
    }
    let mut builder = Builder::new(snapshot);
    let home = snapshot.home;
    builder.before(home, super::hold(definition, "SHARE ROW EXCLUSIVE", true));
    // Home's table stays the one that it was: no store must go on with it.
    if let Some(copy) = &relation.column_copy {
        for node in builder.nodes() {
            builder.after(node, [ColumnCopy::unlisted(copy.id)]);
        }
    }
    builder.after(home, forget(snapshot, &definition.schema, &definition.name));
    for node in builder.others() {
        builder.after(node, definition.drop_views());
        builder.after(node, [format!("DROP TABLE {}", definition.qualified())]);
    }
    Ok(builder.finish())
}

/// Of a table whose partitions are detached, and local: it stays on home.
fn from_partitioned(snapshot: &Snapshot, definition: &Definition) -> Result<DistributionPlan, Refusal> {
    definition.check_replaceable()?;
    let mut builder = Builder::new(snapshot);
    let home = snapshot.home;
    for node in builder.nodes() {
        builder.before(node, super::hold(definition, "ACCESS EXCLUSIVE", node == home));
    }
    builder.after(home, forget(snapshot, &definition.schema, &definition.name));
    for node in builder.others() {
        builder.after(node, definition.drop_views());
        builder.after(node, [format!("DROP TABLE {}", definition.qualified())]);
    }
    Ok(builder.finish())
}

fn from_distributed(snapshot: &Snapshot, definition: &Definition) -> Result<DistributionPlan, Refusal> {
    definition.check_no_part()?;
    definition.check_replaceable()?;
    let mut builder = Builder::new(snapshot);
    let home = snapshot.home;
    let table = definition.qualified();
    for node in builder.nodes() {
        builder.before(node, super::hold(definition, "ACCESS EXCLUSIVE", node == home));
    }
    for node in builder.others() {
        builder.before(node, definition.drop_views());
        builder.before(node, [super::strip(&table)]);
    }
    builder.before(home, definition.park_views());
    builder.before(home, super::put_aside(definition));
    builder.before(home, definition.create_table(TableKind::Local));
    builder.before(home, super::carry_identities(definition));

    let mut sources = vec![(home, super::copy_out(definition, &super::aside(definition)))];
    sources.extend(builder.others().into_iter().map(|node| (node, super::copy_out(definition, &table))));
    builder.plan.copies.push(CopyRows {
        sources,
        table: table.clone(),
        columns: definition.stored_columns(),
        into: super::copy_into(definition),
        to: CopyTarget::Nodes(vec![home]),
    });

    builder.made(definition, home);
    builder.fill_as_owner(definition, home);
    builder.after(home, definition.finish(TableKind::Local));
    builder.after(home, super::grant_identities(definition));
    builder.after(home, forget(snapshot, &definition.schema, &definition.name));
    builder.after(home, definition.take_views_along());
    builder.after(home, super::drop_aside(definition));
    for node in builder.others() {
        builder.after(node, [format!("DROP TABLE {table}")]);
    }
    Ok(builder.finish())
}
