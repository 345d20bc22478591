//! COPY as it stands, on one node; of a local table, with a fence in front of it.
//!
//! A COPY of a local table may wait for the table while it is being distributed, and would then meet home's shards alone. Its
//! rows nobody sends twice, so whether the table is still local is asked in front, before any row is: PREPARE keeps a
//! lock on what the name means to the end of the transaction, and the kinds' guard looks behind that lock. The guard
//! behind the COPY stays, for tables that its triggers and queries meet. It does not know the data.

use catalog::{quote_ident, quote_literal};
use sql::ast;
use txn::Lane;
use wire::ErrorFields;
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::route::{Forwarded, Ids, forward, forward_guarded};
use crate::work::Work;
use crate::work::guard::{Guard, RAISED};
use crate::work::rows;

/// What stands in front of a COPY: statements with no rows, each of which lets the next run or fails.
struct Front {
    text: String,
    statements: usize,
    /// The schema that is asked for first: PREPARE would say another error than COPY if it is missing.
    schema: Option<String>,
}

impl Front {
    /// `kinds`: home's number when the table was taken for a local one. A temporary one is never anything else.
    fn of(table: &ast::RangeVar, kinds: i64) -> Option<Self> {
        let (schema, name) = sql::names::table(table);
        if schema == Some("pg_temp") {
            return None;
        }
        let (name, named) = (quote_ident(name), schema.map(|s| format!("{}.", quote_ident(s))).unwrap_or_default());
        let look = format!("PREPARE herd_look AS SELECT FROM {named}{name}; DEALLOCATE herd_look; ");
        let text = format!("{look}{}; ", Guard::of(kinds, true).sql);
        Some(match schema {
            Some(schema) => {
                let oid = format!("pg_catalog.to_regnamespace({})", quote_literal(&quote_ident(schema)));
                let there = format!(
                    "SELECT FROM herd.epoch WHERE CASE WHEN {oid} IS NULL THEN {} IS NULL ELSE false END; ",
                    Guard::FAILS
                );
                Front { text: there + &text, statements: 4, schema: Some(schema.to_string()) }
            }
            None => Front { text, statements: 3, schema: None },
        })
    }

    /// Reads what a node says of it; afterwards the read buffer starts with the COPY's own.
    async fn passed(&self, lane: &mut Lane) -> Result<()> {
        let mut passed = 0;
        while passed < self.statements {
            let frame = lane.next().await?;
            match frame.tag() {
                b'C' => passed += 1,
                b'E' => {
                    let e = rows::after_error(lane, &frame).await;
                    return Err(match (&self.schema, e.code() == RAISED) {
                        (Some(schema), true) if passed == 0 => {
                            ExecError::sql(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist"))
                        }
                        (_, true) => ExecError::Stale,
                        // COPY tells no position of its table's name.
                        (_, false) => repositioned(e, |_| None),
                    });
                }
                b'Z' => return Err(ExecError::internal("a COPY ended before it began")),
                _ => {}
            }
        }
        Ok(())
    }

    /// An error of the COPY itself, as of the client's text.
    fn behind(&self, e: ExecError) -> ExecError {
        let length = self.text.chars().count();
        repositioned(e, |position| position.checked_sub(length).filter(|p| *p > 0))
    }
}

fn repositioned(e: ExecError, place: impl Fn(usize) -> Option<usize>) -> ExecError {
    let ExecError::Pool(pool::PoolError::Server(fields)) = e else { return e };
    let mut fields: ErrorFields = *fields;
    if let Some(position) = fields.get(b'P').and_then(|p| p.parse().ok()) {
        match place(position) {
            Some(position) => fields.set(b'P', position.to_string()),
            None => fields.fields.retain(|(code, _)| *code != b'P'),
        }
    }
    pool::PoolError::Server(Box::new(fields)).into()
}

impl<C: Client> Work<'_, C> {
    /// A COPY of what is local: a table, or a query, whose tables are known by the guard behind it alone.
    pub async fn copy_local(&mut self, copy: &ast::CopyStmt, sql: &str) -> Result<Forwarded> {
        let front = copy.relation.as_ref().and_then(|table| Front::of(table, self.epoch.snapshot.kinds));
        self.copy_fenced(self.home(), sql, copy.is_from, true, front).await
    }

    /// The statement as it is on one node. `local`: it may meet local tables.
    pub async fn copy_on(&mut self, node: i32, sql: &str, writes: bool, local: bool) -> Result<Forwarded> {
        self.copy_fenced(node, sql, writes, local, None).await
    }

    async fn copy_fenced(
        &mut self,
        node: i32,
        sql: &str,
        writes: bool,
        local: bool,
        front: Option<Front>,
    ) -> Result<Forwarded> {
        let guard = local.then(|| Guard::of(self.epoch.snapshot.kinds, writes));
        if writes {
            self.uses = plan::Sequences::Any;
        }
        let mut p = self.lane(node).await?;
        p.wrote |= writes;
        let text = guard.as_ref().map_or_else(|| sql.to_string(), |g| g.behind(sql));
        p.lane.put_query(&format!("{}{text}", front.as_ref().map_or("", |f| &f.text)));
        let result = async {
            p.lane.conn.flush().await?;
            if let Some(front) = &front {
                front.passed(&mut p.lane).await?;
            }
            let done = match guard {
                Some(_) => forward_guarded(&mut p.lane, self.client, false, None).await,
                None => forward(&mut p.lane, self.client, false, Ids::Home).await,
            };
            match &front {
                Some(front) => done.map_err(|e| front.behind(e)),
                None => done,
            }
        }
        .await;
        self.put_back(p).await;
        result
    }
}
