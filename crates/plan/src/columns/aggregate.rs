//! Calls of functions: the aggregates whose results are the same whatever the order of rows.

use sql::NodeEnum;
use sql::ast;

use super::collation;
use super::compare;
use super::expression::{Aggregate, Expr, Kind};
use super::mixed;
use super::own;
use super::scalar;
use super::scope::Reader;
use super::types::{DIGITS_MAX, Ty};
use super::{Found, refused};

/// A call, of an aggregate or not.
pub fn call(r: &Reader, f: &ast::FuncCall) -> Found<Expr> {
    let name = own::function(f, r.cx)?;
    if f.over.is_some() {
        return Err(refused("a window function"));
    }
    if f.func_variadic || f.agg_within_group || !f.agg_order.is_empty() || f.args.iter().any(is_named) {
        return Err(refused(&format!("{name}() as it is called here")));
    }
    let known = match name {
        "count" => "count",
        "sum" => "sum",
        "min" => "min",
        "max" => "max",
        "bool_and" | "every" => "bool_and",
        "bool_or" => "bool_or",
        _ => return scalar::call(r, name, f),
    };
    if !r.aggregates.replace(false) {
        return Err(refused(&format!("{name}() in this place")));
    }
    let found = aggregate(r, known, f);
    r.aggregates.set(true);
    found
}

fn is_named(arg: &ast::Node) -> bool {
    matches!(arg.node, Some(NodeEnum::NamedArgExpr(_)))
}

fn aggregate(r: &Reader, name: &'static str, f: &ast::FuncCall) -> Found<Expr> {
    let filter = f.agg_filter.as_deref().map(|filter| r.condition(filter)).transpose()?;
    let argument = match (&f.args[..], f.agg_star) {
        ([], true) => None,
        ([arg], false) => Some(r.expression(arg)?),
        _ => return Err(refused(&format!("{name}() as it is called here"))),
    };
    let level = r.level();
    let of_others = |e: &Expr| e.any(&mut |e| matches!(&e.kind, Kind::Column(c) if !level.contains(&c.table)));
    if argument.iter().chain(&filter).any(of_others) {
        // It may be one of the SELECT around.
        return Err(refused("an aggregate of another SELECT's columns"));
    }
    let Some(argument) = argument else {
        let made = |argument| Kind::Aggregate(Box::new(Aggregate { name, distinct: false, argument, filter }));
        let counts = name == "count" && !f.agg_distinct;
        return counts.then(|| Expr { ty: Ty::Int8, kind: made(None) }).ok_or_else(|| refused(&format!("{name}(*)")));
    };
    if f.agg_distinct {
        is_grouped(&argument)?;
    }
    let argument = match (name, argument.kind) {
        ("sum", Kind::Mixed(mixed)) => return Ok(mixed::sum(*mixed, filter)),
        (_, kind) => Expr { kind, ..argument },
    };
    let made = |argument| Kind::Aggregate(Box::new(Aggregate { name, distinct: f.agg_distinct, argument, filter }));
    let no = |ty: Ty| Err(refused(&format!("{name}() of {}", ty.name())));
    Ok(match (name, argument.ty) {
        ("count", Ty::Unknown) => match argument.kind {
            Kind::Param(..) => return no(Ty::Unknown),
            _ => Expr { ty: Ty::Int8, kind: made(Some(compare::settle(argument, Ty::Text)?)) },
        },
        ("count", _) => Expr { ty: Ty::Int8, kind: made(Some(argument)) },
        // DuckDB adds up more than a bigint holds; a cast finds out.
        ("sum", Ty::Int2 | Ty::Int4) => added(made(Some(argument)), Ty::Int8),
        ("sum", Ty::Int8) => added(made(Some(argument)), Ty::Numeric { digits: DIGITS_MAX, scale: 0 }),
        ("sum", Ty::Numeric { scale, .. }) => {
            Expr { ty: Ty::Numeric { digits: DIGITS_MAX, scale }, kind: made(Some(argument)) }
        }
        ("sum", ty) if ty.is_float() && !f.agg_distinct => {
            Expr { ty, kind: Kind::FloatSum(Box::new(Expr { ty: Ty::Opaque, kind: made(Some(argument)) })) }
        }
        ("min" | "max", Ty::Uuid | Ty::Bool) => return no(argument.ty),
        ("min" | "max", ty) => {
            is_ordered(r, &argument)?;
            // There is none of varchar.
            let ty = if ty.is_text() { Ty::Text } else { ty };
            Expr { ty, kind: made(Some(argument)) }
        }
        ("bool_and" | "bool_or", Ty::Bool) => Expr::condition(made(Some(argument))),
        (_, ty) => return no(ty),
    })
}

fn added(sum: Kind, ty: Ty) -> Expr {
    Expr { ty, kind: Kind::Cast(Box::new(Expr { ty: Ty::Opaque, kind: sum })) }
}

/// Of types whose values are equal only where they are identical, and less where PostgreSQL says so.
fn is_alike(ty: Ty) -> bool {
    matches!(
        ty,
        Ty::Bool
            | Ty::Int2
            | Ty::Int4
            | Ty::Int8
            | Ty::Numeric { .. }
            | Ty::Date
            | Ty::Timestamp
            | Ty::Timestamptz
            | Ty::Uuid
    )
}

/// Equal values are identical, or it does not matter which of them stands for all: they may be grouped.
pub fn is_grouped(e: &Expr) -> Found<()> {
    match e.ty {
        ty if is_alike(ty) => Ok(()),
        ty if ty.is_string() => collation::is_deterministic(e),
        ty => Err(refused(&format!("a group or DISTINCT of {}", ty.name()))),
    }
}

/// Which value is less is the same to both.
pub fn is_ordered(r: &Reader, e: &Expr) -> Found<()> {
    match e.ty {
        ty if is_alike(ty) => Ok(()),
        ty if ty.is_string() => collation::is_bytewise(r, &[e]).and_then(|()| collation::is_deterministic(e)),
        ty => Err(refused(&format!("an order of {}", ty.name()))),
    }
}
