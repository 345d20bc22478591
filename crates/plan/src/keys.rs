//! Constants of a statement as key expressions. It does not evaluate them.

use sql::ast::{self, Node, a_const::Val};
use sql::{NodeEnum, names};

use crate::types::{KeyExpr, LiteralKind};
use crate::views;
use wire::type_oid;

/// The constant an expression is, if it is a literal or a parameter, perhaps under casts that can be told by one type.
pub fn constant(node: &Node) -> Option<KeyExpr> {
    match node.node.as_ref()? {
        NodeEnum::AConst(c) => literal(c),
        NodeEnum::ParamRef(p) if p.number > 0 => Some(KeyExpr::Param(p.number as usize)),
        NodeEnum::TypeCast(t) => {
            let inner = constant(t.arg.as_deref()?)?;
            let ty = t.type_name.as_ref()?;
            let oid = cast_type(names::plain_type(ty)?).filter(|_| ty.typmods.is_empty())?;
            under_cast(inner, oid)
        }
        _ => None,
    }
}

/// A constant, and the integer that is added to it: `$1 + 99`, `$1 - 1`. `is_own`: operators called so are PostgreSQL's own.
pub fn constant_plus(node: &Node, is_own: &dyn Fn(&str) -> bool) -> Option<(KeyExpr, i64)> {
    let Some(NodeEnum::AExpr(e)) = &node.node else { return Some((constant(node)?, 0)) };
    let (sign, name) = match names::qualified(&e.name) {
        (schema, name @ ("+" | "-")) if schema.map_or_else(|| is_own(name), |schema| schema == "pg_catalog") => {
            (if name == "+" { 1 } else { -1 }, name)
        }
        _ => return None,
    };
    if e.kind != ast::AExprKind::AexprOp as i32 {
        return None;
    }
    let (left, right) = (e.lexpr.as_deref()?, e.rexpr.as_deref()?);
    let (value, added) = match (parameter(left), parameter(right)) {
        (Some(value), None) => (value, right),
        (None, Some(value)) if name == "+" => (value, left),
        _ => return None,
    };
    // A number of another statement of the same template would be another plan's: parameters have none.
    match &added.node {
        Some(NodeEnum::AConst(ast::AConst { val: Some(Val::Ival(i)), .. })) => Some((value, sign * i64::from(i.ival))),
        _ => None,
    }
}

fn parameter(node: &Node) -> Option<KeyExpr> {
    constant(node).filter(|e| matches!(e, KeyExpr::Param(_) | KeyExpr::CastParam(..)))
}

/// A constant under one more cast: its text read as the type that is kept must be the value of the whole chain, or an error of
/// PostgreSQL's on every node.
fn under_cast(inner: KeyExpr, oid: u32) -> Option<KeyExpr> {
    match inner {
        KeyExpr::Null => Some(KeyExpr::Null),
        // A text is read as what it is cast to.
        KeyExpr::Param(n) | KeyExpr::CastParam(n, type_oid::TEXT | type_oid::VARCHAR) => {
            is_of_parameter(oid).then_some(KeyExpr::CastParam(n, oid))
        }
        KeyExpr::ParamArray(n) => is_of_parameter(oid).then_some(KeyExpr::CastParamArray(n, oid)),
        KeyExpr::CastParamArray(_, cast) => is_kept(cast, oid).then_some(inner),
        // A number that is no integer is rounded: who evaluates it reads integers alone.
        KeyExpr::Literal { location, text, kind, cast: None } => {
            let reads = kind == LiteralKind::String || type_oid::is_integer(oid);
            reads.then_some(KeyExpr::Literal { location, text, kind, cast: Some(oid) })
        }
        KeyExpr::Literal { cast: Some(cast), .. } => is_kept(cast, oid).then_some(inner),
        KeyExpr::CastParam(..) | KeyExpr::Evaluated(_) => None,
    }
}

/// A value of one type is the same value of the other, or an error.
pub fn is_kept(from: u32, to: u32) -> bool {
    let both = |is: fn(u32) -> bool| is(from) && is(to);
    from == to || both(type_oid::is_integer) || both(type_oid::is_text)
}

/// Types of casts that are known for literals.
fn cast_type(name: &str) -> Option<u32> {
    match name {
        "int2" | "int4" | "int8" | "text" | "varchar" | "uuid" | "date" | "timestamp" | "timestamptz" | "bytea" => {
            type_oid::named(name)
        }
        _ => None,
    }
}

/// Types whose values the router can make of a parameter.
fn is_of_parameter(oid: u32) -> bool {
    type_oid::is_integer(oid) || type_oid::is_text(oid) || oid == type_oid::UUID
}

/// NULL without a type: beside one a setting makes `IS NULL` of `=` (`transformAExprOp` in parse_expr.c).
pub fn is_bare_null(node: &Node) -> bool {
    matches!(&node.node, Some(NodeEnum::AConst(c)) if c.isnull)
}

fn literal(c: &ast::AConst) -> Option<KeyExpr> {
    if c.isnull {
        return Some(KeyExpr::Null);
    }
    let (text, kind) = match c.val.as_ref()? {
        Val::Ival(i) => (i.ival.to_string(), LiteralKind::Number),
        Val::Fval(f) => (f.fval.clone(), LiteralKind::Number),
        Val::Sval(s) => (s.sval.clone(), LiteralKind::String),
        Val::Boolval(_) | Val::Bsval(_) => return None,
    };
    let location = match c.location {
        _ if views::is_of_view(c) => None,
        offset => Some(usize::try_from(offset).ok()?),
    };
    Some(KeyExpr::Literal { location, text, kind, cast: None })
}

/// The values of an `IN (…)` list or an array constant; `None` if one of them is not a constant.
pub fn list(node: &Node) -> Option<Vec<KeyExpr>> {
    match node.node.as_ref()? {
        NodeEnum::List(l) => l.items.iter().map(constant).collect(),
        NodeEnum::AArrayExpr(a) => a.elements.iter().map(constant).collect(),
        NodeEnum::ParamRef(p) if p.number > 0 => Some(vec![KeyExpr::ParamArray(p.number as usize)]),
        NodeEnum::TypeCast(t) => {
            let ty = t.type_name.as_ref()?;
            let plain = !ty.array_bounds.is_empty() && ty.typmods.is_empty() && !ty.setof && !ty.pct_type;
            let name = match names::strings(&ty.names)[..] {
                ["pg_catalog", name] | [name] if plain => name,
                _ => return None,
            };
            let oid = cast_type(name)?;
            list(t.arg.as_deref()?)?.into_iter().map(|element| under_cast(element, oid)).collect()
        }
        _ => None,
    }
}
