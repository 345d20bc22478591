//! What one server does for this router's reads, and how long its answers take. It does not know what the reads are, nor whether it may be read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// What an answer takes at least, for who compares.
const LEAST_US: u64 = 1000;
/// As many of the last looks are remembered: their median counts, so that one of them that was late moves nothing.
const LOOKS: usize = 5;

/// What it has to do for this router's reads.
#[derive(Default)]
pub struct Load {
    at_work: AtomicUsize,
    reads: AtomicU64,
    looks: Mutex<Looks>,
    /// What an answer takes, in units of [`LEAST_US`]; 0 before the first.
    answers: AtomicU64,
}

#[derive(Default)]
struct Looks {
    took_us: [u64; LOOKS],
    seen: usize,
}

impl Load {
    /// A read goes there.
    pub fn begins(&self) {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// One of them is done.
    pub fn ends(&self) {
        self.at_work.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// It was asked something small, and answered after so long.
    pub fn answered(&self, took: Duration) {
        let mut looks = self.looks.lock();
        let at = looks.seen % LOOKS;
        looks.took_us[at] = took.as_micros() as u64;
        looks.seen += 1;
        let mut known = looks.took_us;
        let known = &mut known[..looks.seen.min(LOOKS)];
        known.sort_unstable();
        self.answers.store(known[known.len() / 2].div_ceil(LEAST_US), Ordering::Relaxed);
    }

    /// What one more read would wait for, among what is at work there already.
    pub fn waits(&self) -> u64 {
        (self.at_work.load(Ordering::Relaxed) as u64 + 1) * self.answers.load(Ordering::Relaxed).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(load: &Load, took_ms: &[u64]) -> u64 {
        took_ms.iter().for_each(|ms| load.answered(Duration::from_millis(*ms)));
        load.waits()
    }

    #[test]
    fn one_late_answer_moves_nothing() {
        let load = Load::default();
        assert_eq!(load.waits(), 1);
        assert_eq!(answered(&load, &[2, 2, 2, 600]), 2);
        assert_eq!(answered(&load, &[2, 2, 2]), 2);
    }

    #[test]
    fn a_server_that_has_become_slow_is_known_after_three_looks() {
        let load = Load::default();
        assert_eq!(answered(&load, &[1, 1, 1, 1, 1, 40, 40]), 1);
        assert_eq!(answered(&load, &[40]), 40);
    }

    #[test]
    fn what_is_at_work_is_waited_for() {
        let load = Load::default();
        answered(&load, &[3]);
        load.begins();
        load.begins();
        assert_eq!((load.waits(), load.reads()), (9, 2));
        load.ends();
        assert_eq!((load.waits(), load.reads()), (6, 2));
    }
}
