//! How many may come in: connections whose login is not complete, and sessions of one user. It does not know how they log
//! in, nor how many connections there are in all: the listener counts those.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::ErrorFields;

pub struct Doors {
    /// Places for those that are logging in.
    logins: Arc<Semaphore>,
    /// Sessions of one user at most; 0 for no limit.
    per_user_max: usize,
    users: Mutex<HashMap<String, usize>>,
}

/// A session's place among its user's; given back when dropped.
pub struct Place {
    doors: Arc<Doors>,
    user: String,
}

impl Doors {
    pub fn new(logins_max: usize, per_user_max: usize) -> Self {
        Doors { logins: Arc::new(Semaphore::new(logins_max)), per_user_max, users: Mutex::default() }
    }

    /// A place to log in, for as long as that takes.
    pub fn log_in(&self) -> Option<OwnedSemaphorePermit> {
        self.logins.clone().try_acquire_owned().ok()
    }

    /// A place for a session of a user who has logged in. The error is what PostgreSQL says (miscinit.c).
    pub fn enter(self: &Arc<Self>, user: &str) -> Result<Place, ErrorFields> {
        let mut users = self.users.lock();
        let count = users.entry(user.to_string()).or_default();
        if self.per_user_max > 0 && *count >= self.per_user_max {
            return Err(ErrorFields::fatal("53300", format!("too many connections for role \"{user}\""))
                .hint("Close sessions, or raise limits.connections_per_user in herd.toml."));
        }
        *count += 1;
        Ok(Place { doors: self.clone(), user: user.to_string() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.doors.users.lock().entry(std::mem::take(&mut self.user)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_places_of_his_own() {
        let doors = Arc::new(Doors::new(1, 2));
        let (first, second) = (doors.enter("a"), doors.enter("a"));
        assert!(first.is_ok() && second.is_ok() && doors.enter("b").is_ok());
        assert_eq!(doors.enter("a").err().unwrap().code(), "53300");
        drop(first);
        assert!(doors.enter("a").is_ok());
        drop(second);
        assert!(doors.users.lock().is_empty(), "users that left are forgotten");
        let login = doors.log_in();
        assert!(login.is_some() && doors.log_in().is_none());
        drop(login);
        assert!(doors.log_in().is_some());
    }
}
