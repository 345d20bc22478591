//! A value of another type compared with a key (`key = $1`): the key value that is equal to it, where PostgreSQL's own choice of the
//! `=` operator makes that certain (parse_oper.c, pg_cast.dat).
//!
//! It is about comparison, not assignment: `INSERT` rounds 1.5 into an integer column, while no integer is equal to 1.5.

use crate::hash::{NAME_BYTES_MAX, trim_blanks};
use crate::numeric::Numeric;
use crate::types::*;
use crate::{Oid, parse_text};

/// What a value of another type means for a key column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Converted {
    /// The one key value that is equal (all key values that are equal to the given value hash and compare as this one).
    Value(Vec<u8>),
    /// No key value can be equal: the statement selects no row.
    NoMatch,
}

/// Converts a value of type `from`, in binary format, for an equality with a key of type `to`. `None`: not known here, so every shard may
/// hold a match. An untyped literal is type `unknown` (705) with its text as value.
pub fn convert(from: Oid, to: Oid, value: &[u8]) -> Option<Converted> {
    use Converted::Value;
    if from == to {
        return Some(Value(value.to_vec()));
    }
    match (from, to) {
        // An untyped literal takes the key's type.
        (UNKNOWN, _) => parse_text(to, std::str::from_utf8(value).ok()?).ok().map(Value),
        (INT2 | INT4 | INT8, INT2 | INT4 | INT8 | NUMERIC | FLOAT4 | FLOAT8) => from_integer(integer(from, value)?, to),
        (NUMERIC, INT2 | INT4 | INT8 | FLOAT4 | FLOAT8) => from_numeric(&Numeric::decode(value).ok()?, to),
        (FLOAT4, FLOAT8) => from_float(f32::from_be_bytes(value.try_into().ok()?).into(), to),
        (FLOAT8, FLOAT4) => from_float(f64::from_be_bytes(value.try_into().ok()?), to),
        // Binary-coercible pairs.
        (INT4, OID) if value.len() == 4 => Some(Value(value.to_vec())),
        (INET, CIDR) | (CIDR, INET) => Some(Value(value.to_vec())),
        _ => from_string(from, to, value),
    }
}

fn integer(from: Oid, value: &[u8]) -> Option<i64> {
    Some(match from {
        INT2 => i16::from_be_bytes(value.try_into().ok()?).into(),
        INT4 => i32::from_be_bytes(value.try_into().ok()?).into(),
        _ => i64::from_be_bytes(value.try_into().ok()?),
    })
}

fn from_integer(value: i64, to: Oid) -> Option<Converted> {
    let bytes = match to {
        INT2 => i16::try_from(value).map(|value| value.to_be_bytes().to_vec()),
        INT4 => i32::try_from(value).map(|value| value.to_be_bytes().to_vec()),
        INT8 => Ok(value.to_be_bytes().to_vec()),
        NUMERIC => Ok(Numeric::from_integer(value.into()).encode()),
        // Both float types compare with integers as double precision, to which the integer is rounded.
        FLOAT4 | FLOAT8 => return from_float(value as f64, to),
        _ => return None,
    };
    Some(bytes.map_or(Converted::NoMatch, Converted::Value))
}

fn from_numeric(value: &Numeric, to: Oid) -> Option<Converted> {
    match to {
        FLOAT4 | FLOAT8 => {
            // numeric_float8 goes through text and raises what float8in raises: the server's to do.
            let double = parse_text(FLOAT8, &value.to_text()).ok()?;
            from_float(f64::from_be_bytes(double.try_into().ok()?), to)
        }
        // The key is cast to numeric, which is exact: only a whole number can be equal.
        _ => value.to_integer().map_or(Some(Converted::NoMatch), |value| from_integer(value, to)),
    }
}

/// A double compared with a float key: a `real` key is widened, so only a value that `real` holds exactly can be equal.
fn from_float(value: f64, to: Oid) -> Option<Converted> {
    let narrow = value as f32;
    Some(match to {
        FLOAT8 => Converted::Value(value.to_be_bytes().to_vec()),
        _ if f64::from(narrow) == value || value.is_nan() => Converted::Value(narrow.to_be_bytes().to_vec()),
        _ => Converted::NoMatch,
    })
}

/// Strings. Which `=` runs decides about trailing blanks: with a `text`, a `bpchar` is cast to text without them; with a `bpchar`,
/// a `varchar` is compared as bpchar, so one parameter equals several keys and nothing can be said here.
fn from_string(from: Oid, to: Oid, value: &[u8]) -> Option<Converted> {
    let value = match (from, to) {
        (TEXT | VARCHAR | NAME, TEXT) | (TEXT | NAME, VARCHAR) | (VARCHAR, BPCHAR) | (TEXT | VARCHAR, NAME) => value,
        (BPCHAR, TEXT | NAME) => trim_blanks(value),
        // bpchar = text and bpchar = name compare as text: a key without its blanks never equals a value with some.
        (TEXT | NAME, BPCHAR) if value.ends_with(b" ") => return Some(Converted::NoMatch),
        (TEXT | NAME, BPCHAR) => value,
        _ => return None,
    };
    if to == NAME && value.len() > NAME_BYTES_MAX {
        return Some(Converted::NoMatch);
    }
    Some(Converted::Value(value.to_vec()))
}
