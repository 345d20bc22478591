//! The one timestamp of a statement or transaction, read from the clock when it is first asked for. It does not know
//! what it is put into.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// `now()` as the text of a timestamptz literal. All clones are one, whichever is asked first.
#[derive(Clone, Debug, Default)]
pub struct Now(Arc<OnceLock<String>>);

impl Now {
    /// The transaction's, or a statement's own.
    pub fn of(transaction: Option<&str>) -> Self {
        match transaction {
            Some(now) => Now(Arc::new(OnceLock::from(now.to_string()))),
            None => Now::default(),
        }
    }
}

impl Deref for Now {
    type Target = str;
    fn deref(&self) -> &str {
        self.0.get_or_init(timestamp)
    }
}

/// Now, in UTC, as a timestamptz literal's text.
pub fn timestamp() -> String {
    timestamp_at(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default())
}

/// A moment since the Unix epoch, in UTC, as a timestamptz literal's text.
pub fn timestamp_at(now: std::time::Duration) -> String {
    let (days, seconds) = (now.as_secs() / 86_400, now.as_secs() % 86_400);
    let (year, month, day) = civil(days as i64);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:06}+00",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        now.subsec_micros()
    )
}

/// Days since 1970-01-01 as a Gregorian date (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_gregorian() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_778), (2026, 11, 21));
    }

    #[test]
    fn a_statement_has_one_now() {
        let now = Now::default();
        let clone = now.clone();
        assert_eq!(now.to_string(), clone.to_string());
        assert_eq!(&*Now::of(Some("2000-01-01")), "2000-01-01");
    }
}
