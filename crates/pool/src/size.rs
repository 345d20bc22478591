//! How many connections a pool may have: its own size, and this router's share of what a node has for all routers. It does not know who the
//! other routers are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of the pools of one router; all clones are one.
#[derive(Clone, Debug)]
pub struct Size {
    own: usize,
    /// Of all routers; `None`: each has its own size, however many there are.
    all: Option<usize>,
    now: Arc<AtomicUsize>,
}

impl Size {
    /// Of a router that has no regard for others.
    pub fn of_one(own: usize) -> Self {
        Self::shared(own, None)
    }

    /// At most `own`, and at most an equal part of `all`.
    pub fn shared(own: usize, all: Option<usize>) -> Self {
        assert!(own > 0 && all != Some(0), "a pool without connections can serve nobody");
        let size = Size { own, all, now: Arc::default() };
        size.share_with(1);
        size
    }

    /// Connections that a pool may have now: at least one.
    pub fn now(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// There are so many routers, this one among them: whether that changes anything.
    pub(crate) fn share_with(&self, routers: usize) -> bool {
        let share = self.all.map_or(self.own, |all| (all / routers.max(1)).clamp(1, self.own));
        self.now.swap(share, Ordering::Relaxed) != share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_share_what_a_node_has_for_all() {
        let size = Size::shared(20, Some(50));
        assert_eq!(size.now(), 20);
        assert!(!size.share_with(2), "25 are more than the pool's own size");
        assert!(size.share_with(5));
        assert_eq!(size.clone().now(), 10);
        assert!(size.share_with(100));
        assert_eq!(size.now(), 1);
        assert!(size.share_with(1));
        assert_eq!(size.now(), 20);
    }

    #[test]
    fn one_that_shares_nothing_keeps_its_size() {
        let size = Size::of_one(20);
        assert!(!size.share_with(100));
        assert_eq!(size.now(), 20);
    }
}
