//! Foreign keys between tables of different kinds: which of them a node can check by itself.

use crate::definition::{Constraint, Definition, ForeignKey};
use crate::{Placement, Refusal, Relation, Snapshot};

/// What the table is going to be.
pub(super) enum Becomes<'a> {
    /// `group`: None when it is a new one.
    Distributed {
        group: Option<i32>,
        key: &'a [String],
    },
    Reference,
    Local,
}

/// Refuses foreign keys that the table could not keep.
pub(super) fn check_foreign_keys(
    snapshot: &Snapshot,
    definition: &Definition,
    becomes: Becomes<'_>,
) -> Result<(), Refusal> {
    for constraint in &definition.constraints {
        if let Some(foreign) = &constraint.foreign {
            check(snapshot, definition, constraint, foreign, &becomes)?;
        }
    }
    Ok(())
}

fn check(
    snapshot: &Snapshot,
    definition: &Definition,
    constraint: &Constraint,
    foreign: &ForeignKey,
    becomes: &Becomes<'_>,
) -> Result<(), Refusal> {
    let refuse = |why: String, hint: String| {
        let message = format!("foreign key \"{}\" of \"{}\": {why}", constraint.name, definition.name);
        Err(Refusal::unsupported(message, hint))
    };
    let other = format!("\"{}\"", foreign.table);
    if (&foreign.schema, &foreign.table) == (&definition.schema, &definition.name) {
        return match becomes {
            Becomes::Distributed { key, .. } if !pairs_keys(constraint, foreign, key, key) => refuse(
                "it does not include the key on both sides".into(),
                "Drop the constraint first, or make this a reference table.".into(),
            ),
            _ => Ok(()),
        };
    }
    let relation = snapshot.relations.get(&(foreign.schema.clone(), foreign.table.clone()));
    let placement = relation.map_or(&Placement::Local, |r| &r.placement);
    match (becomes, placement) {
        (_, Placement::Reference) | (Becomes::Local, Placement::Local) => Ok(()),
        (Becomes::Distributed { .. } | Becomes::Reference, Placement::Local) => refuse(
            format!("it references {other}, which is a local table"),
            format!("Call create_reference_table('{}') first, or drop the constraint.", foreign.table),
        ),
        (Becomes::Distributed { group, key }, Placement::Distributed(d)) => {
            if *group != Some(d.group.id) {
                let hint = format!("Use colocate_with => '{}', or drop the constraint.", foreign.table);
                return refuse(format!("it references {other}, which is distributed otherwise"), hint);
            }
            let other_key = key_names(relation);
            if pairs_keys(constraint, foreign, key, &other_key) {
                return Ok(());
            }
            refuse(
                format!(
                    "it does not pair the key ({}) with the key of {other} ({})",
                    key.join(", "),
                    other_key.join(", ")
                ),
                "Include both keys in the constraint, or drop it.".into(),
            )
        }
        (Becomes::Reference | Becomes::Local, Placement::Distributed(_)) => refuse(
            format!("it references {other}, which is distributed"),
            "Only a table distributed alike can reference it. Drop the constraint first.".into(),
        ),
    }
}

fn key_names(relation: Option<&std::sync::Arc<Relation>>) -> Vec<String> {
    let Some((relation, distribution)) = relation.and_then(|r| Some((r, r.distribution()?))) else { return Vec::new() };
    distribution.key.iter().map(|&position| relation.columns[position].name.clone()).collect()
}

/// Each column of the key is matched with the column of the other key at the same place.
fn pairs_keys(constraint: &Constraint, foreign: &ForeignKey, key: &[String], other_key: &[String]) -> bool {
    let pairs: Vec<_> = constraint.columns.iter().zip(&foreign.columns).collect();
    key.len() == other_key.len() && key.iter().zip(other_key).all(|pair| pairs.contains(&pair))
}
