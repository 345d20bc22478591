//! Dates and timestamps between PostgreSQL's text (DateStyle ISO) and the numbers DuckDB keeps: days and microseconds from
//! 1970, in the Gregorian calendar without an end on either side. It knows no time zones but UTC.

use std::fmt::Write;

use wire::values::{date_days, timestamp_micros};

/// DuckDB's infinities; both signs.
pub const DATE_INFINITY: i32 = i32::MAX;
/// As [`DATE_INFINITY`], of timestamps.
pub const MICROS_INFINITY: i64 = i64::MAX;

const DAY_MICROS: i64 = 86_400_000_000;

/// `2024-02-29`, `0044-03-15 BC`, `infinity` → days.
pub fn parse_date(text: &str) -> Option<i32> {
    match text {
        "infinity" => return Some(DATE_INFINITY),
        "-infinity" => return Some(-DATE_INFINITY),
        _ => {}
    }
    i32::try_from(date_days(text)?).ok().filter(|days| days.unsigned_abs() < DATE_INFINITY.unsigned_abs())
}

/// `2024-02-29 12:00:00.5`, with `utc` also `+00` behind it → microseconds.
pub fn parse_timestamp(text: &str, utc: bool) -> Option<i64> {
    match text {
        "infinity" => return Some(MICROS_INFINITY),
        "-infinity" => return Some(-MICROS_INFINITY),
        _ => {}
    }
    let micros = timestamp_micros(text, utc)?;
    (micros.unsigned_abs() < MICROS_INFINITY.unsigned_abs()).then_some(micros)
}

/// As `date_out` writes it.
pub fn print_date(days: i32, out: &mut String) {
    match days {
        DATE_INFINITY => out.push_str("infinity"),
        d if d == -DATE_INFINITY => out.push_str("-infinity"),
        _ => {
            let bc = print_day(i64::from(days), out);
            out.push_str(if bc { " BC" } else { "" });
        }
    }
}

/// As `timestamp_out` writes it, and `timestamptz_out` with the offset of its zone.
pub fn print_timestamp(micros: i64, offset: &str, out: &mut String) {
    match micros {
        MICROS_INFINITY => out.push_str("infinity"),
        m if m == -MICROS_INFINITY => out.push_str("-infinity"),
        _ => {
            let bc = print_day(micros.div_euclid(DAY_MICROS), out);
            let rest = micros.rem_euclid(DAY_MICROS);
            let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
            let _ = write!(out, " {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
            if fraction > 0 {
                let digits = format!(".{fraction:06}");
                out.push_str(digits.trim_end_matches('0'));
            }
            out.push_str(offset);
            out.push_str(if bc { " BC" } else { "" });
        }
    }
}

/// Returns whether it is before Christ.
fn print_day(days: i64, out: &mut String) -> bool {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let bc = year <= 0;
    let _ = write!(out, "{:04}-{month:02}-{day:02}", if bc { 1 - year } else { year });
    bc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_there_and_back() {
        for days in (-2_500_000..2_500_000).step_by(17).chain([0, 59, 60, -719_162, -719_163, 2_145_000_000]) {
            let mut text = String::new();
            print_date(days, &mut text);
            assert_eq!(parse_date(&text), Some(days), "{text}");
        }
    }

    #[test]
    fn timestamps_there_and_back() {
        for text in [
            "2024-02-29 12:34:56.7",
            "1970-01-01 00:00:00",
            "1969-12-31 23:59:59.999999",
            "0001-01-01 00:00:00",
            "0001-12-31 23:59:59.5 BC",
            "4714-11-24 00:00:00 BC",
            "294246-12-31 00:00:00.000001",
            "infinity",
            "-infinity",
        ] {
            let mut out = String::new();
            print_timestamp(parse_timestamp(text, false).unwrap(), "", &mut out);
            assert_eq!(out, text);
        }
        assert_eq!(parse_timestamp("1970-01-01 00:00:01+00", true), Some(1_000_000));
        // Later than DuckDB's last.
        assert_eq!(parse_timestamp("294276-12-31 00:00:00", false), None);
        for wrong in ["", "2024", "2024-13-01 00:00:00", "2024-01-01", "x-01-01 00:00:00", "2024-01-01 00:00:00+01"] {
            assert_eq!(parse_timestamp(wrong, false), None, "{wrong}");
        }
    }
}
