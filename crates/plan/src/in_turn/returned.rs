//! What a WITH query returns: the names of its columns, and their types as far as a table says. It does not know what is written.

use catalog::Column;
use sql::ast::{self, Node};
use sql::{NodeEnum, build, clauses, names};

use crate::levels::Analysis;
use crate::{Context, rewrite};

/// A query with the columns that a statement returns. It finds other rows, and is never run.
pub fn query(statement: &NodeEnum) -> Option<ast::SelectStmt> {
    let table = |rv: &Option<ast::RangeVar>| rv.clone().map(|rv| build::node(NodeEnum::RangeVar(rv)));
    let (with, from, returning) = match statement {
        NodeEnum::SelectStmt(s) => return Some((**s).clone()),
        NodeEnum::InsertStmt(s) => (&s.with_clause, vec![table(&s.relation)?], &s.returning_clause),
        NodeEnum::UpdateStmt(s) => {
            let from = std::iter::once(table(&s.relation)?).chain(s.from_clause.iter().cloned());
            (&s.with_clause, from.collect(), &s.returning_clause)
        }
        NodeEnum::DeleteStmt(s) => {
            let from = std::iter::once(table(&s.relation)?).chain(s.using_clause.iter().cloned());
            (&s.with_clause, from.collect(), &s.returning_clause)
        }
        NodeEnum::MergeStmt(s) => {
            let source = s.source_relation.as_deref().cloned();
            (&s.with_clause, source.into_iter().chain(table(&s.relation)).collect(), &s.returning_clause)
        }
        _ => return None,
    };
    let target_list = returning.as_ref()?.exprs.clone();
    Some(ast::SelectStmt { with_clause: with.clone(), target_list, from_clause: from, ..build::select() })
}

/// The names of its columns; `None`: they can't be told.
pub fn columns(query: &ast::SelectStmt, cx: &Context) -> Option<Vec<String>> {
    let mut a = Analysis::new(cx);
    let level = a.query(query).ok()?;
    Some(a.levels[level].columns.as_ref()?.iter().map(|(name, _)| name.clone()).collect())
}

/// The types of `width` columns that are the target's own.
pub fn types(statement: &NodeEnum, width: usize, cx: &Context) -> Vec<Option<String>> {
    let (returning, alone) = match statement {
        NodeEnum::InsertStmt(s) => (&s.returning_clause, true),
        NodeEnum::UpdateStmt(s) => (&s.returning_clause, s.from_clause.is_empty()),
        NodeEnum::DeleteStmt(s) => (&s.returning_clause, s.using_clause.is_empty()),
        _ => (&None, false),
    };
    let relation = clauses::target(statement).and_then(|rv| cx.relation(rv)).filter(|r| alone && r.view.is_none());
    let (Some(returning), Some(relation)) = (returning, relation) else { return vec![None; width] };
    let own = |c: &Column| Some(c.type_name.clone());
    let mut types = vec![];
    for target in &returning.exprs {
        match rewrite::is_star(target) {
            true => types.extend(relation.columns.iter().map(own)),
            false => types.push(column(target).and_then(|name| own(&relation.columns[relation.column(&name)?]))),
        }
    }
    if types.len() == width { types } else { vec![None; width] }
}

/// The column that a target is.
fn column(target: &Node) -> Option<String> {
    let Some(NodeEnum::ResTarget(t)) = &target.node else { return None };
    let Some(NodeEnum::ColumnRef(c)) = t.val.as_deref().and_then(|v| v.node.as_ref()) else { return None };
    if names::has_star(c) { None } else { names::strings(&c.fields).last().map(|name| name.to_string()) }
}
