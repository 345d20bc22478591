//! What sessions need only while they work. Thousands of them wait for their clients and have none of it; each thread keeps some
//! for those that work on it next.

use std::cell::RefCell;

/// So many of a kind a thread keeps: as many sessions may be at work on it without another having to be made.
const KEPT_MAX: usize = 32;

/// Things of one kind, each thread's own.
pub struct Spare<T>(RefCell<Vec<T>>);

impl<T> Spare<T> {
    /// There is none.
    pub const fn new() -> Self {
        Spare(RefCell::new(Vec::new()))
    }

    /// The one that was put back last.
    pub fn take(&self) -> Option<T> {
        self.0.borrow_mut().pop()
    }

    /// For whoever takes one next; there may be enough of them.
    pub fn put(&self, one: T) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.push(one);
        }
    }
}
