//! The moment in which a shard changes its node, becomes two, or one with another: a change of the catalog like any DDL, in the client's transaction.
//!
//! It takes all locks of the group's tables on all nodes, in short tries; then nothing more can be written, and the copy is brought up
//! to date. All partitions of these tables get names that nothing ever had (as `plan/src/ddl/renew.rs` says of other changes), so
//! that whoever was planned for the old placement finds nothing and is planned anew, whichever node he asks; and `kinds` is raised, so that
//! transactions which read repeatably do not look for rows where they were not. It does not know how the copy was made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wire::sqlstate;

use catalog::{NodeId, quote_ident, quote_literal};

use super::changes::changed;
use super::plan::Move;
use super::self_references;
use super::stream::Stream;
use crate::admin::job::Job;
use crate::admin::kind::waits;
use crate::client::Client;
use crate::ddl::Locks;
use crate::error::{ExecError, Result};
use crate::router::pause::Who;
use crate::work::Work;

/// How often the moment is tried: some minutes.
const TRIES_MAX: usize = 200;
const TRY_EVERY: Duration = Duration::from_millis(300);
/// How long a try takes its locks: all that is written meanwhile is applied under them.
const LOCKS_MAX: Duration = Duration::from_secs(2);
/// As [`LOCKS_MAX`], of a patient one, in front of which others wait for as long.
const PATIENT_MAX: Duration = Duration::from_secs(5);
/// Behind so many that did not get the locks, every other one is patient: who holds the tables may wait in circles, again and again, and those are
/// broken after a second only.
const SHORT_TRIES: usize = 3;

impl<C: Client> Work<'_, C> {
    /// Leaves a transaction that is to be committed.
    pub(super) async fn switch(&mut self, of: &Move, stream: &mut Stream, job: &mut Job) -> Result<()> {
        // Tries in which others had the tables. What fails under the locks gets no better by waiting for them.
        let mut crowded = 0;
        for attempt in 1.. {
            let given_up = tokio::select! {
                biased;
                () = self.client.cancelled() => Some(ExecError::cancelled()),
                why = job.watch() => Some(why),
                followed = stream.follow() => followed.map(|()| None)?,
            };
            if let Some(why) = given_up {
                return Err(why);
            }
            job.note().await?;
            self.transaction.begin("BEGIN ISOLATION LEVEL READ COMMITTED", false);
            let patient = crowded >= SHORT_TRIES && crowded % 2 == 1;
            let done = match self.lock_group(of, patient).await {
                Ok(()) => self.switch_locked(of, stream, job).await,
                Err(e) => {
                    crowded += 1;
                    Err(e)
                }
            };
            let Err(e) = done else { return Ok(()) };
            self.roll_back_and_go_on().await;
            let kept = std::mem::take(&mut self.transaction.kept);
            kept.into_iter().for_each(|lane| drop(self.pin.put_back(lane)));
            let pauses = std::mem::take(&mut self.transaction.pauses);
            self.herd.end_pauses(&pauses).await;
            const AGAIN: [&str; 3] =
                [sqlstate::T_R_DEADLOCK_DETECTED, sqlstate::LOCK_NOT_AVAILABLE, sqlstate::T_R_SERIALIZATION_FAILURE];
            // It begins anew each time, and so is the youngest in every circle.
            let broken = e.code() == sqlstate::QUERY_CANCELED && self.client.survives_deadlock().await;
            if attempt >= TRIES_MAX || !broken && !AGAIN.contains(&e.code().as_str()) {
                return Err(e);
            }
            self.client.waits();
            self.rest(None, TRY_EVERY.mul_f64(0.5 + rand::random::<f64>())).await?;
        }
        Ok(())
    }

    /// All locks of the group's tables, and of those that they refer to.
    async fn lock_group(&mut self, of: &Move, patient: bool) -> Result<()> {
        let (relations, oids) = (of.relations(), of.oids());
        let mut referenced: Vec<Arc<catalog::Relation>> = Vec::new();
        for table in &relations {
            for r in self.referenced(table, &of.snapshot).await? {
                if !oids.contains(&r.oid) && !referenced.iter().any(|known| known.oid == r.oid) {
                    referenced.push(r);
                }
            }
        }
        let locks = Locks::of_group(&relations, &referenced).patiently(patient);
        let herd = self.herd.clone();
        let taken = match patient {
            false => tokio::time::timeout(LOCKS_MAX, self.take_locks(&locks)).await,
            true => {
                // Who waits in front may be waited for by who holds the tables: that ends with the try.
                let taking = tokio::time::timeout(PATIENT_MAX, self.take_locks(&locks));
                let (taken, pause) = herd.keep_paused(&oids, Who::All, || async { false }, taking).await;
                self.transaction.pauses.extend(pause);
                taken
            }
        };
        taken.unwrap_or_else(|_| Err(in_use())).map_err(|e| match e.code().as_str() {
            // It has another name by now, or is none of the herd's any more.
            sqlstate::UNDEFINED_TABLE | sqlstate::INVALID_SCHEMA_NAME => changed(),
            _ => e,
        })
    }

    async fn switch_locked(&mut self, of: &Move, stream: &mut Stream, job: &mut Job) -> Result<()> {
        let (herd, oids) = (self.herd.clone(), of.oids());
        let snapshot = self.snapshot_now().await?;
        of.is_still(&snapshot)?;
        self.raises_epoch();
        let backends = self.backends(&snapshot).await?;
        let work = self.under_locks(of, stream, job);
        let (done, pause) = herd.keep_paused(&oids, Who::All, || waits(&herd, &backends), work).await;
        self.transaction.pauses.extend(pause);
        done
    }

    async fn under_locks(&mut self, of: &Move, stream: &mut Stream, job: &mut Job) -> Result<()> {
        for (t, part) in of.parts() {
            let name = quote_literal(&part.name);
            let facts = format!("SELECT herd.move_facts({}, {name}::pg_catalog.regclass)", t.parent());
            let mark = self.ask_on(of.from, &format!("{facts} OPERATOR(pg_catalog.->>) 'mark'")).await?;
            if mark.as_ref() != Some(&part.mark) {
                return Err(changed());
            }
        }
        let mut p = self.lane(of.to).await?;
        p.wrote = true;
        let finished = stream.finish(&mut p.lane).await;
        self.put_back(p).await;
        finished?;
        txn::failpoint::reached("move.locked").await;
        let mut texts: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
        let home = of.snapshot.home;
        let shards = of.snapshot.groups.get(&of.group).map(|g| &g.shards[..]).unwrap_or_default();
        let self_references = self.self_references(of).await?;
        self_references::drop_all(of, &self_references, &mut texts);
        // Who refers to others leaves first, and comes last.
        for t in of.tables.iter().rev() {
            for part in &t.parts {
                let part = quote_literal(&part.name);
                let leave = format!("SELECT herd.move_leave({}, {part}::pg_catalog.regclass)", t.parent());
                texts.entry(of.from).or_default().push(leave);
            }
        }
        for t in &of.tables {
            let prefix = self.new_prefix(&t.relation.name, false).await?;
            let prefix = prefix.ok_or_else(|| ExecError::internal("home gives no names for partitions"))?;
            let enter = texts.entry(of.to).or_default();
            for piece in of.pieces(t) {
                let wanted = quote_literal(&format!("{prefix}_{}", piece.number));
                enter.push(t.call("herd.move_enter", &piece, &format!(", {wanted}")));
            }
            if of.into.is_some() {
                enter.push(format!("DROP TABLE {}", t.fresh()));
            }
            for shard in shards.iter().filter(|s| !of.shards.contains(&s.number)) {
                let name = |prefix: &str| quote_ident(&format!("{prefix}_{}", shard.number));
                let rename = format!("ALTER TABLE herd_shards.{} RENAME TO {}", name(&t.prefix), name(&prefix));
                texts.entry(shard.node).or_default().push(rename);
            }
            let token = self.herd.config.seal.token_hex(&format!("prefix {} {} {prefix}", t.prefix.len(), t.prefix));
            let (old, new) = (quote_literal(&t.prefix), quote_literal(&prefix));
            let follow = format!("SELECT herd.follow_prefix({old}, {new}, pg_catalog.decode('{token}', 'hex'))");
            texts.entry(home).or_default().push(follow);
        }
        self_references::add_all(of, &self_references, self.herd.router, &mut texts);
        texts.entry(of.from).or_default().push(format!("DROP PUBLICATION {}", of.publication()));
        // No table of that name: it is nobody's new one that is met.
        let kinds = "INSERT INTO herd.changed (schema, name) VALUES ('', '')".to_string();
        texts.entry(home).or_default().extend(in_catalog(of).into_iter().chain([kinds]));
        for (node, texts) in texts {
            let mut p = self.lane(node).await?;
            p.wrote = true;
            let done = p.lane.run(&texts.join("; ")).await;
            self.put_back(p).await;
            done?;
        }
        job.note().await?;
        // The last, as it holds the row.
        match self.ask_on(home, &job.done_sql()).await?.as_deref() {
            Some("t") => Ok(()),
            _ => Err(ExecError::sql(sqlstate::QUERY_CANCELED, "it was cancelled")),
        }
    }

    /// The first value of what a node answers, inside the transaction.
    async fn ask_on(&mut self, node: NodeId, sql: &str) -> Result<Option<String>> {
        Ok(self.row_on(node, sql).await?.into_iter().next().flatten())
    }
}

/// What the catalog says of shards from now on.
fn in_catalog(of: &Move) -> Vec<String> {
    let group = of.group;
    let of_group =
        |change: &str| format!("UPDATE herd.colocation SET {change} WHERE id OPERATOR(pg_catalog.=) {group}");
    let this = |number: i32| {
        format!("WHERE colocation OPERATOR(pg_catalog.=) {group} AND number OPERATOR(pg_catalog.=) {number}")
    };
    let mut texts = vec![of_group("moves = moves OPERATOR(pg_catalog.+) 1")];
    let Some(into) = &of.into else {
        texts.push(format!("UPDATE herd.shard SET node = {} {}", of.to, this(of.shard())));
        return texts;
    };
    let stays = |number: i32| into.iter().any(|new| new.number == number);
    texts.extend(of.shards.iter().filter(|n| !stays(**n)).map(|n| format!("DELETE FROM herd.shard {}", this(*n))));
    for new in into {
        let (number, bound) = (new.number, quote_literal(&new.bound));
        texts.push(match of.shards.contains(&number) {
            true => format!("UPDATE herd.shard SET bound = {bound} {}", this(number)),
            false => format!(
                "INSERT INTO herd.shard (colocation, number, node, bound) VALUES ({group}, {number}, {}, {bound})",
                of.to
            ),
        });
    }
    let more = into.len() as i64 - of.shards.len() as i64;
    texts.push(of_group(&format!("shard_count = shard_count OPERATOR(pg_catalog.+) ({more})")));
    texts
}

fn in_use() -> ExecError {
    ExecError::sql(sqlstate::LOCK_NOT_AVAILABLE, "the shard is in use")
        .hint("Transactions that stay open on the table must end first; herd.locks shows who waits for whom.")
}
