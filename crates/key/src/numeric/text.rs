//! `numeric` from text and to text (`numeric_in`, `numeric_out`). It knows decimal digits, not how they are stored.

use super::{Finite, Numeric, SCALE_MAX, overflow};
use crate::KeyError;
use crate::text::trim_space;

impl Numeric {
    /// `numeric_in` without a type modifier.
    pub(crate) fn parse(text: &str) -> Result<Numeric, KeyError> {
        // A huge exponent is reported as such even when something else follows it: malformed texts with one are left to the server.
        let invalid = || {
            if text.contains(['e', 'E']) { KeyError::NeedsServer } else { KeyError::invalid("numeric", text) }
        };
        let trimmed = trim_space(text);
        let (negative, body) = match trimmed.as_bytes() {
            [b'-', ..] => (true, &trimmed[1..]),
            [b'+', ..] => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        if trimmed.eq_ignore_ascii_case("nan") {
            return Ok(Numeric::NaN);
        }
        if body.eq_ignore_ascii_case("inf") || body.eq_ignore_ascii_case("infinity") {
            return Ok(Numeric::Infinity { negative });
        }
        if let [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', ..] = body.as_bytes() {
            let absolute = crate::integer::parse_prefixed(body).ok_or(KeyError::NeedsServer)?;
            return Ok(Numeric::from_integer(if negative { -absolute } else { absolute }));
        }
        let parsed = Decimal::parse(body.as_bytes()).ok_or_else(invalid)?;
        let scale = parsed.scale()?;
        Finite::from_decimals(negative, &parsed.decimals, parsed.point + parsed.exponent, scale).map(Numeric::Finite)
    }

    /// `numeric_out`.
    pub(crate) fn to_text(&self) -> String {
        let finite = match self {
            Numeric::NaN => return "NaN".to_owned(),
            Numeric::Infinity { negative: false } => return "Infinity".to_owned(),
            Numeric::Infinity { negative: true } => return "-Infinity".to_owned(),
            Numeric::Finite(finite) => finite,
        };
        let (decimals, point) = finite.decimals();
        let at = |index: i64| {
            usize::try_from(index)
                .ok()
                .and_then(|index| decimals.get(index))
                .map_or('0', |digit| (b'0' + digit) as char)
        };
        let mut text = if finite.negative { "-".to_owned() } else { String::new() };
        let first = decimals.iter().position(|digit| *digit != 0).map_or(point, |first| first as i64);
        let first = if first >= point { point - 1 } else { first };
        text.extend((first..point).map(at));
        if finite.scale > 0 {
            text.push('.');
            text.extend((point..point + i64::from(finite.scale)).map(at));
        }
        text
    }
}

/// A decimal literal taken apart (`set_var_from_str`).
struct Decimal {
    decimals: Vec<u8>,
    point: i64,
    exponent: i64,
}

impl Decimal {
    fn parse(bytes: &[u8]) -> Option<Decimal> {
        let mut rest = bytes;
        let mut decimals = Vec::with_capacity(bytes.len());
        let mut point = None;
        if let [b'.', tail @ ..] = rest {
            point = Some(0);
            rest = tail;
        }
        if !matches!(rest, [b'0'..=b'9', ..]) {
            return None;
        }
        loop {
            match rest {
                [digit @ b'0'..=b'9', tail @ ..] => {
                    decimals.push(digit - b'0');
                    rest = tail;
                }
                [b'.', tail @ ..] if point.is_none() && !tail.starts_with(b"_") => {
                    point = Some(decimals.len() as i64);
                    rest = tail;
                }
                [b'_', b'0'..=b'9', ..] => rest = &rest[1..],
                _ => break,
            }
        }
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', tail @ ..] => parse_exponent(tail)?,
            _ => return None,
        };
        let point = point.unwrap_or(decimals.len() as i64);
        Some(Decimal { decimals, point, exponent })
    }

    /// Decimals to show: those written, shifted by the exponent.
    fn scale(&self) -> Result<u16, KeyError> {
        let scale = (self.decimals.len() as i64 - self.point - self.exponent).max(0);
        if scale > SCALE_MAX || self.exponent.abs() >= i64::from(i32::MAX / 2) {
            return Err(overflow());
        }
        Ok(scale as u16)
    }
}

/// Digits after `e`, saturating far outside of what numeric holds; `None` when malformed.
fn parse_exponent(bytes: &[u8]) -> Option<i64> {
    let (negative, mut rest) = match bytes {
        [b'-', tail @ ..] => (true, tail),
        [b'+', tail @ ..] => (false, tail),
        _ => (false, bytes),
    };
    let mut exponent = 0_i64;
    let mut digits = 0;
    loop {
        match rest {
            [digit @ b'0'..=b'9', tail @ ..] => {
                exponent = (exponent * 10 + i64::from(digit - b'0')).min(i64::from(i32::MAX));
                digits += 1;
                rest = tail;
            }
            [b'_', b'0'..=b'9', ..] if digits > 0 => rest = &rest[1..],
            [] if digits > 0 => return Some(if negative { -exponent } else { exponent }),
            _ => return None,
        }
    }
}
