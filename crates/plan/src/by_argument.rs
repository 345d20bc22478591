//! Calls of functions and procedures that are distributed by an argument (`create_distributed_function`): the statement goes whole to the
//! node that has the rows of the argument's value, and runs there.
//!
//! Nothing is taken on trust. That the body uses rows of that value alone is proved by planning each of its statements (`proof.rs`),
//! as the caller's search path has it; where that can't be, the call is refused. Code that a function does not name (triggers, policies,
//! defaults) is judged where it hangs (`code.rs`).

mod proof;

use std::sync::Arc;

use catalog::code::{ByArgument, Routine, Uses, can_mean};
use catalog::{Oid, Relation, Volatility};
use sql::ast::{self, Node};
use sql::{NodeEnum, names, relations, search};

use crate::table_keys::TableKeys;
use crate::types::{Effect, KeyExpr, LiteralKind, Planned, Sequences, Whole};
use crate::{Context, Refusal, Result, Steps, given, keys, needs};

/// A statement calls such a routine.
pub fn calls(statement: &NodeEnum, cx: &Context) -> bool {
    !cx.snapshot.code.by_argument.is_empty() && !found(statement, cx).is_empty()
}

/// The plan of a statement that calls such routines; `None`: it calls none, or nothing that it calls needs tables of the herd.
pub fn plan(statement: &NodeEnum, cx: &Context, steps: &Steps) -> Option<Result<Planned>> {
    let is_call = matches!(statement, NodeEnum::SelectStmt(_) | NodeEnum::CallStmt(_));
    if !is_call || cx.snapshot.code.by_argument.is_empty() {
        return None;
    }
    let found = found(statement, cx);
    if found.is_empty() { None } else { Some(whole(statement, &found, cx, steps)) }
}

/// What a routine uses that is distributed by an argument, or why its calls are refused.
pub fn prove(routine: Oid, cx: &Context) -> Result<Arc<Uses>> {
    let routine = cx.snapshot.code.routines.iter().find(|r| r.oid == routine);
    let found = routine.and_then(|r| Some((r, r.by_argument.as_ref()?)));
    let (routine, by) = found.ok_or_else(|| Refusal::bare("internal: the function is not distributed"))?;
    proof::uses(routine, by, cx, &Steps::new(Steps::MOST))
}

/// All calls of them in a statement.
fn found<'a>(statement: &'a NodeEnum, cx: &'a Context) -> Vec<Called<'a>> {
    let mut found = vec![];
    if let NodeEnum::CallStmt(c) = statement {
        found.extend(c.funccall.as_deref().and_then(|call| called(call, cx)));
    }
    search::each(statement, |n| {
        if let NodeEnum::FuncCall(call) = n {
            found.extend(called(call, cx));
        }
    });
    found
}

type Called<'a> = (&'a ast::FuncCall, &'a Routine, &'a ByArgument);

/// What a call means, if there is but one routine that it can mean, and that is distributed.
fn called<'a>(call: &'a ast::FuncCall, cx: &'a Context) -> Option<Called<'a>> {
    let (schema, name) = names::qualified(&call.funcname);
    let code = &cx.snapshot.code;
    if !code.by_argument.contains(name) || (schema.is_none() && cx.snapshot.builtin_functions.contains_key(name)) {
        return None;
    }
    let given = call.args.len();
    let mut meant = code.routines.iter().filter(|r| {
        r.name == name && can_mean(schema, cx.search_path, &r.schema) && (r.arity.0..=r.arity.1).contains(&given)
    });
    match (meant.next(), meant.next()) {
        (Some(routine), None) => Some((call, routine, routine.by_argument.as_ref()?)),
        _ => None,
    }
}

fn whole(statement: &NodeEnum, found: &[Called], cx: &Context, steps: &Steps) -> Result<Planned> {
    alone(statement, found, cx)?;
    let (mut tables, mut others) = (vec![], vec![]);
    let mut writes = false;
    for (call, routine, by) in found {
        let key = argument(call, routine, by, cx)?;
        let uses = proof::uses(routine, by, cx, steps)?;
        let keys = |r: &Arc<Relation>| {
            let columns = vec![vec![key.clone()]];
            TableKeys { relation: r.clone(), columns, limits: vec![], written: false }
        };
        tables.extend(uses.tables.iter().map(keys));
        others.extend(&uses.others);
        writes |= routine.volatility == Volatility::Volatile;
    }
    let of_users = |n: &NodeEnum| match n {
        NodeEnum::FuncCall(f) => {
            cx.functions(&f.funcname).any(|f| f.user_defined && f.volatility == Volatility::Volatile)
        }
        _ => false,
    };
    writes |= search::any(statement, of_users);
    let whole = Whole {
        tables,
        reads_reference: !others.is_empty(),
        others,
        needs_home: false,
        effect: Effect::MayWrite,
        sequences: Sequences::None,
        clock: crate::moment::of(statement, statement, cx),
        ..Whole::on_home(writes)
    };
    let several = Refusal::new(
        "functions that are distributed by an argument can't be called for values of several nodes in one statement",
        "Call each in a statement of its own.",
    );
    Ok(Planned::Query { whole, tree: Err(several) })
}

/// Nothing else in the statement needs a node of its own.
fn alone(statement: &NodeEnum, found: &[Called], cx: &Context) -> Result<()> {
    let name = found.first().map_or("", |(_, r, _)| &r.name);
    let refused = |what: &str| {
        Err(Refusal::new(
            format!("{name}() runs on the node of its argument's value, and {what} in the same statement is not there"),
            format!("Call {name}() in a statement that reads nothing else."),
        ))
    };
    if let Some(rv) = relations::of(statement).first() {
        return refused(&format!("\"{}\"", rv.relname));
    }
    let locks = |n: &NodeEnum| matches!(n, NodeEnum::LockingClause(_));
    if search::any(statement, locks) {
        return refused("a lock");
    }
    let is_found =
        |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if found.iter().any(|(c, ..)| std::ptr::eq(*c, f.as_ref())));
    let other = |n: &NodeEnum| needs::of(n, cx).filter(|_| !is_found(n));
    if let Some(need) = search::find(statement, other) {
        return refused(&need.what);
    }
    let is_other = |call: &ast::FuncCall| found.iter().all(|(c, ..)| !std::ptr::eq(*c, call));
    match leaves(statement, is_other, cx) {
        Some(other) => Err(Refusal::new(
            format!("{other}() may change what names mean to {name}(), which is called in the same statement"),
            "Call each in a statement of its own.",
        )),
        None => Ok(()),
    }
}

/// The name of a function that is called, is looked at, and may set what names are looked up by.
pub fn leaves(statement: &NodeEnum, is_looked_at: impl Fn(&ast::FuncCall) -> bool, cx: &Context) -> Option<String> {
    search::find(statement, |n| {
        let NodeEnum::FuncCall(call) = n else { return None };
        if !is_looked_at(call) {
            return None;
        }
        let (schema, name) = names::qualified(&call.funcname);
        let of_users = || cx.functions(&call.funcname).any(|f| f.user_defined);
        let words = schema.into_iter().chain([name]);
        let sets =
            name == "set_config" || of_users() && cx.snapshot.session_code.leaves(words, cx.search_path).is_some();
        sets.then(|| name.to_string())
    })
}

/// The value by which a call is sent.
fn argument(call: &ast::FuncCall, routine: &Routine, by: &ByArgument, cx: &Context) -> Result<KeyExpr> {
    let refusal = |what: &str| {
        Refusal::new(
            format!("{}() is distributed by its argument {}, {what}", routine.name, by.number),
            "Give it as a constant or a parameter of its type.",
        )
    };
    let named = |a: &Node| matches!(a.node, Some(NodeEnum::NamedArgExpr(_)));
    let given = match call.args.iter().any(named) {
        true => given::in_order(call, routine),
        false => Some(call.args.clone()),
    };
    let value = given.as_ref().filter(|_| !call.func_variadic).and_then(|given| given.get(by.number - 1));
    // A default stands in the function, not in the statement.
    let is_given = |value: &&Node| {
        call.args.iter().any(|a| match &a.node {
            Some(NodeEnum::NamedArgExpr(n)) => n.arg.as_deref() == Some(*value),
            _ => a == *value,
        })
    };
    let value = value.filter(is_given).ok_or_else(|| refusal("which this call leaves out"))?;
    let key = keys::constant(value).ok_or_else(|| refusal("whose value here is not known before it runs"))?;
    let is_read = match key {
        KeyExpr::Param(n) => {
            let declared = cx.parameters.get(n - 1).copied().unwrap_or(0);
            matches!(declared, 0 | wire::type_oid::UNKNOWN) || keys::is_kept(declared, by.type_oid)
        }
        KeyExpr::CastParam(_, cast) | KeyExpr::Literal { cast: Some(cast), .. } => keys::is_kept(cast, by.type_oid),
        KeyExpr::Literal { cast: None, .. } | KeyExpr::Null => true,
        KeyExpr::ParamArray(_) | KeyExpr::CastParamArray(..) | KeyExpr::Evaluated(_) => false,
    };
    match key {
        _ if !is_read => Err(refusal("and is given a value of another type")),
        // What nobody has declared, and a text, is read as what the function takes.
        KeyExpr::Param(n) => Ok(KeyExpr::CastParam(n, by.type_oid)),
        KeyExpr::Literal { location, text, kind: LiteralKind::String, cast: None } => {
            let cast = Some(by.type_oid);
            Ok(KeyExpr::Literal { location, text, kind: LiteralKind::String, cast })
        }
        key => Ok(key),
    }
}
