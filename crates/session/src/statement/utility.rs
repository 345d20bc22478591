//! DDL and other utility statements, and what the session does behind a change of the schema. It does not know what they change.

use catalog::TemporaryRelation;
use std::sync::Arc;
use std::time::Instant;

use exec::{Bound, ExecError, Forwarded};
use plan::ddl::Ddl;
use plan::decide::Temporary;
use sql::NodeEnum;
use sql::ast;
use wire::backend;

use crate::metrics::CountedAs;
use crate::session::{Result, Session};

impl Session {
    /// DDL and other utility statements. `temporary`: what it makes for the session alone.
    pub(super) async fn utility(
        &mut self,
        statement: &NodeEnum,
        temporary: Option<Temporary>,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let started = Instant::now();
        let done = self.run_utility(statement, temporary, sql, bound).await;
        match self.transaction.is_active() {
            true => self.transaction.may_change_rights = true,
            false => self.router.herd.standbys.fence(),
        }
        self.router.metrics.statement(CountedAs::Ddl, started.elapsed());
        done
    }

    async fn run_utility(
        &mut self,
        statement: &NodeEnum,
        temporary: Option<Temporary>,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let (relation, makes) = (temporary == Some(Temporary::Relation), temporary.is_some());
        exec::code::refuse_temporary_code(statement)?;
        plan::needs::refuse_temporary(statement, &self.names())?;
        exec::code::refuse_hiding_type(statement, &self.epoch)?;
        if relation && let Some(done) = self.temporary_as(statement, sql).await? {
            return Ok(done);
        }
        let of_view = match statement {
            NodeEnum::ViewStmt(view) if relation => self.temporary_view(statement, view).await?,
            _ => None,
        };
        if makes {
            if of_view.is_none() && !self.reads_nothing(statement) {
                exec::code::judge_temporary(statement, &self.epoch, &self.search_path).await?;
            }
            self.use_pg_temp();
        }
        self.refuse_in_use(statement, bound.is_some(), false).await?;
        let (path, names) = (self.search_path.clone(), self.temporary.clone());
        let uses = match self.change_may_take(statement, &path, &names) {
            true => plan::Sequences::Any,
            false => plan::Sequences::None,
        };
        let mut retry = self.retry();
        let done = loop {
            if relation {
                break None;
            }
            let mut work = self.work();
            work.uses = uses.clone();
            match work.ddl(statement, sql, &path, &names).await {
                Err(e) => self.change_anew(e, &mut retry).await?,
                Ok(done) => break done,
            }
        };
        let forwarded = match done {
            Some(f) => f,
            None => match &of_view {
                Some(own) => self.on_home(own).await?,
                None => self.on_home_bound(sql, bound).await?,
            },
        };
        self.refuse_in_use(statement, bound.is_some(), true).await?;
        self.pg_temp_changed(makes).await?;
        if plan::ddl::changes_catalog(statement) {
            match self.transaction.is_active()
                && !self.transaction.is_block()
                && self.is_inert(statement, &path, &names)
            {
                true => self.own_catalog_is_due(),
                false => self.schema_changed().await?,
            }
        }
        Ok(forwarded)
    }

    /// A temporary table of rows that several nodes have: the empty table on home, then its rows. `None`: it is another statement.
    async fn temporary_as(&mut self, statement: &NodeEnum, sql: &str) -> Result<Option<Forwarded>> {
        if self.reads_nothing(statement) {
            return Ok(None);
        }
        let facts = facts(&self.search_path, &self.temporary);
        let Ddl::CreateTableAs { create, insert } = plan::ddl::classify(statement, sql, &self.epoch.snapshot, &facts)
        else {
            return Ok(None);
        };
        // Nobody else sees it, so it may be there before its rows are, which need not wait in the router then.
        let apart = !self.transaction.is_active() && plan::ddl::keeps_rows(statement);
        if !apart {
            self.work().need_transaction();
        }
        self.use_pg_temp();
        self.on_home(&create).await?;
        self.pg_temp_changed(true).await?;
        let filled = self.fill_temporary(&insert).await;
        if apart && filled.is_err() {
            self.finish_implicit(true).await?;
            let name = plan::ddl::made_temporary(statement).map(|rv| catalog::quote_ident(&rv.relname));
            self.on_home(&format!("DROP TABLE IF EXISTS pg_temp.{}", name.unwrap_or_default())).await?;
            self.pg_temp_changed(false).await?;
        }
        filled.map(Some)
    }

    /// What makes a temporary view that reads more than local tables.
    async fn temporary_view(&mut self, statement: &NodeEnum, view: &ast::ViewStmt) -> Result<Option<String>> {
        let judged = exec::code::judge_temporary(statement, &self.epoch, &self.search_path).await;
        let facts = facts(&self.search_path, &self.temporary);
        Ok(plan::ddl::temporary_view(statement, view, &self.epoch.snapshot, &facts, judged.is_err())?)
    }

    async fn fill_temporary(&mut self, insert: &str) -> Result<Forwarded> {
        let tree = sql::parse(insert, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let compiled = Arc::new(self.compile(&tree, insert).await?);
        let inserted = self.run(&compiled, insert, None).await?;
        Ok(Forwarded { tag: format!("SELECT {}", backend::rows_of_tag(&inserted.tag)), ..inserted })
    }

    /// CREATE TABLE AS whose query is not run.
    fn reads_nothing(&self, statement: &NodeEnum) -> bool {
        let NodeEnum::CreateTableAsStmt(c) = statement else { return false };
        let Some(into) = c.into.as_deref() else { return false };
        let exists = |rv: &ast::RangeVar| self.pg_temp.told.names.iter().any(|(name, _)| *name == rv.relname);
        into.skip_data || c.if_not_exists && into.rel.as_ref().is_some_and(exists)
    }

    /// Nothing need be judged of it: it was classified by this catalog, or by one before in which no less was code.
    fn is_inert(&self, statement: &NodeEnum, path: &[String], temporary: &[TemporaryRelation]) -> bool {
        plan::ddl::inert(statement, &self.router.herd.epoch.load().snapshot, &facts(path, temporary))
    }

    fn change_may_take(&self, statement: &NodeEnum, path: &[String], temporary: &[TemporaryRelation]) -> bool {
        plan::sequences::change_may_take(statement, &self.epoch.snapshot, &facts(path, temporary))
    }

    /// After DDL: the transaction's own view of the catalog, by which the code in it is judged; or at once everybody's.
    pub(super) async fn schema_changed(&mut self) -> Result<()> {
        if self.transaction.is_active() {
            let before = self.epoch.clone();
            self.load_own_catalog().await?;
            if exec::code::broken_by_change(&[&before], &self.epoch).await.is_empty() {
                return Ok(());
            }
            // What was done past the router is nobody's fault who comes after it: only what isn't committed is this change's.
            self.router.herd.refresh(None).await?;
            let committed = self.router.herd.epoch.load_full();
            let broken = exec::code::broken_by_change(&[&before, &committed], &self.epoch).await;
            return match self.work().refused_of(broken).await? {
                Some(broken) => Err(self.work().told_of(broken).await?.into()),
                None => Ok(()),
            };
        }
        exec::catalog_changed(&self.router.herd, vec![], false, None).await;
        self.take_epoch();
        Ok(())
    }
}

fn facts(path: &[String], temporary: &[TemporaryRelation]) -> plan::ddl::Facts {
    plan::ddl::Facts { search_path: path.to_vec(), temporary: temporary.to_vec(), ..plan::ddl::Facts::default() }
}
