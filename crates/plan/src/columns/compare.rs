//! Comparisons: which operator of PostgreSQL's is meant for two types, and when DuckDB's says the same.

use sql::NodeEnum;
use sql::ast::Node;
use wire::type_oid;

use super::collation::{self, is_bytewise, is_deterministic};
use super::constant;
use super::expression::{Expr, Kind};
use super::mixed;
use super::moment;
use super::scope::Reader;
use super::types::{DIGITS_MAX, Ty};
use super::{Found, refused};

/// A comparison by its name.
pub fn sign(name: &str) -> Option<&'static str> {
    Some(match name {
        "=" => "=",
        "<>" => "<>",
        "<" => "<",
        "<=" => "<=",
        ">" => ">",
        ">=" => ">=",
        _ => return None,
    })
}

/// Two values, compared by one of `=`, `<`, `IS DISTINCT FROM` and their like.
pub fn comparison(r: &Reader, word: &'static str, left: Expr, right: Expr) -> Found<Expr> {
    let (left, right) = settled(mixed::value(left), mixed::value(right))?;
    let (left, right) = match (left.ty, right.ty) {
        (Ty::Timestamp, Ty::Date) => with_date(left, right),
        (Ty::Date, Ty::Timestamp) => {
            let (right, left) = with_date(right, left);
            (left, right)
        }
        _ => (left, right),
    };
    let ordered = matches!(word, "<" | "<=" | ">" | ">=");
    let (left, right) = alike(r, left, right, ordered)?;
    Ok(Expr::condition(Kind::Infix(word, vec![left, right])))
}

/// A timestamp beside a date: where it is a constant that begins a day, it is that day, so that dates are compared as they are.
fn with_date(timestamp: Expr, date: Expr) -> (Expr, Expr) {
    match moment::midnight(&timestamp) {
        Some(day) if !matches!(date.kind, Kind::Constant(_)) => (day, date),
        _ => (timestamp, midnight(date)),
    }
}

/// A date as the timestamp at which it begins, as which it is compared with others (`date_cmp_timestamp_internal` in date.c).
fn midnight(e: Expr) -> Expr {
    match &e.kind {
        Kind::Constant(_) => Expr { ty: Ty::Timestamp, kind: e.kind },
        _ => e.cast(Ty::Timestamp),
    }
}

/// Where one has no type yet, it is read as the other's (`binary_oper_exact` in parse_oper.c).
pub fn settled(left: Expr, right: Expr) -> Found<(Expr, Expr)> {
    match (left.ty, right.ty) {
        (Ty::Unknown, Ty::Unknown) => Err(refused("a comparison of two constants")),
        (Ty::Unknown, ty) => Ok((settle(left, operand_type(ty))?, right)),
        (ty, Ty::Unknown) => {
            let right = settle(right, operand_type(ty))?;
            Ok((left, right))
        }
        _ => Ok((left, right)),
    }
}

/// The type of the other side of an operator: varchar has none of its own, and is text to them.
fn operand_type(ty: Ty) -> Ty {
    match ty {
        Ty::Varchar => Ty::Text,
        Ty::Bpchar(_) => Ty::Bpchar(-1),
        Ty::Numeric { .. } => Ty::PARAMETER,
        ty => ty,
    }
}

/// A constant or parameter without a type, as one of this type.
pub fn settle(e: Expr, ty: Ty) -> Found<Expr> {
    let refuse = |what: String| Err(refused(&what));
    match e.kind {
        Kind::Null if ty.oid().is_some() => Ok(Expr { ty, ..e }),
        Kind::Constant(text) => match constant::read(&text, ty) {
            Some((ty, text)) => Ok(Expr { ty, kind: Kind::Constant(text) }),
            None => refuse(format!("'{text}' as {}", ty.name())),
        },
        Kind::Param(n, _) => match ty.oid().and_then(|oid| Some((oid, Ty::of_oid(oid)?))) {
            // A numeric's digits are its own, whatever it stands beside.
            Some((oid, own)) if own == Ty::PARAMETER => Ok(Expr { ty: own, kind: Kind::Param(n, oid) }),
            Some((oid, _)) => Ok(Expr { ty, kind: Kind::Param(n, oid) }),
            _ => refuse(format!("a parameter of type {}", ty.name())),
        },
        _ => refuse(format!("a comparison with {}", ty.name())),
    }
}

/// Two values of types that are compared by one operator, with the casts that DuckDB needs. `ordered`: which is less matters.
pub fn alike(r: &Reader, left: Expr, right: Expr, ordered: bool) -> Found<(Expr, Expr)> {
    let refuse = || {
        let (mut a, mut b) = (left.ty.name(), right.ty.name());
        if a > b {
            (a, b) = (b, a);
        }
        Err(refused(&format!("a comparison of {a} with {b}")))
    };
    match (left.ty, right.ty) {
        (a, b) if a.is_integer() && b.is_integer() => Ok((left, right)),
        (a, b) if a.as_numeric().is_some() && b.as_numeric().is_some() => numbers(left, right),
        (a, b) if a.is_float() || b.is_float() => match floats(&left, &right) {
            Some(found) => Ok(found),
            None => refuse(),
        },
        (a, b) if a.is_text() && b.is_text() => strings(r, left, right, ordered),
        (Ty::Bpchar(_), Ty::Bpchar(_)) => strings(r, left, right, ordered),
        (Ty::Bool, Ty::Bool)
        | (Ty::Date, Ty::Date)
        | (Ty::Timestamp, Ty::Timestamp)
        | (Ty::Timestamptz, Ty::Timestamptz)
        | (Ty::Uuid, Ty::Uuid) => Ok((left, right)),
        _ => refuse(),
    }
}

/// An integer next to a numeric is one, too. DuckDB makes both one decimal type, in which both must fit.
fn numbers(left: Expr, right: Expr) -> Found<(Expr, Expr)> {
    let (left, right) = (as_numeric(left)?, as_numeric(right)?);
    let ((a, b), (c, d)) = (numeric(&left)?, numeric(&right)?);
    if (a - b).max(c - d) + b.max(d) > DIGITS_MAX {
        return Err(refused("a comparison of numbers of so many digits"));
    }
    Ok((left, right))
}

/// Digits, and those behind the point.
pub fn numeric(e: &Expr) -> Found<(u8, u8)> {
    e.ty.as_numeric().ok_or_else(|| refused(&format!("{} as a number", e.ty.name())))
}

/// An integer as a numeric; a numeric as it is.
pub fn as_numeric(e: Expr) -> Found<Expr> {
    let (digits, scale) = numeric(&e)?;
    if !e.ty.is_integer() {
        return Ok(e);
    }
    Ok(match &e.kind {
        Kind::Constant(text) => match constant::read(text, Ty::PARAMETER) {
            Some((ty, text)) => Expr { ty, kind: Kind::Constant(text) },
            None => e.cast(Ty::Numeric { digits, scale }),
        },
        _ => e.cast(Ty::Numeric { digits, scale }),
    })
}

/// Decimal digits that every double keeps (`DBL_DIG` of float.h).
const DOUBLE_DIGITS: u8 = 15;

/// A float and a constant. Next to another number it is a double: float4 = 0.1 compares doubles, float4 = '0.1' does not; what is a float4 already
/// has lost the digits of its text.
fn floats(left: &Expr, right: &Expr) -> Option<(Expr, Expr)> {
    if !left.is_constant() && !right.is_constant() {
        return None;
    }
    if left.ty == right.ty {
        return Some((left.clone(), right.clone()));
    }
    let double = |e: &Expr| match &e.kind {
        Kind::Constant(text) if e.ty != Ty::Float4 => {
            let (ty, text) = constant::read(text, Ty::Float8)?;
            Some(Expr { ty, kind: Kind::Constant(text) })
        }
        Kind::Param(..) if e.ty != Ty::Float8 => None,
        // Of more digits than a double has DuckDB makes one by two roundings (`TryCastDecimalToFloatingPoint`), PostgreSQL by one.
        _ if matches!(e.ty, Ty::Numeric { digits, .. } if digits > DOUBLE_DIGITS) => None,
        _ => Some(e.clone().cast(Ty::Float8)),
    };
    Some((double(left)?, double(right)?))
}

fn strings(r: &Reader, left: Expr, right: Expr, ordered: bool) -> Found<(Expr, Expr)> {
    is_deterministic(&left)?;
    is_deterministic(&right)?;
    match ordered {
        true => is_bytewise(r, &[&left, &right])?,
        false => _ = collation::of(r, &[&left, &right])?,
    }
    Ok((left, right))
}

/// `IN (…)`, `NOT IN (…)`. The elements of a list are of one type, to which the left side is compared (`transformAExprIn` in parse_expr.c).
pub fn list(r: &Reader, word: &'static str, left: &Node, right: &Node) -> Found<Expr> {
    let Some(NodeEnum::List(list)) = &right.node else { return Err(refused("IN with a subquery")) };
    listed(r, word, r.expression(left)?, &list.items)
}

/// `= ANY (ARRAY[…])`, `<> ALL (ARRAY[…])` of constants of one type. Those without a type make an array of text.
pub fn array(r: &Reader, word: &'static str, left: &Node, items: &[Node]) -> Found<Expr> {
    let left = r.expression(left)?;
    let constants = items.iter().map(|item| r.expression(item)).collect::<Found<Vec<_>>>()?;
    let texts =
        left.ty.is_text() && constants.iter().all(|c| c.ty == Ty::Unknown && !matches!(c.kind, Kind::Param(..)));
    let integers = left.ty.is_integer() && constants.iter().all(|c| c.ty.is_integer());
    match !items.is_empty() && (texts || integers) {
        true => listed(r, word, left, items),
        false => Err(refused("a comparison with such an array")),
    }
}

fn listed(r: &Reader, word: &'static str, left: Expr, items: &[Node]) -> Found<Expr> {
    if left.ty.is_float() || left.ty == Ty::Unknown {
        // Of several elements the common type may be float4, of one it is float8.
        return Err(refused(&format!("IN of {}", left.ty.name())));
    }
    r.beside(&left, items.len())?;
    let several = items.len() > 1;
    let mut elements = Vec::with_capacity(items.len());
    let mut value = left.clone();
    for item in items {
        let element = r.expression(item)?;
        if !element.is_constant() {
            return Err(refused("IN with anything but constants"));
        }
        // A parameter among several is of the list's type, which is the left side's where nothing else has a type.
        let element = match element.kind {
            Kind::Param(n, 0) if several && left.ty == Ty::Varchar => {
                Expr { ty: Ty::Varchar, kind: Kind::Param(n, type_oid::VARCHAR) }
            }
            _ => element,
        };
        let (of, element) = settled(left.clone(), element)?;
        let (of, element) = alike(r, of, element, false)?;
        // An integer column with a numeric in its list is a numeric.
        if of != left {
            value = of;
        }
        elements.push(element);
    }
    let typed = |e: &Expr| !matches!(e.kind, Kind::Null) && e.ty.oid() != left.ty.oid() && !e.ty.is_text();
    let params = elements.iter().any(|e| matches!(e.kind, Kind::Param(..)));
    if several && params && elements.iter().any(typed) {
        return Err(refused("IN with parameters and constants of another type"));
    }
    if value != left && elements.iter().any(|e| e.ty.is_integer()) {
        elements = elements.into_iter().map(as_numeric).collect::<Found<_>>()?;
    }
    if let Some((digits, scale)) = elements.iter().filter_map(|e| e.ty.as_numeric()).reduce(common) {
        let (own, behind) = value.ty.as_numeric().unwrap_or((0, 0));
        let (whole, behind) = ((own - behind).max(digits - scale), behind.max(scale));
        if whole + behind > DIGITS_MAX {
            return Err(refused("a comparison of numbers of so many digits"));
        }
    }
    Ok(Expr::condition(Kind::List(Box::new(value), word, elements)))
}

/// The type that has the digits of both before and behind the point; more than there are of if there is none.
fn common((a, b): (u8, u8), (c, d): (u8, u8)) -> (u8, u8) {
    let scale = b.max(d);
    ((a - b).max(c - d).saturating_add(scale), scale)
}

/// LIKE of a constant pattern. Backslash is PostgreSQL's escape, and has to be named to DuckDB; `_` is a character to both.
pub fn like(r: &Reader, word: &'static str, left: Expr, right: Expr) -> Found<Expr> {
    let (Kind::Constant(pattern), true) = (&right.kind, right.ty == Ty::Unknown || right.ty.is_text()) else {
        return Err(refused("LIKE with anything but a constant"));
    };
    let escapes = pattern.bytes().rev().take_while(|b| *b == b'\\').count();
    if pattern.contains('\0') || escapes % 2 == 1 {
        return Err(refused("LIKE with such a pattern"));
    }
    if pattern.contains(['_', '\\']) {
        is_soon_found(pattern)?;
    }
    match left.ty {
        ty if ty.is_text() => {}
        // The blanks at the end, which stores do not have, are part of what LIKE looks at.
        Ty::Bpchar(_) => {
            let prefix = pattern.strip_suffix('%').filter(|p| !p.contains(['%', '_', '\\']) && !p.ends_with(' '));
            prefix.ok_or_else(|| refused("LIKE of character(n) by a pattern that is not a beginning"))?;
        }
        ty => return Err(refused(&format!("LIKE of {}", ty.name()))),
    }
    is_deterministic(&left)?;
    collation::of(r, &[&left])?;
    let text = |text: &str| Expr { ty: Ty::Text, kind: Kind::Constant(text.into()) };
    if pattern.contains('\\') {
        let name = if word == "LIKE" { "like_escape" } else { "not_like_escape" };
        return Ok(Expr::condition(Kind::Call(name, vec![left, text(pattern), text("\\")])));
    }
    let pattern = text(pattern);
    Ok(Expr::condition(Kind::Infix(word, vec![left, pattern])))
}

/// What stands behind one `%` DuckDB tries at every place, and behind two for every place of the first, and hears of nothing meanwhile; PostgreSQL knows
/// when to give up (`LIKE_ABORT` in like_match.c). Behind those at the end stands nothing.
fn is_soon_found(pattern: &str) -> Found<()> {
    match pattern.trim_end_matches('%').split('%').skip(1).filter(|piece| !piece.is_empty()).count() {
        0 | 1 => Ok(()),
        _ => Err(refused("LIKE with a pattern of several %")),
    }
}

/// ILIKE of a plain pattern of ASCII, of texts of which no other characters are: what is the same but for its case, is said alike of those
/// by all locales that order by bytes. Others are an error, and rows answer.
pub fn like_folded(r: &Reader, word: &'static str, left: Expr, right: Expr) -> Found<Expr> {
    let (Kind::Constant(pattern), true) = (&right.kind, right.ty == Ty::Unknown || right.ty.is_text()) else {
        return Err(refused("ILIKE with anything but a constant"));
    };
    if !pattern.is_ascii() || pattern.contains(['\\', '\0']) {
        return Err(refused("ILIKE with such a pattern"));
    }
    is_soon_found(pattern)?;
    if !left.ty.is_text() {
        return Err(refused(&format!("ILIKE of {}", left.ty.name())));
    }
    is_deterministic(&left)?;
    is_bytewise(r, &[&left])?;
    let pattern = Expr { ty: Ty::Text, kind: Kind::Constant(pattern.clone()) };
    let found = Expr::condition(Kind::Infix(word, vec![r.again(&left)?, pattern]));
    of_ascii(r, &left, found)
}

/// The value, if a text has no characters beyond ASCII; an error otherwise.
pub fn of_ascii(r: &Reader, text: &Expr, value: Expr) -> Found<Expr> {
    let count = |name| Ok::<_, String>(Expr { ty: Ty::Opaque, kind: Kind::Call(name, vec![r.again(text)?]) });
    let beyond = Expr::condition(Kind::Infix(">", vec![count("strlen")?, count("length")?]));
    let why = Expr { ty: Ty::Text, kind: Kind::Constant("a text is not of ASCII alone".into()) };
    let error = Expr { ty: value.ty, kind: Kind::Call("error", vec![why]) };
    Ok(Expr { ty: value.ty, kind: Kind::Case { whens: vec![(beyond, error)], otherwise: Box::new(value) } })
}
