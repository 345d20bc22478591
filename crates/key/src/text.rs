//! Text input, as PostgreSQL's input functions read it, into the binary send format.
//!
//! What hangs on settings (DateStyle, TimeZone, IntervalStyle), on the C library or on the version is never guessed:
//! [`KeyError::NeedsServer`].

use crate::hash::NAME_BYTES_MAX;
use crate::numeric::Numeric;
use crate::types::*;
use crate::{KeyError, Oid, datetime, integer, jsonb, network};

/// What C's `isspace` takes for whitespace in the C locale.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

/// Without the blanks around it, which are PostgreSQL's (`isspace` of the C locale), not Unicode's.
pub fn trim_space(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_ascii() && is_space(c as u8))
}

/// Reads a literal of the type into its binary send format. Type modifiers are [`crate::fit`]'s.
///
/// # Errors
/// What PostgreSQL would answer (22P02, 22003), or [`KeyError::NeedsServer`]: then only the server knows.
pub fn parse_text(type_oid: Oid, text: &str) -> Result<Vec<u8>, KeyError> {
    let int = |min: i64| integer::parse(text, name_or_unknown(type_oid), min);
    let unsigned32 = || u32::try_from(integer::parse_unsigned(text)?).map_err(|_| KeyError::NeedsServer);
    match type_oid {
        BOOL => parse_bool(text).map(|value| vec![value.into()]),
        CHAR => parse_char(text),
        INT2 => int(i16::MIN.into()).map(|value| (value as i16).to_be_bytes().to_vec()),
        INT4 => int(i32::MIN.into()).map(|value| (value as i32).to_be_bytes().to_vec()),
        INT8 => int(i64::MIN).map(|value| value.to_be_bytes().to_vec()),
        OID | XID | CID => unsigned32().map(|value| value.to_be_bytes().to_vec()),
        XID8 => integer::parse_unsigned(text).map(|value| value.to_be_bytes().to_vec()),
        TEXT | VARCHAR | BPCHAR => Ok(text.into()),
        NAME => Ok(truncate(text, NAME_BYTES_MAX).into()),
        BYTEA => parse_bytea(text),
        FLOAT4 => {
            parse_float(text, "real", |digits| digits.parse::<f32>().ok().map(|v| (v.into(), v.to_be_bytes().to_vec())))
        }
        FLOAT8 => parse_float(text, "double precision", |digits| {
            digits.parse::<f64>().ok().map(|v| (v, v.to_be_bytes().to_vec()))
        }),
        NUMERIC => Numeric::parse(text).map(|value| value.encode()),
        UUID => parse_uuid(text),
        PG_LSN => parse_lsn(text),
        DATE => datetime::parse_date(text),
        TIME => datetime::parse_time(text),
        TIMETZ => datetime::parse_timetz(text),
        TIMESTAMP => datetime::parse_timestamp(text),
        TIMESTAMPTZ => datetime::parse_timestamptz(text),
        INET => network::parse_inet(text, false),
        CIDR => network::parse_inet(text, true),
        MACADDR => network::parse_mac::<6>(text),
        MACADDR8 => network::parse_mac::<8>(text),
        JSONB => jsonb::parse_text(text),
        _ if hashable(type_oid) => Err(KeyError::NeedsServer),
        _ => Err(KeyError::Unsupported { type_oid }),
    }
}

/// The longest start of the text in at most `limit` bytes that does not cut a character (`pg_mbcliplen`, UTF-8).
fn truncate(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `boolin`: any unique start of true, false, yes, no, on, off; 1 and 0.
fn parse_bool(text: &str) -> Result<bool, KeyError> {
    let word = trim_space(text).to_ascii_lowercase();
    let starts = |full: &str| !word.is_empty() && full.starts_with(&word);
    match word.as_str() {
        "1" | "on" => Ok(true),
        "0" | "of" | "off" => Ok(false),
        _ if starts("true") || starts("yes") => Ok(true),
        _ if starts("false") || starts("no") => Ok(false),
        _ => Err(KeyError::invalid("boolean", text)),
    }
}

/// `charin`: one byte. Longer texts (cut, or octal escapes since PostgreSQL 15) are left to the server.
fn parse_char(text: &str) -> Result<Vec<u8>, KeyError> {
    match text.as_bytes() {
        [] => Ok(vec![0]),
        [byte] => Ok(vec![*byte]),
        _ => Err(KeyError::NeedsServer),
    }
}

/// `byteain`: hexadecimal after `\x`, else the escape format.
fn parse_bytea(text: &str) -> Result<Vec<u8>, KeyError> {
    if let Some(hex) = text.strip_prefix("\\x") {
        // Whitespace may stand between pairs; PostgreSQL's several errors about the rest are its own to give.
        return hex
            .split([' ', '\n', '\t', '\r'])
            .map(|run| wire::hex::decode(run).ok_or(KeyError::NeedsServer))
            .collect::<Result<Vec<_>, _>>()
            .map(|runs| runs.concat());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', tail @ ..] => {
                bytes.push(b'\\');
                rest = tail;
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            [b'\\', ..] => return Err(KeyError::invalid("bytea", text)),
            [byte, tail @ ..] => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
}

/// `float4in`, `float8in`. Both round to the nearest, as Rust's parser does; hexadecimal floats and odd NaNs are the C library's.
fn parse_float(
    text: &str,
    type_name: &'static str,
    parse: impl Fn(&str) -> Option<(f64, Vec<u8>)>,
) -> Result<Vec<u8>, KeyError> {
    let word = trim_space(text);
    let unsigned = word.strip_prefix(['+', '-']).unwrap_or(word);
    let lower = unsigned.to_ascii_lowercase();
    if matches!(lower.as_str(), "inf" | "infinity") || word.eq_ignore_ascii_case("nan") {
        return parse(word).map(|(_, bytes)| bytes).ok_or(KeyError::NeedsServer);
    }
    if lower.starts_with(['n', 'i']) || lower.starts_with("0x") {
        return Err(KeyError::NeedsServer);
    }
    let (mantissa, exponent) = lower.split_once('e').unwrap_or((&lower, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let decimal = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let lacks_digits = exponent.is_empty() || whole.is_empty() && fraction.is_empty();
    if lacks_digits || !decimal(whole) || !decimal(fraction) || !decimal(exponent) {
        // strtod reports a number out of range even when something else follows it: only short texts without exponent are clear.
        let clear = word.len() < 30 && !lower.contains('e');
        return Err(if clear { KeyError::invalid(type_name, text) } else { KeyError::NeedsServer });
    }
    let (value, bytes) = parse(word).ok_or(KeyError::NeedsServer)?;
    let vanished = value == 0.0 && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if value.is_infinite() || vanished {
        return Err(KeyError::numeric_out_of_range(format!("\"{word}\" is out of range for type {type_name}")));
    }
    Ok(bytes)
}

/// `uuid_in`: 32 digits, a hyphen allowed after each four, in braces or not.
fn parse_uuid(text: &str) -> Result<Vec<u8>, KeyError> {
    let invalid = || KeyError::invalid("uuid", text);
    let mut rest = text;
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner.strip_suffix('}').ok_or_else(invalid)?;
    }
    let mut bytes = Vec::with_capacity(16);
    while bytes.len() < 16 {
        bytes.extend(rest.get(..2).and_then(wire::hex::decode).ok_or_else(invalid)?);
        rest = &rest[2..];
        if bytes.len() % 2 == 0 && bytes.len() < 16 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
    }
    if rest.is_empty() { Ok(bytes) } else { Err(invalid()) }
}

/// `pg_lsn_in`: two runs of one to eight hexadecimal digits.
fn parse_lsn(text: &str) -> Result<Vec<u8>, KeyError> {
    let half = |digits: &str| {
        let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    };
    let parsed = text.split_once('/').and_then(|(high, low)| Some((half(high)?, half(low)?)));
    let (high, low) = parsed.ok_or_else(|| KeyError::invalid("pg_lsn", text))?;
    Ok([high.to_be_bytes(), low.to_be_bytes()].concat())
}
