//! How far columns are behind, while others write: rows are inserted one after the other, each acknowledged, and looked for by reads that take what is
//! there and wait for nothing (`herd.freshness` is an hour). What is told is how long after its acknowledgement a read first showed a row: the way
//! of the read is part of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::columns;
use super::error::{Error, Result};
use super::server::Server;

const SETTINGS: &str = "SET herd.columns = on;\nSET herd.freshness = '1h';\n";
/// Between two rows.
const EVERY: Duration = Duration::from_millis(25);
/// How long rows are looked for that have not come when the others have stopped to write.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How long one row took to be seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lag {
    /// Seconds from the beginning of the turn.
    pub at_s: f64,
    pub ms: f64,
}

/// Where rows go that are looked for.
pub struct Marks {
    pub table: &'static str,
    /// Its first number, of which rows of others are less; the key is `id`.
    pub first: u64,
}

impl Marks {
    fn look(&self, from: u64, to: u64) -> String {
        // Grouped, as columns answer it so, by numbers that are different.
        format!("SELECT id, count(*) FROM {} WHERE id BETWEEN {from} AND {to} GROUP BY id", self.table)
    }

    /// That columns answer the reads.
    pub fn check(&self, server: &Server) -> Result<()> {
        columns::check(server, SETTINGS, &[&self.look(self.first, self.first)])
    }

    /// Until it is told to stop, and all rows are seen.
    pub fn follow(&self, server: &Server, stop: &AtomicBool) -> Result<Vec<Lag>> {
        let (mut writer, mut reader) = (server.talk()?, server.talk()?);
        reader.ask(SETTINGS.trim_end().trim_end_matches(';'))?;
        let begun = Instant::now();
        let (mut seen, mut waiting, mut next) = (Vec::new(), BTreeMap::new(), self.first);
        let mut stopped: Option<Instant> = None;
        loop {
            let tick = Instant::now();
            if stop.load(Ordering::Relaxed) {
                let since = *stopped.get_or_insert(tick);
                if waiting.is_empty() {
                    return Ok(seen);
                }
                if since.elapsed() > WAIT_MAX {
                    let (what, is) = (format!("rows of {} that columns show", self.table), seen.len() as i64);
                    return Err(Error::Count {
                        server: server.name.clone(),
                        what,
                        is,
                        expected: (next - self.first) as i64,
                    });
                }
            } else {
                writer.ask(&format!("INSERT INTO {} (id) VALUES ({next})", self.table))?;
                waiting.insert(next, Instant::now());
                next += 1;
            }
            let Some(oldest) = waiting.keys().next().copied() else { continue };
            let shown = reader.ask(&self.look(oldest, next - 1))?;
            let now = Instant::now();
            for line in shown {
                let id = line.split('|').next().and_then(|id| id.parse().ok());
                let Some(acknowledged) = id.and_then(|id: u64| waiting.remove(&id)) else { continue };
                let at_s = acknowledged.duration_since(begun).as_secs_f64();
                seen.push(Lag { at_s, ms: now.duration_since(acknowledged).as_secs_f64() * 1000.0 });
            }
            std::thread::sleep(EVERY.saturating_sub(tick.elapsed()));
        }
    }
}

/// The value that so much of them (0 to 1) does not exceed; not a number without values.
pub fn percentile(lags: &[Lag], part: f64) -> f64 {
    let mut sorted: Vec<f64> = lags.iter().map(|lag| lag.ms).collect();
    sorted.sort_by(f64::total_cmp);
    let at = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_there() {
        let lags: Vec<Lag> = (1..=200).rev().map(|ms| Lag { at_s: 0.0, ms: f64::from(ms) }).collect();
        assert_eq!([0.5, 0.99, 1.0, 0.0].map(|part| percentile(&lags, part)), [100.0, 198.0, 200.0, 1.0]);
        assert!(percentile(&[], 0.5).is_nan());
    }
}
