//! A batch on its way: what is put on the connection, and which of the replies is whose. Whether it had to be is not decided here.

use pool::{PoolError, PooledConn, Progress, StatementKey};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::sqlstate;

use bytes::Bytes;
use wire::{ErrorFields, backend, frame, put};

use crate::queue::SharedQueue;
use crate::{Job, LOCK_TIMEOUT, Many, NO_PARAMETERS, Outcome, QueueKind, Reply};

/// A batch on its way.
pub(super) struct Batch {
    /// The first execution is the queue's own, not a job's.
    own: bool,
    /// Replies wait until all of the batch is done: for the commit, for guards, or for a standby to say that it still is one.
    pub(super) hold: bool,
    /// Those that wait.
    pub(super) done: Vec<Outcome>,
    /// How many jobs each execution not yet answered is for, in order.
    executions: VecDeque<usize>,
    /// What some of them were put together by.
    together: Vec<Arc<Many>>,
}

impl Batch {
    pub(super) fn send(queue: &SharedQueue, conn: &mut PooledConn, jobs: &mut [Job]) -> Batch {
        let mut batch = Batch {
            own: false,
            hold: queue.kind == QueueKind::Write || queue.target.standby_of.is_some(),
            done: Vec::new(),
            executions: VecDeque::new(),
            together: Vec::new(),
        };
        if jobs.len() > 1 && queue.kind == QueueKind::Write {
            put_lock_timeout(queue, conn);
            batch.own = true;
        }
        // Those that can be one statement come together.
        if queue.kind == QueueKind::Write {
            jobs.sort_by_cached_key(|job| job.statement.many_key());
        }
        for alike in jobs.chunk_by(|a, b| a.statement.many_key().is_some_and(|key| b.statement.many_key() == Some(key)))
        {
            batch.execute(queue, conn, alike);
        }
        let together = batch.together.clone();
        let guards = together.iter().filter_map(|many| many.guard());
        let mut guards: Vec<_> = guards.chain(jobs.iter().filter_map(|j| j.statement.guard.as_ref())).collect();
        guards.sort();
        guards.dedup();
        batch.hold |= !guards.is_empty();
        for (key, sql) in guards {
            put_prepared(conn, *key, sql, &[], &NO_PARAMETERS);
        }
        put::sync(conn.out());
        conn.sent_sync();
        batch
    }

    /// Executes what is alike in as few statements as it may be.
    fn execute(&mut self, queue: &SharedQueue, conn: &mut PooledConn, mut alike: &[Job]) {
        while let [first, ..] = alike {
            let many = first.statement.many.as_ref();
            let (now, rest) = alike.split_at(many.map_or(1, |many| many.length(alike.len())));
            let together = many.filter(|_| now.len() > 1);
            match together.and_then(|many| Some((many, many.bind(now.iter().map(|job| &job.bind[..]))?))) {
                Some((many, bind)) => {
                    queue.counters.merged.fetch_add(now.len() as u64, Ordering::Relaxed);
                    let rows = many.rows(now.len());
                    put_prepared(conn, rows.key, &rows.text, &rows.types, &bind);
                    self.executions.push_back(now.len());
                    self.together.push(many.clone());
                }
                None => {
                    for job in now {
                        let s = &job.statement;
                        put_prepared(conn, s.key, &s.text, &s.types, &job.bind);
                        self.executions.push_back(1);
                    }
                }
            }
            alike = rest;
        }
    }

    /// Reads to ReadyForQuery. True: all of it is done. Reads are handed out as they come; what remains in `jobs`
    /// afterwards has not happened.
    pub(super) async fn receive(
        &mut self,
        queue: &SharedQueue,
        conn: &mut PooledConn,
        jobs: &mut Vec<Job>,
    ) -> Result<bool, PoolError> {
        while conn.flush_or_fill().await? == Progress::Filled {}
        let (mut failed, mut unfit, mut held) = (false, false, 0);
        let mut messages: Vec<Bytes> = Vec::new();
        // Jobs are taken from the front as they complete; a vector in reverse makes that cheap.
        if !self.hold {
            jobs.reverse();
        }
        loop {
            if !self.own {
                let rbuf = conn.rbuf();
                let at = frame::run_of_rows(rbuf);
                if at > 0 {
                    messages.push(rbuf.split_to(at).freeze());
                    held += at;
                    if held <= frame::LONG {
                        continue;
                    }
                }
            }
            let long = held > frame::LONG || !self.hold && frame::long_row(conn.rbuf()).is_some();
            if long && queue.kind == QueueKind::Read {
                // By itself it need not be held; the others begin again, too.
                if let Some(job) = self.in_turn(jobs) {
                    job.statement.set_apart();
                }
                conn.mark_broken();
                return Err(conn.gone());
            }
            let Some(frame) = conn.buffered_frame()? else {
                conn.fill().await?;
                continue;
            };
            match frame.tag() {
                b'Z' => break,
                b'E' => {
                    let fields = ErrorFields::parse(frame.body())?;
                    if fields.is_fatal() {
                        return Err(PoolError::Server(Box::new(fields)));
                    }
                    // What it has prepared is for other columns.
                    unfit |= fields.has_other_columns();
                    if !failed {
                        self.note_failure(&fields, jobs);
                    }
                    failed = true;
                }
                b'C' if self.own => self.own = false,
                // A guard's.
                b'C' if self.hold && self.done.len() == jobs.len() => {}
                b'C' | b'I' if !failed => {
                    let tag = match frame.tag() {
                        b'C' => backend::parse_command_complete(frame.body())?.to_string(),
                        _ => String::new(),
                    };
                    let messages = std::mem::take(&mut messages);
                    held = 0;
                    match self.executions.pop_front().unwrap_or(1) {
                        1 if self.hold => self.done.push(Outcome::Done(Reply { messages, tag })),
                        1 => {
                            if let Some(job) = jobs.pop() {
                                let _ = job.reply.send(Outcome::Done(Reply { messages, tag }));
                            }
                        }
                        n => self.done_together(queue, n, &tag, !messages.is_empty(), jobs),
                    }
                }
                b'N' if !self.own => messages.push(frame.raw),
                _ => {}
            }
        }
        if unfit {
            conn.mark_broken();
        }
        if !failed && self.hold && self.done.len() != jobs.len() {
            return Err(PoolError::Closed {
                node: queue.target.to_string(),
                reason: format!("{} of {} statements were answered", self.done.len(), jobs.len()),
            });
        }
        // A write whose commit failed (a deferred constraint) has failed with all others.
        Ok(!failed && conn.status() == backend::IDLE && !conn.is_broken())
    }

    /// Whose reply comes next.
    fn in_turn<'j>(&self, jobs: &'j [Job]) -> Option<&'j Job> {
        if self.hold { jobs.get(self.done.len()) } else { jobs.last() }
    }

    /// One statement of `n` rows is done.
    fn done_together(&mut self, queue: &SharedQueue, n: usize, tag: &str, notices: bool, jobs: &[Job]) {
        let short = backend::rows_of_tag(tag) != n as u64;
        if notices && let Some(job) = jobs.get(self.done.len()) {
            // Whose notice it is nobody knows.
            queue.refuse(&job.statement);
        }
        let one = || match short {
            false => Outcome::Done(Reply { messages: vec![], tag: "INSERT 0 1".into() }),
            // A trigger or rule that was made a moment ago, or on a node itself: otherwise they would not be here.
            true => Outcome::Lost(PoolError::Server(Box::new(ErrorFields::with_severity(
                "ERROR",
                sqlstate::TRANSACTION_RESOLUTION_UNKNOWN,
                "the outcome of the statement is not known: a trigger has left out rows of several clients",
            )))),
        };
        self.done.extend(std::iter::repeat_with(one).take(n));
    }

    /// One that waits for others' locks, or runs for long, shall not make more clients wait.
    fn note_failure(&self, error: &ErrorFields, jobs: &[Job]) {
        // division_by_zero: a guard's.
        if error.code() == sqlstate::DIVISION_BY_ZERO {
            self.together.iter().for_each(|many| many.set_apart());
        }
        // lock_not_available, query_canceled, deadlock_detected
        if !matches!(
            error.code(),
            sqlstate::LOCK_NOT_AVAILABLE | sqlstate::QUERY_CANCELED | sqlstate::T_R_DEADLOCK_DETECTED
        ) {
            return;
        }
        let Some(faulty) = self.in_turn(jobs) else { return };
        match (&faulty.statement.many, self.executions.front()) {
            // Which of them it is will be seen.
            (Some(many), Some(2..)) => many.set_apart(),
            _ => faulty.statement.set_apart(),
        }
    }
}

/// Who waits for a lock shall not make the others of its batch wait: to the end of the transaction. Of reads see `waits.rs`.
pub(super) fn put_lock_timeout(queue: &SharedQueue, conn: &mut PooledConn) {
    let most = queue.settings.at_most("lock_timeout", LOCK_TIMEOUT);
    let sql = format!("SELECT pg_catalog.set_config('lock_timeout','{}ms',true)", most.as_millis());
    put_prepared(conn, StatementKey::of(&sql, &[]), &sql, &[], &NO_PARAMETERS);
}

fn put_prepared(conn: &mut PooledConn, key: StatementKey, text: &str, types: &[u32], bind: &[u8]) {
    let (name, _) = conn.prepare(key, text, types);
    put::bind_tail(conn.out(), "", &name, bind);
    put::execute(conn.out(), "", 0);
}
