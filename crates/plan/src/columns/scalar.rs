//! Calls of functions that take one row's values, and `||`. Of times only what is the same in every zone.

use sql::ast::{self, Node};

use super::constant;
use super::expression::{Expr, Kind};
use super::scope::Reader;
use super::types::Ty;
use super::{Found, collation, compare, refused};

/// The greatest length that is a plain number.
const LENGTH_MAX: u32 = 1_000_000;

/// A call of one of these by its name.
pub fn call(r: &Reader, name: &str, f: &ast::FuncCall) -> Found<Expr> {
    let plain = !f.agg_star && !f.agg_distinct && f.agg_filter.is_none();
    match (name, &f.args[..]) {
        _ if !plain => Err(refused(&format!("{name}()"))),
        ("abs", [arg]) => abs(r.expression(arg)?),
        ("length" | "char_length" | "character_length", [arg]) => length(name, r.expression(arg)?),
        ("lower", [arg]) => folded(r, "lower", r.expression(arg)?),
        ("upper", [arg]) => folded(r, "upper", r.expression(arg)?),
        ("left", [arg, count]) => part(r, "left", arg, &[number(r, count, 0)?]),
        ("substr" | "substring", [arg, from, count]) => {
            part(r, "substring", arg, &[number(r, from, 1)?, number(r, count, 0)?])
        }
        ("date_trunc", [unit, arg]) => truncated(r, &word(r, unit)?, r.expression(arg)?),
        ("extract", [field, arg]) => extracted(r, &word(r, field)?, r.expression(arg)?),
        _ => Err(refused(&format!("{name}()"))),
    }
}

fn abs(of: Expr) -> Found<Expr> {
    match of.ty {
        ty if ty.as_numeric().is_some() && !matches!(of.kind, Kind::Param(..)) => {
            Ok(Expr { ty, kind: Kind::Call("abs", vec![of]) }.computed())
        }
        ty => Err(refused(&format!("abs() of {}", ty.name()))),
    }
}

/// Blanks at the end of a character(n) are none of its.
fn length(name: &str, of: Expr) -> Found<Expr> {
    match of.ty {
        ty if ty.is_string() => Ok(Expr { ty: Ty::Opaque, kind: Kind::Call("length", vec![of]) }.cast(Ty::Int4)),
        ty => Err(refused(&format!("{name}() of {}", ty.name()))),
    }
}

/// A text in one case, where it is of ASCII alone: see [`compare::like_folded`]. A character(n) becomes a text first.
fn folded(r: &Reader, name: &'static str, of: Expr) -> Found<Expr> {
    if !of.ty.is_string() {
        return Err(refused(&format!("{name}() of {}", of.ty.name())));
    }
    collation::is_deterministic(&of)?;
    collation::is_bytewise(r, &[&of])?;
    let found = Expr { ty: Ty::Text, kind: Kind::Call(name, vec![r.again(&of)?]) };
    compare::of_ascii(r, &of, found)
}

/// Some characters of a text. A character(n) becomes a text first, without the blanks at its end.
fn part(r: &Reader, name: &'static str, of: &Node, numbers: &[Expr]) -> Found<Expr> {
    let of = r.expression(of)?;
    match of.ty {
        ty if ty.is_string() => {
            let operands = std::iter::once(of).chain(numbers.iter().cloned()).collect();
            Ok(Expr { ty: Ty::Text, kind: Kind::Call(name, operands) })
        }
        ty => Err(refused(&format!("{name}() of {}", ty.name()))),
    }
}

/// `left || right`, of texts.
pub fn concatenated(left: Expr, right: Expr) -> Found<Expr> {
    let (left, right) = compare::settled(left, right)?;
    match (left.ty, right.ty) {
        (a, b) if a.is_text() && b.is_text() => Ok(Expr { ty: Ty::Text, kind: Kind::Infix("||", vec![left, right]) }),
        (a, b) => Err(refused(&format!("{} || {}", a.name(), b.name()))),
    }
}

/// The start of the unit in which a timestamp is.
fn truncated(r: &Reader, unit: &str, of: Expr) -> Found<Expr> {
    const UNITS: [&str; 8] = ["second", "minute", "hour", "day", "week", "month", "quarter", "year"];
    match of.ty {
        _ if !UNITS.contains(&unit) => Err(refused(&format!("date_trunc() to '{unit}'"))),
        Ty::Timestamp => {
            let text = |text: &str| Expr { ty: Ty::Text, kind: Kind::Constant(text.into()) };
            let moment = |kind| Expr { ty: Ty::Timestamp, kind };
            let start = moment(Kind::Call("date_trunc", vec![text(unit), of]));
            // PostgreSQL has nothing before.
            let first = moment(Kind::Constant("4714-11-24 (BC) 00:00:00".into()));
            let early = Expr::condition(Kind::Infix("<", vec![r.again(&start)?, first]));
            let infinite = Expr::condition(Kind::Call("isinf", vec![r.again(&start)?]));
            let error = moment(Kind::Fails("timestamp out of range"));
            let whens = vec![(infinite, r.again(&start)?), (early, error)];
            Ok(moment(Kind::Case { whens, otherwise: Box::new(start) }))
        }
        // PostgreSQL makes a date one with a zone first.
        ty => Err(refused(&format!("date_trunc() of {}", ty.name()))),
    }
}

/// A field of a date or timestamp: a whole number, and NULL of an infinity. The year of one is an infinity, which no decimal is; years before
/// the first count from −1.
fn extracted(r: &Reader, field: &str, of: Expr) -> Found<Expr> {
    let name = match (field, of.ty) {
        ("year", Ty::Date | Ty::Timestamp) => "year",
        ("quarter", Ty::Date | Ty::Timestamp) => "quarter",
        ("month", Ty::Date | Ty::Timestamp) => "month",
        ("day", Ty::Date | Ty::Timestamp) => "day",
        ("dow", Ty::Date | Ty::Timestamp) => "dayofweek",
        ("isodow", Ty::Date | Ty::Timestamp) => "isodow",
        ("doy", Ty::Date | Ty::Timestamp) => "dayofyear",
        ("hour", Ty::Timestamp) => "hour",
        ("minute", Ty::Timestamp) => "minute",
        (field, ty) => return Err(refused(&format!("extract({field}) of {}", ty.name()))),
    };
    let integer = |kind| Expr { ty: Ty::Int8, kind };
    let found = integer(Kind::Call(name, vec![r.again(&of)?]));
    let found = match name {
        "year" => {
            let constant = |text: &str| integer(Kind::Constant(text.into()));
            let early = Expr::condition(Kind::Infix("<=", vec![r.again(&found)?, constant("0")]));
            let before = integer(Kind::Infix("-", vec![r.again(&found)?, constant("1")]));
            let infinite = Expr::condition(Kind::Call("isinf", vec![of]));
            let error = Expr { ty: Ty::Text, kind: Kind::Constant("an infinite year".into()) };
            let error = integer(Kind::Call("error", vec![error]));
            integer(Kind::Case { whens: vec![(infinite, error), (early, before)], otherwise: Box::new(found) })
        }
        _ => found,
    };
    Ok(found.cast(Ty::Numeric { digits: 19, scale: 0 }))
}

/// A constant text, in the one spelling that is listed.
fn word(r: &Reader, node: &Node) -> Found<String> {
    match r.expression(node)? {
        Expr { ty: Ty::Unknown | Ty::Text, kind: Kind::Constant(text) } => Ok(text),
        _ => Err(refused("a function with anything but a constant for its unit")),
    }
}

/// A constant number from here on.
fn number(r: &Reader, node: &Node, least: u32) -> Found<Expr> {
    match r.expression(node)? {
        Expr { ty: Ty::Int4, kind: Kind::Constant(text) }
            if text.parse::<u32>().is_ok_and(|n| (least..=LENGTH_MAX).contains(&n)) =>
        {
            let (ty, text) = constant::read(&text, Ty::Int8).ok_or_else(|| refused("a number"))?;
            Ok(Expr { ty, kind: Kind::Constant(text) })
        }
        _ => Err(refused("a part of a text by anything but plain numbers")),
    }
}
