//! The partition hash: each type's extended hash function over its binary format, and how a row's hashes combine.
//!
//! Sources: hashfunc.c, numeric.c, date.c, timestamp.c, network.c, mac.c, mac8.c, pg_lsn.c, xid.c, tid.c, partbounds.c. It does not
//! know shards; containers are in nested.rs, JSON in jsonb.rs.

use crate::cursor::{Cursor, fixed};
use crate::datetime::interval_span;
use crate::jenkins::{hash_bytes, hash_u32};
use crate::numeric::Numeric;
use crate::types::*;
use crate::{KeyError, Oid, jsonb, nested};

/// `HASH_PARTITION_SEED` (src/backend/partitioning/partbounds.c).
const HASH_PARTITION_SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Names hold at most this many bytes (`NAMEDATALEN - 1`).
pub(crate) const NAME_BYTES_MAX: usize = 63;

/// PostgreSQL's extended hash of a value (the type's default hash operator class, the partition seed).
///
/// # Errors
/// [`KeyError::Unsupported`] for types that are not [`crate::hashable`], [`KeyError::InvalidBinary`] when the bytes are not the type's
/// format, [`KeyError::NeedsServer`] where the hash hangs on the server's platform or the value is not in its normal form.
pub fn hash(type_oid: Oid, value: &[u8]) -> Result<u64, KeyError> {
    hash_seeded(type_oid, value, HASH_PARTITION_SEED)
}

/// A row's hash from its key columns' hashes; NULL columns (`None`) are skipped (`compute_partition_hash_value`).
pub fn combine(hashes: &[Option<u64>]) -> u64 {
    hashes.iter().flatten().fold(0, |row, hash| hash_combine64(row, *hash))
}

/// `hash_combine64` (src/include/common/hashfn.h).
pub(crate) fn hash_combine64(a: u64, b: u64) -> u64 {
    a ^ b.wrapping_add(0x49a0_f4dd_15e5_a8e3).wrapping_add(a << 54).wrapping_add(a >> 7)
}

pub(crate) fn hash_seeded(type_oid: Oid, value: &[u8], seed: u64) -> Result<u64, KeyError> {
    match shape(type_oid) {
        Some(Shape::Scalar) => hash_scalar(type_oid, value, seed),
        Some(Shape::Array { element }) => nested::hash_array(type_oid, element, value, seed),
        Some(Shape::Range { subtype }) => nested::hash_range(type_oid, subtype, value, seed),
        Some(Shape::Multirange { subtype }) => nested::hash_multirange(type_oid, subtype, value, seed),
        None => Err(KeyError::Unsupported { type_oid }),
    }
}

fn hash_scalar(type_oid: Oid, value: &[u8], seed: u64) -> Result<u64, KeyError> {
    Ok(match type_oid {
        // boolrecv takes any byte but zero as true.
        BOOL => hash_u32(u32::from(fixed::<1>(type_oid, value)?[0] != 0), seed),
        CHAR => hash_u32(char_byte(value)?, seed),
        INT2 => hash_u32(i32::from(i16::from_be_bytes(fixed(type_oid, value)?)) as u32, seed),
        INT4 | OID | XID | CID | DATE => hash_u32(u32::from_be_bytes(fixed(type_oid, value)?), seed),
        INT8 | TIME | TIMESTAMP | TIMESTAMPTZ | PG_LSN | XID8 => {
            hash_i64(i64::from_be_bytes(fixed(type_oid, value)?), seed)
        }
        TEXT | VARCHAR | BYTEA => hash_bytes(value, seed),
        BPCHAR => hash_bytes(trim_blanks(value), seed),
        NAME => hash_bytes(check_name(value)?, seed),
        UUID => hash_bytes(&fixed::<16>(type_oid, value)?, seed),
        MACADDR => hash_bytes(&fixed::<6>(type_oid, value)?, seed),
        MACADDR8 => hash_bytes(&macaddr8(value)?, seed),
        FLOAT4 => hash_f64(f32::from_be_bytes(fixed(type_oid, value)?).into(), seed),
        FLOAT8 => hash_f64(f64::from_be_bytes(fixed(type_oid, value)?), seed),
        NUMERIC => Numeric::decode(value)?.hash(seed),
        INTERVAL => hash_i64(interval_span(value)? as i64, seed),
        TIMETZ => {
            let mut cursor = Cursor::new(type_oid, value);
            let (time, zone) = (cursor.i64()?, cursor.u32()?);
            cursor.end()?;
            hash_i64(time, seed) ^ hash_u32(zone, seed)
        }
        INET | CIDR => hash_inet(type_oid, value, seed)?,
        TID => hash_tid(value, seed)?,
        JSONB => jsonb::hash(value, seed)?,
        OIDVECTOR => nested::hash_oidvector(value, seed)?,
        _ => return Err(KeyError::Unsupported { type_oid }),
    })
}

/// `hashint8extended`: equal integers hash alike whatever their width, so the high half is folded away when it is only the sign.
fn hash_i64(value: i64, seed: u64) -> u64 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    hash_u32(low ^ if value >= 0 { high } else { !high }, seed)
}

/// `hashfloat8extended`: both zeros hash to the seed, all NaNs alike.
fn hash_f64(value: f64, seed: u64) -> u64 {
    if value == 0.0 {
        return seed;
    }
    // The NaN of C's NAN macro, which PostgreSQL uses for all of them.
    let bits = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() };
    hash_bytes(&bits.to_le_bytes(), seed)
}

/// `hashinetextended` hashes the in-memory struct: family, netmask bits, address; whether it is a `cidr` does not matter.
fn hash_inet(type_oid: Oid, value: &[u8], seed: u64) -> Result<u64, KeyError> {
    let inet = Inet::decode(type_oid, value)?;
    let mut bytes = [0; 18];
    bytes[0] = inet.family;
    bytes[1] = inet.bits;
    bytes[2..2 + inet.address.len()].copy_from_slice(inet.address);
    Ok(hash_bytes(&bytes[..2 + inet.address.len()], seed))
}

/// `hashtidextended` hashes the in-memory struct: the block's high and low half, then the offset, each a native 16-bit word.
fn hash_tid(value: &[u8], seed: u64) -> Result<u64, KeyError> {
    let mut cursor = Cursor::new(TID, value);
    let (high, low, offset) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
    cursor.end()?;
    let [h, l, o] = [high, low, offset].map(u16::to_le_bytes);
    Ok(hash_bytes(&[h[0], h[1], l[0], l[1], o[0], o[1]], seed))
}

/// `"char"` is C's `char`, which is signed on some platforms and not on others; only ASCII hashes the same on all.
fn char_byte(value: &[u8]) -> Result<u32, KeyError> {
    match fixed::<1>(CHAR, value)?[0] {
        byte if byte.is_ascii() => Ok(byte.into()),
        _ => Err(KeyError::NeedsServer),
    }
}

pub(crate) fn check_name(value: &[u8]) -> Result<&[u8], KeyError> {
    if value.len() > NAME_BYTES_MAX {
        return Err(KeyError::TooLong { type_name: "name", limit: NAME_BYTES_MAX });
    }
    Ok(value)
}

/// `bpchar` ignores trailing blanks (only U+0020) in hash and order.
pub(crate) fn trim_blanks(mut value: &[u8]) -> &[u8] {
    while let [head @ .., b' '] = value {
        value = head;
    }
    value
}

/// `macaddr8_recv` also takes six bytes, and puts FF FE in their middle.
pub(crate) fn macaddr8(value: &[u8]) -> Result<[u8; 8], KeyError> {
    match *value {
        [a, b, c, d, e, f] => Ok([a, b, c, 0xff, 0xfe, d, e, f]),
        _ => fixed(MACADDR8, value),
    }
}

/// An `inet` or `cidr` from its binary format.
pub(crate) struct Inet<'a> {
    /// 2 for IPv4, 3 for IPv6 (`PGSQL_AF_INET`, `PGSQL_AF_INET6`).
    pub(crate) family: u8,
    pub(crate) bits: u8,
    pub(crate) address: &'a [u8],
}

impl<'a> Inet<'a> {
    pub(crate) fn decode(type_oid: Oid, value: &'a [u8]) -> Result<Self, KeyError> {
        let mut cursor = Cursor::new(type_oid, value);
        let (family, bits) = (cursor.u8()?, cursor.u8()?);
        let _is_cidr = cursor.u8()?;
        let len = usize::from(cursor.u8()?);
        let address = cursor.take(len)?;
        cursor.end()?;
        if !matches!((family, len), (2, 4) | (3, 16)) || usize::from(bits) > len * 8 {
            return Err(cursor.error());
        }
        Ok(Inet { family, bits, address })
    }
}
