//! A job's row in `herd.job`: whose it is, how far it has come, and what cleans up behind it.
//!
//! The connection a job is noted by is its lease: nobody else works on the job while it lives, and when it has ended (however that
//! came) the next router that looks undoes what there is, by names that no other job has. A job that has made its change says
//! so in the very transaction that makes it. It does not know what the job does, nor who does that (`beside.rs`, `move_shard.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use catalog::{Snapshot, qualified, quote_literal};
use pool::Conn;
use wire::sqlstate;

use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::router::herd::Herd;

/// How often progress is told, and it is looked whether anybody wants the end of it.
pub const NOTE_EVERY: Duration = Duration::from_millis(500);
/// How often it is tried to note that work is done that was committed before, a second each.
const DONE_TRIES_MAX: usize = 20;
/// The step of a job whose transaction is about to be committed; in its client's block that may be long.
const COMMIT: &str = "commit";
/// How long jobs that have ended are shown.
const SHOWN: &str = "30 days";

/// What a job is.
#[derive(Clone)]
pub struct Entry {
    pub kind: &'static str,
    pub about: String,
    /// The colocation group of which nothing else is moved meanwhile.
    pub group: Option<i32>,
    /// What cleaning up needs to know, as SQL that makes a `jsonb`.
    pub arguments: String,
}

impl Entry {
    /// One that leaves nothing behind, whenever its router ends.
    pub fn clean(kind: &'static str, about: String) -> Entry {
        Entry { kind, about, group: None, arguments: "jsonb_build_object()".into() }
    }
}

/// A job at work.
pub struct Job {
    pub id: i64,
    desk: Conn,
    counters: Arc<Counters>,
}

impl Job {
    /// Enters it; an error where its tables have a job already.
    ///
    /// `parent`: in whose course.
    pub async fn begin(herd: &Herd, entry: &Entry, counters: Arc<Counters>, parent: Option<i64>) -> Result<Job> {
        let mut desk = herd.own.connect(&herd.config.home).await?;
        let number = |n: Option<String>| n.unwrap_or_else(|| "NULL".into());
        let begin = format!(
            "SET statement_timeout = 0; SET lock_timeout = '1s'; DELETE FROM herd.job WHERE ended_at < now() - interval '{SHOWN}'; \
             INSERT INTO herd.job (kind, about, colocation, router, step, bytes_total, arguments, parent, owner_pid, owner_start) \
             SELECT '{}', {}, {}, '{:016x}', '{}', {}, {}, {}, a.pid, a.backend_start \
               FROM pg_stat_activity a WHERE a.pid = pg_backend_pid() RETURNING id",
            entry.kind,
            quote_literal(&entry.about),
            number(entry.group.map(|group| group.to_string())),
            herd.router,
            *counters.step.lock(),
            counters.bytes_total.load(Ordering::Relaxed),
            entry.arguments,
            number(parent.map(|parent| parent.to_string())),
        );
        let rows = match desk.simple(&begin).await {
            Err(e) if e.sqlstate() == sqlstate::UNIQUE_VIOLATION => {
                return Err(ExecError::sql(
                    sqlstate::OBJECT_IN_USE,
                    "a shard of this table, or of one colocated with it, is being moved, split or merged already",
                )
                .hint("herd.jobs shows it; SELECT herd.cancel_job(id) ends it."));
            }
            rows => rows?,
        };
        let id = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        let id = id.ok_or_else(|| ExecError::internal("home gives no number for a job"))?;
        Ok(Job { id, desk, counters })
    }

    /// Tells progress for as long as the job goes on; ends where somebody wants it to, or it is the router's no more. It may
    /// be given up half-way.
    pub async fn watch(&mut self) -> ExecError {
        loop {
            tokio::time::sleep(NOTE_EVERY).await;
            match self.note().await {
                Ok(()) => {}
                // Somebody looks at it for long.
                Err(e) if e.code() == sqlstate::LOCK_NOT_AVAILABLE => {}
                Err(e) => return e,
            }
        }
    }

    /// Tells progress now.
    pub async fn note(&mut self) -> Result<()> {
        let c = &self.counters;
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let lag = c.lag_bytes.load(Ordering::Relaxed);
        let done = self.set_done();
        let note = format!(
            "UPDATE herd.job SET step = '{}', bytes_done = {}, bytes_total = {}, rows_done = {}, changes = {}, lag_bytes = nullif({lag}, -1), {done}\
                    updated_at = clock_timestamp() \
             WHERE id = {} AND state = 'running' AND owner_pid = pg_backend_pid() RETURNING cancel",
            *c.step.lock(),
            count(&c.bytes),
            count(&c.bytes_total),
            count(&c.rows),
            count(&c.changes),
            self.id
        );
        self.desk.finish_given_up().await?;
        let rows = match self.desk.simple(&note).await {
            // Somebody has ended this statement, not the job.
            Err(e) if e.sqlstate() == sqlstate::QUERY_CANCELED => return Ok(()),
            rows => rows?,
        };
        match rows.first().and_then(|row| row.first()?.as_deref()) {
            Some("f") => Ok(()),
            Some(_) => Err(ExecError::sql(sqlstate::QUERY_CANCELED, "it was cancelled by herd.cancel_job()")),
            None => Err(ExecError::internal("another router has taken the job for one without a router")),
        }
    }

    /// Sets the names of what is done, if there are any.
    fn set_done(&self) -> String {
        let done: Vec<String> = self.counters.done.lock().iter().map(|name| quote_literal(name)).collect();
        match done.is_empty() {
            true => String::new(),
            false => format!("arguments = arguments || jsonb_build_object('done', ARRAY[{}]), ", done.join(", ")),
        }
    }

    /// What the transaction asks home that makes the change: not true where the job is the router's no more.
    pub fn done_sql(&self) -> String {
        format!("SELECT herd.job_done({}, {})", self.id, self.desk.pid())
    }

    /// Where that is not true: whether somebody has cancelled it.
    pub fn cancelled_sql(&self) -> String {
        format!("SELECT j.cancel FROM herd.job j WHERE j.id OPERATOR(pg_catalog.=) {}", self.id)
    }

    /// Tells that all has been done: nothing but the end of the transaction that says so is left.
    pub async fn note_commit(&mut self) -> Result<()> {
        *self.counters.step.lock() = COMMIT;
        match self.note().await {
            // Somebody looks at it for long: the transaction waits for him, as it would for anybody.
            Err(e) if e.code() == sqlstate::LOCK_NOT_AVAILABLE => Ok(()),
            noted => noted,
        }
    }

    /// It is done, piece by piece, and was committed so.
    pub async fn done(mut self) -> Result<()> {
        match self.note().await {
            // Too late for it.
            Err(e) if e.code() == sqlstate::QUERY_CANCELED => {}
            // Somebody looks at it for long.
            Err(e) if e.code() == sqlstate::LOCK_NOT_AVAILABLE => {}
            noted => noted?,
        }
        let done = format!(
            "UPDATE herd.job SET state = 'done', step = 'done', owner_pid = NULL, ended_at = clock_timestamp() \
             WHERE id = {} AND state = 'running' AND owner_pid = pg_backend_pid()",
            self.id
        );
        for _ in 0..DONE_TRIES_MAX {
            match self.desk.simple(&done).await {
                Err(e) if e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE => {}
                done => return done.map(drop).map_err(ExecError::from),
            }
        }
        Err(ExecError::sql(sqlstate::LOCK_NOT_AVAILABLE, "somebody keeps the job's row locked"))
    }

    /// It was over before it was entered.
    pub async fn forget(mut self) -> Result<()> {
        self.desk
            .simple(&format!("DELETE FROM herd.job WHERE id = {} AND owner_pid = pg_backend_pid()", self.id))
            .await?;
        Ok(())
    }

    /// It has come to nothing: what there is of it is undone, now if that is possible, and soon by whichever router.
    pub async fn fail(mut self, herd: &Herd, snapshot: &Snapshot, why: &ExecError) {
        let fields = why.to_fields();
        let note = format!(
            "SET lock_timeout = '1s'; UPDATE herd.job SET {}error = {}, sqlstate = {}, cancel = cancel OR {} WHERE id = {} AND state = 'running'",
            self.set_done(),
            quote_literal(fields.message()),
            quote_literal(fields.code()),
            fields.code() == sqlstate::QUERY_CANCELED,
            self.id
        );
        let noted = async {
            self.desk.finish_given_up().await?;
            self.desk.simple(&note).await
        };
        let undone = match noted.await {
            Ok(_) => undo(&mut self.desk, herd, snapshot, self.id).await.map(drop),
            Err(e) => Err(e.into()),
        };
        if let Err(error) = undone {
            tracing::warn!(job = self.id, %error, "a job that failed will be cleaned up behind later");
        }
    }
}

/// The split, or merge, that was made in the course of another job: the group, and the number of the (second) shard that it made.
pub async fn made_in(herd: &Herd, parent: i64, kind: &str) -> Result<Option<(i32, i32)>> {
    let done = format!(
        "SELECT colocation, coalesce(arguments ->> 'made', arguments ->> 'half') FROM herd.job \
          WHERE parent = {parent} AND kind = '{kind}' AND state = 'done' ORDER BY id LIMIT 1"
    );
    let rows = herd.own.rows(&herd.config.home, &done).await?;
    let number = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref()?.parse().ok());
    Ok(number(0).zip(number(1)))
}

/// Whether a job of this kind was done in the course of another one.
pub async fn is_done_in(herd: &Herd, parent: i64, kind: &str) -> Result<bool> {
    let done = format!("SELECT FROM herd.job WHERE parent = {parent} AND kind = '{kind}' AND state = 'done' LIMIT 1");
    Ok(!herd.own.rows(&herd.config.home, &done).await?.is_empty())
}

/// The names of what jobs of this kind have done in the course of another one, before their routers ended.
pub async fn done_before(herd: &Herd, parent: i64, kind: &str) -> Result<Vec<String>> {
    let done = format!(
        "SELECT DISTINCT d FROM herd.job, jsonb_array_elements_text(arguments -> 'done') AS d WHERE parent = {parent} AND kind = '{kind}'"
    );
    Ok(herd.own.rows(&herd.config.home, &done).await?.into_iter().flatten().flatten().collect())
}

/// Undoes the jobs that no router works on any more. `home`: the router's own connection.
pub async fn undo_orphans(home: &mut Conn, herd: &Herd) -> Result<()> {
    let orphans = home
        .simple("SELECT id FROM herd.job j WHERE state = 'running' AND call IS NULL AND NOT herd.has_owner(j.*)")
        .await?;
    let snapshot = herd.epoch.load().snapshot.clone();
    for row in orphans {
        let Some(id) = row.first().and_then(|id| id.as_deref()?.parse().ok()) else { continue };
        if undo(home, herd, &snapshot, id).await? {
            tracing::info!(job = id, "cleaned up behind a job that no router works on");
        }
    }
    Ok(())
}

/// One job. False: somebody else is at it, or its change is being committed.
async fn undo(home: &mut Conn, herd: &Herd, snapshot: &Snapshot, id: i64) -> Result<bool> {
    let claim = format!(
        "BEGIN; SET LOCAL lock_timeout = '1s'; SELECT arguments ->> 'from', arguments ->> 'to', arguments ->> 'name', c.copy \
         FROM herd.job LEFT JOIN LATERAL jsonb_array_elements_text(arguments -> 'copies') AS c (copy) ON true WHERE id = {id} AND state = 'running' FOR UPDATE OF job SKIP LOCKED"
    );
    let undone = async {
        let rows = home.simple(&claim).await?;
        let Some([from, to, name, _]) = rows.first().map(|row| &row[..]) else { return Ok(false) };
        // A job may have made nothing that needs to be taken away.
        let node = |id: &Option<String>| snapshot.node(id.as_deref()?.parse().ok()?).map(|node| node.id);
        let copies = rows.iter().filter_map(|row| row.get(3)?.as_deref());
        let drops: Vec<String> = copies.map(|copy| qualified("herd_shards", copy)).collect();
        if let Some(to) = node(to).filter(|_| !drops.is_empty()) {
            let mut conn = herd.admin(snapshot, to).await?;
            conn.simple(&format!("SET lock_timeout = '1s'; DROP TABLE IF EXISTS {}", drops.join(", "))).await?;
        }
        if let Some((from, name)) = node(from).zip(name.as_deref()) {
            let mut conn = herd.admin(snapshot, from).await?;
            // Its connection would notice that nobody is there, in its time.
            let slot = quote_literal(name);
            conn.simple(&format!(
                "SET lock_timeout = '1s'; SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = {slot} AND active_pid IS NOT NULL"
            ))
            .await?;
            conn.simple(&format!("DROP PUBLICATION IF EXISTS {name}")).await?;
        }
        let ended = format!(
            "UPDATE herd.job SET state = CASE WHEN cancel THEN 'cancelled' ELSE 'failed' END, owner_pid = NULL, lag_bytes = NULL, \
             error = coalesce(error, CASE step WHEN '{COMMIT}' THEN 'its transaction was rolled back' ELSE 'its router has ended' END), \
             ended_at = clock_timestamp() WHERE id = {id}"
        );
        home.simple(&ended).await?;
        Ok(true)
    };
    let undone: Result<bool> = undone.await;
    let end = if undone.is_ok() { "COMMIT" } else { "ROLLBACK" };
    home.simple(end).await?;
    undone
}
