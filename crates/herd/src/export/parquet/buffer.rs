//! The values of one column of a row group, between PostgreSQL's text and Parquet. It does not know rows.

use bytes::Bytes;
use parquet::basic::Type as Physical;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArray, FixedLenByteArrayType, FloatType,
    Int32Type, Int64Type,
};
use parquet::errors::Result;
use parquet::file::writer::SerializedColumnWriter;
use wire::values::{date_days, decimal_units, time_micros, timestamp_micros};

use super::kind::{Kind, UUID_BYTES};

/// Values that wait; NULLs are levels without one.
pub struct Buffer {
    /// 1 where there is a value, 0 where there is NULL.
    levels: Vec<i16>,
    values: Values,
}

enum Values {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Pieces),
    /// Of one length.
    Fixed(Pieces),
}

/// Values one behind the other, in pieces that need not be copied when more come.
#[derive(Default)]
struct Pieces {
    whole: Vec<ByteArray>,
    bytes: usize,
    /// The last piece, and where each of its values ends.
    piece: Vec<u8>,
    ends: Vec<usize>,
}

/// Bytes of a piece, unless a value is longer.
const PIECE_BYTES: usize = 256 << 10;

impl Pieces {
    fn push(&mut self, value: &[u8]) {
        if self.piece.len() + value.len() > PIECE_BYTES {
            self.cut();
        }
        self.piece.extend_from_slice(value);
        self.ends.push(self.piece.len());
        self.bytes += value.len() + size_of::<ByteArray>();
    }

    /// The values of a piece share its bytes.
    fn cut(&mut self) {
        let (data, mut from) = (Bytes::from(std::mem::take(&mut self.piece)), 0);
        let value = |end| ByteArray::from(data.slice(std::mem::replace(&mut from, end)..end));
        self.whole.extend(self.ends.drain(..).map(value));
    }

    fn take(&mut self) -> Vec<ByteArray> {
        self.cut();
        std::mem::take(self).whole
    }
}

/// DuckDB's infinities are the last numbers of either sign.
const DAYS_MAX: i64 = i32::MAX as i64 - 1;
/// As [`DAYS_MAX`], of timestamps.
const MICROS_MAX: i64 = i64::MAX - 1;
/// A time of 24:00:00 is none to Parquet.
const DAY_MICROS: i64 = 86_400_000_000;

impl Buffer {
    /// Of a column of this kind.
    pub fn new(kind: Kind) -> Buffer {
        let values = match kind.physical() {
            Physical::BOOLEAN => Values::Bool(Vec::new()),
            Physical::INT32 => Values::Int32(Vec::new()),
            Physical::INT64 => Values::Int64(Vec::new()),
            Physical::FLOAT => Values::Float(Vec::new()),
            Physical::DOUBLE => Values::Double(Vec::new()),
            Physical::FIXED_LEN_BYTE_ARRAY => Values::Fixed(Pieces::default()),
            Physical::BYTE_ARRAY | Physical::INT96 => Values::Bytes(Pieces::default()),
        };
        Buffer { levels: Vec::new(), values }
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let values = match &self.values {
            Values::Bool(values) => values.len(),
            Values::Int32(values) => 4 * values.len(),
            Values::Int64(values) => 8 * values.len(),
            Values::Float(values) => 4 * values.len(),
            Values::Double(values) => 8 * values.len(),
            Values::Bytes(pieces) | Values::Fixed(pieces) => pieces.bytes,
        };
        values + 2 * self.levels.len()
    }

    /// NULL.
    pub fn push_null(&mut self) {
        self.levels.push(0);
    }

    /// A value as PostgreSQL prints it; `false`: the column can't hold it.
    pub fn push(&mut self, kind: Kind, text: &str) -> bool {
        let pushed = self.put(kind, text).is_some();
        if pushed {
            self.levels.push(1);
        }
        pushed
    }

    fn put(&mut self, kind: Kind, text: &str) -> Option<()> {
        match (&mut self.values, kind) {
            (Values::Bool(values), _) => values.push(match text {
                "t" => true,
                "f" => false,
                _ => return None,
            }),
            (Values::Int32(values), Kind::Int2) => values.push(text.parse::<i16>().ok()?.into()),
            (Values::Int32(values), Kind::Date) => {
                let days = date_days(text).filter(|days| days.abs() <= DAYS_MAX)?;
                values.push(i32::try_from(days).ok()?);
            }
            (Values::Int32(values), Kind::Decimal { precision, scale }) => {
                values.push(i32::try_from(decimal_units(text, precision, scale)?).ok()?);
            }
            (Values::Int32(values), _) => values.push(text.parse().ok()?),
            (Values::Int64(values), Kind::Time) => {
                values.push(time_micros(text).filter(|micros| *micros < DAY_MICROS)?)
            }
            (Values::Int64(values), Kind::Timestamp | Kind::Timestamptz) => {
                let micros = timestamp_micros(text, kind == Kind::Timestamptz)?;
                values.push(Some(micros).filter(|micros| (-MICROS_MAX..=MICROS_MAX).contains(micros))?);
            }
            (Values::Int64(values), Kind::Decimal { precision, scale }) => {
                values.push(i64::try_from(decimal_units(text, precision, scale)?).ok()?);
            }
            (Values::Int64(values), _) => values.push(text.parse().ok()?),
            (Values::Float(values), _) => values.push(text.parse().ok()?),
            (Values::Double(values), _) => values.push(text.parse().ok()?),
            (Values::Bytes(pieces), Kind::Bytea) => pieces.push(&wire::hex::decode(text.strip_prefix("\\x")?)?),
            (Values::Bytes(pieces), _) => pieces.push(text.as_bytes()),
            (Values::Fixed(pieces), Kind::Decimal { precision, scale }) => {
                pieces.push(&decimal_units(text, precision, scale)?.to_be_bytes());
            }
            (Values::Fixed(pieces), _) => {
                let bytes = wire::hex::decode(&text.replace('-', ""))?;
                pieces.push(&Some(bytes).filter(|bytes| bytes.len() == UUID_BYTES)?);
            }
        }
        Some(())
    }

    /// Writes all of them as the next column of a row group, and begins anew.
    pub fn write(&mut self, column: &mut SerializedColumnWriter<'_>) -> Result<()> {
        let levels = std::mem::take(&mut self.levels);
        match &mut self.values {
            Values::Bool(values) => write::<BoolType>(column, std::mem::take(values), &levels),
            Values::Int32(values) => write::<Int32Type>(column, std::mem::take(values), &levels),
            Values::Int64(values) => write::<Int64Type>(column, std::mem::take(values), &levels),
            Values::Float(values) => write::<FloatType>(column, std::mem::take(values), &levels),
            Values::Double(values) => write::<DoubleType>(column, std::mem::take(values), &levels),
            Values::Bytes(pieces) => write::<ByteArrayType>(column, pieces.take(), &levels),
            Values::Fixed(pieces) => {
                let values = pieces.take().into_iter().map(FixedLenByteArray::from).collect();
                write::<FixedLenByteArrayType>(column, values, &levels)
            }
        }
    }
}

fn write<T: DataType>(column: &mut SerializedColumnWriter<'_>, values: Vec<T::T>, levels: &[i16]) -> Result<()> {
    column.typed::<T>().write_batch(&values, Some(levels), None).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_column_can_not_hold_is_refused() {
        let holds = |kind, text: &str| Buffer::new(kind).push(kind, text);
        for (kind, fits, not) in [
            (Kind::Date, "0044-03-15 BC", "infinity"),
            (Kind::Date, "5874897-12-31", "-infinity"),
            (Kind::Timestamp, "0001-12-31 23:59:59.5 BC", "infinity"),
            (Kind::Timestamptz, "294246-12-31 00:00:00.000001+00", "294276-12-31 00:00:00+00"),
            (Kind::Time, "23:59:59.999999", "24:00:00"),
            (Kind::Decimal { precision: 5, scale: 2 }, "-999.99", "NaN"),
            (Kind::Decimal { precision: 18, scale: 0 }, "-999999999999999999", "Infinity"),
            (Kind::Decimal { precision: 38, scale: 2 }, "0.01", "0.001"),
            (Kind::Int2, "-32768", "32768"),
            (Kind::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99"),
            (Kind::Bool, "t", "true"),
            (Kind::Bytea, "\\x00ff", "00ff"),
        ] {
            assert!(holds(kind, fits), "{kind} {fits}");
            assert!(!holds(kind, not), "{kind} {not}");
        }
        for float in ["NaN", "-Infinity", "-0", "1e-45", "3.4028235e+38"] {
            assert!(holds(Kind::Float4, float) && holds(Kind::Float8, float));
        }
    }

    #[test]
    fn values_stay_apart_in_pieces() {
        let mut pieces = Pieces::default();
        let long = "y".repeat(PIECE_BYTES + 1);
        let values: Vec<String> =
            (0..40_000).map(|i| if i % 10_000 == 5 { long.clone() } else { "x".repeat(i % 40) }).collect();
        for turn in 0..2 {
            values.iter().for_each(|value| pieces.push(value.as_bytes()));
            let taken = pieces.take();
            assert!(taken.iter().map(|v| v.data()).eq(values.iter().map(|v| v.as_bytes())), "{turn}");
            assert_eq!((pieces.bytes, pieces.piece.len()), (0, 0));
        }
    }
}
