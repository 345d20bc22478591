//! What storing a value in a column does to it: the type modifier of `numeric(10,2)`, `varchar(20)`, `timestamp(3)` rounds, cuts or
//! refuses before the row is routed, so the router must too (numeric.c, varchar.c, timestamp.c, date.c).
//!
//! It is for rows that are written; in a comparison the modifier plays no part.

use crate::cursor::fixed;
use crate::numeric::Numeric;
use crate::types::*;
use crate::{KeyError, Oid};

/// `VARHDRSZ`, which the modifiers of strings and numeric include.
const HEADER: i32 = 4;
/// `MAX_TIMESTAMP_PRECISION`.
const PRECISION_MAX: i32 = 6;

/// Fits a value of the column's type to the column's `atttypmod` (-1: none).
///
/// # Errors
/// 22001 for a string that is too long, 22003 for a numeric that does not fit, [`KeyError::NeedsServer`] for intervals with a modifier.
pub fn fit(type_oid: Oid, typmod: i32, value: Vec<u8>) -> Result<Vec<u8>, KeyError> {
    if typmod < 0 {
        return Ok(value);
    }
    match type_oid {
        VARCHAR | BPCHAR => fit_string(type_oid, typmod - HEADER, &value),
        NUMERIC if typmod >= HEADER => {
            let packed = typmod - HEADER;
            // Eleven bits of scale, in two's complement since PostgreSQL 15 allows it to be negative.
            let (precision, scale) = (packed >> 16 & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024);
            Ok(Numeric::decode(&value)?.fit(precision, scale)?.encode())
        }
        TIMESTAMP | TIMESTAMPTZ => {
            let micros = i64::from_be_bytes(fixed(type_oid, &value)?);
            let infinite = micros == i64::MIN || micros == i64::MAX;
            let micros = if infinite { micros } else { round_micros(micros, typmod) };
            Ok(micros.to_be_bytes().to_vec())
        }
        TIME => Ok(round_micros(i64::from_be_bytes(fixed(type_oid, &value)?), typmod).to_be_bytes().to_vec()),
        TIMETZ => {
            let [time @ .., _, _, _, _] = fixed::<12>(type_oid, &value)?;
            let mut rounded = round_micros(i64::from_be_bytes(time), typmod).to_be_bytes().to_vec();
            rounded.extend(&value[8..]);
            Ok(rounded)
        }
        INTERVAL => Err(KeyError::NeedsServer),
        _ => Ok(value),
    }
}

/// Rounds half away from zero to `precision` decimals of a second.
fn round_micros(micros: i64, precision: i32) -> i64 {
    if precision >= PRECISION_MAX {
        return micros;
    }
    let unit = 10_i64.pow((PRECISION_MAX - precision) as u32);
    let rounded = (micros.unsigned_abs() as i64).wrapping_add(unit / 2) / unit * unit;
    if micros < 0 { -rounded } else { rounded }
}

/// Characters past the limit must be blanks, and are cut. (`bpchar` is padded to its limit too: no matter to hash and order.)
fn fit_string(type_oid: Oid, limit: i32, value: &[u8]) -> Result<Vec<u8>, KeyError> {
    let limit = limit.max(0) as usize;
    let type_name = name_or_unknown(type_oid);
    let text = std::str::from_utf8(value).map_err(|_| KeyError::NeedsServer)?;
    let end = text.char_indices().nth(limit).map_or(text.len(), |(end, _)| end);
    if text[end..].bytes().any(|byte| byte != b' ') {
        return Err(KeyError::TooLong { type_name, limit });
    }
    Ok(text[..end].into())
}
