//! A session with the router that holds one cut over all nodes as long as it lives.
//!
//! It does not know what is read from the cut.

use std::collections::BTreeMap;

use super::error::Result;
use super::session::Session;

const BEGIN: &str = "SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0;
SET herd.snapshot = on;
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;";

/// The cut.
pub struct Cut {
    session: Session,
    /// The exported snapshot of each node, by the node's id.
    pub snapshots: BTreeMap<i32, String>,
}

impl Cut {
    /// Begins the session and exports a snapshot of each node; `server` is the router's URL.
    pub fn take(server: &str) -> Result<Cut> {
        let mut session = Session::begin(server)?;
        session.unlimited()?;
        session.ask(BEGIN)?;
        let said = session.ask("SELECT herd.export_snapshot();")?;
        let by_text: BTreeMap<String, String> = serde_json::from_str(&said).map_err(|_| session.unreadable(&said))?;
        let ids = by_text.into_iter().map(|(id, snapshot)| id.parse().map(|id| (id, snapshot)));
        let snapshots = ids.collect::<std::result::Result<_, _>>().map_err(|_| session.unreadable(&said))?;
        Ok(Cut { session, snapshots })
    }

    /// A value read from the cut.
    pub fn json<T: serde::de::DeserializeOwned>(&mut self, sql: &str) -> Result<T> {
        self.session.json(sql)
    }

    /// The snapshots have lived until now.
    pub fn end(mut self) -> Result<()> {
        self.session.ask("COMMIT;").map(|_| ())
    }
}
