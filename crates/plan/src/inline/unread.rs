//! What a function is given and its query does not read: PostgreSQL evaluates it all the same, and refuses what is of another type. It
//! does not know the query.

use catalog::Oid;
use sql::ast::Node;
use sql::{NodeEnum, build, search};
use wire::type_oid as oid;

use crate::Context;

/// A call that evaluates it, where it can't be left out, for a parameter of a type. The call takes one argument of that very type, and
/// there is one function of its name: PostgreSQL gives it what it would give the other. `None`: nothing does that here.
pub fn of(value: &Node, declared: Oid, cx: &Context) -> Option<Option<Node>> {
    let takes = match declared {
        oid::INT2 => "int2up",
        oid::INT4 => "int4up",
        oid::INT8 => "int8up",
        oid::FLOAT4 => "float4up",
        oid::FLOAT8 => "float8up",
        oid::NUMERIC => "numeric_uplus",
        oid::TEXT => "textlen",
        _ => return None,
    };
    if let Some(NodeEnum::AConst(c)) = &value.node
        && (c.isnull || declared == oid::INT4 && matches!(c.val, Some(sql::ast::a_const::Val::Ival(_))))
    {
        return Some(None);
    }
    // Rows can't be a condition, and a name is no value.
    let is_other = |n: &NodeEnum| match n {
        NodeEnum::FuncCall(f) => {
            let mut meant = cx.functions(&f.funcname).peekable();
            meant.peek().is_none() || meant.any(|f| f.returns_set)
        }
        NodeEnum::NamedArgExpr(_) => true,
        _ => false,
    };
    (!search::any(value, is_other)).then(|| Some(build::own_call(takes, vec![value.clone()])))
}

/// A value behind the calls: `CASE WHEN num_nonnulls(…) >= 0 THEN value END`.
pub fn before(calls: Vec<Node>, value: NodeEnum) -> NodeEnum {
    if calls.is_empty() {
        return value;
    }
    let known = build::own_operator(">=", build::own_call("num_nonnulls", calls), build::integer(0));
    build::when(known, build::node(value))
}
