//! The session's temporary schema: which relations are in it, and which of them hide others of their name.
//!
//! Its connection to home tells. It is asked again whenever that can have changed: behind each statement that changes a
//! schema, and where such changes were undone, or dropped what was ON COMMIT DROP. It does not know who makes them.

use catalog::Snapshot;

use crate::activity::Pins;
use crate::session::{Result, Session};

#[derive(Default)]
pub struct PgTemp {
    /// Of all its relations, indexes among them.
    pub names: Vec<String>,
    pub made: Made,
    /// The transaction has changed what is in it.
    changed: bool,
}

/// PostgreSQL makes the schema when something is first put into it, and keeps it then, whatever is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Made {
    #[default]
    No,
    /// In the transaction, at that depth of savepoints.
    Now(usize),
    Yes,
}

pub const NAMES: &str = "SELECT relname FROM pg_catalog.pg_class \
                         WHERE relnamespace OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema() ORDER BY 1";

impl PgTemp {
    /// What an unqualified name means there and nowhere else: all of it, but for what the search path finds before `pg_temp`.
    pub fn hiding(&self, snapshot: &Snapshot, path: &[String]) -> Vec<String> {
        let before = path.iter().position(|s| s == "pg_temp").map_or(&[][..], |at| &path[..at]);
        let found = |name: &String| !before.is_empty() && snapshot.resolve(None, name, before).is_some();
        self.names.iter().filter(|name| !found(name)).cloned().collect()
    }

    /// Something has been put into it.
    fn is_made(&mut self, depth: Option<usize>) {
        if self.made == Made::No {
            self.made = depth.map_or(Made::Yes, Made::Now);
        }
    }

    fn is_undone(&mut self, depth: usize) {
        if matches!(self.made, Made::Now(at) if at >= depth) {
            self.made = Made::No;
        }
    }

    /// A savepoint is released: what was done behind it belongs to the one around it.
    pub fn is_released(&mut self, depth: usize) {
        if let Made::Now(at) = &mut self.made {
            *at = depth.min(*at);
        }
    }

    fn has_ended(&mut self, committed: bool) {
        self.changed = false;
        if let Made::Now(_) = self.made {
            self.made = if committed { Made::Yes } else { Made::No };
        }
    }
}

impl Session {
    /// A statement puts something into it: the connection is kept from now on.
    pub fn use_pg_temp(&mut self) {
        self.pin_home(Pins::TEMPORARY);
    }

    /// Behind a statement that may have changed what is in it; `makes`: it has put something in.
    pub async fn pg_temp_changed(&mut self, makes: bool) -> Result<()> {
        if self.pins & Pins::TEMPORARY == 0 {
            return Ok(());
        }
        let active = self.transaction.is_active();
        if makes {
            self.pg_temp.is_made(active.then(|| self.transaction.depth()));
        }
        self.pg_temp.changed |= active;
        self.read_pg_temp().await
    }

    /// Code has run on home's connection, which has told what is there.
    pub fn pg_temp_told(&mut self, names: Vec<String>) {
        if !names.is_empty() {
            self.use_pg_temp();
            let active = self.transaction.is_active();
            self.pg_temp.is_made(active.then(|| self.transaction.depth()));
        }
        self.pg_temp.changed |= self.transaction.is_active() && self.pg_temp.names != names;
        self.pg_temp.names = names;
    }

    /// ROLLBACK TO SAVEPOINT, at what is the transaction's depth now.
    pub async fn pg_temp_undone(&mut self) -> Result<()> {
        self.pg_temp.is_undone(self.transaction.depth());
        match self.pg_temp.changed {
            true => self.read_pg_temp().await,
            false => Ok(()),
        }
    }

    /// The transaction is over, and its connections are back.
    pub async fn pg_temp_settled(&mut self, committed: bool) {
        let changed = self.pg_temp.changed;
        self.pg_temp.has_ended(committed);
        // A connection that does not answer is lost, and with it the session.
        if changed && self.read_pg_temp().await.is_err() {
            self.pg_temp.names.clear();
        }
    }

    async fn read_pg_temp(&mut self) -> Result<()> {
        let home = self.epoch.snapshot.home;
        let rows = match self.transaction.get(home) {
            Some(p) => p.lane.rows(NAMES).await?,
            None => match self.pin.take() {
                Some(mut lane) => {
                    let rows = lane.rows(NAMES).await;
                    self.pin.put_back(lane);
                    rows?
                }
                None => vec![],
            },
        };
        self.pg_temp.names = rows.into_iter().flatten().flatten().collect();
        self.refresh_context();
        Ok(())
    }
}
