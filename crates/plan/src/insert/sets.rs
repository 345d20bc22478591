//! A row of VALUES with functions that return sets is as many rows as they return: PostgreSQL reads it as SELECT does, and so is
//! it planned. It does not know where the rows go.

use sql::ast::{self, Node};
use sql::{NodeEnum, build, search};

use crate::refuse::Refusal;
use crate::{Context, Result};

/// Whether the only row of an INSERT into a table that nodes have may be several.
pub fn is_set(statement: &NodeEnum, cx: &Context) -> bool {
    let NodeEnum::InsertStmt(insert) = statement else { return false };
    let elsewhere = || {
        let target = insert.relation.as_ref().and_then(|rv| cx.relation(rv));
        target.is_some_and(|r| r.distribution().is_some() || r.is_reference())
    };
    source(insert).is_some_and(|s| may_be_several(s, cx)) && elsewhere()
}

/// Writes such a row as a SELECT. False: there is none.
pub fn replace(statement: &mut NodeEnum, cx: &Context) -> Result<bool> {
    if !is_set(statement, cx) {
        return Ok(false);
    }
    let NodeEnum::InsertStmt(insert) = statement else { return Ok(false) };
    let Some(NodeEnum::SelectStmt(s)) = insert.select_stmt.as_mut().and_then(|s| s.node.as_mut()) else {
        return Ok(false);
    };
    let Some(Node { node: Some(NodeEnum::List(row)) }) = s.values_lists.pop() else { return Ok(false) };
    if row.items.iter().any(|n| matches!(n.node, Some(NodeEnum::SetToDefault(_)))) {
        return Err(refusal());
    }
    s.target_list = row.items.into_iter().map(|value| build::target(value, None)).collect();
    Ok(true)
}

/// Such a row where it can't be written otherwise.
pub fn refuse(source: Option<&ast::SelectStmt>, cx: &Context) -> Result<()> {
    if source.is_some_and(|s| may_be_several(s, cx)) { Err(refusal()) } else { Ok(()) }
}

fn refusal() -> Refusal {
    Refusal::new(
        "VALUES with a function that returns a set is not supported here: it is more than one row",
        "Write INSERT … SELECT, and leave out the columns that are to have their defaults.",
    )
}

fn source(insert: &ast::InsertStmt) -> Option<&ast::SelectStmt> {
    match insert.select_stmt.as_deref()?.node.as_ref()? {
        NodeEnum::SelectStmt(s) => Some(s),
        _ => None,
    }
}

/// Of several rows PostgreSQL allows none to be a set.
fn may_be_several(s: &ast::SelectStmt, cx: &Context) -> bool {
    let [Node { node: Some(NodeEnum::List(row)) }] = &s.values_lists[..] else { return false };
    let is_set = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if cx.functions(&f.funcname).any(|f| f.returns_set));
    row.items.iter().any(|value| search::any(value, is_set))
}
