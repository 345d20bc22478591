//! Calls of functions that no node can run whole, as they use tables of several nodes: a statement that is nothing but such a call, or selects
//! some for each of its rows, is run by the session, step by step. Whether that can be is not known here (`sql::program`, and who takes the steps).

pub mod once;

use catalog::Volatility;
use catalog::code::{Routine, can_mean};
use sql::ast::{self, Node};
use sql::{NodeEnum, names};

use crate::{Context, Steps, called_first, given, inline, opened};

/// `SELECT f(…)`, `SELECT * FROM f(…) AS t (…)` or `CALL p(…)`.
pub struct Call<'c> {
    pub routine: &'c Routine,
    /// In the order of its parameters.
    pub arguments: Vec<Node>,
    /// It stands in FROM.
    pub from: bool,
    /// As it was written.
    pub written: &'c ast::FuncCall,
}

/// What a SELECT calls for each of its rows.
pub struct PerRow<'c> {
    pub select: &'c ast::SelectStmt,
    /// By their places among what is selected.
    pub calls: Vec<(usize, Call<'c>)>,
}

/// The statement is a call, or has some among what it selects, that are to be run step by step, if they can be.
pub fn is_run(statement: &NodeEnum, cx: &Context) -> bool {
    match opened::to_run(statement, cx) {
        Ok(Some((opened, _))) => is_run_as_written(&opened, cx),
        _ => is_run_as_written(statement, cx),
    }
}

fn is_run_as_written(statement: &NodeEnum, cx: &Context) -> bool {
    let uses = match statement {
        NodeEnum::CallStmt(_) => return false,
        _ => match call(statement, cx) {
            Some(call) => uses(call.routine, cx),
            None => {
                per_row(statement, cx).is_some()
                    || once::made_first(statement, cx, &|_| false).is_some()
                    || called_first::of(statement, cx).is_some()
            }
        },
    };
    // What is long to look at is planned elsewhere: there it turns out.
    let steps = Steps::new(Steps::SHORT / 20);
    let names = Context::new(cx.snapshot, cx.search_path, cx.temporary).with_parameters(cx.parameters);
    uses && inline::calls(statement, &Context { steps: Some(&steps), ..names }).is_none()
}

/// It reads or writes tables of the herd.
fn uses(routine: &Routine, cx: &Context) -> bool {
    let mut meant = cx.snapshot.functions.get(&routine.name).into_iter().flatten();
    meant.any(|f| f.schema == routine.schema && f.reads_herd_tables)
}

/// What a call means that needs tables of the herd, if that is one function alone.
pub fn routine<'c>(call: &'c ast::FuncCall, cx: &Context<'c>) -> Option<&'c Routine> {
    Some(plain(call, true, cx)?.routine).filter(|routine| uses(routine, cx))
}

/// It calls a function that needs tables of the herd.
pub fn is_of_herd(call: &ast::FuncCall, cx: &Context) -> bool {
    routine(call, cx).is_some()
}

/// What a statement calls, if it is nothing but a call, and there is but one function or procedure of that name.
pub fn call<'c>(statement: &'c NodeEnum, cx: &Context<'c>) -> Option<Call<'c>> {
    let (call, from) = match statement {
        NodeEnum::SelectStmt(s) => selected(s)?,
        NodeEnum::CallStmt(c) => (c.funccall.as_deref()?, false),
        _ => return None,
    };
    plain(call, from, cx)
}

fn plain<'c>(call: &'c ast::FuncCall, from: bool, cx: &Context<'c>) -> Option<Call<'c>> {
    let plain = call.agg_order.is_empty() && call.agg_filter.is_none() && call.over.is_none();
    if !plain || call.agg_within_group || call.agg_star || call.agg_distinct || call.func_variadic {
        return None;
    }
    let (schema, name) = names::qualified(&call.funcname);
    if cx.snapshot.builtin_functions.contains_key(name) {
        return None;
    }
    let routines = &cx.snapshot.code.routines;
    let mut meant = routines.iter().filter(|r| r.name == name && can_mean(schema, cx.search_path, &r.schema));
    let routine = match (meant.next(), meant.next()) {
        (Some(routine), None) => routine,
        _ => return None,
    };
    if routine.by_argument.is_some() || routine.opaque {
        return None;
    }
    Some(Call { routine, arguments: given::in_order(call, routine)?, from, written: call })
}

/// Calls among what a query selects, made for each of its rows once these are found: nothing else of it depends on what they return.
pub fn per_row<'c>(statement: &'c NodeEnum, cx: &Context<'c>) -> Option<PerRow<'c>> {
    let NodeEnum::SelectStmt(s) = statement else { return None };
    if cx.snapshot.functions.is_empty() || s.target_list.is_empty() {
        return None;
    }
    let mut made = vec![];
    let call = |(at, target): (usize, &'c Node)| {
        let NodeEnum::ResTarget(target) = target.node.as_ref()? else { return None };
        let NodeEnum::FuncCall(call) = target.val.as_deref()?.node.as_ref()? else { return None };
        let name = if target.name.is_empty() { names::last(&call.funcname) } else { target.name.as_str() };
        let found = plain(call, false, cx).filter(|call| uses(call.routine, cx))?;
        made.push(std::ptr::from_ref::<ast::FuncCall>(call));
        Some((at, name, found))
    };
    let calls: Vec<_> = s.target_list.iter().enumerate().filter_map(call).collect();
    let is_volatile = |v: Volatility| v == Volatility::Volatile;
    // Those that are not VOLATILE see nothing of what the others do.
    let volatile = calls.iter().filter(|(_, _, call)| is_volatile(call.routine.volatility)).count();
    // What else is VOLATILE would come before all calls, not between them.
    let between = |n: &NodeEnum| match n {
        NodeEnum::FuncCall(f) if !made.contains(&std::ptr::from_ref::<ast::FuncCall>(f)) => {
            cx.functions(&f.funcname).any(|f| is_volatile(f.volatility))
        }
        _ => false,
    };
    if calls.is_empty() || (volatile > 0 && volatile < calls.len()) || sql::search::any(statement, between) {
        return None;
    }
    // What OFFSET passes over is called, too; DISTINCT looks at what is returned.
    let bare = s.distinct_clause.is_empty()
        && s.into_clause.is_none()
        && s.values_lists.is_empty()
        && s.limit_offset.is_none()
        && s.locking_clause.is_empty()
        && s.with_clause.is_none()
        && s.larg.is_none();
    let is_constant = |n: &Node| matches!(n.node, Some(NodeEnum::AConst(_)));
    let by_place = s.sort_clause.iter().any(|n| match n.node.as_ref() {
        Some(NodeEnum::SortBy(by)) => by.node.as_deref().is_some_and(is_constant),
        _ => false,
    }) || s.group_clause.iter().any(|n| sql::search::any(n, |n| matches!(n, NodeEnum::AConst(_))));
    let named = |n: &NodeEnum| matches!(n, NodeEnum::ColumnRef(c) if matches!(&names::strings(&c.fields)[..], [one] if calls.iter().any(|(_, name, _)| name == one)));
    let mut of_rows = s.sort_clause.iter().chain(&s.group_clause);
    if !bare || by_place || of_rows.any(|n| sql::search::any(n, named)) {
        return None;
    }
    Some(PerRow { select: s, calls: calls.into_iter().map(|(at, _, call)| (at, call)).collect() })
}

/// The only thing that is selected, and whether it stands in FROM.
fn selected(s: &ast::SelectStmt) -> Option<(&ast::FuncCall, bool)> {
    let bare = s.distinct_clause.is_empty()
        && s.into_clause.is_none()
        && s.where_clause.is_none()
        && s.group_clause.is_empty()
        && s.having_clause.is_none()
        && s.window_clause.is_empty()
        && s.values_lists.is_empty()
        && s.sort_clause.is_empty()
        && s.limit_offset.is_none()
        && s.limit_count.is_none()
        && s.locking_clause.is_empty()
        && s.with_clause.is_none()
        && s.larg.is_none();
    let [Node { node: Some(NodeEnum::ResTarget(target)) }] = &s.target_list[..] else { return None };
    let value = target.val.as_deref()?.node.as_ref()?;
    match (&s.from_clause[..], value) {
        ([], NodeEnum::FuncCall(call)) if bare => Some((call, false)),
        ([Node { node: Some(NodeEnum::RangeFunction(f)) }], NodeEnum::ColumnRef(c)) if bare => {
            let star = names::has_star(c) && c.fields.len() == 1;
            let [Node { node: Some(NodeEnum::List(call)) }] = &f.functions[..] else { return None };
            let Some(NodeEnum::FuncCall(call)) = call.items.first().and_then(|n| n.node.as_ref()) else { return None };
            // What it is called there, and its columns, PostgreSQL says.
            let plain = !f.ordinality && !f.is_rowsfrom && !f.lateral;
            (star && plain).then_some((&**call, true))
        }
        _ => None,
    }
}
