//! Whether rows would be read in great numbers: then columns are the better way. What an index finds, rows answer sooner.

use super::expression::{Expr, Kind};
use super::infer::Reader;
use super::select::Select;

/// No index that is known of helps: neither with the condition nor with an order of which the first rows are wanted. Rows that stream out
/// as they are, are no scan's either: there the node is as good.
pub fn scans(select: &Select, reader: &Reader) -> bool {
    let leads = |e: &Expr| match &e.kind {
        Kind::Column(column) => reader.tables[column.table].is_indexed(&column.name),
        _ => false,
    };
    let first = || select.order.first().is_some_and(|(e, _)| leads(e));
    if select.condition.as_ref().is_some_and(|c| narrows(c, &leads)) || (select.limit.is_some() && first()) {
        return false;
    }
    select.is_bounded()
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
