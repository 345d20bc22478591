//! How far something has come that may take long, as whoever does it counts. Counters are only ever read to be shown; who shows them, and
//! what is done, is not known here.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

/// The step in which it is only looked what there is to do.
const PREPARE: &str = "prepare";

/// How far a job has come, for `herd.jobs`.
#[derive(Default)]
pub struct Counters {
    pub step: Mutex<&'static str>,
    /// Copied, and how many there are to copy.
    pub bytes: AtomicU64,
    pub bytes_total: AtomicU64,
    pub rows: AtomicU64,
    pub changes: AtomicU64,
    /// Negative: not known.
    pub lag_bytes: AtomicI64,
    /// Names of what is done, if that need not be done again by who begins again.
    pub done: Mutex<Vec<String>>,
}

impl Counters {
    /// With nothing done.
    pub fn start() -> Arc<Counters> {
        Arc::new(Counters { step: Mutex::new(PREPARE), lag_bytes: AtomicI64::new(-1), ..Counters::default() })
    }

    /// There is something to do, and it is being done: the next step of it.
    pub fn begins(&self, step: &'static str) {
        *self.step.lock() = step;
    }

    /// Whether it has come further than to look what there is to do.
    pub fn has_begun(&self) -> bool {
        *self.step.lock() != PREPARE
    }

    /// More of it is done.
    pub fn add(&self, rows: usize, bytes: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Whether it is known how much there is to do.
    pub fn has_total(&self) -> bool {
        self.bytes_total.load(Ordering::Relaxed) > 0
    }

    /// There is more to do.
    pub fn add_total(&self, bytes: u64) {
        self.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }
}
