//! What the statements about rows have in common: WITH, and what is written to. It does not know what the names in them mean.

use pg_query::NodeEnum;
use pg_query::protobuf::{RangeVar, WithClause};

/// The WITH clause of the statement itself.
pub fn with(statement: &NodeEnum) -> Option<&WithClause> {
    match statement {
        NodeEnum::SelectStmt(s) => s.with_clause.as_ref(),
        NodeEnum::InsertStmt(s) => s.with_clause.as_ref(),
        NodeEnum::UpdateStmt(s) => s.with_clause.as_ref(),
        NodeEnum::DeleteStmt(s) => s.with_clause.as_ref(),
        NodeEnum::MergeStmt(s) => s.with_clause.as_ref(),
        _ => None,
    }
}

/// The place of that clause; `None`: such a statement has none.
pub fn with_mut(statement: &mut NodeEnum) -> Option<&mut Option<WithClause>> {
    match statement {
        NodeEnum::SelectStmt(s) => Some(&mut s.with_clause),
        NodeEnum::InsertStmt(s) => Some(&mut s.with_clause),
        NodeEnum::UpdateStmt(s) => Some(&mut s.with_clause),
        NodeEnum::DeleteStmt(s) => Some(&mut s.with_clause),
        NodeEnum::MergeStmt(s) => Some(&mut s.with_clause),
        _ => None,
    }
}

/// What a statement writes to, which is named by a field of its own.
pub fn target(statement: &NodeEnum) -> Option<&RangeVar> {
    match statement {
        NodeEnum::InsertStmt(s) => s.relation.as_ref(),
        NodeEnum::UpdateStmt(s) => s.relation.as_ref(),
        NodeEnum::DeleteStmt(s) => s.relation.as_ref(),
        NodeEnum::MergeStmt(s) => s.relation.as_ref(),
        _ => None,
    }
}
