//! Which type of Parquet a column of a PostgreSQL type has. It does not know values.

use std::fmt;

use parquet::basic::{LogicalType, TimeUnit, Type as Physical};
use parquet::errors::Result;
use parquet::schema::types::Type;

use super::REPETITION;

/// What a column's values are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Decimal {
        precision: u8,
        scale: u8,
    },
    /// PostgreSQL's text as it is.
    Text,
    Json,
    Bytea,
    Uuid,
    Date,
    Time,
    Timestamp,
    /// A moment, as the timestamp it is in UTC.
    Timestamptz,
}

/// Decimals up to so many digits are numbers of 32 and 64 bits.
const DIGITS_IN_32: u8 = 9;
/// As [`DIGITS_IN_32`], of 64 bits.
const DIGITS_IN_64: u8 = 18;
/// Bytes of longer ones.
pub const DECIMAL_BYTES: usize = 16;
/// Bytes of a UUID.
pub const UUID_BYTES: usize = 16;
const DECIMAL_DIGITS_MAX: u8 = 38;

impl Kind {
    /// By a type's name as `format_type` (format_type.c) has it, which is one of its own for the types that SQL knows.
    pub fn of(name: &str) -> Kind {
        match name {
            "boolean" => Kind::Bool,
            "smallint" => Kind::Int2,
            "integer" => Kind::Int4,
            "bigint" | "oid" => Kind::Int8,
            "real" => Kind::Float4,
            "double precision" => Kind::Float8,
            "json" | "jsonb" => Kind::Json,
            "bytea" => Kind::Bytea,
            "uuid" => Kind::Uuid,
            "date" => Kind::Date,
            _ => Kind::with_modifier(name).unwrap_or(Kind::Text),
        }
    }

    /// `numeric(12,2)`, `timestamp(3) with time zone`; arrays are none.
    fn with_modifier(name: &str) -> Option<Kind> {
        let (base, modifier, rest) = match name.split_once('(') {
            Some((base, behind)) => {
                let (modifier, rest) = behind.split_once(')')?;
                (base, Some(modifier), rest)
            }
            None => match name.split_once(' ') {
                Some((base, _)) => (base, None, &name[base.len()..]),
                None => return None,
            },
        };
        match (base, modifier, rest) {
            ("numeric", Some(modifier), "") => {
                let (precision, scale) = modifier.split_once(',')?;
                let (precision, scale) = (precision.parse().ok()?, scale.parse().ok()?);
                (precision <= DECIMAL_DIGITS_MAX && scale <= precision).then_some(Kind::Decimal { precision, scale })
            }
            ("time", _, " without time zone") => Some(Kind::Time),
            ("timestamp", _, " without time zone") => Some(Kind::Timestamp),
            ("timestamp", _, " with time zone") => Some(Kind::Timestamptz),
            _ => None,
        }
    }

    /// What its values are stored as.
    pub fn physical(self) -> Physical {
        match self {
            Kind::Bool => Physical::BOOLEAN,
            Kind::Int2 | Kind::Int4 | Kind::Date => Physical::INT32,
            Kind::Int8 | Kind::Time | Kind::Timestamp | Kind::Timestamptz => Physical::INT64,
            Kind::Float4 => Physical::FLOAT,
            Kind::Float8 => Physical::DOUBLE,
            Kind::Decimal { precision: ..=DIGITS_IN_32, .. } => Physical::INT32,
            Kind::Decimal { precision: ..=DIGITS_IN_64, .. } => Physical::INT64,
            Kind::Decimal { .. } | Kind::Uuid => Physical::FIXED_LEN_BYTE_ARRAY,
            Kind::Text | Kind::Json | Kind::Bytea => Physical::BYTE_ARRAY,
        }
    }

    /// The column of the file's schema.
    pub fn field(self, name: &str) -> Result<Type> {
        let logical = match self {
            Kind::Int2 => Some(LogicalType::integer(16, true)),
            Kind::Decimal { precision, scale } => Some(LogicalType::decimal(scale.into(), precision.into())),
            Kind::Text => Some(LogicalType::String),
            Kind::Json => Some(LogicalType::Json),
            Kind::Uuid => Some(LogicalType::Uuid),
            Kind::Date => Some(LogicalType::Date),
            Kind::Time => Some(LogicalType::time(false, TimeUnit::MICROS)),
            Kind::Timestamp => Some(LogicalType::timestamp(false, TimeUnit::MICROS)),
            Kind::Timestamptz => Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
            Kind::Bool | Kind::Int4 | Kind::Int8 | Kind::Float4 | Kind::Float8 | Kind::Bytea => None,
        };
        let field =
            Type::primitive_type_builder(name, self.physical()).with_repetition(REPETITION).with_logical_type(logical);
        match self {
            Kind::Decimal { precision, scale } => {
                let field = field.with_precision(precision.into()).with_scale(scale.into());
                if precision > DIGITS_IN_64 { field.with_length(DECIMAL_BYTES as i32) } else { field }
            }
            Kind::Uuid => field.with_length(UUID_BYTES as i32),
            _ => field,
        }
        .build()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bool => f.write_str("BOOLEAN"),
            Kind::Int2 => f.write_str("INT(16)"),
            Kind::Int4 => f.write_str("INT32"),
            Kind::Int8 => f.write_str("INT64"),
            Kind::Float4 => f.write_str("FLOAT"),
            Kind::Float8 => f.write_str("DOUBLE"),
            Kind::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            Kind::Text => f.write_str("STRING"),
            Kind::Json => f.write_str("JSON"),
            Kind::Bytea => f.write_str("BYTE_ARRAY"),
            Kind::Uuid => f.write_str("UUID"),
            Kind::Date => f.write_str("DATE"),
            Kind::Time => f.write_str("TIME"),
            Kind::Timestamp | Kind::Timestamptz => f.write_str("TIMESTAMP"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_their_names() {
        for (name, kind) in [
            ("numeric(12,2)", Kind::Decimal { precision: 12, scale: 2 }),
            ("numeric(38,38)", Kind::Decimal { precision: 38, scale: 38 }),
            ("timestamp(3) with time zone", Kind::Timestamptz),
            ("timestamp without time zone", Kind::Timestamp),
            ("time(0) without time zone", Kind::Time),
            ("smallint", Kind::Int2),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
        for text in [
            "numeric",
            "numeric(39,0)",
            "numeric(5,-2)",
            "numeric(2,5)",
            "numeric(12,2)[]",
            "integer[]",
            "time with time zone",
            "interval",
            "character(4)",
            "timestamp without time zone[]",
            "timestamp(3) with time zone[]",
            "mood",
            "public.\"date (x)\"",
            "",
            "(",
        ] {
            assert_eq!(Kind::of(text), Kind::Text, "{text}");
        }
    }

    #[test]
    fn every_kind_is_a_column() {
        for precision in [1, 9, 10, 18, 19, 38] {
            Kind::Decimal { precision, scale: 1 }.field("x").unwrap();
        }
        for name in ["boolean", "smallint", "oid", "real", "double precision", "json", "bytea", "uuid", "date", "text"]
        {
            Kind::of(name).field("x").unwrap();
        }
    }
}
