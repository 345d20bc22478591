//! The parts of a change that name what it reads: of the statement as it is, and of the one in the making. They come in one order. What is
//! read is not known here.

use sql::NodeEnum;
use sql::ast::{self, Node};

/// The parts of a change that name what it reads.
pub struct Clauses<'s> {
    pub with: Option<&'s ast::WithClause>,
    pub from: &'s [Node],
    /// Rows of FROM that do not pass are not needed.
    pub condition: Option<&'s Node>,
    /// With subqueries, the condition among them.
    pub expressions: Vec<&'s Node>,
}

impl<'s> Clauses<'s> {
    /// Those of an UPDATE, DELETE or MERGE.
    pub fn of(statement: &'s NodeEnum) -> Option<Clauses<'s>> {
        Some(match statement {
            NodeEnum::UpdateStmt(u) => Clauses {
                with: u.with_clause.as_ref(),
                from: &u.from_clause,
                condition: u.where_clause.as_deref(),
                expressions: u
                    .target_list
                    .iter()
                    .chain(u.where_clause.as_deref())
                    .chain(returned(&u.returning_clause))
                    .collect(),
            },
            NodeEnum::DeleteStmt(d) => Clauses {
                with: d.with_clause.as_ref(),
                from: &d.using_clause,
                condition: d.where_clause.as_deref(),
                expressions: d.where_clause.as_deref().into_iter().chain(returned(&d.returning_clause)).collect(),
            },
            NodeEnum::MergeStmt(m) => Clauses {
                with: m.with_clause.as_ref(),
                from: m.source_relation.as_deref().map(std::slice::from_ref).unwrap_or_default(),
                condition: None,
                expressions: (m.join_condition.as_deref().into_iter())
                    .chain(&m.merge_when_clauses)
                    .chain(returned(&m.returning_clause))
                    .collect(),
            },
            _ => return None,
        })
    }
}

/// What RETURNING says.
pub fn returned(clause: &Option<ast::ReturningClause>) -> impl Iterator<Item = &Node> {
    clause.iter().flat_map(|r| &r.exprs)
}

/// The items of FROM.
pub fn from_mut(statement: &mut NodeEnum) -> &mut [Node] {
    match statement {
        NodeEnum::UpdateStmt(u) => &mut u.from_clause,
        NodeEnum::DeleteStmt(d) => &mut d.using_clause,
        NodeEnum::MergeStmt(m) => m.source_relation.as_deref_mut().map(std::slice::from_mut).unwrap_or_default(),
        _ => &mut [],
    }
}

/// In the order of [`Clauses::expressions`].
pub fn expressions_mut(statement: &mut NodeEnum) -> Vec<&mut Node> {
    fn returned(clause: &mut Option<ast::ReturningClause>) -> impl Iterator<Item = &mut Node> {
        clause.iter_mut().flat_map(|r| &mut r.exprs)
    }
    match statement {
        NodeEnum::UpdateStmt(u) => {
            let own = u.target_list.iter_mut().chain(u.where_clause.as_deref_mut());
            own.chain(returned(&mut u.returning_clause)).collect()
        }
        NodeEnum::DeleteStmt(d) => {
            d.where_clause.as_deref_mut().into_iter().chain(returned(&mut d.returning_clause)).collect()
        }
        NodeEnum::MergeStmt(m) => (m.join_condition.as_deref_mut().into_iter())
            .chain(&mut m.merge_when_clauses)
            .chain(returned(&mut m.returning_clause))
            .collect(),
        _ => vec![],
    }
}
