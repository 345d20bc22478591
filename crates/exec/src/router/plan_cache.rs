//! Plans kept for when their statements come again, limited by number and by bytes. When one more does not fit, all go: what
//! is used comes back at once. It does not know what keys mean.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::router::compiled::Compiled;

/// Plans kept, at most.
const COUNT_MAX: usize = 8192;
/// A plan larger than this part of the whole is not worth those it would drive out.
const PART_MAX: usize = 8;

pub(crate) struct PlanCache<K, S> {
    plans: HashMap<K, Arc<Compiled>, S>,
    bytes: usize,
    bytes_max: usize,
}

impl<K: Hash + Eq, S: BuildHasher + Default> PlanCache<K, S> {
    /// Nothing yet; at most so many bytes, by [`Compiled::weight`].
    pub fn new(bytes_max: usize) -> Self {
        PlanCache { plans: HashMap::default(), bytes: 0, bytes_max }
    }

    /// `None`: it was not kept, or had to go since.
    pub fn get(&self, key: &K) -> Option<&Arc<Compiled>> {
        self.plans.get(key)
    }

    /// In place of the one with the same key. One that takes too large a part of the cache is not kept.
    pub fn keep(&mut self, key: K, plan: &Arc<Compiled>) {
        let weight = plan.weight();
        if weight > self.bytes_max / PART_MAX {
            return;
        }
        if self.plans.len() >= COUNT_MAX || self.bytes + weight > self.bytes_max {
            self.plans.clear();
            self.bytes = 0;
        }
        self.bytes += weight;
        if let Some(old) = self.plans.insert(key, plan.clone()) {
            self.bytes -= old.weight();
        }
    }

    /// What all plans that are kept weigh.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Arc<Compiled> {
        Arc::new(Compiled::new(plan::Planned::home(false), text, 0, None))
    }

    #[test]
    fn bytes_are_counted_and_large_plans_are_not_kept() {
        let one = plan(&"x".repeat(1000)).weight();
        let mut cache: PlanCache<u32, std::hash::RandomState> = PlanCache::new(10 * one);
        for n in 0..1000 {
            cache.keep(n, &plan(&"x".repeat(1000)));
            assert!(cache.bytes() <= 10 * one && cache.get(&n).is_some());
        }
        let mut roomy: PlanCache<u32, std::hash::RandomState> = PlanCache::new(100 * one);
        (0..3).for_each(|_| roomy.keep(1, &plan(&"x".repeat(1000))));
        assert_eq!(roomy.bytes(), one, "in place of itself");
        roomy.keep(2, &plan(&"x".repeat(200_000)));
        assert!(roomy.get(&2).is_none() && roomy.bytes() == one);
    }
}
