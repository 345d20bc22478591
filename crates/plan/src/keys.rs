//! Constants of a statement as key expressions. It does not evaluate them.

use sql::ast::{self, Node, a_const::Val};
use sql::{NodeEnum, names};

use crate::types::{KeyExpr, LiteralKind};
use crate::views;
use wire::type_oid;

/// The constant an expression is, if it is a literal or a parameter, perhaps under a cast that keeps its value.
pub fn constant(node: &Node) -> Option<KeyExpr> {
    match node.node.as_ref()? {
        NodeEnum::AConst(c) => literal(c),
        NodeEnum::ParamRef(p) if p.number > 0 => Some(KeyExpr::Param(p.number as usize)),
        NodeEnum::TypeCast(t) => {
            let inner = constant(t.arg.as_deref()?)?;
            let name = names::plain_type(t.type_name.as_ref()?)?;
            if let KeyExpr::Param(n) | KeyExpr::CastParam(n, type_oid::TEXT | type_oid::VARCHAR) = inner {
                let plain = t.type_name.as_ref()?.typmods.is_empty();
                return cast_type(name).filter(|_| plain).map(|oid| KeyExpr::CastParam(n, oid));
            }
            let keeps = keeps_value(name, &inner, !t.type_name.as_ref()?.typmods.is_empty());
            keeps.then(|| if is_integer(name) { as_number(inner) } else { inner })
        }
        _ => None,
    }
}

/// `'5'::int` is a number: one that is out of the key's range equals none of its values, while a string is read as the key's type.
fn as_number(literal: KeyExpr) -> KeyExpr {
    match literal {
        KeyExpr::Literal { location, text, .. } => KeyExpr::Literal { location, text, kind: LiteralKind::Number },
        other => other,
    }
}

fn is_integer(type_name: &str) -> bool {
    matches!(type_name, "int2" | "int4" | "int8" | "smallint" | "int" | "integer" | "bigint")
}

/// Types whose values the router can make of a parameter.
fn cast_type(name: &str) -> Option<u32> {
    match name {
        "smallint" => Some(type_oid::INT2),
        "int" | "integer" => Some(type_oid::INT4),
        "bigint" => Some(type_oid::INT8),
        "int2" | "int4" | "int8" | "text" | "varchar" | "uuid" => type_oid::named(name),
        _ => None,
    }
}

/// Casts under which the text of a literal still means the same key value, whatever the key's type.
fn keeps_value(type_name: &str, inner: &KeyExpr, has_typmod: bool) -> bool {
    let integer = is_integer(type_name);
    match inner {
        KeyExpr::Literal { kind: LiteralKind::Number, .. } => integer,
        KeyExpr::Literal { kind: LiteralKind::String, text, .. } => {
            (integer && text.trim().bytes().all(|b| b.is_ascii_digit() || b == b'-'))
                || (!has_typmod
                    && matches!(
                        type_name,
                        "text" | "varchar" | "uuid" | "date" | "timestamp" | "timestamptz" | "bytea"
                    ))
        }
        KeyExpr::Null => true,
        _ => false,
    }
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
    Some(KeyExpr::Literal { location, text, kind })
}

/// The values of an `IN (…)` list or an array constant; `None` if one of them is not a constant.
pub fn list(node: &Node) -> Option<Vec<KeyExpr>> {
    match node.node.as_ref()? {
        NodeEnum::List(l) => l.items.iter().map(constant).collect(),
        NodeEnum::AArrayExpr(a) => a.elements.iter().map(constant).collect(),
        NodeEnum::ParamRef(p) if p.number > 0 => Some(vec![KeyExpr::ParamArray(p.number as usize)]),
        NodeEnum::TypeCast(t) => {
            let t_name = t.type_name.as_ref()?;
            let element = names::last(&t_name.names);
            let same =
                matches!(element, "int2" | "int4" | "int8" | "text" | "varchar" | "uuid") && t_name.typmods.is_empty();
            if t_name.array_bounds.is_empty() || !same { None } else { list(t.arg.as_deref()?) }
        }
        _ => None,
    }
}
