//! The order of values in binary format, as the type's default btree operator class has it.
//!
//! It does not know collations: strings are ordered by their bytes, so it is right for strings only where the key's collation is `C`.

use std::cmp::Ordering;

use crate::cursor::{Cursor, fixed};
use crate::datetime::interval_span;
use crate::hash::{Inet, check_name, macaddr8, trim_blanks};
use crate::numeric::Numeric;
use crate::types::*;
use crate::{KeyError, Oid};

/// Compares two values of one type.
///
/// # Errors
/// [`KeyError::Unsupported`] for types that are not [`crate::orderable`], [`KeyError::InvalidBinary`] when the bytes are not the type's.
pub fn compare(type_oid: Oid, a: &[u8], b: &[u8]) -> Result<Ordering, KeyError> {
    match type_oid {
        INT2 => by(a, b, |value| fixed(type_oid, value).map(i16::from_be_bytes)),
        INT4 | DATE => by(a, b, |value| fixed(type_oid, value).map(i32::from_be_bytes)),
        INT8 | TIME | TIMESTAMP | TIMESTAMPTZ => by(a, b, |value| fixed(type_oid, value).map(i64::from_be_bytes)),
        BOOL => by(a, b, |value| fixed::<1>(type_oid, value).map(|[byte]| byte != 0)),
        // "char" compares as unsigned, whatever C's char is.
        CHAR => by(a, b, |value| fixed::<1>(type_oid, value)),
        // Unsigned big-endian fields in order of weight compare as their bytes.
        OID => by(a, b, |value| fixed::<4>(type_oid, value)),
        XID8 | PG_LSN => by(a, b, |value| fixed::<8>(type_oid, value)),
        TID | MACADDR => by(a, b, |value| fixed::<6>(type_oid, value)),
        MACADDR8 => by(a, b, macaddr8),
        UUID => by(a, b, |value| fixed::<16>(type_oid, value)),
        TEXT | VARCHAR | BYTEA => Ok(a.cmp(b)),
        NAME => Ok(check_name(a)?.cmp(check_name(b)?)),
        BPCHAR => Ok(trim_blanks(a).cmp(trim_blanks(b))),
        FLOAT4 => by(a, b, |value| fixed(type_oid, value).map(|bytes| Float(f32::from_be_bytes(bytes).into()))),
        FLOAT8 => by(a, b, |value| fixed(type_oid, value).map(|bytes| Float(f64::from_be_bytes(bytes)))),
        NUMERIC => Ok(Numeric::decode(a)?.compare(&Numeric::decode(b)?)),
        INTERVAL => by(a, b, interval_span),
        TIMETZ => by(a, b, timetz_order),
        INET | CIDR => Ok(compare_inet(&Inet::decode(type_oid, a)?, &Inet::decode(type_oid, b)?)),
        _ => Err(KeyError::Unsupported { type_oid }),
    }
}

/// Compares what `read` makes of both.
fn by<'a, T: Ord>(
    a: &'a [u8],
    b: &'a [u8],
    read: impl Fn(&'a [u8]) -> Result<T, KeyError>,
) -> Result<Ordering, KeyError> {
    Ok(read(a)?.cmp(&read(b)?))
}

/// `float8_cmp_internal`: NaN is equal to itself and above all numbers; both zeros are equal.
struct Float(f64);

impl Ord for Float {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or_else(|| self.0.is_nan().cmp(&other.0.is_nan()))
    }
}

impl PartialOrd for Float {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Float {}

/// `timetz_cmp_internal`: by the instant, then by the zone (seconds west of Greenwich).
fn timetz_order(value: &[u8]) -> Result<(i64, i32), KeyError> {
    let mut cursor = Cursor::new(TIMETZ, value);
    let (time, zone) = (cursor.i64()?, cursor.i32()?);
    cursor.end()?;
    Ok((time.wrapping_add(i64::from(zone) * 1_000_000), zone))
}

/// `network_cmp_internal`: family, then the network bits both have, then the mask's length, then the whole address.
fn compare_inet(a: &Inet, b: &Inet) -> Ordering {
    let common = a.bits.min(b.bits);
    a.family
        .cmp(&b.family)
        .then_with(|| network(a.address, common).cmp(&network(b.address, common)))
        .then_with(|| a.bits.cmp(&b.bits))
        .then_with(|| a.address.cmp(b.address))
}

/// The first `bits` of an address, the others zero.
fn network(address: &[u8], bits: u8) -> u128 {
    let mut bytes = [0; 16];
    bytes[..address.len()].copy_from_slice(address);
    let keep = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    u128::from_be_bytes(bytes) & keep
}
