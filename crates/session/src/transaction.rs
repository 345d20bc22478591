//! BEGIN, COMMIT, ROLLBACK, savepoints, and the implicit transactions around everything else.

use exec::{ExecError, Forwarded, catalog_changed, load_own};
use sql::NodeEnum;
use sql::ast::{self, TransactionStmtKind as Kind};
use txn::{CommitError, Ended};
use wire::ErrorFields;
use wire::sqlstate;

use crate::said::plainly;
use crate::session::{Result, Session};

/// Which catalog the session's `epoch` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnCatalog {
    /// The one that is committed.
    #[default]
    None,
    /// The transaction has changed the schema: its own has yet to be loaded.
    Due,
    /// The transaction's own; how much had run in it by then ([`Transaction::uses`]).
    Loaded { at: u64 },
}

impl OwnCatalog {
    /// The transaction has changed the schema.
    pub fn is_own(self) -> bool {
        self != OwnCatalog::None
    }
}

impl Session {
    /// From BEGIN to ROLLBACK TO SAVEPOINT; the command tag says how it ended. PREPARE TRANSACTION and its like are 0A000.
    pub async fn transaction_statement(&mut self, t: &ast::TransactionStmt, sql: &str) -> Result<Forwarded> {
        let kind = Kind::try_from(t.kind).unwrap_or(Kind::Undefined);
        let tag = |t: &str| Ok(Forwarded { tag: t.to_string(), ..Default::default() });
        match kind {
            Kind::TransStmtBegin | Kind::TransStmtStart => {
                self.begin_block(t, sql).await?;
                tag(if kind == Kind::TransStmtStart { "START TRANSACTION" } else { "BEGIN" })
            }
            Kind::TransStmtCommit => {
                if self.ends_nothing(t, "COMMIT AND CHAIN")? {
                    return tag("COMMIT");
                }
                let chained = self.chained(t);
                let done = self.commit().await?;
                self.chain(chained);
                tag(&done)
            }
            Kind::TransStmtRollback => {
                if self.ends_nothing(t, "ROLLBACK AND CHAIN")? {
                    return tag("ROLLBACK");
                }
                let chained = self.chained(t);
                self.rollback().await;
                self.chain(chained);
                tag("ROLLBACK")
            }
            Kind::TransStmtSavepoint => {
                self.need_block("SAVEPOINT")?;
                self.transaction.savepoint(&t.savepoint_name).await?;
                tag("SAVEPOINT")
            }
            Kind::TransStmtRelease => {
                self.need_block("RELEASE SAVEPOINT")?;
                self.need_savepoint(&t.savepoint_name)?;
                self.release(&t.savepoint_name).await?;
                tag("RELEASE")
            }
            Kind::TransStmtRollbackTo => {
                self.need_block("ROLLBACK TO SAVEPOINT")?;
                self.need_savepoint(&t.savepoint_name)?;
                self.rollback_to(&t.savepoint_name).await?;
                tag("ROLLBACK")
            }
            Kind::TransStmtPrepare | Kind::TransStmtCommitPrepared | Kind::TransStmtRollbackPrepared => {
                // PREPARE TRANSACTION that fails ends its transaction, as a COMMIT does.
                if kind == Kind::TransStmtPrepare && self.transaction.is_block() {
                    self.rollback().await;
                }
                Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "prepared transactions are not supported through the router",
                )
                .hint("COMMIT: the router commits over all nodes by two phases by itself."))
            }
            Kind::Undefined => Err(ExecError::internal("unknown transaction statement")),
        }
    }

    async fn begin_block(&mut self, t: &ast::TransactionStmt, sql: &str) -> Result<()> {
        if self.transaction.is_block() {
            let message = "there is already a transaction in progress";
            self.notice("WARNING", sqlstate::ACTIVE_SQL_TRANSACTION, message);
            self.set_as_begun(t).await?;
        } else if self.transaction.is_active() {
            // Inside a batch: the implicit transaction becomes the client's.
            self.set_as_begun(t).await?;
            self.transaction.become_block();
        } else {
            let sql = plainly(sql, || NodeEnum::TransactionStmt(t.clone()))?;
            self.transaction.begin(sql.trim().trim_end_matches(';'), true);
        }
        Ok(())
    }

    /// What BEGIN says of a transaction that there is already.
    async fn set_as_begun(&mut self, t: &ast::TransactionStmt) -> Result<()> {
        if !t.options.is_empty() {
            self.set_multi("transaction", &set_transaction(t)?).await?;
        }
        Ok(())
    }

    /// COMMIT or ROLLBACK without a block is warned of; true: there is no implicit transaction that it ends, either.
    fn ends_nothing(&mut self, t: &ast::TransactionStmt, chain: &str) -> Result<bool> {
        if self.transaction.is_block() {
            return Ok(false);
        }
        self.no_chain(t, chain)?;
        self.notice("WARNING", sqlstate::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
        Ok(!self.transaction.is_active())
    }

    pub(crate) async fn release(&mut self, savepoint: &str) -> Result<()> {
        self.transaction.release(savepoint).await?;
        // What was done behind it belongs to the savepoint around it.
        let depth = self.transaction.depth();
        self.pending.iter_mut().for_each(|p| p.depth = p.depth.min(depth));
        self.pg_temp.is_released(depth);
        self.cursors_released(depth);
        Ok(())
    }

    pub(crate) async fn rollback_to(&mut self, savepoint: &str) -> Result<()> {
        self.transaction.rollback_to(savepoint).await?;
        let depth = self.transaction.depth();
        self.pending.retain(|p| p.depth < depth);
        self.cursors_undone(depth);
        self.refresh_own();
        self.pg_temp_undone().await?;
        if self.own_catalog.is_own() {
            self.load_own_catalog().await?;
        }
        Ok(())
    }

    /// AND CHAIN: how the next transaction is begun, as this one runs. What it was to be is undone where it has failed, as settings are.
    fn chained(&self, t: &ast::TransactionStmt) -> Option<Vec<String>> {
        if self.transaction.has_failed() {
            return t.chain.then(|| vec!["BEGIN".into()]);
        }
        let said = self.transaction.manners().map(str::to_string);
        t.chain.then(|| std::iter::once(self.transaction.last_begin().to_string()).chain(said).collect())
    }

    fn chain(&mut self, chained: Option<Vec<String>>) {
        let Some([begin, manners @ ..]) = chained.as_deref() else { return };
        self.transaction.begin(begin, true);
        manners.iter().for_each(|sql| self.transaction.note_setting(sql));
    }

    /// AND CHAIN and savepoints want a block of the client's own: an implicit one (TBLOCK_IMPLICIT_INPROGRESS in
    /// PostgreSQL's xact.c) ends by itself.
    fn no_chain(&self, t: &ast::TransactionStmt, what: &str) -> Result<()> {
        if t.chain { self.need_block(what) } else { Ok(()) }
    }

    fn need_block(&self, what: &str) -> Result<()> {
        if self.transaction.is_block() {
            return Ok(());
        }
        Err(ExecError::sql(
            sqlstate::NO_ACTIVE_SQL_TRANSACTION,
            format!("{what} can only be used in transaction blocks"),
        ))
    }

    fn need_savepoint(&self, name: &str) -> Result<()> {
        if self.transaction.has_savepoint(name) {
            return Ok(());
        }
        Err(ExecError::sql(sqlstate::S_E_INVALID_SPECIFICATION, format!("savepoint \"{name}\" does not exist")))
    }

    /// Commits; the tag is COMMIT, or ROLLBACK of a transaction that had failed.
    pub async fn commit(&mut self) -> Result<String> {
        use exec::Client;
        let two_phase = self.own.is_on("herd.two_phase");
        let identity = self.router.herd.identity();
        let number = self.router.herd.next_transaction();
        let failed = self.transaction.has_failed();
        self.transaction.defers = !self.epoch.snapshot.anyones;
        if !failed
            && self.may_wait_to_commit()
            && let Err(e) = self.transaction.check_deferred().await
        {
            self.rollback().await;
            return Err(Box::pin(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e.into())).await);
        }
        self.transaction.doubtful |= !self.io.settled().await;
        if !failed && let Err(e) = self.work().learn_whether_serializable().await {
            self.rollback().await;
            return Err(e);
        }
        if !failed
            && !self.cursors.is_empty()
            && let Err(e) = Box::pin(self.keep_held_cursors()).await
        {
            self.rollback().await;
            return Err(e);
        }
        if self.own_catalog.is_own()
            && let Err(e) = Box::pin(self.judge_beside_others(&identity)).await
        {
            self.rollback().await;
            return Err(e);
        }
        let done = self.transaction.commit(&identity, number, two_phase).await;
        self.ended(matches!(done, Ok(Ended::Committed))).await;
        match done {
            Ok(ended) => Ok(ended.tag().to_string()),
            // Deferred constraints speak here.
            Err(CommitError::RolledBack(e)) => {
                Err(Box::pin(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e.into())).await)
            }
            Err(CommitError::Unknown(e)) => Err(ExecError::Sql(Box::new(
                ErrorFields::error(sqlstate::TRANSACTION_RESOLUTION_UNKNOWN, format!("a node was lost while it committed: {e}"))
                    .hint("Whether the transaction is committed is not known yet; look for its effects before trying again."),
            ))),
            Err(e @ CommitError::NoPreparedTransactions) => Err(ExecError::Sql(Box::new(
                ErrorFields::error(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, e.to_string())
                    .hint("Set max_prepared_transactions on every node and restart it. Where rows alone are changed, SET herd.two_phase = off lets each node commit by itself."),
            ))),
        }
    }

    /// Checks that it has deferred may wait for others, who may wait for it on another node.
    fn may_wait_to_commit(&self) -> bool {
        let several = self.transaction.participants.len() > 1 && self.transaction.participants.iter().any(|p| p.wrote);
        several
            && (self.transaction.defers
                || self.transaction.sets_constraints
                || self.epoch.snapshot.relations.values().any(|r| r.checked_at_commit))
    }

    /// What code may use was judged when the transaction changed the schema, by what was committed then. Others may have changed
    /// it since, each by himself in the right: whoever commits later is judged again, while nobody else can commit. All that
    /// the judgement looks at raises the epoch; and where kinds are what they were, what others have changed is what two changes at a
    /// time may always have changed.
    async fn judge_beside_others(&mut self, identity: &txn::Identity) -> Result<()> {
        if self.own_catalog == OwnCatalog::Due || self.transaction.raises_epoch.is_none() {
            return Ok(());
        }
        if let Err(e) = self.transaction.raise(identity).await {
            return Err(Box::pin(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e.into())).await);
        }
        let seen = &self.epoch.snapshot;
        match self.transaction.raised_to {
            Some(raised) if raised.epoch > seen.epoch + 1 && raised.kinds != seen.kinds => {}
            _ => return Ok(()),
        }
        let herd = self.router.herd.clone();
        herd.refresh(None).await?;
        self.load_own_catalog().await?;
        let broken = exec::code::broken_by_change(&[&herd.epoch.load_full()], &self.epoch).await;
        match self.work().refused_of(broken).await? {
            Some(broken) => Err(self.work().told_of(broken).await?.into()),
            None => Ok(()),
        }
    }

    /// The client's transaction stands as if it had just been begun: its first statement is tried again.
    pub async fn begin_again(&mut self) {
        use exec::Client;
        self.transaction.doubtful |= !self.io.settled().await;
        if let Some(reading) = &self.reading {
            reading.counts_again();
        }
        self.transaction.begin_again().await;
        let kept = std::mem::take(&mut self.transaction.kept);
        kept.into_iter().for_each(|lane| drop(self.pin.put_back(lane)));
        self.end_pauses().await;
    }

    /// Undoes the transaction on all its nodes, with its settings, cursors and portals.
    pub async fn rollback(&mut self) {
        use exec::Client;
        self.transaction.doubtful |= !self.io.settled().await;
        self.transaction.rollback().await;
        self.ended(false).await;
    }

    /// What follows the end of a transaction, however it ended.
    async fn ended(&mut self, committed: bool) {
        if std::mem::take(&mut self.transaction.may_change_rights) {
            self.router.herd.standbys.fence();
        }
        self.reading = None;
        let reports = std::mem::take(&mut self.transaction.reports);
        self.io.pass_on(reports);
        self.cursors_ended(committed);
        self.portals.clear();
        // Their transaction has closed them.
        self.leftover.lock().clear();
        self.settle_settings(committed);
        let kept = std::mem::take(&mut self.transaction.kept);
        match self.code.take() {
            // What is more than there is place for was refused when it was set.
            Some(code) => drop(Box::pin(self.code_is_over(code, kept)).await),
            None => kept.into_iter().for_each(|lane| drop(self.pin.put_back(lane))),
        }
        self.pg_temp_settled(committed).await;
        let after = std::mem::take(&mut self.after_commit);
        let own_catalog = std::mem::take(&mut self.own_catalog);
        if own_catalog.is_own() {
            if committed {
                let last = after.is_empty() && own_catalog == OwnCatalog::Loaded { at: self.transaction.uses };
                let own = self.transaction.raised_to.filter(|_| last).map(|raised| (self.epoch.clone(), raised));
                catalog_changed(&self.router.herd, after, self.transaction.raised, own).await;
            }
            self.take_epoch();
        }
        self.end_pauses().await;
    }

    async fn end_pauses(&mut self) {
        if !self.transaction.pauses.is_empty() {
            let pauses = std::mem::take(&mut self.transaction.pauses);
            self.router.herd.end_pauses(&pauses).await;
        }
    }

    /// The transaction has changed the schema in a way that nobody judges: it loads its own catalog if another statement
    /// comes; most often its end does.
    pub fn own_catalog_is_due(&mut self) {
        self.own_catalog = OwnCatalog::Due;
    }

    /// The transaction has changed the schema: it sees its own catalog from now on.
    pub async fn load_own_catalog(&mut self) -> Result<()> {
        self.own_catalog = OwnCatalog::Due;
        let mut work = self.work();
        self.epoch = load_own(&mut work).await?;
        self.own_catalog = OwnCatalog::Loaded { at: self.transaction.uses };
        self.refresh_context();
        Ok(())
    }

    /// The end of a statement that is not in the client's own transaction.
    pub async fn finish_implicit(&mut self, failed: bool) -> Result<()> {
        if !self.transaction.is_active() || self.transaction.is_block() {
            return Ok(());
        }
        if failed {
            Box::pin(self.rollback()).await;
            return Ok(());
        }
        Box::pin(self.commit()).await.map(|_| ())
    }
}

/// `BEGIN ISOLATION LEVEL …` inside a batch: the options, as SET TRANSACTION takes them.
fn set_transaction(begin: &ast::TransactionStmt) -> Result<String> {
    let set = ast::VariableSetStmt {
        kind: ast::VariableSetKind::VarSetMulti as i32,
        name: "TRANSACTION".into(),
        args: begin.options.clone(),
        ..Default::default()
    };
    Ok(sql::deparse(&NodeEnum::VariableSetStmt(set))?)
}
