//! What is known of an expression without PostgreSQL: its type, and whether a node may evaluate it for its rows.
//!
//! Only what is certain. It does not know where rows are.

use catalog::{FunctionKind, Volatility};
use sql::ast::{self, Node, a_const::Val};
use sql::{NodeEnum, names, search};

use crate::Context;
use crate::levels::Analysis;
use crate::needs;
use crate::overload;
use crate::scope::Scope;
use wire::type_oid;

/// The type's object id: one of PostgreSQL's own, or a column's.
pub fn type_of(node: &Node, a: &Analysis, scope: &Scope) -> Option<u32> {
    let of = |n: &Node| type_of(n, a, scope);
    match node.node.as_ref()? {
        NodeEnum::ColumnRef(c) => a.types[scope.resolve(&names::strings(&c.fields))?].map(|(t, _)| t),
        NodeEnum::TypeCast(t) => {
            type_oid::named(names::plain_type(t.type_name.as_ref()?)?).filter(|t| type_oid::is_number(*t))
        }
        NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(_)), .. }) => Some(type_oid::INT4),
        NodeEnum::AConst(ast::AConst { val: Some(Val::Fval(f)), .. }) => {
            f.fval.contains('.').then_some(type_oid::NUMERIC)
        }
        NodeEnum::AExpr(e)
            if e.kind == ast::AExprKind::AexprOp as i32 && matches!(names::last(&e.name), "+" | "-" | "*" | "/") =>
        {
            let (l, r) = (of(e.lexpr.as_deref()?)?, of(e.rexpr.as_deref()?)?);
            match l == r {
                true => match l {
                    type_oid::DATE if names::last(&e.name) == "-" => Some(type_oid::INT4),
                    number => Some(number).filter(|number| type_oid::is_number(*number)),
                },
                false => (type_oid::is_integer(l) && type_oid::is_integer(r))
                    .then(|| if [l, r].contains(&type_oid::INT8) { type_oid::INT8 } else { type_oid::INT4 }),
            }
        }
        NodeEnum::FuncCall(f) => overload::returns(f, of, a.cx),
        NodeEnum::CoalesceExpr(c) => one(c.args.iter().map(of)),
        NodeEnum::CaseExpr(c) => {
            let results = c.args.iter().filter_map(|when| match &when.node {
                Some(NodeEnum::CaseWhen(when)) => when.result.as_deref(),
                _ => None,
            });
            one(results.chain(c.defresult.as_deref()).map(of))
        }
        _ => None,
    }
}

/// All the same, and known.
fn one(mut types: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    let first = types.next()??;
    types.all(|t| t == Some(first)).then_some(first)
}

/// A value of the type is never larger than a column's reference to something stored.
pub fn is_small(oid: u32) -> bool {
    use type_oid::{BOOL, DATE, FLOAT4, FLOAT8, TIME, TIMESTAMP, TIMESTAMPTZ, UUID};
    type_oid::is_integer(oid) || matches!(oid, BOOL | FLOAT4 | FLOAT8 | DATE | TIME | TIMESTAMP | TIMESTAMPTZ | UUID)
}

/// A node may evaluate it for each of its rows: it gives one value, the same wherever and whenever it is asked.
pub fn is_of_its_row(node: &Node, cx: &Context) -> bool {
    let mut columns = false;
    let other = search::any(node, |n| {
        let by_kind = match n {
            NodeEnum::ColumnRef(c) => {
                columns = true;
                names::has_star(c)
            }
            NodeEnum::FuncCall(f) => {
                let mut overloads = cx.functions(&f.funcname).peekable();
                f.over.is_some()
                    || overloads.peek().is_none()
                    || overloads.any(|o| {
                        o.kind != FunctionKind::Function || o.returns_set || o.volatility == Volatility::Volatile
                    })
            }
            NodeEnum::SubLink(_) | NodeEnum::GroupingFunc(_) => true,
            _ => false,
        };
        by_kind || needs::of(n, cx).is_some()
    });
    columns && !other
}
