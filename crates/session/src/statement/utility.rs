//! DDL and other utility statements, and what the session does behind a change of the schema. It does not know what they change.

use std::sync::Arc;
use std::time::Instant;

use exec::{Bound, Forwarded};
use sql::NodeEnum;
use sql::ast;

use crate::metrics::Strategy;
use crate::session::{Result, Session};

impl Session {
    /// DDL and other utility statements.
    pub(crate) async fn utility(
        &mut self,
        statement: &Arc<NodeEnum>,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let started = Instant::now();
        let relation = plan::ddl::made_temporary(statement).is_some();
        let makes = relation || plan::ddl::makes_temporary_type(statement);
        exec::code::refuse_temporary_code(statement)?;
        exec::code::refuse_hiding_type(statement, &self.epoch)?;
        if makes {
            exec::code::judge_temporary(statement, &self.epoch, &self.search_path)?;
            self.use_pg_temp();
        }
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
            None => self.on_home_bound(sql, bound).await?,
        };
        self.transaction.holds_sequences |= self.transaction.is_active() && holds_sequences(statement);
        self.pg_temp_changed(makes).await?;
        if plan::ddl::changes_catalog(statement) {
            match self.transaction.is_active()
                && !self.transaction.is_block()
                && self.is_inert(statement, &path, &names)
            {
                true => self.own_schema_is_due(),
                false => self.schema_changed().await?,
            }
        }
        self.router.metrics.statement(Strategy::Ddl, started.elapsed());
        Ok(forwarded)
    }

    /// Nothing need be judged of it: it was classified by this catalog, or by one before in which no less was code.
    fn is_inert(&self, statement: &NodeEnum, path: &[String], temporary: &[String]) -> bool {
        plan::ddl::inert(statement, &self.router.herd.epoch.load().snapshot, &facts(path, temporary))
    }

    fn change_may_take(&self, statement: &NodeEnum, path: &[String], temporary: &[String]) -> bool {
        plan::sequences::change_may_take(statement, &self.epoch.snapshot, &facts(path, temporary))
    }

    /// After DDL: the transaction's own view of the catalog, by which the code in it is judged; or at once everybody's.
    pub(super) async fn schema_changed(&mut self) -> Result<()> {
        if self.transaction.is_active() {
            let before = self.epoch.clone();
            self.load_own_schema().await?;
            if exec::code::refuse_change(&[&before], &self.epoch).is_none() {
                return Ok(());
            }
            // What was done past the router is nobody's fault who comes after it: only what isn't committed is this change's.
            self.router.herd.refresh(None).await?;
            let committed = self.router.herd.epoch.load_full();
            return match exec::code::refuse_change(&[&before, &committed], &self.epoch) {
                Some(broken) => Err(self.work().told_of(broken).await?.into()),
                None => Ok(()),
            };
        }
        exec::catalog_changed(&self.router.herd, vec![], false, None).await;
        self.take_epoch();
        Ok(())
    }
}

fn facts(path: &[String], temporary: &[String]) -> plan::ddl::Facts {
    plan::ddl::Facts { search_path: path.to_vec(), temporary: temporary.to_vec(), ..plan::ddl::Facts::default() }
}

/// It locks sequences to the end of its transaction.
fn holds_sequences(statement: &NodeEnum) -> bool {
    use ast::AlterTableType as A;
    let of_identity = |n: &ast::Node| match &n.node {
        Some(NodeEnum::AlterTableCmd(c)) => [A::AtAddIdentity, A::AtSetIdentity, A::AtDropIdentity, A::AtChangeOwner]
            .iter()
            .any(|k| c.subtype == *k as i32),
        _ => false,
    };
    match statement {
        NodeEnum::TruncateStmt(t) => t.restart_seqs,
        NodeEnum::AlterSeqStmt(_) => true,
        NodeEnum::AlterTableStmt(a) => a.cmds.iter().any(of_identity),
        _ => false,
    }
}
