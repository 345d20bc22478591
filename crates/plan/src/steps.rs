//! How much work the planning of one statement may be. Its length does not tell: a WITH query is analysed wherever it is named,
//! a star is as many columns as there are. So what is done is counted where it is done; when there is nothing left planning ends
//! soon, with an error. It does not know what is planned, nor how long anything takes.

use std::sync::atomic::{AtomicI64, Ordering};

use wire::sqlstate;

use crate::refuse::Refusal;

/// What is left for a statement. A step is about a column of a level: some ten nanoseconds, some hundred bytes.
#[derive(Debug)]
pub struct Steps(AtomicI64);

impl Steps {
    /// Steps that take about as long as the thread that serves others may be away.
    pub const SHORT: u32 = 100_000;
    /// Steps that no statement may exceed: some hundred megabytes.
    pub const MOST: u32 = 3_000_000;

    /// So many for one statement.
    pub fn new(steps: u32) -> Self {
        Steps(AtomicI64::new(steps.into()))
    }

    /// Takes some; `false`: there were not as many left, and nothing that is found out from now on counts.
    pub fn take(&self, steps: usize) -> bool {
        let steps = i64::try_from(steps).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        match self.0.load(Ordering::Relaxed) {
            ..0 => false,
            _ => self.0.fetch_sub(steps, Ordering::Relaxed) >= steps,
        }
    }

    /// Nothing is left: whoever plans by it comes to an end soon.
    pub fn stop(&self) {
        self.0.store(i64::MIN / 2, Ordering::Relaxed);
    }

    /// Has something done without which the statement is planned as well: it may take so many, and what it took is given back.
    /// `None`: that was not enough.
    pub fn aside<T>(&self, most: u32, work: impl FnOnce() -> T) -> Option<T> {
        let before = self.0.load(Ordering::Relaxed);
        if before < 0 {
            return None;
        }
        self.0.store(before.min(most.into()), Ordering::Relaxed);
        let made = work();
        let spent = self.is_spent();
        // Unless planning was stopped meanwhile.
        if self.0.load(Ordering::Relaxed) > i64::MIN / 4 {
            self.0.store(before, Ordering::Relaxed);
        }
        (!spent).then_some(made)
    }

    /// Whether more was taken than there was, or planning was stopped: its result does not count then.
    pub fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) < 0
    }

    /// What a client is told when [`Steps::MOST`] was not enough.
    pub fn refusal() -> Refusal {
        Refusal {
            sqlstate: sqlstate::STATEMENT_TOO_COMPLEX,
            message: "statement is too complex to be planned".into(),
            hint: Some(
                "A WITH query is planned wherever it is named, with all of its columns: name it less often, select fewer \
                 columns, or write its rows into a temporary table first."
                    .into(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_what_was_exceeded() {
        let work = Steps::new(10);
        assert!(work.take(4) && work.take(6) && !work.is_spent());
        assert!(!work.take(1) && work.is_spent());
        assert!(!work.take(0));
        let work = Steps::new(10);
        assert!(!work.take(usize::MAX) && work.is_spent());
        let work = Steps::new(10);
        assert_eq!(work.aside(5, || work.take(4)), Some(true));
        assert_eq!(work.aside(5, || work.take(6)), None);
        assert!(work.take(10) && !work.is_spent());
        let work = Steps::new(u32::MAX);
        work.stop();
        assert!(!work.take(1));
    }
}
