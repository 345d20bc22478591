//! Calls anywhere in a SELECT that makes one row of nothing, and in FROM of one that reads nothing else: they are made first, in PostgreSQL's order,
//! and the statement is run with what they have returned. Only where each is made exactly once whatever the others return, and
//! where nothing else of the statement could see what they do.

use sql::ast::{self, Node};
use sql::{NodeEnum, names, search};

use super::{Call, plain, uses};
use crate::Context;
use catalog::Volatility;

/// What stands in the place of a call that was taken out.
pub const TAKEN: i32 = i32::MAX;

/// Whether a statement's calls can be made before it, and whether they are VOLATILE then. `nulls`: a parameter is NULL.
pub fn made_first(statement: &NodeEnum, cx: &Context, nulls: &dyn Fn(i32) -> bool) -> Option<bool> {
    let NodeEnum::SelectStmt(s) = statement else { return None };
    if cx.snapshot.functions.is_empty() || !sees_nothing(s) {
        return None;
    }
    let (mut seen, mut volatile) = (0, 0);
    let mut each = |call: &Call| {
        seen += 1;
        volatile += usize::from(call.routine.volatility == Volatility::Volatile);
    };
    let is_own = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if called(f, cx).is_some());
    let all = {
        let mut all = 0;
        search::each(statement, |n| all += usize::from(is_own(n)));
        all
    };
    match &s.from_clause[..] {
        [] => s.target_list.iter().for_each(|n| in_order(n, cx, &|n| is_kept(n, cx, nulls), &mut |call| each(call))),
        // The others would be made for each of its rows.
        [_] if all == 1 && always_reads(s, nulls) => {
            if let Some(call) = in_from(s, cx) {
                each(&call);
            }
        }
        _ => {}
    }
    // What else is VOLATILE would be called between them; those that are not see nothing of what the others do.
    let other = |n: &NodeEnum| match n {
        NodeEnum::FuncCall(f) => {
            called(f, cx).is_none() && cx.functions(&f.funcname).any(|f| f.volatility == Volatility::Volatile)
        }
        _ => false,
    };
    let is = seen > 0 && seen == all && (volatile == 0 || volatile == seen) && !search::any(statement, other);
    is.then_some(volatile > 0)
}

/// Takes out the call that is made first, and leaves [`TAKEN`]; none: all have been made.
pub fn take(statement: &mut NodeEnum, cx: &Context) -> Option<NodeEnum> {
    let mut first: Option<ast::FuncCall> = None;
    if let NodeEnum::SelectStmt(s) = &*statement {
        for target in &s.target_list {
            in_order(target, cx, &|_| true, &mut |call| {
                if first.is_none() {
                    first = Some(call.written.clone());
                }
            });
        }
    }
    let first = first?;
    let mut taken = None;
    search::each_mut(statement, |n| {
        match n {
            NodeEnum::ResTarget(t) if t.name.is_empty() => {
                t.name = t.val.as_deref().map(names::figure_column).unwrap_or_default();
            }
            // Of two that are alike the first in the tree is the first that is made.
            NodeEnum::FuncCall(f) if taken.is_none() && **f == first => {
                let mark = NodeEnum::ParamRef(ast::ParamRef { number: TAKEN, location: -1 });
                taken = Some(std::mem::replace(n, mark));
                return false;
            }
            _ => {}
        }
        true
    });
    taken
}

/// The only thing in FROM, if that is a call.
pub fn in_from<'c>(s: &'c ast::SelectStmt, cx: &Context<'c>) -> Option<Call<'c>> {
    let [Node { node: Some(NodeEnum::RangeFunction(f)) }] = &s.from_clause[..] else { return None };
    let [Node { node: Some(NodeEnum::List(call)) }] = &f.functions[..] else { return None };
    let Some(NodeEnum::FuncCall(call)) = call.items.first().and_then(|n| n.node.as_ref()) else { return None };
    let bare = !f.ordinality && !f.is_rowsfrom && !f.lateral;
    called(call, cx).filter(|_| bare)
}

fn called<'c>(f: &'c ast::FuncCall, cx: &Context<'c>) -> Option<Call<'c>> {
    plain(f, true, cx).filter(|call| uses(call.routine, cx))
}

/// It reads no table, not even in a query inside, and its clauses make no other number of rows of its only one.
fn sees_nothing(s: &ast::SelectStmt) -> bool {
    let reads = |n: &NodeEnum| {
        use NodeEnum::{CommonTableExpr, LockingClause, RangeVar, SubLink};
        matches!(n, RangeVar(_) | SubLink(_) | CommonTableExpr(_) | LockingClause(_))
    };
    let one_row = s.where_clause.is_none()
        && s.group_clause.is_empty()
        && s.having_clause.is_none()
        && s.distinct_clause.is_empty()
        && s.sort_clause.is_empty()
        && s.limit_count.is_none()
        && s.limit_offset.is_none();
    let plain = s.into_clause.is_none() && s.values_lists.is_empty() && s.with_clause.is_none() && s.larg.is_none();
    let reads = search::any(&NodeEnum::SelectStmt(Box::new(s.clone())), reads);
    plain && !reads && (one_row || !s.from_clause.is_empty())
}

/// The calls of an expression that are made whatever the rest of it is, in the order in which they are made: what is given before what it is given to.
/// `kept`: what is given is not known to be NULL before.
fn in_order<'c>(node: &'c Node, cx: &Context<'c>, kept: &dyn Fn(&Node) -> bool, f: &mut dyn FnMut(&Call<'c>)) {
    let Some(node) = node.node.as_ref() else { return };
    if let Some(given) = given(node, cx)
        && (!given.strict || given.nodes.iter().all(|n| kept(n)))
    {
        given.nodes.iter().for_each(|n| in_order(n, cx, kept, f));
    }
    if let NodeEnum::FuncCall(call) = node
        && let Some(own) = called(call, cx)
    {
        f(&own);
    }
}

/// What an expression computes before itself.
struct Given<'c> {
    nodes: Vec<&'c Node>,
    /// It is NULL if one of these is: then PostgreSQL need not compute the others.
    strict: bool,
}

/// Of an expression that computes all of them, once; none: it may not.
fn given<'c>(node: &'c NodeEnum, cx: &Context<'c>) -> Option<Given<'c>> {
    use ast::AExprKind::{AexprDistinct, AexprLike, AexprNotDistinct, AexprOp};
    let one = |n: &'c Option<Box<Node>>| Some(Given { nodes: n.as_deref().into_iter().collect(), strict: false });
    // Rows are compared column by column, as far as it takes.
    let is_row = |n: &&Node| matches!(n.node, Some(NodeEnum::RowExpr(_)));
    match node {
        NodeEnum::ResTarget(t) => one(&t.val),
        NodeEnum::TypeCast(t) => one(&t.arg),
        NodeEnum::CollateClause(c) => one(&c.arg),
        NodeEnum::NamedArgExpr(a) => one(&a.arg),
        NodeEnum::NullTest(t) => {
            t.arg.as_deref().filter(|n| !is_row(n)).map(|n| Given { nodes: vec![n], strict: false })
        }
        NodeEnum::BoolExpr(b) if b.args.len() == 1 => Some(Given { nodes: b.args.iter().collect(), strict: false }),
        NodeEnum::RowExpr(r) => Some(Given { nodes: r.args.iter().collect(), strict: false }),
        NodeEnum::AArrayExpr(a) => Some(Given { nodes: a.elements.iter().collect(), strict: false }),
        NodeEnum::AExpr(e) => {
            let once =
                matches!(ast::AExprKind::try_from(e.kind), Ok(AexprOp | AexprDistinct | AexprNotDistinct | AexprLike));
            let nodes: Vec<&Node> = [&e.lexpr, &e.rexpr].into_iter().flatten().map(|n| &**n).collect();
            (once && !nodes.iter().any(is_row)).then_some(Given { nodes, strict: true })
        }
        // A function of a user's own in SQL may use what it is given in but some cases.
        NodeEnum::FuncCall(call) => match called(call, cx) {
            Some(own) => Some(Given { nodes: call.args.iter().collect(), strict: is_strict(&own) }),
            None => is_builtin(call, cx).then(|| Given { nodes: call.args.iter().collect(), strict: true }),
        },
        _ => None,
    }
}

/// Nobody can know before it is computed that it is NULL: what is computed of constants alone is known.
fn is_kept(node: &Node, cx: &Context, nulls: &dyn Fn(i32) -> bool) -> bool {
    let is_own = |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if called(f, cx).is_some());
    let Some(inside) = node.node.as_ref() else { return false };
    if is_value(inside, nulls) {
        return true;
    }
    let own = is_own(inside);
    let is_all = |g: Given| (own && !g.strict) || g.nodes.iter().all(|n| is_kept(n, cx, nulls));
    (own || search::any(node, is_own)) && given(inside, cx).is_some_and(is_all)
}

/// A constant or parameter that is not NULL, or some of them.
fn is_value(node: &NodeEnum, nulls: &dyn Fn(i32) -> bool) -> bool {
    match node {
        NodeEnum::AConst(c) => !c.isnull && !matches!(c.val, Some(ast::a_const::Val::Boolval(_))),
        NodeEnum::ParamRef(p) => !nulls(p.number),
        NodeEnum::TypeCast(t) => t.arg.as_deref().and_then(|n| n.node.as_ref()).is_some_and(|n| is_value(n, nulls)),
        NodeEnum::List(l) => l.items.iter().all(|n| n.node.as_ref().is_some_and(|n| is_value(n, nulls))),
        _ => false,
    }
}

/// A condition on rows, of which nobody can know before that none is true: then the call need not be made.
fn looks_at_rows(node: &Node, nulls: &dyn Fn(i32) -> bool) -> bool {
    match node.node.as_ref() {
        Some(NodeEnum::BoolExpr(b)) => b.args.iter().all(|n| looks_at_rows(n, nulls)),
        Some(NodeEnum::NullTest(t)) => {
            matches!(t.arg.as_deref().and_then(|n| n.node.as_ref()), Some(NodeEnum::ColumnRef(_)))
        }
        Some(NodeEnum::AExpr(e)) => {
            let sides = || [&e.lexpr, &e.rexpr].into_iter().flatten().filter_map(|n| n.node.as_ref());
            let is_column = |n: &NodeEnum| matches!(n, NodeEnum::ColumnRef(_));
            sides().any(is_column) && sides().all(|n| is_column(n) || is_value(n, nulls))
        }
        _ => false,
    }
}

/// It makes the call in FROM, whatever that returns.
fn always_reads(s: &ast::SelectStmt, nulls: &dyn Fn(i32) -> bool) -> bool {
    let is_some = |n: &Node| match n.node.as_ref() {
        Some(NodeEnum::AConst(c)) => matches!(&c.val, Some(ast::a_const::Val::Ival(i)) if i.ival > 0),
        _ => false,
    };
    s.where_clause.as_deref().is_none_or(|n| looks_at_rows(n, nulls))
        && s.having_clause.is_none()
        && s.limit_count.as_deref().is_none_or(is_some)
        && s.limit_offset.is_none()
}

/// As far as its definition tells: of one that is stored parsed the catalog has none.
fn is_strict(call: &Call) -> bool {
    let parsed = sql::parse(&call.routine.definition, true).ok().and_then(|mut s| s.pop());
    let Some(NodeEnum::CreateFunctionStmt(f)) = parsed else { return true };
    let strict = |n: &Node| matches!(&n.node, Some(NodeEnum::DefElem(d)) if d.defname == "strict");
    !f.replace || f.options.iter().any(strict)
}

/// PostgreSQL's own, and no aggregate: what it is given is computed once.
fn is_builtin(call: &ast::FuncCall, cx: &Context) -> bool {
    let (schema, name) = names::qualified(&call.funcname);
    let plain = call.agg_order.is_empty() && call.agg_filter.is_none() && call.over.is_none() && !call.agg_within_group;
    let users = cx.snapshot.functions.get(name).is_some_and(|f| !f.is_empty());
    plain && schema.is_none_or(|s| s == "pg_catalog") && !users && cx.snapshot.builtin_functions.contains_key(name)
}

/// Something names a row as a whole by the name of its FROM item, if no column is called so.
pub fn names_row(s: &ast::SelectStmt, name: &str) -> bool {
    search::any(
        &NodeEnum::SelectStmt(Box::new(s.clone())),
        |n| matches!(n, NodeEnum::ColumnRef(c) if matches!(&names::strings(&c.fields)[..], [one] if *one == name) && !names::has_star(c)),
    )
}
