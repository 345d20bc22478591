//! How many may come in: connections whose login is not complete, and sessions of one user, who stays the same under another name. It does not know how they log
//! in, nor how many connections there are in all: the listener counts those.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use wire::sqlstate;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wire::ErrorFields;

/// Who is on his way in, and how many sessions each user has.
pub struct Doors {
    /// Places for those that are logging in.
    logins: Arc<Semaphore>,
    /// Sessions of one user at most; 0 for no limit.
    per_user_max: usize,
    users: Mutex<HashMap<Who, usize>>,
}

/// Whose sessions are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    /// By his object id.
    Role(u32),
    /// Home could not be asked who that is.
    Name(String),
}

/// A session's place among its user's; given back when dropped.
pub struct Seat {
    doors: Arc<Doors>,
    who: Who,
}

impl Doors {
    /// How many may be logging in at once, and the sessions of one user at most; 0 of these: no limit.
    pub fn new(logins_max: usize, per_user_max: usize) -> Self {
        Doors { logins: Arc::new(Semaphore::new(logins_max)), per_user_max, users: Mutex::default() }
    }

    /// A place to log in, for as long as that takes.
    pub fn log_in(&self) -> Option<OwnedSemaphorePermit> {
        self.logins.clone().try_acquire_owned().ok()
    }

    /// A place for a session of a user who has logged in; `role`: its object id, and its own limit, below 0 there is none. The error
    /// is what PostgreSQL says (miscinit.c).
    pub fn enter(self: &Arc<Self>, user: &str, role: Option<(u32, i32)>) -> Result<Seat, ErrorFields> {
        let who = role.map_or_else(|| Who::Name(user.to_string()), |(oid, _)| Who::Role(oid));
        let limit = role.map(|(_, limit)| limit);
        let mut users = self.users.lock();
        let count = users.get(&who).copied().unwrap_or_default();
        let full = |hint| {
            Err(ErrorFields::fatal(sqlstate::TOO_MANY_CONNECTIONS, format!("too many connections for role \"{user}\""))
                .hint(hint))
        };
        if limit.is_some_and(|limit| limit >= 0 && count >= limit as usize) {
            return full("Close sessions, or raise the role's CONNECTION LIMIT.");
        }
        if self.per_user_max > 0 && count >= self.per_user_max {
            return full("Close sessions, or raise limits.connections_per_user in herd.toml.");
        }
        *users.entry(who.clone()).or_default() += 1;
        Ok(Seat { doors: self.clone(), who })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.doors.users.lock().entry(self.who.clone()) {
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
        let (first, second) = (doors.enter("a", None), doors.enter("a", None));
        assert!(first.is_ok() && second.is_ok() && doors.enter("b", Some((7, 1))).is_ok());
        assert_eq!(doors.enter("c", Some((8, 0))).err().unwrap().code(), "53300");
        assert_eq!(doors.enter("a", None).err().unwrap().code(), "53300");
        let renamed = doors.enter("d", Some((7, 2)));
        assert!(renamed.is_ok() && doors.enter("b", Some((7, 1))).is_err(), "under no name there are more");
        drop((renamed, first));
        assert!(doors.enter("a", None).is_ok());
        drop(second);
        assert!(doors.users.lock().is_empty(), "users that left are forgotten");
        let login = doors.log_in();
        assert!(login.is_some() && doors.log_in().is_none());
        drop(login);
        assert!(doors.log_in().is_some());
    }
}
