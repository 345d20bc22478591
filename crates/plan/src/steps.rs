//! How much work the planning of one statement may be. Its length does not tell: a WITH query is analysed wherever it is named,
//! a star is as many columns as there are. So what is done is counted where it is done; when there is nothing left planning ends
//! soon, with an error. It does not know what is planned, nor how long anything takes.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use wire::sqlstate;

use crate::refuse::Refusal;

/// How deep [`Steps::aside`] goes.
const ASIDE_MAX: u32 = 2;

/// What is left for a statement. A step is about a column of a level: some ten nanoseconds, some hundred bytes.
#[derive(Debug)]
pub struct Steps {
    left: AtomicI64,
    /// How deep it is in what is done without which the statement is planned as well.
    aside: AtomicU32,
}

impl Steps {
    /// Steps that take about as long as the thread that serves others may be away.
    pub const SHORT: u32 = 100_000;
    /// Steps that no statement may exceed: some hundred megabytes.
    pub const MOST: u32 = 3_000_000;

    /// So many for one statement.
    pub fn new(steps: u32) -> Self {
        Steps { left: AtomicI64::new(steps.into()), aside: AtomicU32::new(0) }
    }

    /// Takes some; `false`: there were not as many left, and nothing that is found out from now on counts.
    pub fn take(&self, steps: usize) -> bool {
        let steps = i64::try_from(steps).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
        match self.left.load(Ordering::Relaxed) {
            ..0 => false,
            _ => self.left.fetch_sub(steps, Ordering::Relaxed) >= steps,
        }
    }

    /// Nothing is left: whoever plans by it comes to an end soon.
    pub fn stop(&self) {
        self.left.store(i64::MIN / 2, Ordering::Relaxed);
    }

    /// Has something done without which the statement is planned as well: it may take so many, and what it took is given back.
    /// `None`: that was not enough. What does so within it takes of the same, and not within that once more: it would be without end.
    pub fn aside<T>(&self, most: u32, work: impl FnOnce() -> T) -> Option<T> {
        let before = self.left.load(Ordering::Relaxed);
        let depth = self.aside.load(Ordering::Relaxed);
        if before < 0 || depth >= ASIDE_MAX {
            return None;
        }
        if depth == 0 {
            self.left.store(before.min(most.into()), Ordering::Relaxed);
        }
        self.aside.store(depth + 1, Ordering::Relaxed);
        let made = work();
        self.aside.store(depth, Ordering::Relaxed);
        let spent = self.is_spent();
        // Unless planning was stopped meanwhile.
        if depth == 0 && self.left.load(Ordering::Relaxed) > i64::MIN / 4 {
            self.left.store(before, Ordering::Relaxed);
        }
        (!spent).then_some(made)
    }

    /// Whether more was taken than there was, or planning was stopped: its result does not count then.
    pub fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) < 0
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
        let work = Steps::new(100);
        assert_eq!(
            work.aside(5, || work.aside(5, || work.take(3)).is_some() && work.aside(5, || work.take(3)).is_some()),
            None
        );
        assert_eq!(work.aside(5, || work.aside(5, || work.take(3))), Some(Some(true)));
        assert_eq!(work.aside(5, || work.aside(5, || work.aside(5, || work.take(1)))), Some(Some(None)));
        assert!(work.take(100) && !work.is_spent());
        let work = Steps::new(u32::MAX);
        work.stop();
        assert!(!work.take(1));
    }
}
