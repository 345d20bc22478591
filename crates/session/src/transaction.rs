//! BEGIN, COMMIT, ROLLBACK, savepoints, and the implicit transactions around everything else.

use exec::{ExecError, Forwarded, catalog_changed, load_own};
use sql::ast::{self, TransactionStmtKind as Kind};
use txn::CommitError;
use wire::ErrorFields;
use wire::sqlstate;

use crate::session::{Result, Session};

impl Session {
    pub async fn transaction_statement(&mut self, t: &ast::TransactionStmt, sql: &str) -> Result<Forwarded> {
        let kind = Kind::try_from(t.kind).unwrap_or(Kind::Undefined);
        let tag = |t: &str| Ok(Forwarded { tag: t.to_string(), ..Default::default() });
        match kind {
            Kind::TransStmtBegin | Kind::TransStmtStart => {
                if self.transaction.is_block() {
                    self.notice(
                        "WARNING",
                        sqlstate::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    );
                } else if self.transaction.is_active() {
                    // Inside a batch: the implicit transaction becomes the client's.
                    self.transaction.become_block();
                    if !t.options.is_empty() {
                        let options = set_transaction(sql);
                        self.transaction.everywhere(&options).await?;
                        self.transaction.note_setting(&options);
                    }
                } else {
                    self.transaction.begin(sql.trim().trim_end_matches(';'), true);
                    self.now = Some(exec::timestamp());
                }
                tag(if kind == Kind::TransStmtStart { "START TRANSACTION" } else { "BEGIN" })
            }
            Kind::TransStmtCommit => {
                if !self.transaction.is_block() {
                    self.no_chain(t, "COMMIT AND CHAIN")?;
                    self.notice("WARNING", sqlstate::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
                    if !self.transaction.is_active() {
                        return tag("COMMIT");
                    }
                }
                let chained = self.chained(t);
                let done = self.commit().await?;
                self.chain(chained);
                tag(&done)
            }
            Kind::TransStmtRollback => {
                if !self.transaction.is_block() {
                    self.no_chain(t, "ROLLBACK AND CHAIN")?;
                    self.notice("WARNING", sqlstate::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
                    if !self.transaction.is_active() {
                        return tag("ROLLBACK");
                    }
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
                self.transaction.release(&t.savepoint_name).await?;
                // What was done behind it belongs to the savepoint around it.
                let depth = self.transaction.depth();
                self.pending.iter_mut().for_each(|p| p.depth = p.depth.min(depth));
                self.pg_temp.is_released(depth);
                tag("RELEASE")
            }
            Kind::TransStmtRollbackTo => {
                self.need_block("ROLLBACK TO SAVEPOINT")?;
                self.need_savepoint(&t.savepoint_name)?;
                self.transaction.rollback_to(&t.savepoint_name).await?;
                let depth = self.transaction.depth();
                self.pending.retain(|p| p.depth < depth);
                self.refresh_own();
                self.pg_temp_undone().await?;
                if self.own_schema {
                    self.load_own_schema().await?;
                }
                tag("ROLLBACK")
            }
            Kind::TransStmtPrepare | Kind::TransStmtCommitPrepared | Kind::TransStmtRollbackPrepared => {
                Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "prepared transactions are not supported through the router",
                )
                .hint("COMMIT: the router commits over all nodes by two phases by itself."))
            }
            Kind::Undefined => Err(ExecError::internal("unknown transaction statement")),
        }
    }

    /// AND CHAIN: how the next transaction is begun, as this one runs.
    fn chained(&self, t: &ast::TransactionStmt) -> Option<Vec<String>> {
        let said = self.transaction.manners().map(str::to_string);
        t.chain.then(|| std::iter::once(self.transaction.last_begin().to_string()).chain(said).collect())
    }

    fn chain(&mut self, chained: Option<Vec<String>>) {
        let Some([begin, manners @ ..]) = chained.as_deref() else { return };
        self.transaction.begin(begin, true);
        manners.iter().for_each(|sql| self.transaction.note_setting(sql));
        self.now = Some(exec::timestamp());
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
        let mut tag = String::new();
        let failed = self.transaction.has_failed();
        self.transaction.doubtful |= !self.io.settled().await;
        self.transaction.defers = !self.epoch.snapshot.anyones;
        let done = self.transaction.commit(&identity, number, two_phase, &mut tag).await;
        let committed = done.is_ok() && !failed;
        self.ended(committed).await;
        match done {
            Ok(()) => Ok(tag),
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
                    .hint("Set max_prepared_transactions on every node and restart it, or SET herd.two_phase = off to let each node commit by itself."),
            ))),
        }
    }

    /// The client's transaction stands as if it had just been begun: its first statement is tried again.
    pub async fn begin_again(&mut self) {
        use exec::Client;
        self.transaction.doubtful |= !self.io.settled().await;
        self.transaction.begin_again().await;
        let kept = std::mem::take(&mut self.transaction.kept);
        kept.into_iter().for_each(|lane| drop(self.pin.put_back(lane)));
        self.end_pauses().await;
    }

    pub async fn rollback(&mut self) {
        use exec::Client;
        self.transaction.doubtful |= !self.io.settled().await;
        self.transaction.rollback().await;
        self.ended(false).await;
    }

    /// What follows the end of a transaction, however it ended.
    async fn ended(&mut self, committed: bool) {
        let reports = std::mem::take(&mut self.transaction.reports);
        self.io.pass_on(reports);
        self.now = None;
        self.cursors.retain(|_, c| c.hold);
        self.portals.clear();
        self.settle_settings(committed);
        let kept = std::mem::take(&mut self.transaction.kept);
        match self.code.take() {
            // What is more than there is place for was refused when it was set.
            Some(code) => drop(Box::pin(self.code_is_over(code, kept)).await),
            None => kept.into_iter().for_each(|lane| drop(self.pin.put_back(lane))),
        }
        self.pg_temp_settled(committed).await;
        let after = std::mem::take(&mut self.after_commit);
        if self.own_schema {
            self.own_schema = false;
            let due = std::mem::take(&mut self.own_due);
            if committed {
                let last = after.is_empty() && !due && self.loaded_at == self.transaction.uses;
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
    pub fn own_schema_is_due(&mut self) {
        (self.own_schema, self.own_due) = (true, true);
    }

    /// The transaction has changed the schema: it sees its own catalog from now on.
    pub async fn load_own_schema(&mut self) -> Result<()> {
        self.own_schema = true;
        self.own_due = false;
        let mut work = self.work();
        self.epoch = load_own(&mut work).await?;
        self.loaded_at = self.transaction.uses;
        self.refresh_context();
        Ok(())
    }

    /// The end of a statement that is not in the client's own transaction.
    pub async fn finish_implicit(&mut self, failed: bool) -> Result<()> {
        if !self.transaction.is_active() || self.transaction.is_block() {
            return Ok(());
        }
        if failed {
            self.rollback().await;
            return Ok(());
        }
        Box::pin(self.commit()).await.map(|_| ())
    }
}

/// `BEGIN ISOLATION LEVEL …` inside a batch: the options, as SET TRANSACTION takes them.
fn set_transaction(begin: &str) -> String {
    let upper = begin.to_ascii_uppercase();
    let options = ["ISOLATION", "READ", "DEFERRABLE", "NOT"].iter().filter_map(|w| upper.find(w)).min();
    match options {
        Some(at) => format!("SET TRANSACTION {}", begin[at..].trim_end_matches(';')),
        None => "SELECT 1".into(),
    }
}
