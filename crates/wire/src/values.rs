//! The texts of values as PostgreSQL prints them (DateStyle ISO, UTC), read as numbers: days and microseconds from 1970 in the
//! Gregorian calendar without an end on either side, and numerics in units of their last digit. And the fields of a line of COPY's
//! text format. It knows no time zones but UTC, and not what the numbers are kept in: infinities and NaN are none.

use std::borrow::Cow;

const DAY_MICROS: i64 = 86_400_000_000;

/// The fields of a line of the text format, without its newline: `None` is NULL, `Err` is a backslash that PostgreSQL does not write
/// (`CopyAttributeOutText` in copyto.c).
pub fn text_fields(line: &[u8]) -> impl Iterator<Item = Result<Option<Cow<'_, [u8]>>, NoField>> {
    line.split(|byte| *byte == b'\t').map(|field| match field {
        b"\\N" => Ok(None),
        field if memchr::memchr(b'\\', field).is_none() => Ok(Some(Cow::Borrowed(field))),
        field => unescaped(field).map(|plain| Some(Cow::Owned(plain))).ok_or(NoField),
    })
}

/// What stands there is no field of the text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoField;

fn unescaped(field: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'v' => 11,
                b'\\' => b'\\',
                _ => return None,
            },
            other => *other,
        });
    }
    Some(plain)
}

/// `2024-02-29`, `0044-03-15 BC` → days.
pub fn date_days(text: &str) -> Option<i64> {
    let (text, bc) = without_era(text);
    days(text, bc)
}

/// `2024-02-29 12:00:00.5`, with `utc` also `+00` behind it → microseconds.
pub fn timestamp_micros(text: &str, utc: bool) -> Option<i64> {
    let (text, bc) = without_era(text);
    let text = if utc { text.strip_suffix("+00")? } else { text };
    let (date, time) = text.split_once(' ')?;
    days(date, bc)?.checked_mul(DAY_MICROS)?.checked_add(time_micros(time)?)
}

/// `23:59:59.5` → microseconds; 24:00:00 is one day.
pub fn time_micros(time: &str) -> Option<i64> {
    let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = whole.split(':');
    let (hour, minute, second) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    if parts.next().is_some() || fraction.len() > 6 || hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let mut micros = if fraction.is_empty() { 0 } else { number(fraction)? };
    (fraction.len()..6).for_each(|_| micros *= 10);
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

/// A numeric in units of its last digit; `None`: NaN, an infinity, or more digits than `precision` (38 at most) and `scale` have room for.
pub fn decimal_units(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let (negative, plain) = text.strip_prefix('-').map_or((false, text), |plain| (true, plain));
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let fits = !whole.is_empty()
        && fraction.len() <= usize::from(scale)
        && whole.trim_start_matches('0').len() <= usize::from(precision - scale);
    if !fits {
        return None;
    }
    let mut value = 0i128;
    for byte in whole.bytes().chain(fraction.bytes()) {
        value = value * 10 + i128::from(byte.is_ascii_digit().then(|| byte - b'0')?);
    }
    value *= 10i128.pow(u32::from(scale) - fraction.len() as u32);
    Some(if negative { -value } else { value })
}

fn without_era(text: &str) -> (&str, bool) {
    text.strip_suffix(" BC").map_or((text, false), |text| (text, true))
}

fn days(date: &str, bc: bool) -> Option<i64> {
    let mut parts = date.split('-');
    let (year, month, day) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
    if parts.next().is_some()
        || !(1..=12).contains(&month)
        || !(1..=31).contains(&day)
        || year == 0
        || year > 10_000_000
    {
        return None;
    }
    let year = if bc { 1 - year } else { year };
    // Days of a year that begins in March, so that the leap day is its last (Hinnant, "chrono-compatible low-level date algorithms").
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

fn number(digits: &str) -> Option<i64> {
    let plain = !digits.is_empty() && digits.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_line() {
        let fields = |line: &[u8]| text_fields(line).map(|f| f.map(|f| f.map(Cow::into_owned))).collect::<Vec<_>>();
        let some = |text: &[u8]| Ok(Some(text.to_vec()));
        assert_eq!(fields(b"a\\\\b\\n\\t\t\\N\t\t\\\\N"), [some(b"a\\b\n\t"), Ok(None), some(b""), some(b"\\N")]);
        assert_eq!(fields(b"a\\"), [Err(NoField)]);
        assert_eq!(fields(b"\\x"), [Err(NoField)]);
    }

    #[test]
    fn moments() {
        let days = [("1970-01-01", 0), ("1969-12-31", -1), ("0001-01-01", -719_162), ("0001-12-31 BC", -719_163)];
        days.into_iter().for_each(|(text, days)| assert_eq!(date_days(text), Some(days), "{text}"));
        assert_eq!(timestamp_micros("1970-01-01 00:00:01.5+00", true), Some(1_500_000));
        assert_eq!(timestamp_micros("1969-12-31 23:59:59.999999", false), Some(-1));
        assert_eq!(time_micros("24:00:00"), Some(DAY_MICROS));
        // More microseconds than there are numbers for.
        assert_eq!(timestamp_micros("294276-12-31 00:00:00", false), None);
        for wrong in ["", "2024", "2024-13-01 00:00:00", "2024-01-01", "infinity", "2024-01-01 00:00:00+01"] {
            assert_eq!(timestamp_micros(wrong, false), None, "{wrong}");
        }
    }

    #[test]
    fn numerics() {
        for (fits, units) in [("0.00", 0), ("-999.99", -99_999), ("12.30", 1_230), ("1", 100), ("-0.01", -1)] {
            assert_eq!(decimal_units(fits, 5, 2), Some(units));
        }
        let nines = "9999999999999999999999999999.9999999999";
        assert_eq!(decimal_units(nines, 38, 10), Some(10i128.pow(38) - 1));
        for not in ["NaN", "Infinity", "1000.00", "1.234", "", "-", "1e5"] {
            assert_eq!(decimal_units(not, 5, 2), None, "{not}");
        }
    }
}
