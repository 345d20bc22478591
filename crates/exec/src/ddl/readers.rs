//! LOCK TABLE … IN ACCESS EXCLUSIVE MODE: whoever reads the table in a transaction that has begun on no node (`router/readers.rs`) is
//! waited for first. Other changes see to it where they take their locks (`lock.rs`).

use std::time::{Duration, Instant};

use catalog::{Oid, Relation};
use plan::ddl::Spread;
use plan::ddl::facts::Answers;
use sql::NodeEnum;
use sql::ast::{LockStmt, Node};
use wire::sqlstate;

use super::Limits;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::route::Forwarded;
use crate::router::pause::Who;
use crate::work::Work;

/// AccessExclusiveLock in PostgreSQL's lockdefs.h.
const ACCESS_EXCLUSIVE: i32 = 8;
/// How long those who would begin to read wait in one go.
const TRY: Duration = Duration::from_millis(250);
const SAVEPOINT: &str = "herd_lock";
const REST: Duration = Duration::from_millis(20);

impl<C: Client> Work<'_, C> {
    /// The tables of the herd that the statement wants for itself. `path`: where its names are looked up.
    pub(super) fn wanted_alone(&self, lock: &LockStmt, path: &[String]) -> Vec<Oid> {
        if lock.mode != ACCESS_EXCLUSIVE {
            return vec![];
        }
        let named = |n: &Node| match &n.node {
            Some(NodeEnum::RangeVar(rv)) => {
                let (schema, name) = sql::names::table(rv);
                self.epoch.snapshot.resolve(schema, name, path).map(|r: &std::sync::Arc<Relation>| r.oid)
            }
            _ => None,
        };
        plan::ddl::as_one(lock.relations.iter().filter_map(named), &self.epoch.snapshot)
    }

    /// Runs the statement with nobody reading the tables when it has them: whoever had begun to read before goes first.
    pub(super) async fn lock_alone(
        &mut self,
        spread: Spread,
        answers: &Answers,
        tables: &[Oid],
        nowait: bool,
    ) -> Result<Forwarded> {
        let (begun, mut limits) = (Instant::now(), None);
        loop {
            if !nowait {
                self.without_readers_in_time(tables, begun, &mut limits).await?;
            }
            if !self.transaction.is_active() {
                // An error, or nothing that lasts.
                return self.spread(spread, answers, false).await;
            }
            self.transaction.savepoint(SAVEPOINT).await?;
            let done = self.spread(spread.clone(), answers, false).await?;
            let alone = self.without_readers(tables, Duration::ZERO, true).await?;
            if !alone {
                self.transaction.rollback_to(SAVEPOINT).await?;
            }
            self.transaction.release(SAVEPOINT).await?;
            match (alone, nowait) {
                (true, _) => {
                    self.transaction.has_alone(tables.iter().copied());
                    return Ok(done);
                }
                (false, true) => {
                    return Err(ExecError::sql(sqlstate::LOCK_NOT_AVAILABLE, "could not obtain lock on relation"));
                }
                (false, false) => {}
            }
        }
    }

    /// Waits for those who read, as long as the client lets it; who would begin to waits meanwhile.
    async fn without_readers_in_time(
        &mut self,
        tables: &[Oid],
        begun: Instant,
        limits: &mut Option<Limits>,
    ) -> Result<()> {
        while !self.without_readers(tables, Duration::ZERO, true).await? {
            let pause = self.herd.pauses.begin(tables, Who::All, TRY);
            self.herd.announce_pause(pause).await;
            let gone = self.without_readers(tables, TRY, true).await;
            self.herd.end_pauses(&[pause]).await;
            if gone? {
                break;
            }
            if limits.is_none() {
                *limits = Some(self.limits(begun).await?);
            }
            self.rest(limits.as_ref(), REST).await?;
        }
        Ok(())
    }
}
