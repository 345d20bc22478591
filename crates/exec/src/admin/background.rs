//! Calls in the background: a session enters them, and whichever router takes one makes it, in the caller's name (session
//! `background.rs`). What is begun in its course notes its number, and its router's connection to home is its lease: when that has ended, the
//! next router that looks makes the call again. It is only calls of which that is right (`AdminFunction::has_background`).
//!
//! It does not know what they do, nor how a call is made without a client.

use std::time::Duration;

use ::plan::admin::{AdminCall, AdminFunction, Arg};
use catalog::{Snapshot, qualified, quote_literal};
use pool::Conn;
use wire::{ErrorFields, sqlstate};

use super::find;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::herd::Herd;
use crate::work::Work;

/// How often it is looked whether a job has ended, or shall.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Settings by which arguments are read: those of who asked count.
const MEANING: [&str; 3] = ["datestyle", "intervalstyle", "timezone"];
/// How long the router that was asked may begin with a job before any other.
const FIRST: &str = "1 s";
/// How long what a router has left of a job is waited for at a time.
const LATER: &str = "500 ms";
/// How long nodes may take to have it taken away.
const UNDO_MAX: Duration = Duration::from_secs(4);
/// After so many tries it is not tried again.
const TRIES_MAX: u32 = 100;
/// The same of taking away what a job that was cancelled has left: about half an hour.
const UNDO_TRIES_MAX: u32 = 30;
/// The longest time between two tries.
const PAUSE_MAX: u32 = 60;
/// The same where another job, or a change, has the tables.
const IN_USE_PAUSE: u32 = 3;

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
    ///
    /// `shards`: of a table that is to be distributed, if nothing else says how many.
    pub async fn enter_job(&mut self, mut call: AdminCall, search_path: &[String], shards: i32) -> Result<i64> {
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
                let (table, other) = (call.table()?, call.other_table()?);
                let find = |snapshot: &Snapshot, name: &str| {
                    let found = find(snapshot, name, search_path)?;
                    found.map(|r| qualified(&r.schema, &r.name)).ok_or_else(|| {
                        ExecError::sql(sqlstate::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
                    })
                };
                let mut snapshot = self.epoch.snapshot.clone();
                // As without a job: of what others have made without this router it has not heard.
                let names = || std::iter::once(&table).chain(&other);
                if call.function.changes_kind() && names().any(|name| find(&snapshot, name).is_err()) {
                    self.need_transaction();
                    snapshot = self.snapshot_now().await?;
                }
                self.may_be_asked_of(&call, &snapshot, search_path)?;
                // Whoever makes the call may look elsewhere first.
                let table = find(&snapshot, &table)?;
                call.set_table(Arg::Text(table.clone()));
                if let Some(other) = other {
                    call.set_other_table(find(&snapshot, &other)?);
                }
                table
            }
        };
        // What texts of its arguments mean.
        let meaning = MEANING.iter().filter_map(|name| Some((*name, self.settings.get(name)?)));
        let shards = shards.to_string();
        let shards =
            (call.function == AdminFunction::CreateDistributedTable).then_some(("citus.shard_count", &*shards));
        let meaning = meaning.chain(shards).map(|(name, value)| format!("'{name}', {}", quote_literal(value)));
        let meaning: Vec<String> = meaning.collect();
        const WHO: &str = "SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) current_user";
        let caller = self.ask_home(WHO).await?.into_iter().flatten().flatten().next();
        let caller = caller.ok_or_else(|| ExecError::internal("home does not know who asks"))?;
        let home = &self.herd.config.home;
        // Where the router is no superuser.
        let may = format!(
            "SELECT pg_has_role({caller}, CASE WHEN current_setting('server_version_num')::int4 >= 160000 THEN 'SET' ELSE 'MEMBER' END)"
        );
        if self.herd.own.rows(home, &may).await?.first().and_then(|row| row.first()?.as_deref()) != Some("t") {
            let message =
                "a job in the background is made by the router's role in the caller's name, which it may not take";
            return Err(ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, message)
                .hint("GRANT the caller's role to the router's, or call it without background => true."));
        }
        // Nothing but this is committed before it has ended. In its course that is of the number it has noted, not of the name.
        let undo = (call.function == AdminFunction::AddColumnCopy)
            .then(|| AdminCall::step(AdminFunction::DropColumnCopy, "drop_column_copy", [Arg::Text(about.clone())]));
        let enter = format!(
            "INSERT INTO herd.job (kind, about, arguments, router, not_before, step, call, caller) \
             VALUES ({}, {}, jsonb_strip_nulls(jsonb_build_object('settings', jsonb_build_object({}), 'undo', {})), '{:016x}', clock_timestamp() + interval '{FIRST}', 'wait', {}, {caller}) RETURNING id",
            quote_literal(&call.name),
            quote_literal(&about),
            meaning.join(", "),
            undo.map_or_else(|| "NULL".into(), |undo| quote_literal(&undo.statement())),
            self.herd.router,
            quote_literal(&call.statement()),
        );
        let rows = self.herd.own.rows(home, &enter).await?;
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
        // What a part of it has left is still being taken away, perhaps.
        let ask = format!(
            "SELECT CASE WHEN EXISTS (SELECT FROM herd.job p WHERE p.parent = j.id AND p.state = 'running') THEN 'running' ELSE j.state END, \
                    coalesce(j.result, j.state), j.error, j.sqlstate FROM herd.job j WHERE j.id = {id}"
        );
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
    /// By which its arguments are read.
    pub settings: Vec<(String, String)>,
    /// Somebody has cancelled it.
    pub cancelled: bool,
    /// The call that takes away what one that was cancelled has left, if it may leave anything.
    pub undo: Option<String>,
    tries: u32,
    desk: Conn,
}

/// How a call has ended.
pub enum Outcome {
    Done(String),
    Failed(ErrorFields),
    /// Somebody has cancelled it.
    Cancelled,
    /// The same, and what it has left can't be taken away, for this.
    Leaves(ErrorFields),
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
            "SET statement_timeout = 0; SET lock_timeout = '1s'; \
             UPDATE herd.job t SET owner_pid = a.pid, owner_start = a.backend_start, router = '{:016x}', step = 'begin', not_before = NULL, updated_at = clock_timestamp(), \
                    tries = CASE WHEN EXISTS (SELECT FROM herd.job c WHERE c.parent = t.id AND c.state = 'done' AND c.ended_at > t.updated_at) \
                                 THEN 1 ELSE t.tries + 1 END \
               FROM pg_stat_activity a WHERE a.pid = pg_backend_pid() \
                AND t.id = (SELECT j.id FROM herd.job j WHERE {free} ORDER BY j.id LIMIT 1 FOR UPDATE SKIP LOCKED) \
             RETURNING t.id, t.call, t.tries, t.cancel, t.arguments ->> 'undo', \
                       (SELECT jsonb_agg(jsonb_build_array(e.key, e.value)) FROM jsonb_each_text(t.arguments -> 'settings') e)",
            herd.router
        );
        let rows = desk.simple(&take).await?;
        let Some([Some(id), Some(call), Some(tries), Some(cancel), undo, settings]) = rows.last().map(|row| &row[..])
        else {
            return Ok(None);
        };
        let (Ok(id), Ok(tries)) = (id.parse(), tries.parse()) else {
            return Err(ExecError::internal("home told of no job"));
        };
        let settings = settings.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let (call, undo) = (call.clone(), undo.clone());
        Ok(Some(Task { id, call, settings, cancelled: cancel == "t", undo, tries, desk }))
    }

    /// In whose name, as the role is called now; none: it is gone.
    pub async fn caller(&mut self) -> Result<Option<String>> {
        let ask =
            format!("SELECT r.rolname FROM herd.job j JOIN pg_roles r ON r.oid = j.caller WHERE j.id = {}", self.id);
        Ok(self.desk.simple(&ask).await?.into_iter().flatten().flatten().next())
    }

    /// Whether nothing is left of what routers that are gone have begun in its course: of that either all has been done, or it is undone.
    pub async fn is_clear(&mut self, herd: &Herd) -> Result<bool> {
        let left = format!("SELECT FROM herd.job WHERE parent = {} AND state = 'running'", self.id);
        if self.desk.simple(&left).await?.is_empty() {
            return Ok(true);
        }
        let undone = tokio::time::timeout(UNDO_MAX, super::job::undo_orphans(&mut self.desk, herd)).await;
        self.desk.finish_given_up().await?;
        undone.unwrap_or(Ok(()))?;
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
                // Somebody looks at it for long.
                Err(e) if e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE => {}
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
                    "state = 'done', step = 'done', result = nullif({}, ''), error = NULL, sqlstate = NULL, ended_at = clock_timestamp()",
                    quote_literal(&result)
                )
            }
            Outcome::Cancelled => {
                let code = sqlstate::QUERY_CANCELED;
                format!(
                    "state = 'cancelled', error = 'it was cancelled by herd.cancel_job()', sqlstate = '{code}', ended_at = clock_timestamp()"
                )
            }
            Outcome::Leaves(fields) => {
                let why = quote_literal(&format!("what it left can't be taken away: {}", fields.message()));
                let code = sqlstate::QUERY_CANCELED;
                // How often that was tried is no matter of how often the call was made.
                const UNDONE: &str = "coalesce((arguments ->> 'undone')::int4, 0)";
                format!(
                    "cancel = true, arguments = arguments || jsonb_build_object('undone', {UNDONE} + 1), step = 'undo', error = {why}, sqlstate = '{code}', \
                     not_before = clock_timestamp() + least(0.5 * 2 ^ {UNDONE}, {PAUSE_MAX}) * interval '1 s', \
                     state = CASE WHEN {UNDONE} + 1 < {UNDO_TRIES_MAX} THEN state ELSE 'cancelled' END, \
                     ended_at = CASE WHEN {UNDONE} + 1 < {UNDO_TRIES_MAX} THEN NULL ELSE clock_timestamp() END"
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
                        let pause = (1 << self.tries.min(6)).min(PAUSE_MAX);
                        // Another job has its tables, however long: that is not its fault.
                        let (pause, tries) = match code {
                            sqlstate::OBJECT_IN_USE => (IN_USE_PAUSE, "tries - 1"),
                            _ => (pause, "tries"),
                        };
                        format!("not_before = clock_timestamp() + interval '{pause} s', step = 'wait', tries = {tries}")
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
    // A disk that is full does not get emptier by that.
    matches!(class, "08" | "40" | "53" | "57") && code != sqlstate::DISK_FULL
        || matches!(code, sqlstate::LOCK_NOT_AVAILABLE | sqlstate::OBJECT_IN_USE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_tried_again() {
        let again = ["08006", "57P01", "57P03", "40001", "40P01", "53300", "55P03", "55006"];
        assert!(again.iter().all(|code| passes(code)));
        assert!(["42P01", "42501", "0A000", "55000", "53100", "XX000", ""].iter().all(|code| !passes(code)));
    }
}
