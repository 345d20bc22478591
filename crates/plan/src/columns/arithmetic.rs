//! Operators that compute: their results have PostgreSQL's types, and what does not fit is an error to both.

use super::compare;
use super::constant;
use super::expression::{Expr, Kind};
use super::scalar;
use super::types::{DIGITS_MAX, Ty};
use super::{Found, refused};

/// `left name right`
pub fn operator(name: &str, left: Expr, right: Expr) -> Found<Expr> {
    let word = match name {
        "+" => "+",
        "-" => "-",
        "*" => "*",
        "/" => "/",
        "%" => "%",
        "||" => return scalar::concatenated(left, right),
        _ => return Err(refused(&format!("operator {name}"))),
    };
    let (left, right) = compare::settled(left, right).map_err(|_| refused(&format!("operator {name} here")))?;
    if matches!(left.kind, Kind::Null) || matches!(right.kind, Kind::Null) {
        // DuckDB gives it no type.
        return Err(refused("what is computed with NULL"));
    }
    match (left.ty, right.ty) {
        (a, b) if a.is_integer() && b.is_integer() => integers(word, left, right),
        (a, b) if a.as_numeric().is_some() && b.as_numeric().is_some() && !matches!(word, "/" | "%") => {
            numerics(word, left, right)
        }
        (a, b) => Err(refused(&format!("{} {name} {}", a.name(), b.name()))),
    }
}

/// Of the wider type, as PostgreSQL has operators for each two. DuckDB would make a constant next to a smallint one, too.
fn integers(word: &'static str, left: Expr, right: Expr) -> Found<Expr> {
    let ty = left.ty.wider(right.ty).ok_or_else(|| refused(word))?;
    let word = match word {
        "/" | "%" => {
            // By nothing is an error to PostgreSQL, and NULL to DuckDB.
            let divides = matches!(&right.kind, Kind::Constant(text) if text.parse::<i64>().is_ok_and(|n| n != 0));
            if !divides {
                return Err(refused(&format!("operator {word} with anything but a constant")));
            }
            if word == "/" { "//" } else { "%" }
        }
        word => word,
    };
    if let Some(constant) = folded(word, &left, &right, ty) {
        return Ok(constant);
    }
    Ok(Expr { ty, kind: Kind::Infix(word, vec![left.cast(ty), right.cast(ty)]) }.computed())
}

/// Of two constants, if it is of the type. (PostgreSQL computes it once, too, where there is no row as well.)
fn folded(word: &str, left: &Expr, right: &Expr, ty: Ty) -> Option<Expr> {
    let (Kind::Constant(left), Kind::Constant(right)) = (&left.kind, &right.kind) else { return None };
    let (left, right) = (left.parse::<i64>().ok()?, right.parse::<i64>().ok()?);
    let value = match word {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "//" => left.checked_div(right),
        _ => left.checked_rem(right),
    };
    let (ty, text) = constant::read(&value?.to_string(), ty)?;
    Some(Expr { ty, kind: Kind::Constant(text) })
}

/// As many digits behind the point as PostgreSQL gives the result (`add_var`, `mul_var` in numeric.c), and as many in all as there can be. Where these are
/// more than DuckDB's, it looks whether a result fits, and fails (`BindDecimalArithmetic` in arithmetic.cpp): rows answer then.
fn numerics(word: &'static str, left: Expr, right: Expr) -> Found<Expr> {
    if matches!(left.kind, Kind::Param(..)) || matches!(right.kind, Kind::Param(..)) {
        return Err(refused("a number that is computed with a parameter"));
    }
    let (left, right) = (compare::as_numeric(left)?, compare::as_numeric(right)?);
    let ((a, b), (c, d)) = (compare::numeric(&left)?, compare::numeric(&right)?);
    let (digits, scale) = match word {
        "*" => (a + c, b + d),
        _ => ((a - b).max(c - d) + b.max(d) + 1, b.max(d)),
    };
    if scale > DIGITS_MAX {
        return Err(refused("a number of so many digits"));
    }
    let digits = digits.min(DIGITS_MAX);
    Ok(Expr { ty: Ty::Numeric { digits, scale }, kind: Kind::Infix(word, vec![left, right]) })
}

/// `+ operand`, `- operand`
pub fn sign(name: &str, operand: Expr) -> Found<Expr> {
    let number = operand.ty.as_numeric().is_some() && !matches!(operand.kind, Kind::Param(..));
    match name {
        "+" if number => Ok(operand),
        "-" if number => Ok(Expr { ty: operand.ty, kind: Kind::Prefix("-", Box::new(operand)) }.computed()),
        name => Err(refused(&format!("operator {name} of {}", operand.ty.name()))),
    }
}
