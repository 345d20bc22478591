//! Calls of functions that no node can run whole, as they use tables of several nodes: a statement that is nothing but such a call is
//! run by the session, step by step. Whether that can be is not known here (`sql::program`, and who takes the steps).

use catalog::code::{Routine, can_mean};
use sql::ast::{self, Node};
use sql::{NodeEnum, names};

use crate::{Context, Steps, inline};

/// `SELECT f(…)`, `SELECT * FROM f(…)` or `CALL p(…)`.
pub struct Call<'c> {
    pub routine: &'c Routine,
    pub arguments: &'c [Node],
    /// It stands in FROM.
    pub from: bool,
}

/// The statement is a call that is to be run step by step, if it can be.
pub fn is_run(statement: &NodeEnum, cx: &Context) -> bool {
    let NodeEnum::SelectStmt(_) = statement else { return false };
    let Some(call) = call(statement, cx) else { return false };
    let mut meant = cx.snapshot.functions.get(&call.routine.name).into_iter().flatten();
    let uses = meant.any(|f| f.schema == call.routine.schema && f.reads_herd_tables);
    // What is long to look at is planned elsewhere: there it turns out.
    let steps = Steps::new(Steps::SHORT / 20);
    let names = Context::new(cx.snapshot, cx.search_path, cx.temporary).with_parameters(cx.parameters);
    uses && inline::calls(statement, &Context { steps: Some(&steps), ..names }).is_none()
}

/// What a statement calls, if it is nothing but a call, and there is but one function or procedure of that name.
pub fn call<'c>(statement: &'c NodeEnum, cx: &Context<'c>) -> Option<Call<'c>> {
    let (call, from) = match statement {
        NodeEnum::SelectStmt(s) => selected(s)?,
        NodeEnum::CallStmt(c) => (c.funccall.as_deref()?, false),
        _ => return None,
    };
    let plain = call.agg_order.is_empty() && call.agg_filter.is_none() && call.over.is_none();
    if !plain || call.agg_within_group || call.agg_star || call.agg_distinct || call.func_variadic {
        return None;
    }
    if call.args.iter().any(|a| matches!(a.node, Some(NodeEnum::NamedArgExpr(_)))) {
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
    let given = call.args.len() == routine.argument_types.len();
    let fits = given && routine.by_argument.is_none() && !routine.opaque;
    fits.then_some(Call { routine, arguments: &call.args, from })
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
            let plain = !f.ordinality && !f.is_rowsfrom && !f.lateral && f.coldeflist.is_empty() && f.alias.is_none();
            (star && plain).then_some((&**call, true))
        }
        _ => None,
    }
}
