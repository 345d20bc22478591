//! Values that many have alike, as thousands of clients of one program have their settings: each is in memory once. It does
//! not know what they are.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

/// Those that somebody has.
pub struct Alike<T> {
    known: LazyLock<Mutex<Known<T>>>,
}

struct Known<T> {
    /// By their hashes. Of two with one hash the later is known.
    values: HashMap<u64, Weak<T>>,
    hasher: RandomState,
    /// When there are so many, those that nobody has any more are forgotten.
    look_at: usize,
}

/// So few are not worth looking through.
const FEW: usize = 64;

impl<T: Eq + Hash> Alike<T> {
    /// Nothing is known yet.
    pub const fn new() -> Self {
        let none = || Mutex::new(Known { values: HashMap::new(), hasher: RandomState::new(), look_at: FEW });
        Alike { known: LazyLock::new(none) }
    }

    /// The value that others have, if anybody has one that is the same.
    pub fn one(&self, value: Arc<T>) -> Arc<T> {
        let mut known = self.known.lock();
        let hash = known.hasher.hash_one(&value);
        if let Some(one) = known.values.get(&hash).and_then(Weak::upgrade).filter(|one| *one == value) {
            return one;
        }
        if known.values.len() >= known.look_at {
            known.values.retain(|_, one| one.strong_count() > 0);
            known.values.shrink_to(FEW);
            known.look_at = (known.values.len() * 2).max(FEW);
        }
        known.values.insert(hash, Arc::downgrade(&value));
        value
    }
}

impl<T: Eq + Hash> Default for Alike<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_those_nobody_has_are_forgotten() {
        static ALIKE: Alike<String> = Alike::new();
        let (one, two) = (ALIKE.one(Arc::new("a".into())), ALIKE.one(Arc::new("a".into())));
        assert!(Arc::ptr_eq(&one, &two));
        assert!(!Arc::ptr_eq(&one, &ALIKE.one(Arc::new("b".into()))));
        for n in 0..10 * FEW {
            ALIKE.one(Arc::new(n.to_string()));
        }
        assert!(ALIKE.known.lock().values.len() <= FEW);
        assert!(Arc::ptr_eq(&one, &ALIKE.one(Arc::new("a".into()))));
    }
}
