//! DuckDB's answer as PostgreSQL would print it: text format, of the types that were asked for. A value that its type could not have
//! is an error. It does not know what was asked.

use std::fmt::Write;

use bytes::BytesMut;
use duckdb::arrow::array::{
    Array, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use duckdb::arrow::datatypes::DataType;
use duckdb::arrow::record_batch::RecordBatch;
use wire::backend::Field;
use wire::{put, type_oid as oid};

use crate::datetime::{print_date, print_timestamp};
use crate::error::{Error, Result};
use crate::float::{print_float4, print_float8};

/// As which type a column of the answer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// With as many digits behind the point as it comes with, or with so many.
    Numeric(Option<u8>),
    Text,
    Varchar,
    /// Padded with blanks to so many characters.
    Bpchar(u32),
    Date,
    Timestamp,
    /// In UTC.
    Timestamptz,
    Uuid,
    Bytea,
}

/// Whether a zero of a float has the sign it had: DuckDB does not always keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    Sure,
    Unsure,
}

/// numeric's largest scale in DuckDB.
const SCALE_MAX: u8 = 38;
/// A character(n) has so many at most (`anychar_typmodin` in varchar.c).
const CHARACTERS_MAX: u32 = 10_485_760;

impl As {
    /// By a type's name as the question has it: `int8`, `numeric:2`, `bpchar:124`.
    pub fn parse(name: &str) -> Result<As> {
        let (name, modifier) = name.split_once(':').map_or((name, None), |(name, modifier)| (name, Some(modifier)));
        let number = modifier.map(|m| m.parse::<u32>().map_err(|_| Error::Question(format!("\"{m}\" is no modifier"))));
        let number = number.transpose()?;
        Ok(match (name, number) {
            ("bool", None) => As::Bool,
            ("int2", None) => As::Int2,
            ("int4", None) => As::Int4,
            ("int8", None) => As::Int8,
            ("float4", None) => As::Float4,
            ("float8", None) => As::Float8,
            ("numeric", None) => As::Numeric(None),
            ("numeric", Some(scale)) if scale <= SCALE_MAX.into() => As::Numeric(Some(scale as u8)),
            ("text", None) => As::Text,
            ("varchar", _) => As::Varchar,
            ("bpchar", Some(modifier)) if (5..=CHARACTERS_MAX + 4).contains(&modifier) => As::Bpchar(modifier - 4),
            ("date", None) => As::Date,
            ("timestamp", None) => As::Timestamp,
            ("timestamptz", None) => As::Timestamptz,
            ("uuid", None) => As::Uuid,
            ("bytea", None) => As::Bytea,
            _ => return Err(Error::Unsupported("a type of the answer")),
        })
    }

    /// How a RowDescription has it.
    pub fn field(self, name: &str) -> Field {
        let (type_oid, len) = match self {
            As::Bool => (oid::BOOL, 1),
            As::Int2 => (oid::INT2, 2),
            As::Int4 => (oid::INT4, 4),
            As::Int8 => (oid::INT8, 8),
            As::Float4 => (oid::FLOAT4, 4),
            As::Float8 => (oid::FLOAT8, 8),
            As::Numeric(_) => (oid::NUMERIC, -1),
            As::Text => (oid::TEXT, -1),
            As::Varchar => (oid::VARCHAR, -1),
            As::Bpchar(_) => (oid::BPCHAR, -1),
            As::Date => (oid::DATE, 4),
            As::Timestamp => (oid::TIMESTAMP, 8),
            As::Timestamptz => (oid::TIMESTAMPTZ, 8),
            As::Uuid => (oid::UUID, 16),
            As::Bytea => (oid::BYTEA, -1),
        };
        let typmod = if let As::Bpchar(characters) = self { characters as i32 + 4 } else { -1 };
        Field { typmod, ..Field::new(name, type_oid, len) }
    }
}

/// Writes a batch's rows as DataRows. `left` is how many bytes they may take.
pub fn put_rows(batch: &RecordBatch, types: &[As], zeros: Zeros, out: &mut BytesMut, bytes_max: usize) -> Result<()> {
    let columns = batch.columns().iter().zip(types).map(|(array, shown)| Column::of(array.as_ref(), *shown));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        let mut failure = Ok(());
        put::message(out, b'D', |b| {
            use bytes::BufMut;
            b.put_u16(columns.len() as u16);
            for column in &columns {
                text.clear();
                match column.print(row, zeros, &mut text) {
                    Ok(true) => put::value(b, Some(text.as_bytes())),
                    Ok(false) => put::value(b, None),
                    Err(e) => failure = Err(e),
                }
            }
        });
        failure?;
        if out.len() > bytes_max {
            return Err(Error::TooMuch { max: bytes_max as u64, what: "bytes" });
        }
    }
    Ok(())
}

/// A column of the answer, and how it is to be told.
struct Column<'a> {
    array: &'a dyn Array,
    shown: As,
    values: Values<'a>,
}

enum Values<'a> {
    /// All are NULL, of no type.
    Nothing,
    Bool(&'a BooleanArray),
    Int(Box<dyn Fn(usize) -> i128 + 'a>),
    /// In units of the last digit, and how many digits are behind the point.
    Digits(&'a Decimal128Array, u8),
    Float4(&'a Float32Array),
    Float8(&'a Float64Array),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Date(&'a Date32Array),
    Micros(&'a TimestampMicrosecondArray),
}

impl<'a> Column<'a> {
    fn of(array: &'a dyn Array, shown: As) -> Result<Self> {
        let any = array.as_any();
        macro_rules! ints {
            ($type:ty) => {
                any.downcast_ref::<$type>().map(|a| Values::Int(Box::new(|row| i128::from(a.value(row)))))
            };
        }
        let values = match array.data_type() {
            DataType::Null => Some(Values::Nothing),
            DataType::Boolean => any.downcast_ref().map(Values::Bool),
            DataType::Int8 => ints!(Int8Array),
            DataType::Int16 => ints!(Int16Array),
            DataType::Int32 => ints!(Int32Array),
            DataType::Int64 => ints!(Int64Array),
            DataType::UInt8 => ints!(UInt8Array),
            DataType::UInt16 => ints!(UInt16Array),
            DataType::UInt32 => ints!(UInt32Array),
            DataType::UInt64 => ints!(UInt64Array),
            DataType::Decimal128(_, 0) => {
                any.downcast_ref().map(|a: &Decimal128Array| Values::Int(Box::new(|row| a.value(row))))
            }
            DataType::Decimal128(_, scale @ 1..) => any.downcast_ref().map(|a| Values::Digits(a, *scale as u8)),
            DataType::Float32 => any.downcast_ref().map(Values::Float4),
            DataType::Float64 => any.downcast_ref().map(Values::Float8),
            DataType::Utf8 => any.downcast_ref().map(Values::Text),
            DataType::Binary => any.downcast_ref().map(Values::Bytes),
            DataType::Date32 => any.downcast_ref().map(Values::Date),
            DataType::Timestamp(_, None) => any.downcast_ref().map(Values::Micros),
            _ => None,
        };
        let values = values.ok_or_else(|| Error::Answer(format!("a column has the type {}", array.data_type())))?;
        Ok(Column { array, shown, values })
    }

    /// `Ok(false)`: it is NULL.
    fn print(&self, row: usize, zeros: Zeros, out: &mut String) -> Result<bool> {
        if matches!(self.values, Values::Nothing) || self.array.is_null(row) {
            return Ok(false);
        }
        match (&self.values, self.shown) {
            (Values::Bool(a), As::Bool) => out.push(if a.value(row) { 't' } else { 'f' }),
            (Values::Int(value), As::Int2) => int(value(row), i16::MIN.into(), i16::MAX.into(), out)?,
            (Values::Int(value), As::Int4) => int(value(row), i32::MIN.into(), i32::MAX.into(), out)?,
            (Values::Int(value), As::Int8) => int(value(row), i64::MIN.into(), i64::MAX.into(), out)?,
            (Values::Int(value), As::Numeric(scale)) => digits(value(row), 0, scale, out)?,
            (Values::Digits(a, scale), As::Numeric(shown)) => digits(a.value(row), *scale, shown, out)?,
            (Values::Float4(a), As::Float4) if a.value(row) == 0.0 && zeros == Zeros::Unsure => return Err(unsure()),
            (Values::Float8(a), As::Float8) if a.value(row) == 0.0 && zeros == Zeros::Unsure => return Err(unsure()),
            (Values::Float4(a), As::Float4) => print_float4(a.value(row), out),
            (Values::Float8(a), As::Float8) => print_float8(a.value(row), out),
            // Numerics without a scale are kept as PostgreSQL printed them.
            (Values::Text(a), As::Text | As::Varchar | As::Uuid | As::Numeric(None)) => out.push_str(a.value(row)),
            (Values::Text(a), As::Bpchar(characters)) => padded(a.value(row), characters, out)?,
            (Values::Bytes(a), As::Bytea) => {
                out.push_str("\\x");
                out.push_str(&wire::hex::encode(a.value(row)));
            }
            (Values::Date(a), As::Date) => print_date(a.value(row), out),
            (Values::Micros(a), As::Timestamp) => print_timestamp(a.value(row), "", out),
            (Values::Micros(a), As::Timestamptz) => print_timestamp(a.value(row), "+00", out),
            (_, shown) => {
                let is = self.array.data_type();
                return Err(Error::Answer(format!("a column has the type {is}, which can't be told as {shown:?}")));
            }
        }
        Ok(true)
    }
}

fn unsure() -> Error {
    Error::Answer("a zero may have a sign, or not".into())
}

fn int(value: i128, min: i128, max: i128, out: &mut String) -> Result<()> {
    if !(min..=max).contains(&value) {
        return Err(Error::Answer(format!("{value} is out of range")));
    }
    let _ = write!(out, "{value}");
    Ok(())
}

fn digits(value: i128, scale: u8, shown: Option<u8>, out: &mut String) -> Result<()> {
    let shown = shown.unwrap_or(scale);
    let (mut whole, mut fraction) = (value.unsigned_abs(), String::new());
    if scale > 0 {
        let unit = 10u128.pow(scale.into());
        fraction = format!("{:0width$}", whole % unit, width = usize::from(scale));
        whole /= unit;
    }
    if let Some(cut) = fraction.get(usize::from(shown)..)
        && cut.bytes().any(|b| b != b'0')
    {
        return Err(Error::Answer(format!("{value} of scale {scale} has more digits than {shown} behind the point")));
    }
    fraction.truncate(shown.into());
    let _ = write!(out, "{}{whole}", if value < 0 { "-" } else { "" });
    if shown > 0 {
        let _ = write!(out, ".{fraction:0<width$}", width = usize::from(shown));
    }
    Ok(())
}

fn padded(text: &str, characters: u32, out: &mut String) -> Result<()> {
    out.push_str(text);
    let missing = (characters as usize).checked_sub(text.chars().count());
    let missing = missing.ok_or_else(|| Error::Answer("a text is longer than its type".into()))?;
    out.extend(std::iter::repeat_n(' ', missing));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_are_printed_with_all_their_digits() {
        let shown = |value, scale, shown| {
            let mut out = String::new();
            digits(value, scale, shown, &mut out).map(|()| out)
        };
        assert_eq!(shown(-5, 2, None).unwrap(), "-0.05");
        assert_eq!(shown(0, 2, None).unwrap(), "0.00");
        assert_eq!(shown(1_200, 2, Some(4)).unwrap(), "12.0000");
        assert_eq!(shown(1_200, 2, Some(0)).unwrap(), "12");
        assert_eq!(shown(7, 0, None).unwrap(), "7");
        assert_eq!(shown(7, 0, Some(2)).unwrap(), "7.00");
        assert!(shown(1_201, 2, Some(1)).is_err());
        assert_eq!(shown(1, 38, None).unwrap(), format!("0.{}1", "0".repeat(37)));
    }

    #[test]
    fn a_zero_is_shown_where_its_sign_is_sure() {
        let shown = |value: f64, zeros| {
            let array = Float64Array::from(vec![value]);
            let mut out = String::new();
            Column::of(&array, As::Float8).and_then(|c| c.print(0, zeros, &mut out)).map(|_| out)
        };
        assert_eq!(shown(0.0, Zeros::Sure).unwrap(), "0");
        assert_eq!(shown(-1.5, Zeros::Unsure).unwrap(), "-1.5");
        assert!(shown(0.0, Zeros::Unsure).is_err() && shown(-0.0, Zeros::Unsure).is_err());
    }

    #[test]
    fn names_of_types() {
        assert_eq!(As::parse("bpchar:124").unwrap(), As::Bpchar(120));
        assert_eq!(As::parse("numeric:2").unwrap(), As::Numeric(Some(2)));
        for wrong in ["bpchar", "bpchar:4", "numeric:39", "timetz", "int8:1", "", "text:x"] {
            assert!(As::parse(wrong).is_err(), "{wrong}");
        }
    }
}
