//! From a local table to a reference table: the same table on every node.
//!
//! The table on home stays as it is; the other nodes get a copy.

use super::foreign::{Becomes, check_foreign_keys};
use super::{Builder, CopyRows, CopyTarget, DistributionPlan};
use crate::definition::{Definition, TableKind};
use crate::{Placement, Refusal, RefusalKind, Snapshot, quote_literal};

/// Plans `create_reference_table`.
pub fn plan_reference(snapshot: &Snapshot, definition: &Definition) -> Result<DistributionPlan, Refusal> {
    let Definition { schema, name, .. } = definition;
    let relation = super::known(snapshot, schema, name)?;
    let refuse = |what: &str| {
        let message = format!("table \"{name}\" is already {what}");
        Err(Refusal::new(RefusalKind::ObjectNotInPrerequisiteState, message, "Call undistribute_table() first."))
    };
    match relation.placement {
        Placement::Local => {}
        Placement::Reference => return refuse("a reference table"),
        Placement::Distributed(_) => return refuse("distributed"),
    }
    definition.check_plain_table()?;
    check_foreign_keys(snapshot, definition, Becomes::Reference)?;

    let mut builder = Builder::new(snapshot);
    let home = snapshot.home;
    // Reads may go on.
    builder.before(home, super::hold(definition, "SHARE ROW EXCLUSIVE", true));
    for node in builder.others() {
        builder.before(node, create_elsewhere(definition));
        builder.made(definition, node);
        builder.fill_as_owner(definition, node);
        builder.after(node, definition.finish(TableKind::Reference));
    }
    builder.plan.copies.extend(copy_from_home(definition, home, builder.others()));
    builder.after(home, super::grant_identities(definition));
    builder.after(
        home,
        [format!(
            "INSERT INTO herd.relation (schema, name, kind, oid) VALUES ({}, {}, 'r', {}::pg_catalog.regclass)",
            quote_literal(schema),
            quote_literal(name),
            quote_literal(&definition.qualified())
        )],
    );
    Ok(builder.finish())
}

/// Makes the empty table on a node other than home.
pub(super) fn create_elsewhere(definition: &Definition) -> Vec<String> {
    let mut statements = super::sequences_elsewhere(definition, TableKind::Reference);
    statements.extend(definition.create_table(TableKind::Reference));
    statements.extend(super::exhaust_identities(definition, TableKind::Reference));
    statements
}

pub(super) fn copy_from_home(definition: &Definition, home: crate::NodeId, to: Vec<crate::NodeId>) -> Option<CopyRows> {
    (!to.is_empty()).then(|| CopyRows {
        sources: vec![(home, super::copy_out_as_it_is(definition))],
        table: definition.qualified(),
        columns: definition.stored_columns(),
        into: super::copy_into(definition),
        to: CopyTarget::Nodes(to),
    })
}
