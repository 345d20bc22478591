//! The only row of VALUES is read by PostgreSQL as SELECT reads it (analyze.c, `transformInsertStmt`). So it is planned where it has
//! functions that return sets, which make it as many rows as they return, and where it reads distributed tables. It does not know where
//! the rows go.

use catalog::FunctionKind;
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, build, relations, search};

use crate::refuse::Refusal;
use crate::{Context, Result};

/// Whether the only row of an INSERT into a table that nodes have may be several, or that of any reads distributed tables.
pub fn is_set(statement: &NodeEnum, cx: &Context) -> bool {
    let NodeEnum::InsertStmt(insert) = statement else { return false };
    let elsewhere = || {
        let target = insert.relation.as_ref().and_then(|rv| cx.relation(rv));
        target.is_some_and(|r| r.distribution().is_some() || r.is_reference())
    };
    source(insert).is_some_and(|s| may_be_several(s, cx) && elsewhere() || reads_distributed(s, cx))
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
    let [Node { node: Some(NodeEnum::List(row)) }] = &s.values_lists[..] else { return Ok(false) };
    let mut row = row.items.clone();
    let is_default = |n: &Node| matches!(n.node, Some(NodeEnum::SetToDefault(_)));
    if row.iter().any(is_default) {
        if may_be_several(s, cx) {
            return Err(refusal());
        }
        if insert.cols.len() != row.len() {
            return Ok(false);
        }
        // What is left out has its default.
        let mut given = row.iter().map(|value| !is_default(value));
        insert.cols.retain(|_| given.next().unwrap_or(true));
        row.retain(|value| !is_default(value));
    }
    s.values_lists.clear();
    s.target_list = row.into_iter().map(|value| build::target(value, None)).collect();
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

/// A row with subqueries over distributed tables, and nothing that SELECT takes and VALUES does not.
fn reads_distributed(s: &ast::SelectStmt, cx: &Context) -> bool {
    let [Node { node: Some(NodeEnum::List(row)) }] = &s.values_lists[..] else { return false };
    let given = row.items.iter().any(|n| !matches!(n.node, Some(NodeEnum::SetToDefault(_))));
    let simple =
        s.with_clause.is_none() && s.sort_clause.is_empty() && s.limit_count.is_none() && s.limit_offset.is_none();
    if !given || !simple || !relations::of_select(s).into_iter().any(|rv| is_distributed(rv, VIEWS_MAX, cx)) {
        return false;
    }
    let mut own = Own { cx, plain: true };
    row.items.iter().for_each(|value| walk::walk(value, &mut own));
    own.plain
}

/// Views that stand on each other.
const VIEWS_MAX: usize = 20;

fn is_distributed(rv: &ast::RangeVar, depth: usize, cx: &Context) -> bool {
    let Some(relation) = cx.relation(rv) else { return false };
    let below = |view: &catalog::View| {
        let query =
            sql::parse(&view.query, true).ok().and_then(|mut s| s.pop()).filter(|_| depth > 0 && !view.materialized);
        query.is_some_and(|q| relations::of(&q).into_iter().any(|rv| is_distributed(rv, depth - 1, cx)))
    };
    relation.distribution().is_some() || relation.view.as_ref().is_some_and(below)
}

/// What the row says outside of its subqueries.
struct Own<'c> {
    cx: &'c Context<'c>,
    plain: bool,
}

impl<'a> Visit<'a> for Own<'_> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        self.plain &= match n {
            NodeEnum::FuncCall(f) => {
                let mut meant = self.cx.functions(&f.funcname).peekable();
                f.over.is_none() && meant.peek().is_some() && meant.all(|f| f.kind == FunctionKind::Function)
            }
            NodeEnum::ColumnRef(_) | NodeEnum::GroupingFunc(_) => false,
            _ => true,
        };
        self.plain
    }

    fn select(&mut self, _: &'a ast::SelectStmt) -> bool {
        false
    }
}
