//! The types of values that both PostgreSQL and a store have, and what each is called by DuckDB. Nothing of expressions.

use std::fmt;

use catalog::{Column, Oid};
use wire::type_oid;

use super::ColumnType;

/// Digits of DuckDB's longest decimal.
pub const DIGITS_MAX: u8 = 38;
/// What is put before the length of a type's modifier (`VARHDRSZ`).
const HEADER: i32 = 4;

/// The type PostgreSQL gives an expression, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ty {
    Bool,
    Int2,
    Int4,
    Int8,
    /// All values have just so many digits behind the point, and no more digits than that in all.
    Numeric {
        digits: u8,
        scale: u8,
    },
    /// A numeric of which each value has its own digits behind the point (see `mixed.rs`).
    Mixed,
    Float4,
    Float8,
    Text,
    Varchar,
    /// By its modifier (−1: none). Stores have the values without the blanks at their ends.
    Bpchar(i32),
    Date,
    Timestamp,
    /// A moment: stores have it as the timestamp that it is in UTC.
    Timestamptz,
    Uuid,
    Bytea,
    /// One of PostgreSQL's own of which only is known whether there is a value.
    Opaque,
    /// A type of somebody's own: what IS NULL says of it is not known.
    Own,
    /// A constant without a type, or a parameter.
    Unknown,
}

impl Ty {
    /// A column's, as stores keep it.
    pub fn of_column(column: &Column) -> Ty {
        match column.type_oid {
            oid if oid >= type_oid::FIRST_NORMAL_OBJECT_ID => Ty::Own,
            type_oid::BPCHAR if column.typmod > HEADER => Ty::Bpchar(column.typmod),
            type_oid::BPCHAR => Ty::Opaque,
            type_oid::NUMERIC => numeric(column.typmod).unwrap_or(Ty::Opaque),
            type_oid::BYTEA => Ty::Bytea,
            oid => Ty::of_oid(oid).unwrap_or(Ty::Opaque),
        }
    }

    /// Of a parameter, or of a cast without a modifier. A numeric's own is not known from its type.
    pub fn of_oid(oid: Oid) -> Option<Ty> {
        Some(match oid {
            type_oid::BOOL => Ty::Bool,
            type_oid::INT2 => Ty::Int2,
            type_oid::INT4 => Ty::Int4,
            type_oid::INT8 => Ty::Int8,
            type_oid::NUMERIC => Ty::PARAMETER,
            type_oid::FLOAT4 => Ty::Float4,
            type_oid::FLOAT8 => Ty::Float8,
            type_oid::TEXT => Ty::Text,
            type_oid::VARCHAR => Ty::Varchar,
            type_oid::BPCHAR => Ty::Bpchar(-1),
            type_oid::DATE => Ty::Date,
            type_oid::TIMESTAMP => Ty::Timestamp,
            type_oid::TIMESTAMPTZ => Ty::Timestamptz,
            type_oid::UUID => Ty::Uuid,
            _ => return None,
        })
    }

    /// Parameters of type numeric: only those that fit are sent (see `constant.rs`).
    pub const PARAMETER: Ty = Ty::Numeric { digits: 36, scale: 18 };

    /// PostgreSQL's type of it.
    pub fn oid(self) -> Option<Oid> {
        Some(match self {
            Ty::Bool => type_oid::BOOL,
            Ty::Int2 => type_oid::INT2,
            Ty::Int4 => type_oid::INT4,
            Ty::Int8 => type_oid::INT8,
            Ty::Numeric { .. } => type_oid::NUMERIC,
            Ty::Float4 => type_oid::FLOAT4,
            Ty::Float8 => type_oid::FLOAT8,
            Ty::Text => type_oid::TEXT,
            Ty::Varchar => type_oid::VARCHAR,
            Ty::Bpchar(_) => type_oid::BPCHAR,
            Ty::Date => type_oid::DATE,
            Ty::Timestamp => type_oid::TIMESTAMP,
            Ty::Timestamptz => type_oid::TIMESTAMPTZ,
            Ty::Uuid => type_oid::UUID,
            Ty::Bytea => type_oid::BYTEA,
            Ty::Mixed | Ty::Opaque | Ty::Own | Ty::Unknown => return None,
        })
    }

    /// How a column of the answer that is of this type is printed.
    pub fn printed(self) -> Option<ColumnType> {
        Some(match self {
            Ty::Bool => ColumnType::Bool,
            Ty::Int2 => ColumnType::Int2,
            Ty::Int4 => ColumnType::Int4,
            Ty::Int8 => ColumnType::Int8,
            Ty::Numeric { scale, .. } => ColumnType::Numeric(scale),
            Ty::Mixed => ColumnType::NumericText,
            Ty::Float4 => ColumnType::Float4,
            Ty::Float8 => ColumnType::Float8,
            Ty::Text => ColumnType::Text,
            Ty::Varchar => ColumnType::Varchar,
            Ty::Bpchar(typmod) if typmod > HEADER => ColumnType::Bpchar(typmod),
            Ty::Date => ColumnType::Date,
            Ty::Timestamp => ColumnType::Timestamp,
            Ty::Timestamptz => ColumnType::Timestamptz,
            Ty::Uuid => ColumnType::Uuid,
            Ty::Bytea => ColumnType::Bytea,
            Ty::Bpchar(_) | Ty::Opaque | Ty::Own | Ty::Unknown => return None,
        })
    }

    /// int2, int4 or int8.
    pub fn is_integer(self) -> bool {
        matches!(self, Ty::Int2 | Ty::Int4 | Ty::Int8)
    }

    /// float4 or float8.
    pub fn is_float(self) -> bool {
        matches!(self, Ty::Float4 | Ty::Float8)
    }

    /// text and varchar: one type to operators.
    pub fn is_text(self) -> bool {
        matches!(self, Ty::Text | Ty::Varchar)
    }

    /// text, varchar or char(n).
    pub fn is_string(self) -> bool {
        self.is_text() || matches!(self, Ty::Bpchar(_))
    }

    /// An integer or numeric as a numeric: its digits, and those behind the point.
    pub fn as_numeric(self) -> Option<(u8, u8)> {
        match self {
            Ty::Int2 => Some((5, 0)),
            Ty::Int4 => Some((10, 0)),
            Ty::Int8 => Some((19, 0)),
            Ty::Numeric { digits, scale } => Some((digits, scale)),
            _ => None,
        }
    }

    /// The wider of two integer types, which operators of both give.
    pub fn wider(self, other: Ty) -> Option<Ty> {
        let rank = |t| [Ty::Int2, Ty::Int4, Ty::Int8].iter().position(|i| *i == t);
        Some(if rank(self)? >= rank(other)? { self } else { other })
    }

    /// What `int 'text'` and its like, and people, call it.
    pub fn name(self) -> &'static str {
        match self {
            Ty::Bool => "boolean",
            Ty::Int2 => "smallint",
            Ty::Int4 => "integer",
            Ty::Int8 => "bigint",
            Ty::Numeric { .. } | Ty::Mixed => "numeric",
            Ty::Float4 => "real",
            Ty::Float8 => "double precision",
            Ty::Text => "text",
            Ty::Varchar => "character varying",
            Ty::Bpchar(_) => "character",
            Ty::Date => "date",
            Ty::Timestamp => "timestamp",
            Ty::Timestamptz => "timestamp with time zone",
            Ty::Uuid => "uuid",
            Ty::Bytea => "bytea",
            Ty::Opaque | Ty::Own => "another type",
            Ty::Unknown => "unknown",
        }
    }
}

/// DuckDB's name of it.
impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ty::Bool => "BOOLEAN",
            Ty::Int2 => "SMALLINT",
            Ty::Int4 => "INTEGER",
            Ty::Int8 => "BIGINT",
            Ty::Numeric { digits, scale } => return write!(f, "DECIMAL({digits},{scale})"),
            Ty::Float4 => "FLOAT",
            Ty::Float8 => "DOUBLE",
            Ty::Date => "DATE",
            Ty::Timestamp | Ty::Timestamptz => "TIMESTAMP",
            Ty::Uuid => "UUID",
            Ty::Bytea => "BLOB",
            Ty::Text | Ty::Varchar | Ty::Bpchar(_) | Ty::Mixed | Ty::Opaque | Ty::Own | Ty::Unknown => "VARCHAR",
        })
    }
}

/// By its modifier: digits and scale (`make_numeric_typmod` in numeric.c). `None`: none, or more than a decimal of DuckDB's holds.
fn numeric(typmod: i32) -> Option<Ty> {
    let packed = typmod.checked_sub(HEADER).filter(|packed| *packed >= 0)?;
    let (digits, scale) = (u8::try_from(packed >> 16).ok()?, u8::try_from(packed & 0x7ff).ok()?);
    (digits <= DIGITS_MAX && scale <= digits).then_some(Ty::Numeric { digits, scale })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_are_what_their_modifiers_say() {
        let typmod = |digits: i32, scale: i32| ((digits << 16) | (scale & 0x7ff)) + HEADER;
        assert_eq!(numeric(typmod(12, 2)), Some(Ty::Numeric { digits: 12, scale: 2 }));
        assert_eq!(numeric(typmod(38, 38)), Some(Ty::Numeric { digits: 38, scale: 38 }));
        // Too long, of hundreds, of thousandths alone, of none.
        assert_eq!(numeric(typmod(39, 2)), None);
        assert_eq!(numeric(typmod(3, -2)), None);
        assert_eq!(numeric(typmod(2, 3)), None);
        assert_eq!(numeric(-1), None);
    }
}
