//! Statements that go to a node as they are, most of them to home.

use std::sync::Arc;

use exec::{Bound, Compiled, Forwarded};

use crate::session::{Result, Session};

impl Session {
    /// Keeps the connection to home from now on; `why` is one of [`Pins`]. Temporary is what has ever had a pg_temp.
    pub fn pin_home(&mut self, why: u8) {
        self.pin.want();
        self.pins |= why;
        self.transaction.keep = Some(self.epoch.snapshot.home);
    }

    /// The statement as it is on home, its rows described.
    pub async fn on_home(&mut self, sql: &str) -> Result<Forwarded> {
        self.on_home_described(sql, true).await
    }

    /// The same; `described`: the client gets RowDescription, too.
    pub async fn on_home_described(&mut self, sql: &str, described: bool) -> Result<Forwarded> {
        let home = self.epoch.snapshot.home;
        self.on_node(home, sql, described).await
    }

    /// Runs the text on a node as it is. `described`: the client gets RowDescription, too.
    pub async fn on_node(&mut self, node: i32, sql: &str, described: bool) -> Result<Forwarded> {
        let mut work = self.work();
        if writes(sql) || runs_query(sql) {
            work.uses = plan::Sequences::Any;
        }
        let mut p = work.lane(node).await?;
        p.wrote |= writes(sql);
        if !p.wrote && runs_query(sql) {
            // Functions in it may write, and rows be locked: only the node knows, and is asked before a commit over several.
            p.wrote = true;
            work.transaction.asks_who_wrote = true;
        }
        p.locked |= sql::split::first_keyword(sql).eq_ignore_ascii_case("LOCK");
        p.lane.put_query(sql);
        let result = match p.lane.conn.flush().await {
            Ok(()) => exec::forward(&mut p.lane, work.client, described, exec::Ids::Home).await,
            Err(e) => Err(e.into()),
        };
        work.put_back(p).await;
        result
    }

    pub(crate) async fn on_home_bound(&mut self, sql: &str, bound: Option<&Bound>) -> Result<Forwarded> {
        match bound {
            Some(b) if !b.values.is_empty() || b.result_formats.iter().any(|f| *f != 0) => {
                let compiled = Arc::new(Compiled::new(plan::Planned::home(true), sql, self.context, None));
                self.run(&compiled, sql, bound).await
            }
            Some(_) => self.on_home_described(sql, false).await,
            None => self.on_home(sql).await,
        }
    }
}

/// Statements of the session's own that change nothing need no part in a commit over several nodes.
fn writes(sql: &str) -> bool {
    let word = sql::split::first_keyword(sql).to_ascii_uppercase();
    !matches!(
        word.as_str(),
        "FETCH"
            | "MOVE"
            | "CLOSE"
            | "DECLARE"
            | "SHOW"
            | "SET"
            | "RESET"
            | "EXPLAIN"
            | "LISTEN"
            | "UNLISTEN"
            | "NOTIFY"
            | "LOCK"
    )
}

/// What a query inside may take from sequences is taken then.
fn runs_query(sql: &str) -> bool {
    matches!(&*sql::split::first_keyword(sql).to_ascii_uppercase(), "FETCH" | "MOVE" | "DECLARE" | "EXPLAIN")
}
