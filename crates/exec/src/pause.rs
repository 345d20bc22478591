//! Who wants to begin with a table waits a moment while a change takes its locks on all nodes.
//!
//! A change needs its locks everywhere at once. A transaction that has the table on one node and wants it on another would
//! wait for the change there, and the change for it here: with many writers there is always one. So transactions that
//! have not touched the table yet wait in front of it, at the routers, those that have go on, and soon nobody is in the way.
//! Afterwards whoever waited is planned by the new catalog. Nothing rests on this but that changes come through: locks and
//! names of partitions (`guard.rs`) keep answers right where a statement slips by. A pause ends by itself, too. It does not know
//! what changes, nor how locks are taken.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use catalog::Oid;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// No statement waits longer than this in one go, whatever was announced.
pub const PAUSE_MAX: Duration = Duration::from_millis(1000);

#[derive(Default)]
pub struct Pauses {
    /// How many there are: all that is looked at for a statement while there are none.
    count: AtomicUsize,
    tables: Mutex<Vec<Pause>>,
    ended: Notify,
    numbers: AtomicU64,
}

#[derive(Clone, Debug)]
struct Pause {
    number: u64,
    tables: Vec<Oid>,
    /// Who only reads waits, too.
    readers: bool,
    until: Instant,
}

impl Pauses {
    #[inline]
    pub fn none(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Tables by their object ids on home. The number is for [`end`](Self::end).
    pub fn begin(&self, tables: &[Oid], readers: bool, length: Duration) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let until = Instant::now() + length.min(PAUSE_MAX);
        let mut all = self.tables.lock();
        all.push(Pause { number, tables: tables.to_vec(), readers, until });
        self.count.store(all.len(), Ordering::Relaxed);
        number
    }

    pub fn end(&self, numbers: &[u64]) {
        let mut all = self.tables.lock();
        let now = Instant::now();
        all.retain(|p| !numbers.contains(&p.number) && p.until > now);
        self.count.store(all.len(), Ordering::Relaxed);
        drop(all);
        self.ended.notify_waiters();
    }

    /// Waits while one of the tables is paused. Whether there was anything to wait for.
    pub async fn wait(&self, tables: &[Oid], writes: bool) -> bool {
        let mut waited = false;
        let last = Instant::now() + PAUSE_MAX;
        loop {
            let ended = self.ended.notified();
            let now = Instant::now();
            let until = {
                let all = self.tables.lock();
                let mine = all.iter().filter(|p| p.until > now && (writes || p.readers));
                mine.filter(|p| p.tables.iter().any(|t| tables.contains(t))).map(|p| p.until).max()
            };
            match until.map(|u| u.min(last)) {
                Some(until) if until > now => {
                    waited = true;
                    let _ = tokio::time::timeout(until - now, ended).await;
                }
                _ => break,
            }
        }
        if waited {
            // Those that have run out are counted until somebody takes them away.
            self.end(&[]);
        }
        waited
    }

    /// What other routers are told; see [`heed`](Self::heed).
    pub fn announcement(tables: &[Oid], readers: bool, length: Duration) -> String {
        let tables = tables.iter().map(Oid::to_string).collect::<Vec<_>>().join(",");
        format!("pause {tables} {} {}", u8::from(readers), length.as_millis())
    }

    /// Does what another router has announced.
    pub fn heed(&self, announcement: &str) {
        let mut words = announcement.split(' ');
        if words.next() != Some("pause") {
            return;
        }
        let tables: Vec<Oid> =
            words.next().into_iter().flat_map(|t| t.split(',')).filter_map(|t| t.parse().ok()).collect();
        let readers = words.next() == Some("1");
        let length = words.next().and_then(|ms| ms.parse().ok()).map(Duration::from_millis);
        if let Some(length) = length {
            self.begin(&tables, readers, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_needs_the_table_waits_and_others_do_not() {
        let pauses = Pauses::default();
        assert!(pauses.none());
        let begun = Instant::now();
        pauses.heed(&Pauses::announcement(&[7, 8], false, Duration::from_millis(60)));
        assert!(!pauses.none());
        assert!(!pauses.wait(&[9], true).await && !pauses.wait(&[7], false).await);
        assert!(begun.elapsed() < Duration::from_millis(50));
        assert!(pauses.wait(&[7], true).await && begun.elapsed() >= Duration::from_millis(60));
        assert!(pauses.none(), "it has run out");
        let number = pauses.begin(&[7], true, PAUSE_MAX * 9);
        pauses.end(&[number]);
        assert!(pauses.none() && !pauses.wait(&[7], false).await);
        pauses.heed("12");
        assert!(pauses.none());
    }
}
