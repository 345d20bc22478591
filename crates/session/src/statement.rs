//! One statement, whichever protocol it came by: who runs it. What it is, crate `plan` says.
//!
//! Planned statements go to the executor; transactions, settings, cursors and the like are the session's own.

mod copy;
mod distribute_function;
mod does_more;
mod home;
mod lasting;
mod repair;
mod run;
mod series;
mod utility;

pub use run::Tried;

use std::sync::Arc;
use wire::sqlstate;

use exec::{Bound, Compiled, ExecError, Forwarded};
use plan::admin::{AdminCall, AdminFunction};
use plan::kind::Kind;
use plan::{Decided, Own, Plan, Utility};
use sql::NodeEnum;

use crate::activity::Pins;
use crate::prepared::Parsed;
use crate::session::{Result, Session};

impl Session {
    /// What a text is. Plans come from the cache of the current catalog.
    pub async fn parse(&mut self, sql: &str, types: &[u32]) -> Result<Parsed> {
        self.take_epoch();
        self.settle_path().await?;
        if let Some(compiled) = self.epoch.by_text(self.context, sql, types) {
            return Ok(Parsed::Planned(compiled));
        }
        let _reading = self.before_reading(sql).await?;
        let mut statements = match sql::parse(sql, self.standard_conforming_strings()) {
            Ok(statements) => statements,
            Err(e) => return Err(Box::pin(self.syntax_error(sql, e)).await),
        };
        if statements.len() > 1 {
            return Err(ExecError::sql(
                sqlstate::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let Some(statement) = statements.pop().map(Arc::new) else { return Ok(Parsed::Empty) };
        let lasts = self.decide(&statement, types)?.lasts();
        self.keep_time().await?;
        if !lasts {
            return Ok(Parsed::Tree(statement));
        }
        Box::pin(self.planned(&statement, sql, types)).await.map(Parsed::Planned)
    }

    /// What a statement is, as names mean things now. `types`: those of its parameters.
    pub fn decide<'s>(&self, statement: &'s NodeEnum, types: &[u32]) -> Result<Decided<'s>> {
        let kind = Kind::of(statement);
        if kind.planned {
            self.refuse_hidden_type(statement, kind)?;
        }
        Ok(Decided::of(statement, &self.names().with_parameters(types)))
    }

    /// Plans a statement whose plan [lasts](Decided::lasts), and keeps it.
    pub async fn planned(&mut self, statement: &NodeEnum, sql: &str, types: &[u32]) -> Result<Arc<Compiled>> {
        let compiled = Arc::new(self.compile_with(statement, sql, types).await?);
        self.epoch.keep_text(&compiled, types);
        Ok(compiled)
    }

    /// Runs a statement by its plan: one of seven.
    pub(super) async fn run_plan(
        &mut self,
        statement: &NodeEnum,
        decided: Decided<'_>,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        if !matches!(decided.plan, Plan::Query(_) | Plan::Session(Own::Set(_) | Own::Show(_) | Own::Transaction(_))) {
            self.transaction.may_have_written = true;
        }
        let described = bound.is_none();
        let types: &[u32] = bound.map_or(&[], |b| &b.types);
        // The rest is as if what the router knows had been written so.
        let put = self.with_rows_of_views(statement, &decided, sql).await?;
        let (statement, sql, decided) = match &put {
            Some((tree, text)) => (tree, &**text, self.decide(tree, types)?),
            None => (statement, sql, decided),
        };
        let given = match bound.filter(|b| plan::decide::wraps_query(statement) && !b.values.is_empty()) {
            Some(bound) => Some((self.with_parameters(statement, bound).await?, bound.without_values())),
            None => None,
        };
        let (statement, sql, bound, decided) = match &given {
            Some(((tree, text), bound)) => (tree, &**text, Some(bound), self.decide(tree, types)?),
            None => (statement, sql, bound, decided),
        };
        match decided.plan {
            Plan::Query(does) | Plan::Insert(does) | Plan::Modify(does) => match decided.reads.backends {
                true => self.backends(statement, bound).await,
                false => self.rows(statement, does.special, sql, bound).await,
            },

            Plan::Copy(c) => self.copy(c, sql).await,

            Plan::Utility(Utility::Refused(refusal)) => Err(refusal.into()),
            Plan::Utility(Utility::Lock(lock)) => {
                self.may_lock(lock).await?;
                self.utility(statement, None, sql, bound).await
            }
            Plan::Utility(Utility::Temporary(makes)) => self.utility(statement, Some(makes), sql, bound).await,
            Plan::Utility(Utility::Alone | Utility::Uses | Utility::Changes) => {
                self.utility(statement, None, sql, bound).await
            }

            Plan::Admin(call) => self.admin(call?, bound).await,

            Plan::Session(Own::Transaction(t)) => self.transaction_statement(t, sql).await,
            Plan::Session(Own::Set(s)) => self.set(s, sql).await,
            Plan::Session(Own::Show(s)) => self.show(s, sql, described).await,
            Plan::Session(Own::Discard(d)) => self.discard(d, sql).await,
            Plan::Session(Own::Constraints(s)) => self.set_constraints(s, sql, bound).await,
            Plan::Session(Own::Prepare(p)) => self.sql_prepare(p, sql).await,
            Plan::Session(Own::Execute(e)) => self.sql_execute(e, bound).await,
            Plan::Session(Own::Deallocate(d)) => self.sql_deallocate(d),
            Plan::Session(Own::Declare(d)) => self.declare_cursor(d, sql, bound).await,
            Plan::Session(Own::Fetch(f)) => self.fetch(f, sql, bound).await,
            Plan::Session(Own::Close(c)) => self.close_cursor(c, sql).await,
            Plan::Session(Own::Explain(e)) => self.explain(e, sql, described).await,
            Plan::Session(Own::Listen) => {
                self.pin_home(Pins::LISTEN);
                self.on_home(sql).await
            }
            Plan::Session(Own::Load) => {
                self.pin_home(Pins::SETTING);
                self.on_home(sql).await
            }
            // Who never listened has nothing to unlisten: any connection does.
            Plan::Session(Own::Unlisten | Own::Notify | Own::Checkpoint) => self.on_home(sql).await,
            Plan::Session(Own::Code) => self.code(statement, sql, bound).await,
        }
    }

    async fn admin(&mut self, call: AdminCall, bound: Option<&Bound>) -> Result<Forwarded> {
        let described = bound.is_none();
        let (call, format) = match bound {
            Some(b) => (exec::admin_with_parameters(call, b)?, b.result_format(0)),
            None => (call, 0),
        };
        let shards = self.own.get("citus.shard_count").parse().unwrap_or(self.router.defaults.shards);
        if call.background {
            let path = self.search_path.clone();
            let job = self.work().enter_job(call.clone(), &path, shards).await;
            self.finish_implicit(job.is_err()).await?;
            return Ok(self.work().answer_bigint(&call, described, job?, format));
        }
        if call.function == AdminFunction::RebalancePlan {
            let formats = |at| bound.map_or(0, |b| b.result_format(at));
            return self.work().show_plan(&call, described, formats).await;
        }
        if matches!(call.function, AdminFunction::Repair | AdminFunction::Verify) {
            let formats = |at| bound.map_or(0, |b| b.result_format(at));
            return self.repair(call, described, formats).await;
        }
        if call.function == AdminFunction::WaitJob {
            let said = self.work().wait_for_job(&call).await?;
            return Ok(self.work().answer_text(&call, described, &said));
        }
        if call.function == AdminFunction::CreateDistributedFunction {
            return self.distribute_function(call, described).await;
        }
        if call.function == AdminFunction::SplitShard {
            return self.split(call, described, format).await;
        }
        if call.function == AdminFunction::MergeShards {
            return self.merge(call, described, format).await;
        }
        if call.function == AdminFunction::IsolateTenant {
            return self.isolate(call, described, format).await;
        }
        if matches!(call.function, AdminFunction::AddColumnCopy | AdminFunction::DropColumnCopy)
            && exec::Client::job(&self.io).is_some()
            && self.catalog_moved().await
        {
            // Of a router that died this one may not have heard that it has listed a copy.
            self.take_epoch();
        }
        if call.function == AdminFunction::AddColumnCopy && exec::Client::job(&self.io).is_some() {
            return self.column_copy(call, described, format).await;
        }
        if matches!(call.function, AdminFunction::DrainNode | AdminFunction::Rebalance) {
            return self.series_of_moves(call, described, format).await;
        }
        let path = self.search_path.clone();
        let mut retry = self.retry();
        let done = loop {
            match self.work().admin(call.clone(), &path, shards, described, format).await {
                Err(e) => self.change_anew(e, &mut retry).await?,
                Ok(done) => break done,
            }
        };
        self.after_commit.extend(done.after_commit);
        if done.changed {
            self.load_own_catalog().await?;
        }
        Ok(done.forwarded)
    }
}
