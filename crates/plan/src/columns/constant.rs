//! Constants: of what type PostgreSQL reads a literal or a parameter's value, and whether DuckDB reads the same in it.
//!
//! Only the plainest form of each type is read (`-12.50`, `2026-01-31`): that both surely read alike. What else PostgreSQL allows is refused.

use catalog::Oid;
use sql::ast::{AConst, a_const::Val};

use super::expression::{Expr, Kind};
use super::types::{DIGITS_MAX, Ty};
use super::{Found, refused};

/// A literal as it stands in a statement (`make_const` in parse_node.c).
pub fn literal(c: &AConst) -> Found<Expr> {
    if c.isnull {
        return Ok(Expr { ty: Ty::Unknown, kind: Kind::Null });
    }
    let (ty, text) = match &c.val {
        Some(Val::Ival(i)) => (Ty::Int4, i.ival.to_string()),
        Some(Val::Fval(f)) => {
            // `.5`
            let text = if f.fval.starts_with('.') { format!("0{}", f.fval) } else { f.fval.clone() };
            (number(&text)?, text)
        }
        Some(Val::Boolval(b)) => (Ty::Bool, b.boolval.to_string()),
        Some(Val::Sval(s)) => (Ty::Unknown, s.sval.clone()),
        Some(Val::Bsval(_)) | None => return Err(refused("a bit string")),
    };
    Ok(Expr { ty, kind: Kind::Constant(text) })
}

/// The type of a number that is not a small integer.
fn number(text: &str) -> Found<Ty> {
    match text.parse::<i64>() {
        Ok(value) if is_integer(text) => Ok(if i32::try_from(value).is_ok() { Ty::Int4 } else { Ty::Int8 }),
        _ => decimal(text).ok_or_else(|| refused(&format!("the number {text}"))),
    }
}

/// Text that is to be of a type: what it says in DuckDB's words, and its own digits where it is a numeric. `None`: it may be read in another way, or is an error.
pub fn read(text: &str, ty: Ty) -> Option<(Ty, String)> {
    let as_it_is = || Some((ty, text.to_string()));
    match ty {
        Ty::Bool => matches!(text, "t" | "f" | "true" | "false").then(as_it_is)?,
        Ty::Int2 => text.parse::<i16>().ok().filter(|_| is_integer(text)).and_then(|_| as_it_is()),
        Ty::Int4 => text.parse::<i32>().ok().filter(|_| is_integer(text)).and_then(|_| as_it_is()),
        Ty::Int8 => text.parse::<i64>().ok().filter(|_| is_integer(text)).and_then(|_| as_it_is()),
        Ty::Numeric { .. } => decimal(text).map(|ty| (ty, text.to_string())),
        Ty::Float4 => is_small_float(text).then(as_it_is)?,
        Ty::Float8 => is_float(text).then(as_it_is)?,
        Ty::Text | Ty::Varchar => as_it_is().filter(|_| !text.contains('\0')),
        Ty::Bpchar(_) => Some((ty, text.trim_end_matches(' ').to_string())).filter(|_| !text.contains('\0')),
        Ty::Date => is_date(text).then(as_it_is)?,
        Ty::Timestamp => is_timestamp(text).then(as_it_is)?,
        Ty::Timestamptz => in_utc(text).map(|text| (ty, text)),
        Ty::Uuid => is_uuid(text).then(as_it_is)?,
        Ty::Bytea | Ty::Mixed | Ty::Opaque | Ty::Own | Ty::Unknown => None,
    }
}

/// See [`super::parameter`].
pub fn parameter(oid: Oid, value: Option<&str>) -> Option<String> {
    let ty = Ty::of_oid(oid)?;
    let Some(text) = value else { return Some(format!("NULL::{ty}")) };
    let (own, text) = read(text, ty)?;
    if let (Ty::Numeric { digits, scale }, Some((most, behind))) = (own, Ty::PARAMETER.as_numeric())
        && (scale > behind || digits - scale > most - behind)
    {
        return None;
    }
    Some(written(&text, own))
}

/// A constant for DuckDB.
pub fn written(text: &str, ty: Ty) -> String {
    let quoted = format!("'{}'", text.replace('\'', "''"));
    if ty.is_string() { quoted } else { format!("{quoted}::{ty}") }
}

/// Digits, and a sign.
fn is_integer(text: &str) -> bool {
    is_digits(text.strip_prefix('-').unwrap_or(text))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// The type that has just the digits of a number: `-12.50` has four, two of them behind the point.
fn decimal(text: &str) -> Option<Ty> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let scale = if unsigned.contains('.') { fraction.len() } else { 0 };
    let digits = (whole.trim_start_matches('0').len() + scale).max(1);
    let (digits, scale) = (u8::try_from(digits).ok()?, u8::try_from(scale).ok()?);
    (digits <= DIGITS_MAX).then_some(Ty::Numeric { digits, scale })
}

/// A number with or without an exponent; not NaN or an infinity, which DuckDB knows by more names. None too great or too small for a double either.
fn is_float(text: &str) -> bool {
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let short = text.len() <= 40 && exponent.parse::<u16>().is_ok_and(|e| e <= 30);
    short && decimal(number).is_some() && is_digits(exponent)
}

/// One that a float4 holds: PostgreSQL refuses what would be infinite in it, or zero.
fn is_small_float(text: &str) -> bool {
    let is_zero =
        || text.split(['e', 'E']).next().is_some_and(|number| !number.contains(|c: char| ('1'..='9').contains(&c)));
    is_float(text) && text.parse::<f32>().is_ok_and(|f| f.is_finite() && (f.is_normal() || is_zero()))
}

/// A timestamp with its offset behind it, `+00`, `-03:30` or `Z`, as the timestamp that it is in UTC. Without an offset the session's zone would
/// count, which is not known here.
fn in_utc(text: &str) -> Option<String> {
    if let Some(utc) = ["+00", "+00:00", "Z"].iter().find_map(|zone| text.strip_suffix(zone)) {
        return (utc.contains(' ') && is_timestamp(utc)).then(|| utc.to_string());
    }
    let (local, offset) = text.split_at(text.rfind(['+', '-'])?);
    let (hours, minutes) = offset[1..].split_once(':').unwrap_or((&offset[1..], "00"));
    let number =
        |text: &str, most: i64| text.parse::<i64>().ok().filter(|n| text.len() == 2 && is_digits(text) && *n <= most);
    let offset_minutes = number(hours, 14)? * 60 + number(minutes, 59)?;
    let (date, time) = local.split_once(' ').filter(|_| is_timestamp(local))?;
    let (clock, rest) = time.split_at(5);
    let minutes = number(&clock[..2], 23)? * 60 + number(&clock[3..], 59)?;
    let minutes = if offset.starts_with('-') { minutes + offset_minutes } else { minutes - offset_minutes };
    let date = match minutes.div_euclid(24 * 60) {
        0 => date.to_string(),
        days => day_beside(date, days)?,
    };
    let minutes = minutes.rem_euclid(24 * 60);
    Some(format!("{date} {:02}:{:02}{rest}", minutes / 60, minutes % 60))
}

/// The day before, or behind.
fn day_beside(date: &str, days: i64) -> Option<String> {
    let part = |from: usize, to: usize| date.get(from..to)?.parse::<u32>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (year, month, day) = match (days, month, day) {
        (-1, 1, 1) => (year.checked_sub(1)?, 12, 31),
        (-1, _, 1) => (year, month - 1, days_of(year, month - 1)),
        (-1, ..) => (year, month, day - 1),
        (_, 12, 31) => (year + 1, 1, 1),
        _ if day == days_of(year, month) => (year, month + 1, 1),
        _ => (year, month, day + 1),
    };
    let text = format!("{year:04}-{month:02}-{day:02}");
    is_date(&text).then_some(text)
}

fn days_of(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// `2026-01-31`: a day of the calendar in the years 1 to 9999.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    let number =
        |text: &str, digits: usize| text.parse::<u32>().ok().filter(|_| text.len() == digits && is_digits(text));
    let (Some(year), Some(month), Some(day)) = (number(year, 4), number(month, 2), number(day, 2)) else {
        return false;
    };
    year >= 1 && (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day)
}

/// A date, or one with `10:20:30` or `10:20:30.123456` behind it.
fn is_timestamp(text: &str) -> bool {
    let Some((date, time)) = text.split_once(' ') else { return is_date(text) };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let parts: Vec<&str> = clock.split(':').collect();
    let [hour, minute, second] = parts[..] else { return false };
    let below = |text: &str, most: u32| text.len() == 2 && is_digits(text) && text.parse().is_ok_and(|n: u32| n < most);
    is_date(date)
        && below(hour, 24)
        && below(minute, 60)
        && below(second, 60)
        && is_digits(fraction)
        && fraction.len() <= 6
}

/// 8-4-4-4-12 hexadecimal digits.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|g| g.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
#[path = "constant/tests.rs"]
mod tests;
