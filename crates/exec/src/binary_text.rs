//! Values in PostgreSQL's binary format (the `*send` functions) as text that the types' input functions read as the same
//! value, whatever the session's settings. Types that are missing here are not known to be simple enough.

use std::borrow::Cow;
use std::fmt::Write;

use wire::type_oid::*;

use crate::now::civil;

/// Days from 1970-01-01 to PostgreSQL's 2000-01-01.
const EPOCH_DAYS: i64 = 10_957;
const DAY_MICROS: i64 = 86_400_000_000;

/// The text of a value in binary format; `None`: the router does not read this type, or not these bytes.
pub fn text_of(type_oid: u32, value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let owned = |text: String| Some(Cow::Owned(text.into_bytes()));
    match type_oid {
        TEXT | VARCHAR | BPCHAR | JSON => Some(Cow::Borrowed(value)),
        JSONB => value.strip_prefix(&[1]).map(Cow::Borrowed),
        BOOL => Some(Cow::Borrowed(match value {
            [0] => b"f",
            [1] => b"t",
            _ => return None,
        })),
        INT2 => owned(i16::from_be_bytes(value.try_into().ok()?).to_string()),
        INT4 => owned(i32::from_be_bytes(value.try_into().ok()?).to_string()),
        INT8 => owned(i64::from_be_bytes(value.try_into().ok()?).to_string()),
        // The shortest text that reads back as the same number; infinities and NaN by names PostgreSQL knows.
        FLOAT4 => owned(f32::from_be_bytes(value.try_into().ok()?).to_string()),
        FLOAT8 => owned(f64::from_be_bytes(value.try_into().ok()?).to_string()),
        UUID => hex(value, String::new()).filter(|_| value.len() == 16),
        BYTEA => hex(value, "\\x".into()),
        DATE => {
            let days = i64::from(i32::from_be_bytes(value.try_into().ok()?));
            if let Some(text) = infinity(days, i64::from(i32::MAX), i64::from(i32::MIN)) {
                return Some(text);
            }
            owned(date(days)?)
        }
        TIMESTAMP | TIMESTAMPTZ => {
            let micros = i64::from_be_bytes(value.try_into().ok()?);
            if let Some(text) = infinity(micros, i64::MAX, i64::MIN) {
                return Some(text);
            }
            let (day, rest) = (micros.div_euclid(DAY_MICROS), micros.rem_euclid(DAY_MICROS));
            let seconds = rest / 1_000_000;
            let zone = if type_oid == TIMESTAMPTZ { "+00" } else { "" };
            owned(format!(
                "{} {:02}:{:02}:{:02}.{:06}{zone}",
                date(day)?,
                seconds / 3600,
                seconds / 60 % 60,
                seconds % 60,
                rest % 1_000_000
            ))
        }
        _ => None,
    }
}

fn infinity(n: i64, high: i64, low: i64) -> Option<Cow<'static, [u8]>> {
    match n {
        _ if n == high => Some(Cow::Borrowed(b"infinity")),
        _ if n == low => Some(Cow::Borrowed(b"-infinity")),
        _ => None,
    }
}

/// Years before Christ are left to PostgreSQL.
fn date(days: i64) -> Option<String> {
    let (year, month, day) = civil(days + EPOCH_DAYS);
    (year > 0).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

fn hex(value: &[u8], mut out: String) -> Option<Cow<'_, [u8]>> {
    for b in value {
        write!(out, "{b:02x}").ok()?;
    }
    Some(Cow::Owned(out.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(type_oid: u32, value: &[u8]) -> String {
        String::from_utf8(text_of(type_oid, value).expect("known").into_owned()).expect("text")
    }

    #[test]
    fn values_are_written_as_postgresql_reads_them() {
        assert_eq!(text(INT8, &(-5i64).to_be_bytes()), "-5");
        assert_eq!(text(FLOAT8, &1.0e300f64.to_be_bytes()).parse::<f64>(), Ok(1.0e300));
        assert_eq!(text(FLOAT4, &f32::NEG_INFINITY.to_be_bytes()), "-inf");
        assert_eq!(text(BOOL, &[1]), "t");
        assert_eq!(text(BYTEA, &[0, 255]), "\\x00ff");
        assert_eq!(text(UUID, &[0xab; 16]), "ab".repeat(16));
        assert_eq!(text(DATE, &0i32.to_be_bytes()), "2000-01-01");
        assert_eq!(text(DATE, &i32::MAX.to_be_bytes()), "infinity");
        assert_eq!(text(TIMESTAMPTZ, &(-1i64).to_be_bytes()), "1999-12-31 23:59:59.999999+00");
        assert_eq!(text(TIMESTAMP, &86_400_000_001i64.to_be_bytes()), "2000-01-02 00:00:00.000001");
        assert_eq!(text(TIMESTAMP, &i64::MIN.to_be_bytes()), "-infinity");
        assert_eq!(text(JSONB, b"\x01{}"), "{}");
    }

    #[test]
    fn what_is_not_sure_is_left_alone() {
        assert_eq!(text_of(INT4, &[1]), None);
        assert_eq!(text_of(NUMERIC, &[0; 8]), None);
        assert_eq!(text_of(JSONB, b"\x02{}"), None);
        assert_eq!(text_of(DATE, &(-800_000i32).to_be_bytes()), None);
    }
}
