//! Dates and times: the ISO forms that mean the same under every DateStyle and TimeZone, and the span an interval is compared by.
//!
//! Everything else (month names, times without a zone for `timestamptz`, `now`, hour 24, second 60, more than six decimals, impossible
//! days) is left to the server.

use crate::KeyError;
use crate::cursor::Cursor;
use crate::text::trim_space;
use crate::types::INTERVAL;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// Zones further than this from Greenwich are left to the server (it draws its line at 15:59:59).
const ZONE_HOURS_MAX: u32 = 14;

/// `interval_cmp_value` (timestamp.c): months of 30 days, days of 24 hours, in microseconds.
pub(crate) fn interval_span(value: &[u8]) -> Result<i128, KeyError> {
    let mut cursor = Cursor::new(INTERVAL, value);
    let (time, days, months) = (cursor.i64()?, cursor.i32()?, cursor.i32()?);
    cursor.end()?;
    let days = i128::from(months) * 30 + i128::from(days);
    Ok(i128::from(time) + days * i128::from(MICROS_PER_DAY))
}

/// Exactly `len` decimal digits at the front, and the rest.
fn digits(text: &str, len: usize) -> Option<(u32, &str)> {
    let (head, rest) = text.split_at_checked(len)?;
    let plain = head.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| head.parse().ok()).flatten().map(|value| (value, rest))
}

/// `YYYY-MM-DD` as days since 2000-01-01, and the rest.
fn date(text: &str) -> Option<(i32, &str)> {
    let (year, rest) = digits(text, 4)?;
    let (month, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = digits(rest.strip_prefix('-')?, 2)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || !(1..=month_days).contains(&day) {
        return None;
    }
    Some((days_since_2000(year as i32, month as i32, day as i32), rest))
}

/// Counts years from March, so that the leap day comes last.
fn days_since_2000(year: i32, month: i32, day: i32) -> i32 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    // The same count for 2000-01-01.
    days - 730_425
}

/// `HH:MM[:SS[.ffffff]]` in microseconds, and the rest.
fn time(text: &str) -> Option<(i64, &str)> {
    let (hour, rest) = digits(text, 2)?;
    let (minute, mut rest) = digits(rest.strip_prefix(':')?, 2)?;
    let (mut second, mut micros) = (0, 0);
    if let Some(tail) = rest.strip_prefix(':') {
        (second, rest) = digits(tail, 2)?;
        if let Some(tail) = rest.strip_prefix('.') {
            let len = tail.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=6).contains(&len) {
                return None;
            }
            (micros, rest) = digits(tail, len)?;
            micros *= 10_u32.pow(6 - len as u32);
        }
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = i64::from(hour * 3600 + minute * 60 + second);
    Some((seconds * MICROS_PER_SECOND + i64::from(micros), rest))
}

/// `Z`, `±HH`, `±HH:MM`, up to the end: seconds east of Greenwich.
fn zone(text: &str) -> Option<i32> {
    if text == "Z" {
        return Some(0);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, rest) = digits(&text[1..], 2)?;
    let minutes = match rest.strip_prefix(':') {
        Some(rest) => digits(rest, 2).filter(|(_, rest)| rest.is_empty())?.0,
        None if rest.is_empty() => 0,
        None => return None,
    };
    (hours <= ZONE_HOURS_MAX && minutes < 60).then(|| sign * (hours * 3600 + minutes * 60) as i32)
}

/// A date, then optionally `T` or one blank and a time: microseconds since 2000-01-01, and the rest.
fn date_time(text: &str) -> Option<(i64, &str)> {
    let (days, rest) = date(text)?;
    let (micros, rest) = match rest.strip_prefix([' ', 'T']) {
        Some(rest) => time(rest)?,
        None => (0, rest),
    };
    Some((i64::from(days) * MICROS_PER_DAY + micros, rest))
}

/// The infinities of dates and timestamps.
fn infinite(text: &str) -> Option<bool> {
    let negative = text.starts_with('-');
    text.strip_prefix('-').unwrap_or(text).eq_ignore_ascii_case("infinity").then_some(negative)
}

fn answer<const N: usize>(value: Option<[u8; N]>) -> Result<Vec<u8>, KeyError> {
    value.map(Vec::from).ok_or(KeyError::NeedsServer)
}

pub(crate) fn parse_date(text: &str) -> Result<Vec<u8>, KeyError> {
    let text = trim_space(text);
    if let Some(negative) = infinite(text) {
        return Ok(if negative { i32::MIN } else { i32::MAX }.to_be_bytes().to_vec());
    }
    answer(date(text).filter(|(_, rest)| rest.is_empty()).map(|(days, _)| days.to_be_bytes()))
}

pub(crate) fn parse_time(text: &str) -> Result<Vec<u8>, KeyError> {
    let parsed = time(trim_space(text)).filter(|(_, rest)| rest.is_empty());
    answer(parsed.map(|(micros, _)| micros.to_be_bytes()))
}

/// The zone is kept, as seconds *west* of Greenwich.
pub(crate) fn parse_timetz(text: &str) -> Result<Vec<u8>, KeyError> {
    let (micros, rest) = time(trim_space(text)).ok_or(KeyError::NeedsServer)?;
    let east = zone(rest).ok_or(KeyError::NeedsServer)?;
    let mut value = micros.to_be_bytes().to_vec();
    value.extend((-east).to_be_bytes());
    Ok(value)
}

fn infinite_timestamp(text: &str) -> Option<i64> {
    infinite(text).map(|negative| if negative { i64::MIN } else { i64::MAX })
}

pub(crate) fn parse_timestamp(text: &str) -> Result<Vec<u8>, KeyError> {
    let text = trim_space(text);
    let plain = || date_time(text).filter(|(_, rest)| rest.is_empty()).map(|(micros, _)| micros);
    answer(infinite_timestamp(text).or_else(plain).map(i64::to_be_bytes))
}

/// Only with a time and an explicit numeric zone: everything else asks the session's TimeZone.
pub(crate) fn parse_timestamptz(text: &str) -> Result<Vec<u8>, KeyError> {
    let text = trim_space(text);
    let zoned = || {
        matches!(text.as_bytes().get(10), Some(b' ' | b'T')).then_some(())?;
        let (micros, rest) = date_time(text)?;
        Some(micros - i64::from(zone(rest)?) * MICROS_PER_SECOND)
    };
    answer(infinite_timestamp(text).or_else(zoned).map(i64::to_be_bytes))
}
