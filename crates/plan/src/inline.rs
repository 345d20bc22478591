//! Calls of functions that read tables of several nodes are replaced by the functions' queries, so that planning sees the tables.
//!
//! Only where that is the same: the function is a single query whose names are its own (`closed.rs`), or returns the value of one at once
//! (`returned.rs`), what it is given has the types it asks for (`arguments.rs`; what it does not read is evaluated all the same,
//! `unread.rs`), and whoever names its tables may call it. Every other call stays, and is refused where all calls are
//! (`needs.rs`). It does not know how the query is then planned.

mod arguments;
mod body;
mod closed;
mod returned;
mod unread;

use std::collections::HashMap;

use catalog::code::{Routine, can_mean};
use catalog::{Oid, Volatility};
use sql::ast::{self, Node};
use sql::{NodeEnum, build, names, search};

use crate::{Context, hidden};
use body::{Body, Columns};

/// Calls that are looked at in one statement; each query may hold calls of others.
const CALLS_MAX: usize = 100;

/// Functions' queries as they were read, by whose they are and what is wanted of them.
type Bodies = HashMap<(Oid, Columns), Option<Body>>;

/// The statement without the calls that can be replaced; `None`: there are none.
pub fn calls(statement: &NodeEnum, cx: &Context) -> Option<NodeEnum> {
    let open = &cx.snapshot.code.open;
    let may = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if open.contains(names::last(&f.funcname)));
    if open.is_empty() || !search::any(statement, may) {
        return None;
    }
    let writes = |n: &NodeEnum| {
        use NodeEnum::{DeleteStmt, InsertStmt, MergeStmt, UpdateStmt};
        matches!(n, InsertStmt(_) | UpdateStmt(_) | DeleteStmt(_) | MergeStmt(_))
    };
    let reads_only = matches!(statement, NodeEnum::SelectStmt(_)) && !search::any(statement, writes);
    let mut tree = statement.clone();
    // Arguments' types are read by their names.
    hidden::qualify(&mut tree, cx);
    let (mut bodies, mut looked, mut replaced) = (Bodies::default(), 0, 0);
    loop {
        let around = tree.clone();
        let mut inline = Inline::new(&around, reads_only, cx, bodies, looked);
        inline.statement(&mut tree);
        let more = inline.replaced;
        (bodies, looked) = (inline.bodies, inline.looked);
        // Functions that call themselves have no end.
        if looked > CALLS_MAX || !cx.take(0) {
            return None;
        }
        replaced += more;
        if more == 0 {
            return (replaced > 0).then_some(tree);
        }
    }
}

struct Inline<'i> {
    /// Where the calls stand.
    statement: &'i NodeEnum,
    /// It changes nothing: a VOLATILE function sees the same rows as the statement.
    reads_only: bool,
    /// It locks rows: those of all queries in its FROM, but none of functions there.
    locks: bool,
    /// The names of its WITH queries.
    with: Vec<&'i str>,
    cx: &'i Context<'i>,
    bodies: Bodies,
    looked: usize,
    replaced: usize,
}

impl<'i> Inline<'i> {
    fn new(statement: &'i NodeEnum, reads_only: bool, cx: &'i Context<'i>, bodies: Bodies, looked: usize) -> Self {
        let (mut with, mut locks) = (vec![], false);
        search::each(statement, |n| match n {
            NodeEnum::CommonTableExpr(cte) => with.push(cte.ctename.as_str()),
            NodeEnum::LockingClause(_) => locks = true,
            _ => {}
        });
        Inline { statement, reads_only, locks, with, cx, bodies, looked, replaced: 0 }
    }

    fn statement(&mut self, tree: &mut NodeEnum) {
        let open = &self.cx.snapshot.code.open;
        let is_open = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if open.contains(names::last(&f.funcname)));
        search::each_mut(tree, |n| {
            match n {
                // A column keeps the name it would have had.
                NodeEnum::ResTarget(t) if t.name.is_empty() => {
                    if let Some(value) = t.val.as_deref().filter(|v| search::any(*v, is_open)) {
                        t.name = names::figure_column(value);
                    }
                    return true;
                }
                NodeEnum::SubLink(link) => {
                    let query = link.subselect.as_deref_mut().and_then(|s| s.node.as_mut());
                    let Some(NodeEnum::SelectStmt(s)) = query else { return true };
                    let Some(rows) = self.of_rows(s) else { return true };
                    **s = rows;
                }
                NodeEnum::RangeFunction(f) => {
                    let Some(query) = self.in_from(f) else { return false };
                    *n = query;
                }
                NodeEnum::FuncCall(f) => {
                    let Some(body) = self.body(f, Columns::Value) else { return true };
                    *n = body.value();
                }
                _ => return true,
            }
            self.replaced += 1;
            // What has come in is looked at in the next round.
            false
        });
    }

    /// `SELECT f(…)` of a function that gives rows of one column, and nothing else: what `SELECT * FROM f(…)` gives.
    fn of_rows(&mut self, s: &ast::SelectStmt) -> Option<ast::SelectStmt> {
        let [Node { node: Some(NodeEnum::ResTarget(target)) }] = &s.target_list[..] else { return None };
        let Some(NodeEnum::FuncCall(call)) = target.val.as_deref().and_then(|v| v.node.as_ref()) else { return None };
        let alone = ast::SelectStmt { target_list: s.target_list.clone(), ..build::select() };
        let mut is_one_column = || self.body(call, Columns::Rows).is_some_and(|body| body.is_of_rows());
        if *s != alone || !is_one_column() {
            return None;
        }
        let Some(NodeEnum::RangeFunction(f)) = build::from_function(call).node else { return None };
        let rows = self.in_from(&f)?;
        let name = names::last(&call.funcname);
        let called = if target.name.is_empty() { name } else { &target.name };
        let mut query = build::select();
        query.target_list = vec![build::target(build::column(&[name, name]), Some(called))];
        query.from_clause = vec![build::node(rows)];
        Some(query)
    }

    /// `FROM f(…) AS a (…)`, as a query.
    fn in_from(&mut self, f: &ast::RangeFunction) -> Option<NodeEnum> {
        let [Node { node: Some(NodeEnum::List(call)) }] = &f.functions[..] else { return None };
        let Some(NodeEnum::FuncCall(call)) = call.items.first().and_then(|n| n.node.as_ref()) else { return None };
        if f.ordinality || f.is_rowsfrom || !f.coldeflist.is_empty() || self.locks {
            return None;
        }
        let name = names::last(&call.funcname);
        let alias = f.alias.clone().unwrap_or_else(|| build::alias(name));
        let body = self.body(call, Columns::Rows)?;
        // Its rows have the function's type, a query's have none.
        let is_row = |n: &NodeEnum| matches!(n, NodeEnum::ColumnRef(c) if !names::has_star(c) && names::strings(&c.fields) == [&*alias.aliasname]);
        if !body.is_called(&alias) && search::any(self.statement, is_row) || alias.colnames.len() > body.width() {
            return None;
        }
        let lateral = body.refers;
        build::subselect(body.rows(&alias), Some(build::alias(&alias.aliasname)), lateral).node
    }

    /// The query of the function that is called, with what it is given in its place.
    fn body(&mut self, call: &ast::FuncCall, columns: Columns) -> Option<Body> {
        let cx = self.cx;
        let routine = self.called(call)?;
        self.looked += 1;
        if self.looked > CALLS_MAX || routine.volatility == Volatility::Volatile && !self.reads_only {
            return None;
        }
        // To read a text takes more than to copy what was read.
        let (key, bytes) = ((routine.oid, columns), routine.definition.len());
        let steps = if self.bodies.contains_key(&key) { bytes / 2 } else { bytes.saturating_mul(4) };
        if !cx.take(steps) {
            return None;
        }
        let read = || Body::of(routine, columns, cx);
        let body = self.bodies.entry(key).or_insert_with(read).clone()?;
        // Tables that it names would be these.
        if body.tables.iter().any(|table| self.with.contains(&&**table)) {
            return None;
        }
        let body = arguments::put(body, call, routine, self.statement, cx)?;
        (columns == Columns::Value || body.unread.is_empty()).then_some(body)
    }

    /// What a call means, if there is but one function that it can mean, and that can be replaced.
    fn called(&self, call: &ast::FuncCall) -> Option<&'i Routine> {
        let cx = self.cx;
        let (schema, name) = names::qualified(&call.funcname);
        let code = &cx.snapshot.code;
        if !code.open.contains(name) || cx.snapshot.builtin_functions.contains_key(name) {
            return None;
        }
        let plain = call.agg_order.is_empty() && call.agg_filter.is_none() && call.over.is_none();
        if !plain || call.agg_within_group || call.agg_star || call.agg_distinct || call.func_variadic {
            return None;
        }
        let mut meant = cx.functions(&call.funcname);
        match (meant.next(), meant.next()) {
            (Some(f), None) if f.reads_herd_tables && !f.needs_home && !f.dynamic => {}
            _ => return None,
        }
        let mut meant = code.routines.iter().filter(|r| r.name == name && can_mean(schema, cx.search_path, &r.schema));
        match (meant.next(), meant.next()) {
            (Some(routine), None) if routine.open => Some(routine),
            _ => None,
        }
    }
}
