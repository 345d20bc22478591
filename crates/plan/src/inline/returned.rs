//! The type of a query's only value, where that is certain.

use catalog::Oid;
use sql::ast::{self, Node, a_const::Val};
use sql::{NodeEnum, names};
use wire::type_oid as oid;

use super::body::own_type;
use crate::{Context, overload, rewrite};

/// `None`: there are several, or its type is not known here.
pub fn type_of(query: &ast::SelectStmt, cx: &Context) -> Option<Oid> {
    let [target] = &query.target_list[..] else { return None };
    let simple = query.larg.is_none() && query.values_lists.is_empty() && query.with_clause.is_none();
    of(rewrite::target_value(target).filter(|_| simple)?, query, cx)
}

fn of(value: &Node, query: &ast::SelectStmt, cx: &Context) -> Option<Oid> {
    let of = |n: &Node| of(n, query, cx);
    match value.node.as_ref()? {
        NodeEnum::SubLink(s) if s.sub_link_type == ast::SubLinkType::ExprSublink as i32 => {
            let Some(NodeEnum::SelectStmt(query)) = s.subselect.as_deref()?.node.as_ref() else { return None };
            type_of(query, cx)
        }
        NodeEnum::SubLink(s) if s.sub_link_type == ast::SubLinkType::ExistsSublink as i32 => Some(oid::BOOL),
        NodeEnum::TypeCast(t) => own_type(t.type_name.as_ref()?),
        NodeEnum::BoolExpr(_) | NodeEnum::NullTest(_) => Some(oid::BOOL),
        NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(_)), .. }) => Some(oid::INT4),
        NodeEnum::FuncCall(f) => overload::returns(f, of, cx).or_else(|| aggregate(f, of(f.args.first()?)?, cx)),
        NodeEnum::CoalesceExpr(c) => {
            let (first, rest) = c.args.split_first()?;
            let first = of(first)?;
            // A number that is written becomes as wide as the other is.
            let fits = |n: &Node| match of(n) {
                Some(oid::INT4) => matches!(first, oid::INT4 | oid::INT8 | oid::NUMERIC),
                of => of == Some(first),
            };
            rest.iter().all(fits).then_some(first)
        }
        NodeEnum::ColumnRef(c) => column(&names::strings(&c.fields), query, cx),
        _ => None,
    }
}

/// Of PostgreSQL's own aggregates that have several (pg_aggregate.dat).
fn aggregate(call: &ast::FuncCall, of: Oid, cx: &Context) -> Option<Oid> {
    let own = call.args.len() == 1 && cx.functions(&call.funcname).all(|f| f.schema == "pg_catalog");
    match (names::last(&call.funcname), of) {
        _ if !own => None,
        ("sum", oid::INT2 | oid::INT4) => Some(oid::INT8),
        ("sum" | "avg", oid::INT8 | oid::NUMERIC) | ("avg", oid::INT2 | oid::INT4) => Some(oid::NUMERIC),
        ("min" | "max", oid::INT2 | oid::INT4 | oid::INT8 | oid::NUMERIC | oid::TEXT) => Some(of),
        ("min" | "max", oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ) => Some(of),
        _ => None,
    }
}

/// Of a column of the query's only table.
fn column(parts: &[&str], query: &ast::SelectStmt, cx: &Context) -> Option<Oid> {
    let [Node { node: Some(NodeEnum::RangeVar(rv)) }] = &query.from_clause[..] else { return None };
    let called = rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname);
    let is_its = parts.len() == 1 || parts.len() == 2 && parts[0] == called;
    if !is_its || rv.alias.as_ref().is_some_and(|a| !a.colnames.is_empty()) {
        return None;
    }
    let relation = cx.relation(rv)?;
    relation.column(parts.last()?).map(|at| relation.columns[at].type_oid)
}
