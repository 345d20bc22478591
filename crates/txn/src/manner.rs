//! How a transaction will run, as PostgreSQL itself understands its BEGIN, its SETs and the role's defaults. It does not
//! know how that was asked.

use std::time::Duration;

/// Isolation, limits and the like, as a node has said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// REPEATABLE READ or SERIALIZABLE: one snapshot for all statements.
    pub repeatable: bool,
    pub serializable: bool,
    /// SERIALIZABLE READ ONLY DEFERRABLE: its snapshot waits until other transactions have ended.
    pub deferrable: bool,
    pub read_only: bool,
    pub lock_timeout: Option<Duration>,
    pub statement_timeout: Option<Duration>,
}

impl Manner {
    /// From what SHOW says of [`SHOWN`].
    pub fn read(shown: &[String]) -> Self {
        let is = |i: usize, value: &str| shown.get(i).is_some_and(|v| v == value);
        let time = |i: usize| shown.get(i).and_then(|v| duration(v));
        Manner {
            repeatable: is(0, "repeatable read") || is(0, "serializable"),
            serializable: is(0, "serializable"),
            deferrable: is(0, "serializable") && is(1, "on") && is(2, "on"),
            read_only: is(2, "on"),
            lock_timeout: time(3),
            statement_timeout: time(4),
        }
    }
}

/// The settings that tell. SHOW takes no snapshot.
pub const SHOWN: [&str; 5] =
    ["transaction_isolation", "transaction_deferrable", "transaction_read_only", "lock_timeout", "statement_timeout"];

/// As PostgreSQL prints times; 0 is none.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let n: u64 = text[..digits].parse().ok()?;
    let ms = match &text[digits..] {
        "" | "ms" => n,
        "s" => n * 1000,
        "min" => n * 60_000,
        "h" => n * 3_600_000,
        "d" => n * 86_400_000,
        _ => return None,
    };
    (ms > 0).then(|| Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_show_says_is_understood() {
        let shown = |s: [&str; 5]| Manner::read(&s.map(str::to_string));
        let plain = shown(["read committed", "off", "off", "0", "0"]);
        assert_eq!(plain, Manner::default());
        let m = shown(["serializable", "on", "on", "250ms", "2min"]);
        assert!(m.repeatable && m.serializable && m.deferrable && m.read_only);
        assert_eq!(
            (m.lock_timeout, m.statement_timeout),
            (Some(Duration::from_millis(250)), Some(Duration::from_secs(120)))
        );
        assert!(!shown(["serializable", "on", "off", "0", "0"]).deferrable);
        assert!(shown(["repeatable read", "off", "off", "1h", "1d"]).repeatable);
    }
}
