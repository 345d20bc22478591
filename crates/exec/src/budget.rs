//! What may be taken of the router's memory, for a session and for all. It does not know what the memory is for: who
//! takes some says how many bytes, and what was taken is given back when dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use wire::{ErrorFields, sqlstate};

use crate::error::{ExecError, Result};
use crate::spool::Disk;

/// What grows takes so much more at a time: all sessions count in one place.
const STEP: usize = 16 << 10;

/// What a budget is for, in the words of errors.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    pub name: &'static str,
    /// What else than raising the limit can be done.
    pub advice: &'static str,
    /// Of `[limits]` in herd.toml, for all; that for a session has `_per_session` behind it.
    pub limit: &'static str,
}

/// Of a router.
pub struct Budget {
    purpose: Purpose,
    session_max: usize,
    all_max: usize,
    all: AtomicUsize,
    /// Where what is for it may go instead.
    disk: Option<Arc<Disk>>,
}

/// What one session has of it, in bytes.
#[derive(Default)]
pub struct Own {
    memory: AtomicUsize,
    pub disk: AtomicU64,
}

/// A session's part of it.
pub struct Allowance {
    budget: Arc<Budget>,
    own: Arc<Own>,
}

/// So much is in use; given back when dropped.
pub struct Taken {
    budget: Arc<Budget>,
    own: Arc<Own>,
    bytes: usize,
}

impl Budget {
    /// Bytes that one session may take, and that all may take together.
    pub fn new(purpose: Purpose, session_max: usize, all_max: usize) -> Self {
        Budget { purpose, session_max, all_max, all: AtomicUsize::new(0), disk: None }
    }

    /// What there is no memory for may go there.
    pub fn or_on(self, disk: Option<Arc<Disk>>) -> Self {
        Budget { disk, ..self }
    }

    /// Bytes taken by all sessions.
    pub fn used(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// Bytes one session may take.
    pub fn session_max(&self) -> usize {
        self.session_max
    }

    /// Bytes that all sessions have on disk.
    pub fn on_disk(&self) -> u64 {
        self.disk.as_ref().map_or(0, |disk| disk.used())
    }

    /// What the bytes are for, as errors say it.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }
}

impl Allowance {
    /// The part of a new session, which has taken nothing.
    pub fn of(budget: &Arc<Budget>) -> Self {
        Allowance { budget: budget.clone(), own: Arc::default() }
    }

    /// Of another session.
    pub fn another(&self) -> Self {
        Allowance::of(&self.budget)
    }

    /// The one of all sessions that this is a part of.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Nothing yet.
    pub fn nothing(&self) -> Taken {
        Taken { budget: self.budget.clone(), own: self.own.clone(), bytes: 0 }
    }

    /// # Errors
    /// 53200 if this session's, or everybody's, is used up.
    pub fn take(&self, bytes: usize) -> Result<Taken> {
        let mut taken = self.nothing();
        taken.add(bytes)?;
        Ok(taken)
    }
}

impl Taken {
    /// Where what there is no memory for may go, and what of the session's is there.
    pub fn disk(&self) -> Option<(&Arc<Disk>, &Arc<Own>)> {
        self.budget.disk.as_ref().filter(|disk| disk.is_there()).map(|disk| (disk, &self.own))
    }

    /// Nothing yet, of the same session's.
    pub fn another(&self) -> Self {
        Taken { budget: self.budget.clone(), own: self.own.clone(), bytes: 0 }
    }

    /// What was taken.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// So much is needed by now, or somewhat more: never less than before.
    ///
    /// # Errors
    /// As [`Allowance::take`]; what was taken before stays taken.
    pub fn grow_to(&mut self, bytes: usize) -> Result<()> {
        match bytes.checked_sub(self.bytes) {
            None | Some(0) => Ok(()),
            Some(more) => self.add(more.next_multiple_of(STEP)),
        }
    }

    fn add(&mut self, more: usize) -> Result<()> {
        let all = self.budget.all.fetch_add(more, Ordering::Relaxed) + more;
        let own = self.own.memory.fetch_add(more, Ordering::Relaxed) + more;
        let Budget { purpose, session_max, all_max, .. } = *self.budget;
        let refusal = if own > session_max {
            refused(purpose, own, session_max, "_per_session")
        } else if all > all_max {
            refused(purpose, all, all_max, "")
        } else {
            self.bytes += more;
            return Ok(());
        };
        self.budget.all.fetch_sub(more, Ordering::Relaxed);
        self.own.memory.fetch_sub(more, Ordering::Relaxed);
        Err(refusal)
    }
}

fn refused(purpose: Purpose, bytes: usize, max: usize, of: &str) -> ExecError {
    let Purpose { name, advice, limit } = purpose;
    let fields = ErrorFields::error(sqlstate::OUT_OF_MEMORY, format!("out of memory for {name}"))
        .detail(format!("{bytes} bytes would be in use, {max} are the limit."))
        .hint(format!("{advice}, or raise limits.{limit}{of} in herd.toml."));
    ExecError::Sql(Box::new(fields))
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.all.fetch_sub(self.bytes, Ordering::Relaxed);
        self.own.memory.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Purpose = Purpose { name: "tests", advice: "Test less", limit: "test_bytes" };

    fn code<T>(taken: Result<T>) -> Option<String> {
        taken.err().map(|e| e.code().to_string())
    }

    #[test]
    fn all_is_given_back_and_nobody_takes_anothers() {
        let budget = Arc::new(Budget::new(TEST, 100_000, 150_000));
        let (one, two) = (Allowance::of(&budget), Allowance::of(&budget));
        let first = one.take(80_000).unwrap();
        assert_eq!(code(one.take(40_000)).as_deref(), Some("53200"));
        let second = two.take(40_000).unwrap();
        assert_eq!(code(two.take(40_000)).as_deref(), Some("53200"), "all together");
        drop(first);
        assert!(two.take(40_000).is_ok());
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_grows_is_counted_and_keeps_what_it_has() {
        let budget = Arc::new(Budget::new(TEST, 10 * STEP, 100 * STEP));
        let mut held = Allowance::of(&budget).nothing();
        for bytes in 1..=10 * STEP {
            held.grow_to(bytes).unwrap();
            assert!((bytes..bytes + STEP).contains(&budget.used()));
        }
        assert_eq!(code(held.grow_to(10 * STEP + 1)).as_deref(), Some("53200"));
        assert_eq!(budget.used(), 10 * STEP);
        held.grow_to(5).unwrap();
        assert_eq!(budget.used(), 10 * STEP);
        drop(held);
        assert_eq!(budget.used(), 0);
    }
}
