//! Integers from text as PostgreSQL 16 and later read them (`pg_strtoint32_safe` and its kin in numutils.c): whitespace, a sign,
//! hexadecimal, octal and binary prefixes, underscores between digits. An older server refuses the newer forms by itself.

use crate::KeyError;
use crate::text::is_space;

/// Parses into `min..=-(min + 1)`. Where PostgreSQL reports "out of range" before it looks at the rest of the text, so does this.
pub(crate) fn parse(text: &str, type_name: &'static str, min: i64) -> Result<i64, KeyError> {
    let invalid = || KeyError::invalid(type_name, text);
    let out_of_range =
        || KeyError::numeric_out_of_range(format!("value \"{text}\" is out of range for type {type_name}"));
    let limit = min.unsigned_abs();

    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest
        && is_space(*first)
    {
        rest = tail;
    }
    let negative = rest.starts_with(b"-");
    if let [b'-' | b'+', tail @ ..] = rest {
        rest = tail;
    }
    let (radix, mut rest) = prefix(rest);
    let mut value = 0_u64;
    let mut digits = 0;
    loop {
        match rest {
            [byte, tail @ ..] if digit(*byte, radix).is_some() => {
                if value > limit / radix {
                    return Err(out_of_range());
                }
                value = value * radix + digit(*byte, radix).unwrap_or(0);
                digits += 1;
                rest = tail;
            }
            // Between digits, and right behind a prefix.
            [b'_', next, ..] if digit(*next, radix).is_some() && (digits > 0 || radix != 10) => rest = &rest[1..],
            _ => break,
        }
    }
    if digits == 0 || !rest.iter().all(|byte| is_space(*byte)) {
        return Err(invalid());
    }
    match (negative, value) {
        (true, value) if value <= limit => Ok((value as i64).wrapping_neg()),
        (false, value) if value < limit => Ok(value as i64),
        _ => Err(out_of_range()),
    }
}

/// The radix that the text starts with, and what follows the prefix.
fn prefix(bytes: &[u8]) -> (u64, &[u8]) {
    match bytes {
        [b'0', b'x' | b'X', tail @ ..] => (16, tail),
        [b'0', b'o' | b'O', tail @ ..] => (8, tail),
        [b'0', b'b' | b'B', tail @ ..] => (2, tail),
        _ => (10, bytes),
    }
}

fn digit(byte: u8, radix: u64) -> Option<u64> {
    (byte as char).to_digit(radix as u32).map(u64::from)
}

/// A whole unsigned literal with a prefix, as `numeric` takes them too; `None` when malformed or too large for an answer here.
pub(crate) fn parse_prefixed(text: &str) -> Option<i128> {
    let (radix, mut rest) = prefix(text.as_bytes());
    let mut value = 0_i128;
    let mut digits = 0;
    loop {
        match rest {
            [] if digits > 0 => return Some(value),
            [b'_', next, ..] if digit(*next, radix).is_some() => rest = &rest[1..],
            [byte, tail @ ..] => {
                value = value.checked_mul(radix.into())?.checked_add(digit(*byte, radix)?.into())?;
                digits += 1;
                rest = tail;
            }
            [] => return None,
        }
    }
}

/// An unsigned integer in plain decimals. PostgreSQL's `strtoul` takes more (signs, octal, depending on version): left to the server.
pub(crate) fn parse_unsigned(text: &str) -> Result<u64, KeyError> {
    let digits = crate::text::trim_space(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain || (digits.len() > 1 && digits.starts_with('0')) {
        return Err(KeyError::NeedsServer);
    }
    digits.parse().map_err(|_| KeyError::NeedsServer)
}
