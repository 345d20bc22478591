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
    /// An error, if home has one, or the statement is none that could be planned. Nothing is asked of others than writes by rules.
    pub async fn may_by_rule(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<()> {
        let Some(by_rule) = &compiled.plan.whole().by_rule else { return Ok(()) };
        let (_, bound) = self.described_bound(compiled, request).await?;
        self.home_lets(&compiled.text, &bound, by_rule.oid).await?;
        match by_rule.wrong {
            true => Err(refused(&format!(
                "writing to view \"{}\" by its rules in such a statement is not supported",
                by_rule.view
            ))),
            false => Ok(()),
        }
    }

    /// The same of a text, with its parameters. Whether the transaction is read-only, of which EXPLAIN says nothing.
    pub async fn home_lets(&mut self, sql: &str, bound: &Bound, view: catalog::Oid) -> Result<bool> {
        let statement = |sql: String, given: bool| NodeStatement {
            sql,
            types: if given { bound.types.to_vec() } else { vec![] },
            formats: if given { bound.formats.to_vec() } else { vec![] },
            values: if given { bound.values.clone() } else { vec![] },
            once: true,
            columns: None,
        };
        let asked = statement(format!("{ASK}{sql}"), true);
        let facts = format!(
            "SELECT pg_catalog.current_setting('session_replication_role'), pg_catalog.current_setting('transaction_read_only'), \
             EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid \
             WHERE a.attrelid OPERATOR(pg_catalog.=) {view}::pg_catalog.oid AND a.attcollation OPERATOR(pg_catalog.<>) t.typcollation)"
        );
        let home = self.home();
        let mut p = self.lane(home).await?;
        let said = match first_row(&mut p.lane, &asked).await {
            Ok(_) => first_row(&mut p.lane, &statement(facts, false)).await,
            Err(e) => Err(in_place(e)),
        };
        self.put_back(p).await;
        let said = said?;
        let is = |at: usize, word: &str| said.get(at).and_then(|v| v.as_deref()) == Some(word);
        if is(0, "replica") {
            return Err(refused(
                "writing to a view by its rules or triggers is not supported with session_replication_role = replica, which has none of them",
            ));
        }
        if is(2, "t") {
            return Err(refused(
                "writing to a view by its rules or triggers is not supported where a column of it has a collation of its own",
            ));
        }
        Ok(is(1, "on"))
    }
}

fn refused(message: &str) -> ExecError {
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Write to the tables themselves.")
}

/// With the place in the client's own text.
fn in_place(e: ExecError) -> ExecError {
    let mut fields = e.to_fields();
    let Some(at) = fields.get(b'P').and_then(|at| at.parse::<usize>().ok()) else { return e };
    fields.set(b'P', at.saturating_sub(ASK.len()).to_string());
    ExecError::Sql(Box::new(fields))
}
