//! Runs a utility statement: home first, whose error is the client's before any other node is touched, then the other
//! nodes side by side, then the new epoch. Who commits, and tells the other routers, is the session.

use std::sync::Arc;
use std::time::Instant;
use wire::sqlstate;

use catalog::{NodeId, TemporaryRelation};
use sql::NodeEnum;

use plan::ddl::facts::{self, Answers};
use plan::ddl::{
    Ddl, Facts, Mode, NodeSteps, Spread, Step, changes_catalog, classify, command, is_temporary, tells_password,
};

use super::readers::Alone;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::route::Forwarded;
use crate::router::compiled::Epoch;
use crate::router::pause::{Begins, CATALOG};
use crate::work::Work;
use crate::work::own_catalog::load_own;

/// How many pauses for the catalog's lock a change waits for: some seconds.
const TURNS_MAX: usize = 4;

impl<C: Client> Work<'_, C> {
    /// Runs a utility statement; None if it is not one of this kind. In a transaction afterwards, it is the caller's to
    /// commit. `search_path` and `temporary` are the session's.
    pub async fn ddl(
        &mut self,
        statement: &NodeEnum,
        sql: &str,
        search_path: &[String],
        temporary: &[TemporaryRelation],
    ) -> Result<Option<Forwarded>> {
        let mode = Mode::of(statement);
        if mode == Mode::NotDdl || is_temporary(statement, temporary) {
            return Ok(None);
        }
        let block = self.transaction.is_active();
        if mode == Mode::Changes && !block {
            self.give_way().await?;
        }
        if mode != Mode::Plain {
            self.need_transaction();
        }
        let hashed = match tells_password(statement) {
            true => self.hashed(statement).await?,
            false => None,
        };
        let (statement, sql) = match &hashed {
            Some(changed) => (changed, sql::deparse(changed)?),
            None => (statement, sql.to_string()),
        };
        let mut facts = Facts {
            search_path: search_path.to_vec(),
            temporary: temporary.to_vec(),
            unguessed: rand::random(),
            ..Facts::default()
        };
        let mut answers = self.ask(mode, statement, &facts).await?;
        let mut newer = None;
        if answers.epoch != self.epoch.snapshot.epoch {
            newer = Some(self.newer(answers.epoch).await?);
        }
        let own_catalog = self.own_catalog;
        let epoch = newer.as_ref().unwrap_or(self.epoch);
        let mut work = self.with_epoch(epoch, own_catalog);
        if newer.is_some() {
            // What was asked went by the old snapshot's names.
            answers = work.ask(mode, statement, &facts).await?;
        }
        facts.take(&mut answers);
        let ddl = classify(statement, &sql, &work.epoch.snapshot, &facts);
        let done = work.run_ddl(ddl, statement, &sql, &facts, &answers, block).await;
        match done {
            Ok(forwarded) => Ok(forwarded),
            Err(e) => Err(crate::router::names::restore_error(work.herd, &work.epoch.snapshot, e).await),
        }
    }

    /// Somebody wants the catalog for himself, and has waited for changes that came before: he goes first, for a while.
    async fn give_way(&mut self) -> Result<()> {
        let (begun, writes) = (Instant::now(), Begins { writes: true, in_block: false });
        for _ in 0..TURNS_MAX {
            if self.herd.pauses.none() {
                break;
            }
            let limits = self.limits(begun).await?;
            tokio::select! {
                biased;
                () = self.client.cancelled() => return Err(ExecError::cancelled()),
                _ = self.herd.pauses.wait(&[CATALOG], writes, &[], |_| false) => limits.check()?,
            }
        }
        Ok(())
    }

    pub(super) fn with_epoch<'s>(&'s mut self, epoch: &'s Arc<Epoch>, own_catalog: bool) -> Work<'s, C> {
        let who = (self.login, self.settings);
        Work {
            own_catalog,
            taint: self.taint,
            sequences: self.sequences.as_deref_mut(),
            reading: self.reading,
            uses: self.uses.clone(),
            now: self.now.clone(),
            ..Work::plain(self.herd, epoch, who, self.transaction, self.client, self.pin, self.memory)
        }
    }

    async fn ask(&mut self, mode: Mode, statement: &NodeEnum, facts: &Facts) -> Result<Answers> {
        let question = facts::question(mode, statement, &self.epoch.snapshot, facts);
        if self.before_snapshot() {
            let home = self.home();
            return Ok(facts::answers(self.outside(home).await?.rows(&question).await?));
        }
        Ok(facts::answers(self.ask_home(&question).await?))
    }

    /// The catalog as it is now: a statement classified by an old one could reach too few nodes.
    async fn newer(&mut self, epoch: i64) -> Result<Arc<Epoch>> {
        if self.transaction.is_active() && !self.before_snapshot() {
            return load_own(self).await;
        }
        self.herd.refresh(Some(epoch)).await?;
        Ok(self.herd.epoch.load_full())
    }

    async fn run_ddl(
        &mut self,
        ddl: Ddl,
        statement: &NodeEnum,
        sql: &str,
        facts: &Facts,
        answers: &Answers,
        block: bool,
    ) -> Result<Option<Forwarded>> {
        let mode = Mode::of(statement);
        let together = mode == Mode::Plain && matches!(ddl, Ddl::Nodes(_));
        let forwarded = match ddl {
            Ddl::NotDdl => return Ok(None),
            Ddl::Refuse(refusal) => return Err(refusal.into()),
            Ddl::Home => {
                let spread = Spread {
                    nodes: vec![NodeSteps { node: self.home(), steps: vec![Step::new(sql)] }],
                    read_only: matches!(statement, NodeEnum::LockStmt(_)),
                    ..Spread::default()
                };
                self.spread(spread, answers, mode == Mode::Changes).await?
            }
            Ddl::Nodes(spread) => {
                // DETACH and DROP INDEX CONCURRENTLY, which PostgreSQL does in transactions of its own, are one over the nodes.
                if together {
                    if block {
                        return Err(ExecError::sql(
                            sqlstate::ACTIVE_SQL_TRANSACTION,
                            format!("{} cannot run inside a transaction block", command(statement)),
                        ));
                    }
                    self.need_transaction();
                }
                let done = self.on_nodes(*spread, statement, facts, answers).await;
                match done {
                    // The herd's table that it waited for has become a local one, or its partitions have got other names.
                    Err(e) if e.code() == sqlstate::UNDEFINED_TABLE && self.kinds_have_changed().await? => {
                        return Err(ExecError::Stale);
                    }
                    done => done?,
                }
            }
            Ddl::Autocommit(spread) => {
                // What is one step on one node is refused there.
                if block && (spread.nodes.len() > 1 || spread.nodes.iter().any(|n| n.steps.len() > 1)) {
                    return Err(ExecError::sql(
                        sqlstate::ACTIVE_SQL_TRANSACTION,
                        format!("{} cannot run inside a transaction block", command(statement)),
                    ));
                }
                self.each_by_itself(*spread).await?
            }
            Ddl::CreateTableAs { create, insert } => self.create_table_as(&create, &insert, &facts.temporary).await?,
            Ddl::Partition(new) => self.new_partition(&new, true).await?,
            Ddl::Materialize(view) => self.materialize(&view, &facts.temporary).await?,
        };
        if mode == Mode::Plain && changes_catalog(statement) && !block {
            // What PostgreSQL does not do in a transaction is done; now the routers must hear of it.
            self.need_transaction();
            self.join_all().await?;
            self.raises_epoch();
        }
        if matches!(mode, Mode::Uses | Mode::Changes) || together {
            // A table that became distributed meanwhile is on other nodes, too, and a node that has come needs all of it.
            self.same_kinds().await?;
        }
        Ok(Some(forwarded))
    }

    async fn on_nodes(
        &mut self,
        mut spread: Spread,
        statement: &NodeEnum,
        facts: &Facts,
        answers: &Answers,
    ) -> Result<Forwarded> {
        if let Some(locks) = plan::ddl::locks(statement, &self.epoch.snapshot, facts) {
            self.take_locks(&locks.into()).await?;
        }
        self.renew(&mut spread, &plan::ddl::renewed(statement, &self.epoch.snapshot, facts)).await?;
        let (view, constraints_of) = (spread.view.take(), spread.constraints_of.take());
        let temporary: Vec<String> = facts.temporary.iter().map(|t| t.name.clone()).collect();
        let alone = Alone::of(statement, |lock| self.locked_by(lock, &facts.search_path, &temporary));
        let changes = Mode::of(statement) == Mode::Changes;
        let forwarded = match &alone {
            Some(alone) => Box::pin(self.spread_alone(spread, answers, changes, alone)).await?,
            None => self.spread(spread, answers, changes).await?,
        };
        if let Some(table) = constraints_of {
            self.constraints_as_on_home(&table).await?;
        }
        let lost = plan::ddl::loses_partitions(statement, &self.epoch.snapshot, facts);
        self.rest_has_changed(&lost).await?;
        if let Some((schema, name)) = view {
            self.view_elsewhere(&schema, &name).await?;
        }
        Ok(forwarded)
    }

    /// The transaction changes the catalog: routers hear of it when it commits.
    pub fn raises_epoch(&mut self) {
        self.transaction.raises_epoch = Some(self.home());
        self.transaction.schema_fingerprint = Some(self.herd.next_transaction());
    }

    /// Every node takes part in the transaction.
    async fn join_all(&mut self) -> Result<()> {
        let nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        for node in nodes {
            let mut p = self.lane(node).await?;
            p.wrote = true;
            self.put_back(p).await;
        }
        Ok(())
    }
}
