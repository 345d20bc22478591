//! So many of something, of which no role has more than half: whatever one does, there is some for others. It does not know of what.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What there is so many of.
pub struct Shares {
    all: Arc<Semaphore>,
    each: usize,
    /// By object ids on home.
    of_roles: Mutex<HashMap<u32, Weak<Semaphore>>>,
}

/// Some of them, until it is dropped.
pub struct Share {
    _of_role: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Shares {
    /// None is taken.
    pub fn new(all: usize) -> Self {
        let (each, all) = ((all / 2).max(1), Arc::new(Semaphore::new(all)));
        Shares { all, each, of_roles: Mutex::default() }
    }

    /// What one role can have.
    pub fn each(&self) -> usize {
        self.each
    }

    /// Waits for so many; for [`each`](Self::each) if they are more.
    pub async fn take(&self, role: u32, many: usize) -> Share {
        let many = many.min(self.each) as u32;
        // Nobody closes them.
        let _of_role = self.of(role).acquire_many_owned(many).await.ok();
        Share { _of_role, _of_all: self.all.clone().acquire_many_owned(many).await.ok() }
    }

    /// `None`: there are not so many now.
    pub fn try_take(&self, role: u32, many: usize) -> Option<Share> {
        let many = u32::try_from(many).ok()?;
        let of_role = self.of(role).try_acquire_many_owned(many).ok()?;
        let of_all = self.all.clone().try_acquire_many_owned(many).ok()?;
        Some(Share { _of_role: Some(of_role), _of_all: Some(of_all) })
    }

    fn of(&self, role: u32) -> Arc<Semaphore> {
        let mut of_roles = self.of_roles.lock();
        if let Some(own) = of_roles.get(&role).and_then(Weak::upgrade) {
            return own;
        }
        of_roles.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.each));
        of_roles.insert(role, Arc::downgrade(&own));
        own
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_role_leaves_half_to_others() {
        let shares = Shares::new(4);
        let soon = |role| tokio::time::timeout(Duration::from_millis(20), shares.take(role, 1));
        let _first = (soon(1).await.unwrap(), soon(1).await.unwrap());
        assert!(soon(1).await.is_err() && shares.try_take(1, 1).is_none());
        let other = (soon(2).await.unwrap(), shares.try_take(2, 1).unwrap());
        assert!(soon(3).await.is_err(), "there are no more");
        drop(other);
        assert!(soon(1).await.is_err());
        assert!(shares.try_take(3, 3).is_none() && shares.try_take(3, 2).is_some());
    }
}
