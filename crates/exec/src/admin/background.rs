//! Calls in the background: a session enters them, and whichever router takes one makes it, in the caller's name (session
//! `background.rs`). What is begun in its course notes its number, and its router's connection to home is its lease: when that has ended, the
//! next router that looks makes the call again. It is only calls of which that is right (`AdminFunction::has_background`).
//!
//! It does not know what they do, nor how a call is made without a client.

use std::time::Duration;

use ::plan::admin::{AdminCall, AdminFunction, Arg, split_name};
use catalog::{qualified, quote_literal};
use pool::Conn;
use wire::{ErrorFields, sqlstate};

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::herd::Herd;
use crate::work::Work;

/// How often it is looked whether a job has ended, or shall.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the router that was asked may begin with a job before any other.
const FIRST: &str = "1 s";
/// How long what a router has left of a job is waited for at a time.
const LATER: &str = "500 ms";
/// After so many tries it is not tried again.
const TRIES_MAX: u32 = 100;
/// The longest time between two tries.
const PAUSE_MAX: u32 = 60;

/// Jobs that this router may begin with: nobody works on them. One that was taken a moment ago has somebody, whatever was known of backends then.
fn free(herd: &Herd) -> String {
    let own = format!("tries = 0 AND router = '{:016x}'", herd.router);
    format!(
        "state = 'running' AND call IS NOT NULL AND (coalesce(not_before, '-infinity') <= clock_timestamp() OR {own}) \
         AND (owner_pid IS NULL OR updated_at < clock_timestamp() - interval '1 s' AND NOT herd.has_owner(j.*))"
    )
}

impl<C: Client> Work<'_, C> {
    /// Enters a call; the job's number. What can be said against it at once is said here.
    pub async fn enter_job(&mut self, mut call: AdminCall, search_path: &[String]) -> Result<i64> {
        self.may_begin_job(&call).await?;
        let about = match call.function {
            AdminFunction::DrainNode | AdminFunction::Rebalance => {
                // By what, or which node.
                match call.function {
                    AdminFunction::DrainNode => {
                        self.node_called(&call.node()?)?;
                    }
                    _ => {
                        call.by()?;
                    }
                }
                if call.function == AdminFunction::DrainNode { call.node()? } else { String::new() }
            }
            _ => {
                self.may_be_asked_of(&call, search_path)?;
                // Whoever makes the call may look elsewhere first.
                let (schema, name) = split_name(&call.table()?)?;
                let found = self.epoch.snapshot.resolve(schema.as_deref(), &name, search_path);
                let table = found.map_or(name, |r| qualified(&r.schema, &r.name));
                call.set_table(Arg::Text(table.clone()));
                table
            }
        };
        const WHO: &str = "SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user";
        let caller = self.ask_home(WHO).await?.into_iter().flatten().flatten().next();
        let caller = caller.ok_or_else(|| ExecError::internal("home does not know who asks"))?;
        let enter = format!(
            "INSERT INTO herd.job (kind, about, arguments, router, not_before, step, call, caller) \
             VALUES ({}, {}, '{{}}', '{:016x}', clock_timestamp() + interval '{FIRST}', 'wait', {}, {caller}) RETURNING id",
            quote_literal(&call.name),
            quote_literal(&about),
            self.herd.router,
            quote_literal(&call.statement()),
        );
        let rows = self.herd.own.rows(&self.herd.config.home, &enter).await?;
        self.herd.entered.notify_one();
        let id = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        id.ok_or_else(|| ExecError::internal("home gives no number for a job"))
    }

    /// Waits until a job has ended; what it has answered, or its error.
    pub async fn wait_for_job(&mut self, call: &AdminCall) -> Result<String> {
        if self.transaction.is_active() {
            // Its locks could be what the job waits for.
            let message = "herd.wait_job() cannot run inside a transaction block";
            return Err(ExecError::sql(sqlstate::ACTIVE_SQL_TRANSACTION, message));
        }
        self.may_change_herd().await?;
        let id = call.job()?;
        let ask = format!("SELECT state, coalesce(result, state), error, sqlstate FROM herd.job WHERE id = {id}");
        self.client.waits();
        loop {
            let rows = self.herd.own.rows(&self.herd.config.home, &ask).await?;
            let Some([Some(state), Some(result), error, code]) = rows.first().map(|row| &row[..]) else {
                return Err(ExecError::sql(sqlstate::UNDEFINED_OBJECT, format!("there is no job {id}"))
                    .hint("herd.jobs shows those that run, and those that have ended."));
            };
            match &**state {
                "running" => {}
                "done" => return Ok(result.clone()),
                _ => {
                    let code = code.as_deref().unwrap_or(match &**state {
                        "cancelled" => sqlstate::QUERY_CANCELED,
                        _ => sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    });
                    let why = error.as_deref().unwrap_or(state);
                    let mut fields = ErrorFields::error(sqlstate::QUERY_CANCELED, format!("job {id} has ended: {why}"));
                    fields.set(b'C', code);
                    return Err(ExecError::Sql(Box::new(fields)));
                }
            }
            tokio::select! {
                biased;
                () = self.client.cancelled() => return Err(ExecError::cancelled()),
                () = tokio::time::sleep(LOOK_EVERY) => self.keep_time().await?,
            }
        }
    }
}

/// A call that this router makes.
pub struct Task {
    pub id: i64,
    pub call: String,
    /// In whose name; none: there is no such role any more.
    pub caller: Option<String>,
    tries: u32,
    desk: Conn,
}

/// How a call has ended.
pub enum Outcome {
    Done(String),
    Failed(ErrorFields),
    /// Somebody has cancelled it.
    Cancelled,
    /// It is another router's by now.
    Lost,
    /// Something has to end before it can be begun with.
    Later,
}

impl Task {
    /// Takes a job that nobody works on.
    pub async fn next(herd: &Herd) -> Result<Option<Task>> {
        let (home, free) = (&herd.config.home, free(herd));
        let any = herd.own.rows(home, &format!("SELECT FROM herd.job j WHERE {free} LIMIT 1")).await?;
        if any.is_empty() {
            return Ok(None);
        }
        let mut desk = herd.own.connect(home).await?;
        let take = format!(
            "UPDATE herd.job t SET owner_pid = a.pid, owner_start = a.backend_start, router = '{:016x}', tries = tries + 1, \
                    step = 'begin', not_before = NULL, updated_at = clock_timestamp() \
               FROM pg_stat_activity a WHERE a.pid = pg_backend_pid() \
                AND t.id = (SELECT j.id FROM herd.job j WHERE {free} ORDER BY j.id LIMIT 1 FOR UPDATE SKIP LOCKED) \
             RETURNING t.id, t.call, t.tries, (SELECT rolname FROM pg_roles r WHERE r.oid = t.caller)",
            herd.router
        );
        let rows = desk.simple(&take).await?;
        let Some([Some(id), Some(call), Some(tries), caller]) = rows.first().map(|row| &row[..]) else {
            return Ok(None);
        };
        let (id, tries) = (id.parse(), tries.parse());
        let (Ok(id), Ok(tries)) = (id, tries) else { return Err(ExecError::internal("home told of no job")) };
        Ok(Some(Task { id, call: call.clone(), caller: caller.clone(), tries, desk }))
    }

    /// Whether nothing is left of what routers that are gone have begun in its course: of that either all has been done, or it is undone.
    pub async fn is_clear(&mut self, herd: &Herd) -> Result<bool> {
        let left = format!("SELECT FROM herd.job WHERE parent = {} AND state = 'running'", self.id);
        if self.desk.simple(&left).await?.is_empty() {
            return Ok(true);
        }
        super::move_shard::undo_orphans(&mut self.desk, herd).await?;
        Ok(self.desk.simple(&left).await?.is_empty())
    }

    /// Tells how far what was begun in its course has come, until the call is to end. It may be given up half-way.
    pub async fn watch(&mut self) -> Outcome {
        let note = format!(
            "UPDATE herd.job j SET updated_at = clock_timestamp(), step = coalesce(c.about, 'plan'), bytes_done = c.done, bytes_total = c.total, \
                    rows_done = c.rows, changes = c.changes \
               FROM (SELECT max(about) FILTER (WHERE state = 'running') AS about, coalesce(sum(bytes_done), 0) AS done, \
                            coalesce(sum(bytes_total), 0) AS total, coalesce(sum(rows_done), 0) AS rows, coalesce(sum(changes), 0) AS changes \
                       FROM herd.job WHERE parent = {}) c \
              WHERE j.id = {} AND j.state = 'running' AND j.owner_pid = pg_backend_pid() RETURNING j.cancel",
            self.id, self.id
        );
        loop {
            match self.desk.simple(&note).await {
                Ok(rows) => match rows.first().and_then(|row| row.first()?.as_deref()) {
                    Some("f") => {}
                    Some(_) => return Outcome::Cancelled,
                    None => return Outcome::Lost,
                },
                Err(_) => return Outcome::Lost,
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Says how it has ended, or when it may be tried again.
    pub async fn end(mut self, outcome: Outcome) -> Result<()> {
        let set = match outcome {
            Outcome::Lost => return Ok(()),
            Outcome::Later => {
                format!("not_before = clock_timestamp() + interval '{LATER}', step = 'wait', tries = tries - 1")
            }
            Outcome::Done(result) => {
                format!(
                    "state = 'done', step = 'done', result = {}, error = NULL, sqlstate = NULL, ended_at = clock_timestamp()",
                    quote_literal(&result)
                )
            }
            Outcome::Cancelled => {
                let code = sqlstate::QUERY_CANCELED;
                format!(
                    "state = 'cancelled', error = 'it was cancelled by herd.cancel_job()', sqlstate = '{code}', ended_at = clock_timestamp()"
                )
            }
            Outcome::Failed(fields) => {
                let code = fields.code();
                let (again, state) = match code {
                    sqlstate::QUERY_CANCELED => (false, "cancelled"),
                    _ => (passes(code) && self.tries < TRIES_MAX, "failed"),
                };
                let detail = fields.get(b'D').map_or_else(String::new, |detail| format!(" ({detail})"));
                let why = quote_literal(&format!("{}{detail}", fields.message()));
                let ends = match again {
                    true => {
                        // Another job has its tables, or a change has met it: that is over soon.
                        let pause = if code == sqlstate::OBJECT_IN_USE { 2 } else { 1 << self.tries.min(5) };
                        format!("not_before = clock_timestamp() + interval '{} s', step = 'wait'", pause.min(PAUSE_MAX))
                    }
                    false => format!("state = '{state}', ended_at = clock_timestamp()"),
                };
                format!("error = {why}, sqlstate = {}, {ends}", quote_literal(code))
            }
        };
        self.desk.finish_given_up().await?;
        let end = format!(
            "UPDATE herd.job SET owner_pid = NULL, updated_at = clock_timestamp(), {set} WHERE id = {} AND state = 'running' AND owner_pid = pg_backend_pid()",
            self.id
        );
        self.desk.simple(&end).await?;
        Ok(())
    }
}

/// An error that another time may not have: a node was away, something was in the way, there was no room.
fn passes(code: &str) -> bool {
    let class = code.get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "57") || matches!(code, sqlstate::LOCK_NOT_AVAILABLE | sqlstate::OBJECT_IN_USE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_tried_again() {
        let again = ["08006", "57P01", "57P03", "40001", "40P01", "53300", "55P03", "55006"];
        assert!(again.iter().all(|code| passes(code)));
        assert!(["42P01", "42501", "0A000", "55000", "XX000", ""].iter().all(|code| !passes(code)));
    }
}
