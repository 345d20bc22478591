//! `INSERT … OVERRIDING USER VALUE` of a query: what it gives identity columns is thrown away, and they have their defaults. Rows that come to the
//! router go on by ways that know no such word, so that the columns are left out of the statement. It does not know where the rows go.

use catalog::{Relation, RelationKind};
use sql::ast::{self, Node};
use sql::{NodeEnum, build, relations, search};

use super::of_rows::output_width;
use super::{column_target, target_columns};
use crate::refuse::Refusal;
use crate::{Context, Result};

/// Whether the statement is such an INSERT, with rows of several nodes in it as far as is seen here.
pub fn is_overriding(statement: &NodeEnum, cx: &Context) -> bool {
    let NodeEnum::InsertStmt(insert) = statement else { return false };
    let is_view = |rv: &ast::RangeVar| cx.relation(rv).is_some_and(|r| r.kind == RelationKind::View);
    insert.r#override == ast::OverridingKind::OverridingUserValue as i32
        && source(insert).is_some()
        && (names_nodes(statement, cx) || relations::of(statement).into_iter().any(is_view))
}

fn names_nodes(statement: &NodeEnum, cx: &Context) -> bool {
    let of_nodes = |r: &Relation| r.distribution().is_some() || r.is_reference();
    relations::of(statement).into_iter().any(|rv| cx.relation(rv).is_some_and(|r| of_nodes(r)))
}

fn source(insert: &ast::InsertStmt) -> Option<&ast::SelectStmt> {
    match insert.select_stmt.as_deref()?.node.as_ref()? {
        NodeEnum::SelectStmt(s) if s.values_lists.is_empty() => Some(s),
        _ => None,
    }
}

/// Leaves those columns out. False: there are none.
pub fn replace(statement: &mut NodeEnum, cx: &Context) -> Result<bool> {
    if !is_overriding(statement, cx) {
        return Ok(false);
    }
    let nodes = names_nodes(statement, cx);
    let NodeEnum::InsertStmt(insert) = statement else { return Ok(false) };
    let Some(relation) = insert.relation.as_ref().and_then(|rv| cx.relation(rv)) else { return Ok(false) };
    // What home writes to by itself.
    if relation.kind != RelationKind::Table {
        return Ok(false);
    }
    let mut columns = target_columns(insert, relation)?;
    let width = match source(insert).and_then(|s| output_width(s, cx)) {
        Some(width) => width,
        None if nodes => return Err(refusal("of a query whose columns are not known here")),
        None => return Ok(false),
    };
    // Too many, or too few, is what PostgreSQL says of the statement as it is.
    if width > columns.len() || (!insert.cols.is_empty() && width < columns.len()) {
        return Ok(false);
    }
    columns.truncate(width);
    let stays = |column: &usize| relation.columns[*column].identity == 0;
    let kept: Vec<usize> = (0..width).filter(|at| stays(&columns[*at])).collect();
    if kept.is_empty() {
        return if nodes { Err(refusal("of nothing but identity columns")) } else { Ok(false) };
    }
    insert.r#override = ast::OverridingKind::OverridingNotSet as i32;
    if kept.len() == width {
        return Ok(true);
    }
    let name = |at: &usize| format!("c{at}");
    insert.cols = match insert.cols.is_empty() {
        true => kept.iter().map(|at| column_target(&relation.columns[columns[*at]].name)).collect(),
        false => kept.iter().map(|at| insert.cols[*at].clone()).collect(),
    };
    let Some(Node { node: Some(NodeEnum::SelectStmt(s)) }) = insert.select_stmt.as_deref_mut() else {
        return Ok(false);
    };
    // Literals are still the columns' to read.
    let is_star = |t: &Node| search::any(t, |n| matches!(n, NodeEnum::AStar(_)));
    let plain = s.op == ast::SetOperation::SetopNone as i32
        && s.distinct_clause.is_empty()
        && s.group_clause.is_empty()
        && s.sort_clause.is_empty();
    // What would make one row, or several, of those that are there; and parameters are to stand somewhere.
    let counts = |t: &Node| {
        use NodeEnum::*;
        search::any(t, |n| {
            matches!(n, FuncCall(_) | SubLink(_) | ParamRef(_) | JsonArrayAgg(_) | JsonObjectAgg(_) | JsonFuncExpr(_))
        })
    };
    let gone = (0..width).filter(|at| !kept.contains(at));
    let plain = plain && s.target_list.len() == width && !s.target_list.iter().any(is_star);
    if plain && !gone.into_iter().any(|at| counts(&s.target_list[at])) {
        s.target_list = kept.iter().map(|at| s.target_list[*at].clone()).collect();
        return Ok(true);
    }
    let alias =
        ast::Alias { aliasname: "source".into(), colnames: (0..width).map(|at| build::string(&name(&at))).collect() };
    let inner = build::subselect(std::mem::take(s), Some(alias), false);
    let all = kept.iter().map(|at| build::target(build::column(&["source", &name(at)]), None));
    **s = ast::SelectStmt { target_list: all.collect(), from_clause: vec![inner], ..build::select() };
    Ok(true)
}

fn refusal(what: &str) -> Refusal {
    Refusal::new(
        format!("INSERT … OVERRIDING USER VALUE {what} is not supported here"),
        "Leave the identity columns out of the statement.",
    )
}
