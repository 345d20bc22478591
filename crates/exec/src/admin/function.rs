//! `create_distributed_function`: which function and argument are meant, and the statement that says so on every node.
//!
//! That is ordinary DDL, which its owner may run. Whether the function can run on the node of its argument is not known here.

use catalog::code::BY_ARGUMENT;
use catalog::{Oid, quote_literal};
use plan::admin::DistributedFunction;
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// A function that is to be distributed by an argument, or no longer.
#[derive(Debug)]
pub struct ToDistribute {
    /// The function's object id on home.
    pub oid: Oid,
    /// `ALTER ROUTINE … SET …`
    pub ddl: String,
}

impl<C: Client> Work<'_, C> {
    /// Looks the function and its argument up on home, as the client means them.
    pub async fn function_to_distribute(&mut self, asked: &DistributedFunction) -> Result<ToDistribute> {
        self.need_transaction();
        let argument = asked.argument.as_deref().unwrap_or_default();
        // On the client's connection, where `=` may be an operator of his own.
        let sql = format!(
            "SELECT p.oid, p.oid::pg_catalog.regprocedure, p.pronargs, p.prokind, \
                    (SELECT i.place FROM (SELECT a.name, pg_catalog.row_number() OVER (ORDER BY a.place) AS place \
                       FROM ROWS FROM (pg_catalog.unnest(p.proargnames), pg_catalog.unnest(p.proargmodes)) WITH ORDINALITY AS a (name, mode, place) \
                      WHERE a.mode IS NULL OR pg_catalog.strpos('ibv', a.mode::pg_catalog.text) OPERATOR(pg_catalog.>) 0) i \
                      WHERE i.name OPERATOR(pg_catalog.=) {}) \
             FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.=) {}::pg_catalog.regprocedure",
            quote_literal(argument),
            quote_literal(&asked.function)
        );
        let rows = self.ask_home(&sql).await?;
        let cell = |n: usize| rows.first().and_then(|r| r.get(n)?.as_deref());
        let (Some(oid), Some(name)) = (cell(0).and_then(|oid| oid.parse().ok()), cell(1)) else {
            return Err(ExecError::internal("no such function"));
        };
        if !matches!(cell(3), Some("f" | "p")) {
            let message = format!("{name} is neither a function nor a procedure");
            return Err(ExecError::sql(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        let arguments: usize = cell(2).and_then(|n| n.parse().ok()).unwrap_or(0);
        let by_place = argument.strip_prefix('$').and_then(|n| n.parse().ok()).filter(|n| (1..=arguments).contains(n));
        let set = match (&asked.argument, by_place.or_else(|| cell(4)?.parse().ok())) {
            (None, _) => format!("RESET {BY_ARGUMENT}"),
            (Some(_), Some(number)) => format!("SET {BY_ARGUMENT} = '{number}'"),
            (Some(_), None) => {
                let message = format!("{name} has no argument \"{argument}\"");
                let e = ExecError::sql(sqlstate::UNDEFINED_PARAMETER, message);
                return Err(e.hint("Give the name of an argument of it, or its place: '$1', '$2' …"));
            }
        };
        Ok(ToDistribute { oid, ddl: format!("ALTER ROUTINE {name} {set}") })
    }
}
