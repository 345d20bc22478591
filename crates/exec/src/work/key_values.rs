//! What a key expression is worth in one execution, as far as the router can read it. It asks nobody.

use bytes::Bytes;
use key::{Converted, KeyError};
use plan::{KeyExpr, LiteralKind};
use wire::type_oid;

use crate::request::{Literals, Request};
use crate::router::compiled::Compiled;

/// A key value at execution.
pub enum Value {
    Known(Option<Vec<u8>>),
    /// No row can have it (out of the type's range).
    Impossible,
    /// Only PostgreSQL can read this text as the key's type.
    Ask(String),
    /// Says nothing of the key.
    Unknown,
}

/// The value or values an expression has in this request.
pub(super) fn evaluate(compiled: &Compiled, request: &Request, e: &KeyExpr, ty: u32) -> Vec<Value> {
    match e {
        KeyExpr::Null => vec![Value::Known(None)],
        KeyExpr::Literal { .. } => vec![literal_value(compiled, request, e, ty)],
        KeyExpr::Param(n) => vec![param(request, *n, ty)],
        KeyExpr::CastParam(n, cast) => vec![cast_param(request, *n, *cast, ty)],
        KeyExpr::ParamArray(n) => array(request, *n, None, ty),
        KeyExpr::CastParamArray(n, cast) => array(request, *n, Some(*cast), ty),
        KeyExpr::Evaluated(_) => vec![Value::Unknown],
    }
}

/// The value a literal of the plan has in this request.
pub(super) fn literal_value(compiled: &Compiled, request: &Request, e: &KeyExpr, ty: u32) -> Value {
    let KeyExpr::Literal { location, text, kind, cast } = e else { return Value::Unknown };
    match request.literals {
        Literals::Own => literal(ty, text, *kind, *cast),
        Literals::Template(_) if location.is_none() => literal(ty, text, *kind, *cast),
        Literals::Template(t) => match location.and_then(|l| compiled.literal(l)) {
            Some((index, negative)) => match t.literal_value(request.sql, index) {
                Ok(value) if negative => literal(ty, &format!("-{value}"), *kind, *cast),
                Ok(value) => literal(ty, &value, *kind, *cast),
                Err(_) => Value::Unknown,
            },
            None => Value::Unknown,
        },
    }
}

/// The value of a literal in this request, as text.
pub(super) fn literal_text(compiled: &Compiled, request: &Request, e: &KeyExpr) -> Option<String> {
    let KeyExpr::Literal { location, text, .. } = e else { return None };
    match (request.literals, location) {
        (Literals::Own, _) | (_, None) => Some(text.clone()),
        (Literals::Template(t), Some(location)) => {
            let (index, negative) = compiled.literal(*location)?;
            let value = t.literal_value(request.sql, index).ok()?;
            Some(if negative { format!("-{value}") } else { value.into_owned() })
        }
    }
}

fn literal(ty: u32, text: &str, kind: LiteralKind, cast: Option<u32>) -> Value {
    // Read as the cast's type by PostgreSQL; of a number (`5.5::int`) only integers are read here.
    if let Some(cast) = cast.filter(|cast| *cast != ty || type_oid::is_integer(*cast)) {
        return key::parse_text(cast, text).map_or(Value::Unknown, |v| converted(cast, ty, &v));
    }
    match kind {
        LiteralKind::String => from_text(ty, text),
        // What it is printed as is what was written only of plain integers.
        LiteralKind::Number if type_oid::is_string(ty) => match is_printed_so(text) {
            true => from_text(ty, text),
            false => Value::Unknown,
        },
        LiteralKind::Number => {
            let number = ty == type_oid::OID || type_oid::is_number(ty);
            match key::parse_text(ty, text) {
                Ok(v) if number => Value::Known(Some(v)),
                Err(KeyError::OutOfRange { .. }) if number => Value::Impossible,
                // 5.0 against an integer key: equal to 5, but not written like it.
                _ => Value::Unknown,
            }
        }
    }
}

/// A number as it is written, without a cast.
pub(super) fn is_bare_number(e: &KeyExpr) -> bool {
    matches!(e, KeyExpr::Literal { kind: LiteralKind::Number, cast: None, .. })
}

/// The literal is a number, of which this type makes no value where it is assigned.
pub(super) fn takes_no_number(e: &KeyExpr, ty: u32) -> bool {
    is_bare_number(e) && !type_oid::is_number(ty) && !type_oid::is_string(ty) && ty != type_oid::OID
}

/// Digits, and maybe a minus, that PostgreSQL prints as they are.
fn is_printed_so(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    text == "0" || !digits.starts_with('0') && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

pub(super) fn from_text(ty: u32, text: &str) -> Value {
    match key::parse_text(ty, text) {
        Ok(v) => Value::Known(Some(v)),
        Err(_) => Value::Ask(text.to_string()),
    }
}

pub(super) fn param(request: &Request, n: usize, ty: u32) -> Value {
    let Some(bound) = request.bound else { return Value::Unknown };
    let Some(value) = bound.values.get(n - 1) else { return Value::Unknown };
    let declared = bound.types.get(n - 1).copied().unwrap_or(0);
    let Some(value) = value else { return Value::Known(None) };
    typed(bound.format(n - 1), declared, value, ty)
}

/// A parameter under a cast: its number, and the name of the cast's type, if it has one.
pub(super) fn parameter(e: &KeyExpr) -> Option<(usize, Option<&'static str>)> {
    match e {
        KeyExpr::Param(n) => Some((*n, None)),
        KeyExpr::CastParam(n, cast) => {
            let name = match *cast {
                type_oid::INT2 => "int2",
                type_oid::INT4 => "int4",
                type_oid::INT8 => "int8",
                type_oid::VARCHAR => "varchar",
                type_oid::UUID => "uuid",
                _ => "text",
            };
            Some((*n, Some(name)))
        }
        _ => None,
    }
}

/// `$n::cast`, where that is certain: the value itself, a string read as the cast's type, an integer as another.
pub(super) fn cast_param(request: &Request, n: usize, cast: u32, ty: u32) -> Value {
    let declared = request.bound.and_then(|b| b.types.get(n - 1)).copied().unwrap_or(0);
    if declared == cast {
        return param(request, n, ty);
    }
    let Some(Some(value)) = request.bound.and_then(|b| b.values.get(n - 1)) else { return param(request, n, ty) };
    match declared {
        // PostgreSQL takes the parameter to be of the cast's type.
        0 | type_oid::UNKNOWN if request.bound.is_some_and(|b| b.format(n - 1) == 0) => typed(0, cast, value, ty),
        0 | type_oid::UNKNOWN => Value::Unknown,
        // text, varchar: the same bytes in both formats
        type_oid::TEXT | type_oid::VARCHAR => {
            match std::str::from_utf8(value).ok().and_then(|text| key::parse_text(cast, text).ok()) {
                Some(v) => converted(cast, ty, &v),
                None => Value::Unknown,
            }
        }
        _ if type_oid::is_integer(declared) && type_oid::is_integer(cast) => match param(request, n, cast) {
            Value::Known(Some(v)) => converted(cast, ty, &v),
            _ => Value::Unknown,
        },
        _ => Value::Unknown,
    }
}

fn typed(format: i16, declared: u32, value: &Bytes, ty: u32) -> Value {
    if format == 0 {
        let Ok(text) = std::str::from_utf8(value) else { return Value::Unknown };
        if declared == ty || declared == 0 || declared == type_oid::UNKNOWN {
            return from_text(ty, text);
        }
        return match key::parse_text(declared, text) {
            Ok(v) => converted(declared, ty, &v),
            Err(_) => Value::Unknown,
        };
    }
    converted(declared, ty, value)
}

/// A value of one type as one of the key's.
pub(super) fn converted(from: u32, to: u32, value: &[u8]) -> Value {
    if from == to {
        return Value::Known(Some(value.to_vec()));
    }
    match key::convert(from, to, value) {
        Some(Converted::Value(v)) => Value::Known(Some(v)),
        Some(Converted::NoMatch) => Value::Impossible,
        None => Value::Unknown,
    }
}

/// The elements of an array parameter, in binary or text form. `cast`: the elements' type by a cast, which must keep their values.
fn array(request: &Request, n: usize, cast: Option<u32>, ty: u32) -> Vec<Value> {
    let unknown = || vec![Value::Unknown];
    let Some(bound) = request.bound else { return unknown() };
    let Some(Some(value)) = bound.values.get(n - 1) else { return unknown() };
    let Some(element) = bound.types.get(n - 1).and_then(|array| type_oid::element(*array)) else { return unknown() };
    if cast.is_some_and(|cast| !plan::keys::is_kept(element, cast)) {
        return unknown();
    }
    if bound.format(n - 1) == 0 {
        let Ok(text) = std::str::from_utf8(value) else { return unknown() };
        let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else { return unknown() };
        if inner.contains(['"', '{', '\\']) {
            return unknown();
        }
        if inner.is_empty() {
            return vec![Value::Impossible];
        }
        return inner
            .split(',')
            .map(key::trim_space)
            .filter(|e| !e.eq_ignore_ascii_case("null"))
            .map(|e| match key::parse_text(element, e) {
                Ok(v) => converted(element, ty, &v),
                Err(_) => Value::Unknown,
            })
            .chain(std::iter::once(Value::Impossible))
            .collect();
    }
    let mut r = wire::frame::Reader::new(value);
    let mut read = || -> std::result::Result<Vec<Value>, wire::WireError> {
        let (dimensions, _, _) = (r.i32()?, r.i32()?, r.u32()?);
        let mut count = usize::from(dimensions > 0);
        for _ in 0..dimensions {
            count = count.saturating_mul(r.i32()?.max(0) as usize);
            r.i32()?;
        }
        let mut values = vec![Value::Impossible];
        for _ in 0..count {
            if let Some(v) = r.value()? {
                values.push(converted(element, ty, v));
            }
        }
        Ok(values)
    };
    read().unwrap_or_else(|_| unknown())
}
