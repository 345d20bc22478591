//! Statements that have tables for themselves by locks that nodes take for them: LOCK TABLE, and what reaches tables that it does not name
//! (TRUNCATE … CASCADE, DROP … CASCADE). Behind them it is asked whether somebody has read such a table in a transaction that has begun on no node
//! (`router/readers.rs`): he goes first, and the statement runs again. Other changes see to it where they take their locks (`lock.rs`).

use std::time::{Duration, Instant};

use catalog::Oid;
use plan::ddl::Spread;
use plan::ddl::facts::Answers;
use plan::ddl::{read_by, with_partitions};
use sql::NodeEnum;
use sql::ast::LockStmt;
use wire::sqlstate;

use super::Limits;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::route::Forwarded;
use crate::router::pause::{PAUSE_MAX, Who};
use crate::work::Work;

/// AccessExclusiveLock in PostgreSQL's lockdefs.h.
const ACCESS_EXCLUSIVE: i32 = 8;
const SAVEPOINT: &str = "herd_alone";
const REST: Duration = Duration::from_millis(20);

/// What a statement has for itself.
pub(super) struct Alone {
    /// `None`: home is asked what it has locked so.
    tables: Option<Vec<Oid>>,
    nowait: bool,
}

impl Alone {
    /// Of these statements. `named`: the tables that LOCK TABLE is about, if it says so itself.
    pub(super) fn of(statement: &NodeEnum, named: impl Fn(&LockStmt) -> Option<Vec<Oid>>) -> Option<Self> {
        match statement {
            NodeEnum::LockStmt(lock) if lock.mode == ACCESS_EXCLUSIVE => {
                Some(Alone { tables: named(lock), nowait: lock.nowait })
            }
            other => plan::ddl::reaches_others(other).then_some(Alone { tables: None, nowait: false }),
        }
    }
}

impl<C: Client> Work<'_, C> {
    /// Runs the statement with nobody reading what it has for itself. What waits to read meanwhile waits until the transaction ends.
    pub(super) async fn spread_alone(
        &mut self,
        spread: Spread,
        answers: &Answers,
        raises_epoch: bool,
        alone: &Alone,
    ) -> Result<Forwarded> {
        if !self.transaction.is_active() || alone.tables.as_ref().is_some_and(Vec::is_empty) {
            return self.spread(spread, answers, raises_epoch).await;
        }
        self.stand_on_nodes().await?;
        let (mut wait, mut pause) = ((Instant::now(), None), None);
        let done = self.tried_alone(spread, answers, raises_epoch, alone, &mut wait, &mut pause).await;
        match &done {
            Ok(_) => self.transaction.pauses.extend(pause),
            Err(_) => self.herd.end_pauses(pause.as_slice()).await,
        }
        done
    }

    /// The same, until it succeeds. `pause`: the one that is left.
    async fn tried_alone(
        &mut self,
        spread: Spread,
        answers: &Answers,
        raises_epoch: bool,
        alone: &Alone,
        wait: &mut (Instant, Option<Limits>),
        pause: &mut Option<u64>,
    ) -> Result<Forwarded> {
        loop {
            self.transaction.savepoint(SAVEPOINT).await?;
            let done = self.spread(spread.clone(), answers, raises_epoch).await?;
            let has = match &alone.tables {
                Some(tables) => tables.clone(),
                None => self.has_locked().await?,
            };
            if self.without_readers(&has, Duration::ZERO, true).await? {
                self.transaction.release(SAVEPOINT).await?;
                self.transaction.has_alone(has);
                return Ok(done);
            }
            if alone.nowait {
                return Err(ExecError::sql(sqlstate::LOCK_NOT_AVAILABLE, "could not obtain lock on relation"));
            }
            self.transaction.rollback_to(SAVEPOINT).await?;
            self.transaction.release(SAVEPOINT).await?;
            self.let_go_first(&has, wait, pause).await?;
        }
    }

    /// Home says which of the herd's tables the transaction has for itself.
    async fn has_locked(&mut self) -> Result<Vec<Oid>> {
        const LOCKED: &str = "SELECT l.relation FROM pg_catalog.pg_locks l \
             WHERE l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND l.locktype OPERATOR(pg_catalog.=) 'relation' \
               AND l.mode OPERATOR(pg_catalog.=) 'AccessExclusiveLock' AND l.granted";
        let rows = self.ask_home(LOCKED).await?;
        let locked: Vec<Oid> = rows.iter().filter_map(|r| r.first()?.as_deref()?.parse().ok()).collect();
        let herd = self.epoch.snapshot.relations.values().filter(|r| r.distribution().is_some());
        Ok(herd.map(|r| r.oid).filter(|oid| locked.contains(oid)).collect())
    }

    /// Waits until those who read have ended, as long as the client lets it; who would begin to waits meanwhile, and until the
    /// statement has run again.
    async fn let_go_first(
        &mut self,
        tables: &[Oid],
        (begun, limits): &mut (Instant, Option<Limits>),
        pause: &mut Option<u64>,
    ) -> Result<()> {
        let paused = read_by(tables.iter().copied(), &self.epoch.snapshot);
        loop {
            if limits.is_none() {
                *limits = Some(self.limits(*begun).await?);
            }
            let new = self.herd.pauses.begin(&paused, Who::All, PAUSE_MAX);
            self.herd.announce_pause(new).await;
            self.herd.end_pauses(pause.replace(new).as_slice()).await;
            let gone = self.without_readers(tables, PAUSE_MAX / 4, true).await?;
            self.rest(limits.as_ref(), if gone { Duration::ZERO } else { REST }).await?;
            if gone {
                return Ok(());
            }
        }
    }

    /// What LOCK TABLE locks of the herd's; `None` if it names a view, and what that reads is home's to say.
    pub(super) fn locked_by(&self, lock: &LockStmt, path: &[String], temporary: &[String]) -> Option<Vec<Oid>> {
        let snapshot = &self.epoch.snapshot;
        let named = lock.relations.iter().filter_map(|n| match &n.node {
            Some(NodeEnum::RangeVar(rv)) => Some(rv),
            _ => None,
        });
        let found = named.filter_map(|rv| {
            let (schema, name) = sql::names::table(rv);
            let hidden = schema.is_none() && temporary.iter().any(|t| t == name);
            Some((rv.inh, snapshot.resolve(schema, name, path).filter(|_| !hidden)?))
        });
        let mut oids = Vec::new();
        for (all, r) in found {
            match (r.view.is_some(), r.distribution().is_some()) {
                (true, _) => return None,
                (false, true) if all => oids.extend(with_partitions([r.oid], snapshot)),
                (false, true) => oids.push(r.oid),
                (false, false) => {}
            }
        }
        Some(oids)
    }
}
