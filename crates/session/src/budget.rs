//! What prepared statements may take of the router's memory, for a session and for all. It does not know what statements are:
//! their texts' lengths tell, and what is given back when they are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::sqlstate;

use exec::ExecError;
use wire::ErrorFields;

/// A statement takes so many times its text: the text itself, its tree or plan with texts of its own (measured: 4).
const TIMES: usize = 4;
/// What it takes besides.
const LEAST: usize = 1 << 10;

/// Of a router.
pub struct Budget {
    session_max: usize,
    all_max: usize,
    all: AtomicUsize,
}

/// A session's part of it.
pub struct Allowance {
    budget: Arc<Budget>,
    used: Arc<AtomicUsize>,
}

/// What one statement takes; given back when dropped.
pub struct Taken {
    budget: Arc<Budget>,
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Budget {
    pub fn new(session_max: usize, all_max: usize) -> Self {
        Budget { session_max, all_max, all: AtomicUsize::new(0) }
    }

    /// Bytes taken by all sessions.
    pub fn used(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }
}

impl Allowance {
    pub fn of(budget: &Arc<Budget>) -> Self {
        Allowance { budget: budget.clone(), used: Arc::default() }
    }

    /// For a statement of so long a text.
    ///
    /// # Errors
    /// 54000 if it is too long for any session, 53200 if others take the place.
    pub fn take(&self, text: usize) -> Result<Taken, ExecError> {
        let bytes = text.saturating_mul(TIMES).saturating_add(LEAST);
        let (budget, used) = (self.budget.clone(), self.used.clone());
        let all = budget.all.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let own = used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (session_max, all_max) = (budget.session_max, budget.all_max);
        // From here on it is given back by itself.
        let taken = Taken { budget, used, bytes };
        if bytes > session_max {
            return Err(refused(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                "statement is too long to be prepared",
                bytes,
                session_max,
                "prepared_bytes_per_session",
            ));
        }
        if own > session_max {
            return Err(refused(
                sqlstate::OUT_OF_MEMORY,
                "out of memory for prepared statements",
                own,
                session_max,
                "prepared_bytes_per_session",
            ));
        }
        if all > all_max {
            return Err(refused(
                sqlstate::OUT_OF_MEMORY,
                "out of memory for prepared statements",
                all,
                all_max,
                "prepared_bytes",
            ));
        }
        Ok(taken)
    }
}

fn refused(code: &str, message: &str, bytes: usize, max: usize, limit: &str) -> ExecError {
    let fields = ErrorFields::error(code, message)
        .detail(format!("{bytes} bytes would be in use, {max} are the limit."))
        .hint(format!("Deallocate statements that are no longer used, or raise limits.{limit} in herd.toml."));
    ExecError::Sql(Box::new(fields))
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_given_back_and_nobody_takes_anothers() {
        let budget = Arc::new(Budget::new(100_000, 150_000));
        let (one, two) = (Allowance::of(&budget), Allowance::of(&budget));
        let code = |taken: Result<Taken, ExecError>| taken.err().map(|e| e.code().to_string());
        assert_eq!(code(one.take(50_000)).as_deref(), Some("54000"));
        let first = one.take(20_000).unwrap();
        assert_eq!(code(one.take(10_000)).as_deref(), Some("53200"));
        let second = two.take(10_000).unwrap();
        assert_eq!(code(two.take(10_000)).as_deref(), Some("53200"), "all together");
        drop(first);
        assert!(two.take(10_000).is_ok());
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
