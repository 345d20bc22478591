//! INSERT of elements, slices and fields: `(list[1], list[2], place.street)`. It does not know where rows go.

use catalog::Relation;
use sql::NodeEnum;
use sql::ast::{self, Node};

use super::column_target;
use crate::Refusal;

/// The columns of which a part is given. `columns`: those that are named.
pub fn of(insert: &ast::InsertStmt, columns: &[usize]) -> Vec<usize> {
    let is_part = |n: &Node| matches!(&n.node, Some(NodeEnum::ResTarget(t)) if !t.indirection.is_empty());
    insert.cols.iter().zip(columns).filter(|(target, _)| is_part(target)).map(|(_, column)| *column).collect()
}

/// The list of columns: `width` of them as the client has named them, the others by their names.
pub fn targets(insert: &ast::InsertStmt, columns: &[usize], width: usize, relation: &Relation) -> Vec<Node> {
    let named = insert.cols.iter().take(width);
    let filled = columns.iter().skip(named.len()).map(|c| column_target(&relation.columns[*c].name));
    named.cloned().chain(filled).collect()
}

/// The refusal of a part where the whole value is needed.
pub fn refusal(relation: &Relation, column: usize) -> Refusal {
    Refusal::new(
        format!("giving a part of a value to column \"{}\" is not supported here", relation.columns[column].name),
        "Give the whole value: ARRAY[…], ROW(…), jsonb_build_object(…).",
    )
}
