//! Who looks at the sessions of a router, and of which he may see more than that they are there: as pg_stat_activity, those
//! of roles whose rights he has, and all with those of pg_read_all_stats. It does not know what is shown of them.

use std::collections::HashSet;

use crate::activity::Shown;
use crate::session::{Result, Session};

/// Whose sessions may be seen.
pub struct Viewer {
    /// The roles whose rights the session has, by their object ids on home.
    roles: HashSet<u32>,
    all: bool,
    /// The object id of the herd's database on home.
    pub database: String,
}

impl Viewer {
    /// Whether what a session runs may be shown.
    pub fn may_see(&self, shown: &Shown) -> bool {
        self.all || shown.role.is_some_and(|role| self.roles.contains(&role))
    }
}

impl Session {
    /// Asks home about the session's role, in the transaction if there is one.
    pub async fn viewer(&mut self) -> Result<Viewer> {
        let rights = "SELECT r.oid, pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'), \
                      (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) \
                      FROM pg_catalog.pg_roles r WHERE pg_catalog.pg_has_role(r.oid, 'USAGE')";
        let rights = self.work().ask_home(rights).await?;
        let cell = |row: &[Option<String>], n: usize| row.get(n).cloned().flatten().unwrap_or_default();
        let first = rights.first().map(|r| (cell(r, 1) == "t", cell(r, 2)));
        let (all, database) = first.unwrap_or_default();
        Ok(Viewer { roles: rights.iter().filter_map(|r| cell(r, 0).parse().ok()).collect(), all, database })
    }
}
