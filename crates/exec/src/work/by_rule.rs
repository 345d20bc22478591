//! Writes to views by rules, which only home has, and by INSTEAD OF triggers that routers run: before what the router has made of such a statement
//! runs, home says of the statement itself whether it is understood, and whether who asks may run it. What becomes of it is not known here.

use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::render::NodeStatement;
use crate::request::{Bound, Request};
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::describe::first_row;

/// Rights are looked at, and nothing runs (`InitPlan` in execMain.c).
const ASK: &str = "EXPLAIN (COSTS off) ";

impl<C: Client> Work<'_, C> {
    /// An error, if home has one.
    pub async fn may_by_rule(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<()> {
        let (_, bound) = self.described_bound(compiled, request).await?;
        self.home_lets(&compiled.text, &bound).await
    }

    /// The same of a text, with its parameters.
    pub async fn home_lets(&mut self, sql: &str, bound: &Bound) -> Result<()> {
        let statement = |sql: String, given: bool| NodeStatement {
            sql,
            types: if given { bound.types.to_vec() } else { vec![] },
            formats: if given { bound.formats.to_vec() } else { vec![] },
            values: if given { bound.values.clone() } else { vec![] },
            once: true,
        };
        let asked = statement(format!("{ASK}{sql}"), true);
        let fires = "SELECT pg_catalog.current_setting('session_replication_role')".to_string();
        let home = self.home();
        let mut p = self.lane(home).await?;
        let said = match first_row(&mut p.lane, &asked).await {
            Ok(_) => first_row(&mut p.lane, &statement(fires, false)).await,
            Err(e) => Err(in_place(e)),
        };
        self.put_back(p).await;
        match said?.first().and_then(|role| role.as_deref()) {
            Some("replica") => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "writing to a view by its rules or triggers is not supported with session_replication_role = replica, which has none of them",
            )
            .hint("Write to the tables themselves.")),
            _ => Ok(()),
        }
    }
}

/// With the place in the client's own text.
fn in_place(e: ExecError) -> ExecError {
    let mut fields = e.to_fields();
    let Some(at) = fields.get(b'P').and_then(|at| at.parse::<usize>().ok()) else { return e };
    fields.set(b'P', at.saturating_sub(ASK.len()).to_string());
    ExecError::Sql(Box::new(fields))
}
