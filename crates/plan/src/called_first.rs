//! Functions in FROM that no node can run whole, beside anything else: they are called before the statement, which reads their rows in their
//! places. That is what PostgreSQL does, whose scan of a function keeps its rows; so it is for functions that only read, which is for who calls
//! them to see (session `program/called_first.rs`). What they need of other rows can't be known before.

use sql::ast::{self, Node};
use sql::{NodeEnum, search};

use crate::{Context, programs};

/// Items of FROM to be called first; `None`: there are none, or not all can be.
pub fn of<'s>(statement: &'s NodeEnum, cx: &Context) -> Option<Vec<&'s ast::RangeFunction>> {
    use NodeEnum::{DeleteStmt, InsertStmt, MergeStmt, SelectStmt, UpdateStmt};
    let of_rows = match statement {
        SelectStmt(s) => s.into_clause.is_none(),
        InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_) => true,
        _ => false,
    };
    if cx.snapshot.functions.is_empty() || !of_rows {
        return None;
    }
    let mut found = Some(vec![]);
    search::each(statement, |n| {
        if let NodeEnum::RangeFunction(f) = n
            && called(f).any(|call| programs::is_of_herd(call, cx))
        {
            match found.take() {
                Some(mut items) if stands_alone(f, cx) => {
                    items.push(f);
                    found = Some(items);
                }
                _ => found = None,
            }
        }
    });
    found.filter(|items| !items.is_empty())
}

/// The functions that an item calls.
pub fn called(f: &ast::RangeFunction) -> impl Iterator<Item = &ast::FuncCall> {
    f.functions.iter().filter_map(|n| match &n.node {
        Some(NodeEnum::List(l)) => match l.items.first().and_then(|n| n.node.as_ref()) {
            Some(NodeEnum::FuncCall(call)) => Some(&**call),
            _ => None,
        },
        _ => None,
    })
}

/// All of it is calls whose arguments are known before anything is read; what its columns are the functions say.
fn stands_alone(f: &ast::RangeFunction, cx: &Context) -> bool {
    let defined = |n: &Node| match &n.node {
        Some(NodeEnum::List(l)) => l.items.iter().skip(1).any(|n| match &n.node {
            Some(NodeEnum::List(columns)) => !columns.items.is_empty(),
            other => other.is_some(),
        }),
        _ => true,
    };
    let open = |n: &NodeEnum| match n {
        NodeEnum::ColumnRef(_) | NodeEnum::SubLink(_) => true,
        NodeEnum::FuncCall(call) => cx.functions(&call.funcname).any(|f| f.volatility == catalog::Volatility::Volatile),
        _ => false,
    };
    let closed = |call: &ast::FuncCall| !call.args.iter().any(|a| search::any(a, open));
    f.coldeflist.is_empty()
        && called(f).count() == f.functions.len()
        && !f.functions.iter().any(defined)
        && called(f).all(closed)
}
