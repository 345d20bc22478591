//! Parameter values checked at Bind, as PostgreSQL does, where the router can tell that they are wrong.
//!
//! What it can't tell is left to PostgreSQL at Execute.

use exec::ExecError;
use key::KeyError;
use wire::sqlstate;

use crate::session::Result;

/// Checks parameter `n` (from 1).
pub fn check(n: usize, format: i16, type_oid: u32, value: &[u8]) -> Result<()> {
    if format == 0 {
        let text = match std::str::from_utf8(value) {
            Ok(t) => t,
            Err(e) => return Err(encoding_error(&value[e.valid_up_to()..])),
        };
        return match key::parse_text(type_oid, text) {
            Err(e @ (KeyError::Invalid { .. } | KeyError::OutOfRange { .. })) => {
                Err(ExecError::sql(e.sqlstate(), e.to_string()))
            }
            _ => Ok(()),
        };
    }
    let Some(width) = width(type_oid) else { return Ok(()) };
    if value.len() < width {
        return Err(ExecError::sql(sqlstate::PROTOCOL_VIOLATION, "insufficient data left in message"));
    }
    if value.len() > width {
        return Err(ExecError::sql(
            sqlstate::INVALID_BINARY_REPRESENTATION,
            format!("incorrect binary data format in bind parameter {n}"),
        ));
    }
    Ok(())
}

/// `report_invalid_encoding` in mbutils.c: the bytes of the broken character.
pub fn encoding_error(broken: &[u8]) -> ExecError {
    let length = match broken.first() {
        Some(0xC2..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF4) => 4,
        _ => 1,
    };
    let bytes: Vec<String> = broken.iter().take(length).map(|b| format!("0x{b:02x}")).collect();
    ExecError::sql(
        sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
        format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" ")),
    )
}

/// Bytes of a type of fixed width in binary format.
fn width(type_oid: u32) -> Option<usize> {
    use wire::type_oid::*;
    match type_oid {
        BOOL => Some(1),
        INT2 => Some(2),
        INT4 | OID | FLOAT4 | DATE => Some(4),
        INT8 | FLOAT8 | TIME | TIMESTAMP | TIMESTAMPTZ => Some(8),
        INTERVAL | UUID => Some(16),
        _ => None,
    }
}
