//! Reads what psql, pgbench and sysbench print. Pure: text in, figures out.

use super::error::{Error, Result};

/// What a run of pgbench or sysbench did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Statements the server acknowledged.
    pub acknowledged: u64,
    pub failed: u64,
    /// Per second, without the time to connect.
    pub rate: f64,
}

/// Reads what pgbench prints at its end; `Err`: a figure is missing.
pub fn pgbench(said: &str) -> Result<Load> {
    let after = |label: &str| {
        let rest = said.lines().find_map(|line| line.trim().strip_prefix(label))?;
        rest.trim_start().split([' ', '/']).next().map(str::to_owned)
    };
    let missing = |figure| Error::Unreadable { program: "pgbench", figure, said: said.to_owned() };
    let number = |label: &str| after(label).and_then(|text| text.parse::<u64>().ok());
    Ok(Load {
        acknowledged: number("number of transactions actually processed:").ok_or_else(|| missing("transactions"))?,
        // Before PostgreSQL 15 a failed transaction ended its client, and pgbench with an error.
        failed: number("number of failed transactions:").unwrap_or(0),
        rate: after("tps =").and_then(|text| text.parse().ok()).ok_or_else(|| missing("tps"))?,
    })
}

/// Reads what sysbench prints at its end; `Err`: a figure is missing.
pub fn sysbench(said: &str) -> Result<Load> {
    let fields = |label: &str| -> Option<Vec<String>> {
        let rest = said.lines().find_map(|line| line.trim().strip_prefix(label))?;
        Some(rest.split([' ', '(']).filter(|word| !word.is_empty()).map(str::to_owned).collect())
    };
    let missing = |figure| Error::Unreadable { program: "sysbench", figure, said: said.to_owned() };
    let number = |label: &str| fields(label).and_then(|words| words.first()?.parse::<u64>().ok());
    let rate = fields("transactions:").and_then(|words| words.get(1)?.parse().ok());
    Ok(Load {
        acknowledged: number("transactions:").ok_or_else(|| missing("transactions"))?,
        failed: number("ignored errors:").ok_or_else(|| missing("ignored errors"))?,
        rate: rate.ok_or_else(|| missing("transactions a second"))?,
    })
}

/// One statement's part of a psql session: what it answered, and how long it took in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    pub answer: String,
    pub time_ms: f64,
}

/// Splits the output of a session with `\timing on` at its `Time:` lines. Rows must not look like them.
pub fn psql_timings(said: &str) -> Vec<Timed> {
    let mut timings = Vec::new();
    let mut answer = Vec::new();
    for line in said.lines() {
        // `Time: 1234.567 ms (00:01.235)`
        let time = line.strip_prefix("Time: ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        match time {
            Some(time_ms) => timings.push(Timed { answer: std::mem::take(&mut answer).join("\n"), time_ms }),
            None => answer.push(line),
        }
    }
    timings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pgbench_18_is_read() {
        let said = "transaction type: -\nscaling factor: 1\nnumber of clients: 4\nduration: 2 s\n\
            number of transactions actually processed: 8123\nnumber of failed transactions: 2 (0.025%)\n\
            latency average = 0.985 ms\ninitial connection time = 9.1 ms\n\
            tps = 4061.25 (without initial connection time)\n";
        assert_eq!(pgbench(said).unwrap(), Load { acknowledged: 8123, failed: 2, rate: 4061.25 });
    }

    #[test]
    fn pgbench_with_a_number_of_transactions_is_read() {
        let said = "number of transactions actually processed: 40/40\ntps = 12.5 (without initial connection time)\n";
        assert_eq!(pgbench(said).unwrap(), Load { acknowledged: 40, failed: 0, rate: 12.5 });
    }

    #[test]
    fn sysbench_is_read() {
        let said = "SQL statistics:\n    queries performed:\n        read:                            0\n        \
            write:                           31018\n        other:                           0\n        \
            total:                           31018\n    transactions:                        31018  (3100.62 per sec.)\n    \
            queries:                             31018  (3100.62 per sec.)\n    ignored errors:                      0      (0.00 per sec.)\n";
        assert_eq!(sysbench(said).unwrap(), Load { acknowledged: 31018, failed: 0, rate: 3100.62 });
    }

    #[test]
    fn missing_figures_are_errors() {
        assert!(pgbench("pgbench: error: connection failed").unwrap_err().to_string().contains("transactions"));
        assert!(pgbench("number of transactions actually processed: 1").unwrap_err().to_string().contains("tps"));
        assert!(sysbench("FATAL: nothing").is_err());
    }

    #[test]
    fn psql_sessions_are_split_at_their_times() {
        let said = "1\n2\nTime: 0.500 ms\nTime: 1234.567 ms (00:01.235)\n";
        let timed = |answer: &str, time_ms| Timed { answer: answer.to_owned(), time_ms };
        assert_eq!(psql_timings(said), [timed("1\n2", 0.5), timed("", 1234.567)]);
        assert_eq!(psql_timings("no times\n"), []);
    }
}
