//! Constraints a node can keep by itself: unique ones that include the key, foreign keys to rows on the same node.

use crate::Refusal;
use catalog::{Placement, Relation};
use sql::ast::{self, ConstrType};
use sql::{NodeEnum, names};

use super::place::{Cx, key_columns};

/// Checks a constraint for a distributed or reference table. `column`: the column it is written at, if it is.
pub fn check(cx: &Cx, table: &Relation, c: &ast::Constraint, column: Option<&str>) -> Result<(), Refusal> {
    let kind = ConstrType::try_from(c.contype).unwrap_or(ConstrType::Undefined);
    let columns = || match column {
        Some(column) => vec![column],
        None => names::strings(&c.keys),
    };
    match kind {
        // With an index's name, PostgreSQL looks at the index.
        ConstrType::ConstrPrimary | ConstrType::ConstrUnique if !c.indexname.is_empty() => Ok(()),
        ConstrType::ConstrPrimary => includes_key(table, &columns(), "a primary key"),
        ConstrType::ConstrUnique => includes_key(table, &columns(), "a unique constraint"),
        ConstrType::ConstrExclusion => includes_key(table, &equalities(c), "an exclusion constraint"),
        ConstrType::ConstrForeign => foreign(cx, table, c, column),
        _ => Ok(()),
    }
}

/// PostgreSQL makes an index for it.
pub fn makes_index(c: &ast::Constraint) -> bool {
    let kind = ConstrType::try_from(c.contype).unwrap_or(ConstrType::Undefined);
    matches!(kind, ConstrType::ConstrPrimary | ConstrType::ConstrUnique | ConstrType::ConstrExclusion)
}

/// Each node can check only its own rows.
pub fn includes_key(table: &Relation, columns: &[&str], what: &str) -> Result<(), Refusal> {
    let key = key_columns(table);
    if key.iter().all(|k| columns.contains(k)) {
        return Ok(());
    }
    let mut wanted = columns.to_vec();
    wanted.extend(key.iter().filter(|k| !columns.contains(k)));
    Err(Refusal::new(
        format!("{what} on distributed table \"{}\" must include its key ({})", table.name, key.join(", ")),
        format!("Make it on ({}), or make \"{}\" a reference table.", wanted.join(", "), table.name),
    ))
}

/// The columns an exclusion constraint compares by `=`.
fn equalities(c: &ast::Constraint) -> Vec<&str> {
    c.exclusions.iter().filter_map(by_equality).collect()
}

/// One element of the list: a column and its operator.
fn by_equality(element: &ast::Node) -> Option<&str> {
    let Some(NodeEnum::List(pair)) = &element.node else { return None };
    match &pair.items[..] {
        [ast::Node { node: Some(NodeEnum::IndexElem(e)) }, ast::Node { node: Some(NodeEnum::List(op)) }] => {
            (names::last(&op.items) == "=").then_some(e.name.as_str())
        }
        _ => None,
    }
}

fn foreign(cx: &Cx, table: &Relation, c: &ast::Constraint, column: Option<&str>) -> Result<(), Refusal> {
    let Some(pktable) = &c.pktable else { return Ok(()) };
    let name = names::table(pktable);
    let refuse = |why: &str, hint: String| {
        Err(Refusal::new(
            format!("a foreign key from \"{}\" to \"{}\" is not possible: {why}", table.name, name.1),
            hint,
        ))
    };
    let own = match column {
        Some(column) => vec![column],
        None => names::strings(&c.fk_attrs),
    };
    // Unknown: PostgreSQL has the error.
    let Some(other) = cx.find(name) else { return Ok(()) };
    let self_reference = (&other.schema, &other.name) == (&table.schema, &table.name);
    match (&table.placement, &other.placement) {
        (_, Placement::Reference) => Ok(()),
        (_, Placement::Local) => refuse(
            "only home has that table",
            format!("Call create_reference_table('{}') first, so that every node can check the key.", other.name),
        ),
        (Placement::Distributed(d), Placement::Distributed(o)) if self_reference || d.group.id == o.group.id => {
            let theirs = referenced(other, c);
            let (key, other_key) = (key_columns(table), key_columns(other));
            let pairs: Vec<_> = own.iter().copied().zip(theirs).collect();
            if key.iter().copied().zip(other_key.iter().copied()).all(|pair| pairs.contains(&pair)) {
                return Ok(());
            }
            refuse(
                &format!(
                    "it does not pair the key ({}) with the key of \"{}\" ({})",
                    key.join(", "),
                    other.name,
                    other_key.join(", ")
                ),
                "Include both keys in the constraint.".into(),
            )
        }
        (Placement::Distributed(_), Placement::Distributed(_)) => refuse(
            "the tables are distributed differently",
            format!(
                "Distribute one with colocate_with => '{}', or make \"{}\" a reference table.",
                other.name, other.name
            ),
        ),
        (_, Placement::Distributed(_)) => refuse(
            "the rows it points to are on different nodes",
            "Only a table distributed alike can reference a distributed table.".into(),
        ),
    }
}

/// The columns a foreign key points to: those named, or the primary key's.
fn referenced<'r>(other: &'r Relation, c: &'r ast::Constraint) -> Vec<&'r str> {
    let named = names::strings(&c.pk_attrs);
    if !named.is_empty() {
        return named;
    }
    let primary = other.unique.iter().find(|u| u.primary);
    primary.map(|u| u.columns.iter().map(|i| other.columns[*i].name.as_str()).collect()).unwrap_or_default()
}

/// What a column's definition says of it.
pub fn of_column(column: &ast::ColumnDef) -> impl Iterator<Item = &ast::Constraint> {
    column.constraints.iter().filter_map(|n| match &n.node {
        Some(NodeEnum::Constraint(c)) => Some(c.as_ref()),
        _ => None,
    })
}

/// The distributed table a foreign key of a local table points to.
pub fn points_to_distributed<'a>(cx: &Cx<'a>, c: &ast::Constraint) -> Option<&'a Relation> {
    let target = cx.herd_var(c.pktable.as_ref()?)?;
    target.distribution().map(|_| target.as_ref())
}
