//! Whether rows would be read in great numbers: then columns are the better way. What an index finds, rows answer sooner.

use super::expression::{Column, Expr, Kind};
use super::from::From;
use super::scope::Reader;
use super::select::Select;

/// No index that is known of helps: neither with the condition nor with an order of which the first rows are wanted. Rows that stream out
/// as they are, are no scan's either: there the node is as good.
///
/// Of reference tables one looks for the few rows that the many of others meet: an index of theirs finds none of these, but one of a
/// column that must be equal does. Where there are no others, they are as any table.
pub fn scans(select: &Select, from: &[From], reader: &Reader) -> bool {
    select.is_bounded() && reads_many(select, from, reader)
}

/// The same, however much comes of it: of a subquery of FROM.
fn reads_many(select: &Select, from: &[From], reader: &Reader) -> bool {
    let are_others = reader.tables().iter().any(|t| t.relation().is_some_and(|r| !r.is_reference()));
    let is_whole =
        |column: &Column| are_others && reader.table(column.table).relation().is_some_and(|r| r.is_reference());
    let is_indexed = |column: &Column| reader.table(column.table).is_indexed(&column.name);
    let mut equal = vec![];
    from.iter().for_each(|item| item.conditions(&mut |on| equals(on, &mut equal)));
    select.condition.iter().for_each(|condition| equals(condition, &mut equal));
    let leads = |e: &Expr| match &e.kind {
        Kind::Column(column) if !is_whole(column) => is_indexed(column),
        Kind::Column(column) => equal.iter().any(|(one, other)| {
            let partner = if *one == column { other } else { one };
            (*one == column || *other == column) && !is_whole(partner) && is_indexed(partner)
        }),
        _ => false,
    };
    let first = || select.order.first().is_some_and(|(e, _)| leads(e));
    if select.condition.as_ref().is_some_and(|c| narrows(c, &leads)) || (select.limit.is_some() && first()) {
        return false;
    }
    let mut many = true;
    from.iter().for_each(|item| item.queries(&mut |q| many &= reads_many(&q.select, &q.from, reader)));
    many
}

/// Columns that are equal where all of a condition is true.
fn equals<'e>(condition: &'e Expr, found: &mut Vec<(&'e Column, &'e Column)>) {
    match &condition.kind {
        Kind::Infix("AND", all) => all.iter().for_each(|c| equals(c, found)),
        Kind::Infix("=", sides) => {
            if let [Expr { kind: Kind::Column(one), .. }, Expr { kind: Kind::Column(other), .. }] = &sides[..] {
                found.push((one, other));
            }
        }
        _ => {}
    }
}

/// A condition that all rows pass compares an index's first column with constants.
fn narrows(condition: &Expr, leads: &dyn Fn(&Expr) -> bool) -> bool {
    match &condition.kind {
        Kind::Infix("AND", all) => all.iter().any(|c| narrows(c, leads)),
        Kind::Infix("=" | "<" | "<=" | ">" | ">=", sides) => match &sides[..] {
            [left, right] => (leads(left) && right.is_constant()) || (leads(right) && left.is_constant()),
            _ => false,
        },
        Kind::Infix("LIKE", sides) => match &sides[..] {
            [left, Expr { kind: Kind::Constant(pattern), .. }] => leads(left) && !pattern.starts_with('%'),
            _ => false,
        },
        Kind::List(value, "IN", _) => leads(value),
        _ => false,
    }
}
