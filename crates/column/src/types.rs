//! Which DuckDB type a column of a PostgreSQL type has. It does not know values.

use wire::type_oid as oid;

/// What a column's values are in DuckDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric {
        precision: u8,
        scale: u8,
    },
    /// PostgreSQL's text as it is.
    Text,
    /// Without the blanks at its end, which do not count.
    Bpchar,
    Date,
    Timestamp,
    /// A moment, as the timestamp it is in UTC.
    Timestamptz,
    Uuid,
    Bytea,
}

/// PostgreSQL's VARHDRSZ, which type modifiers count in.
const HEADER: i32 = 4;

impl Kind {
    /// By a column's type and modifier (`pg_attribute.atttypid`, `atttypmod`).
    pub fn of(type_oid: u32, modifier: i32) -> Kind {
        match type_oid {
            oid::BOOL => Kind::Bool,
            oid::INT2 => Kind::Int2,
            oid::INT4 => Kind::Int4,
            oid::INT8 => Kind::Int8,
            oid::FLOAT4 => Kind::Float4,
            oid::FLOAT8 => Kind::Float8,
            oid::NUMERIC => numeric(modifier),
            oid::BPCHAR => Kind::Bpchar,
            oid::DATE => Kind::Date,
            oid::TIMESTAMP => Kind::Timestamp,
            oid::TIMESTAMPTZ => Kind::Timestamptz,
            oid::UUID => Kind::Uuid,
            oid::BYTEA => Kind::Bytea,
            _ => Kind::Text,
        }
    }

    /// As it is written in CREATE TABLE.
    pub fn duck(self) -> String {
        match self {
            Kind::Bool => "BOOLEAN",
            Kind::Int2 => "SMALLINT",
            Kind::Int4 => "INTEGER",
            Kind::Int8 => "BIGINT",
            Kind::Float4 => "FLOAT",
            Kind::Float8 => "DOUBLE",
            Kind::Numeric { precision, scale } => return format!("DECIMAL({precision}, {scale})"),
            Kind::Text | Kind::Bpchar => "VARCHAR",
            Kind::Date => "DATE",
            Kind::Timestamp | Kind::Timestamptz => "TIMESTAMP",
            Kind::Uuid => "UUID",
            Kind::Bytea => "BLOB",
        }
        .into()
    }
}

/// numeric(p, s) where DuckDB has it: p to 38, s from 0 to p (`make_numeric_typmod` in numeric.c).
fn numeric(modifier: i32) -> Kind {
    if modifier < HEADER {
        return Kind::Text;
    }
    let packed = modifier - HEADER;
    let precision = (packed >> 16) & 0xffff;
    // Eleven bits with a sign.
    let scale = ((packed & 0x7ff) ^ 1024) - 1024;
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Kind::Numeric { precision, scale },
        _ => Kind::Text,
    }
}

/// Why values of a type can't be copied: their text may change while no row does, as it depends on names or settings.
pub fn refusal(type_oid: u32) -> Option<&'static str> {
    const REG: [u32; 11] = [24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191];
    match type_oid {
        t if REG.contains(&t) => Some("the texts of its values are names, which change by themselves"),
        oid::MONEY => Some("money is written as lc_monetary says"),
        1033 => Some("the texts of its values are names, which change by themselves"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics() {
        let modifier = |p: i32, s: i32| ((p << 16) | (s & 0x7ff)) + 4;
        assert_eq!(Kind::of(oid::NUMERIC, modifier(12, 2)).duck(), "DECIMAL(12, 2)");
        assert_eq!(Kind::of(oid::NUMERIC, modifier(38, 38)).duck(), "DECIMAL(38, 38)");
        for other in [-1, modifier(39, 0), modifier(5, -2), modifier(2, 5)] {
            assert_eq!(Kind::of(oid::NUMERIC, other), Kind::Text);
        }
    }
}
