//! How long a session may wait for its client: `idle_session_timeout`, and `idle_in_transaction_session_timeout`. Of PostgreSQL's own
//! settings these are kept by the router, and off on nodes: to a node a session waits while another one works for it. It does not know
//! how a session ends.

use std::num::NonZeroU32;
use std::time::Duration;

use exec::ExecError;
use wire::ErrorFields;
use wire::sqlstate;

use crate::router_settings::RouterSettings;
use crate::session::{Result, Session};

pub const IN_TRANSACTION: &str = "idle_in_transaction_session_timeout";
pub const SESSION: &str = "idle_session_timeout";
pub const NAMES: [&str; 2] = [IN_TRANSACTION, SESSION];

/// Units of time as PostgreSQL's guc.c has them, with their milliseconds, the largest first.
const UNITS: [(&str, f64); 6] =
    [("d", 86_400_000.0), ("h", 3_600_000.0), ("min", 60_000.0), ("s", 1000.0), ("ms", 1.0), ("us", 0.001)];

type Milliseconds = NonZeroU32;

/// How long that is, where there is a limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    in_transaction: Option<Milliseconds>,
    session: Option<Milliseconds>,
}

/// The end of a wait.
pub struct Limit {
    pub time: Duration,
    code: &'static str,
    message: &'static str,
}

impl Limit {
    /// The error with which the session ends.
    pub fn over(&self) -> ExecError {
        ExecError::Ended(Box::new(ErrorFields::fatal(self.code, self.message)))
    }
}

impl Idle {
    /// No limit where a setting is 0.
    pub fn of(own: &RouterSettings) -> Self {
        let time = |name| milliseconds(own.get(name)).and_then(NonZeroU32::new);
        Idle { in_transaction: time(IN_TRANSACTION), session: time(SESSION) }
    }

    /// For a session that is in this state when it waits.
    pub fn limit(&self, status: u8) -> Option<Limit> {
        match status {
            wire::backend::IDLE => self.session.map(|ms| Limit {
                time: Duration::from_millis(ms.get().into()),
                code: sqlstate::IDLE_SESSION_TIMEOUT,
                message: "terminating connection due to idle-session timeout",
            }),
            _ => self.in_transaction.map(|ms| Limit {
                time: Duration::from_millis(ms.get().into()),
                code: sqlstate::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                message: "terminating connection due to idle-in-transaction timeout",
            }),
        }
    }
}

/// A value as SHOW prints it.
pub fn spelled(name: &str, value: &str) -> Result<String> {
    let invalid = |message: String| ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, message);
    let Some(ms) = parsed(value) else {
        let e = invalid(format!("invalid value for parameter \"{name}\": \"{value}\""));
        return Err(match split(value) {
            Some(_) => e.hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\"."),
            None => e,
        });
    };
    if ms > f64::from(i32::MAX) {
        let e = invalid(format!("invalid value for parameter \"{name}\": \"{value}\""));
        return Err(e.hint("Value exceeds integer range."));
    }
    if ms < 0.0 {
        let range = format!("(0 ms .. {} ms)", i32::MAX);
        return Err(invalid(format!("{ms} ms is outside the valid range for parameter \"{name}\" {range}")));
    }
    let unit = UNITS.iter().find(|(_, size)| ms >= *size && ms % size == 0.0);
    Ok(unit.map_or_else(|| "0".to_string(), |(unit, size)| format!("{}{unit}", ms / size)))
}

/// A time as PostgreSQL reads it.
pub fn milliseconds(value: &str) -> Option<u32> {
    parsed(value).map(|ms| ms as u32)
}

fn parsed(value: &str) -> Option<f64> {
    let (number, unit) = split(value)?;
    let size = if unit.is_empty() { 1.0 } else { UNITS.iter().find(|(name, _)| *name == unit)?.1 };
    Some((number * size).round_ties_even())
}

/// A number and what stands behind it.
fn split(value: &str) -> Option<(f64, &str)> {
    let value = value.trim();
    let most = value.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+' | 'e' | 'E')).unwrap_or(value.len());
    (1..=most).rev().find_map(|end| Some((value[..end].parse().ok()?, value[end..].trim_start())))
}

impl Session {
    /// What it begins with, from its client, its role or its server: kept here, and taken off the nodes' settings.
    pub(crate) fn keep_idle(&mut self, defaults: Option<&pool::Defaults>) {
        for (name, kept) in NAMES.iter().zip(&mut self.idle_at_start) {
            let default = defaults.map(|d| d.get(name)).filter(|v| !v.is_empty());
            *kept = self.startup.get(name).or(default).map(Box::from);
            self.startup.set(name, "0");
            self.settings.set(name, "0");
        }
    }

    /// The router's settings as the session began with them.
    pub(crate) fn own_at_start(&self) -> Result<RouterSettings> {
        let mut own = RouterSettings::of(&self.startup)?;
        for (name, kept) in NAMES.iter().zip(&self.idle_at_start) {
            own.keep(name, kept.as_ref().map(|value| spelled(name, value)).transpose()?);
        }
        own.keep(crate::encoding::NAME, self.encoding_at_start.as_deref().map(str::to_string));
        own.follow(&[]);
        Ok(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_printed_as_postgresql_does() {
        for (value, shown) in [
            ("0", "0"),
            ("300", "300ms"),
            ("300ms", "300ms"),
            (" 5 min ", "5min"),
            ("60000", "1min"),
            ("90s", "90s"),
            ("1.5s", "1500ms"),
            ("2h", "2h"),
            ("48h", "2d"),
            ("0.3", "0"),
            ("600us", "1ms"),
        ] {
            assert_eq!(spelled(SESSION, value).ok().as_deref(), Some(shown), "{value}");
        }
        for value in ["", "x", "5 minutes", "5m", "-1", "3000000000", "1 d 2 h"] {
            assert!(spelled(SESSION, value).is_err(), "{value}");
        }
    }
}
