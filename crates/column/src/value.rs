//! One value between PostgreSQL's text and DuckDB. It does not know tables.

use wire::values::decimal_units;

use crate::datetime::{parse_date, parse_timestamp};
use crate::types::Kind;

/// A value of a column, as it is on its way to DuckDB.
#[derive(Clone, Debug, PartialEq)]
pub enum Val {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    /// A numeric, in units of its column's last digit.
    Digits(i128),
    /// Also UUIDs, which DuckDB reads itself.
    Text(Box<str>),
    Bytes(Box<[u8]>),
    Date(i32),
    Micros(i64),
    /// As it was: too long to be told again. It is filled in before it comes to DuckDB.
    Kept,
}

impl Val {
    /// `None`: a column of this kind can't hold it.
    pub fn parse(kind: Kind, text: &str) -> Option<Val> {
        Some(match kind {
            Kind::Bool => match text {
                "t" => Val::Bool(true),
                "f" => Val::Bool(false),
                _ => return None,
            },
            Kind::Int2 => Val::Int2(text.parse().ok()?),
            Kind::Int4 => Val::Int4(text.parse().ok()?),
            Kind::Int8 => Val::Int8(text.parse().ok()?),
            Kind::Float4 => Val::Float4(text.parse().ok()?),
            Kind::Float8 => Val::Float8(text.parse().ok()?),
            Kind::Numeric { precision, scale } => Val::Digits(decimal_units(text, precision, scale)?),
            Kind::Text => Val::Text(text.into()),
            Kind::Bpchar => Val::Text(text.trim_end_matches(' ').into()),
            Kind::Date => Val::Date(parse_date(text)?),
            Kind::Timestamp => Val::Micros(parse_timestamp(text, false)?),
            Kind::Timestamptz => Val::Micros(parse_timestamp(text, true)?),
            Kind::Uuid => (text.len() == 36).then(|| Val::Text(text.into()))?,
            Kind::Bytea => Val::Bytes(wire::hex::decode(text.strip_prefix("\\x")?)?.into()),
        })
    }

    /// -0, which is equal to 0 and printed otherwise.
    pub fn is_signed_zero(&self) -> bool {
        match self {
            Val::Float4(v) => *v == 0.0 && v.is_sign_negative(),
            Val::Float8(v) => *v == 0.0 && v.is_sign_negative(),
            _ => false,
        }
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let more = match self {
            Val::Text(text) => text.len(),
            Val::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        size_of::<Val>() + more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_can_not_hold_is_no_value() {
        let numeric = Kind::Numeric { precision: 5, scale: 2 };
        for (fits, digits) in [("0.00", 0), ("-999.99", -99_999), ("12.30", 1_230), ("1", 100), ("-0.01", -1)] {
            assert_eq!(Val::parse(numeric, fits), Some(Val::Digits(digits)));
        }
        let wide = Kind::Numeric { precision: 38, scale: 10 };
        let nines = "9999999999999999999999999999.9999999999";
        assert_eq!(Val::parse(wide, nines), Some(Val::Digits(10i128.pow(38) - 1)));
        for not in ["NaN", "Infinity", "1000.00", "1.234", "", "-", "1e5"] {
            assert_eq!(Val::parse(numeric, not), None, "{not}");
        }
        assert_eq!(Val::parse(Kind::Int2, "32768"), None);
        assert_eq!(Val::parse(Kind::Bpchar, "ab  "), Some(Val::Text("ab".into())));
        assert_eq!(Val::parse(Kind::Bytea, "\\x00ff"), Some(Val::Bytes([0, 255].into())));
        assert_eq!(Val::parse(Kind::Bytea, "00"), None);
        let signed = |kind, text| Val::parse(kind, text).is_some_and(|val| val.is_signed_zero());
        assert!(signed(Kind::Float8, "-0") && signed(Kind::Float4, "-0"));
        assert!(!signed(Kind::Float8, "0") && !signed(Kind::Float8, "-1e-300") && !signed(Kind::Int4, "0"));
    }
}
