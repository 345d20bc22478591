//! One statement, whichever protocol it came by: what it is, and who runs it.
//!
//! Planned statements go to the executor; transactions, settings, cursors and the like are the session's own.

mod copy;
mod does_more;
mod home;
mod lasting;
mod run;

mod utility;

pub use run::Tried;

use std::sync::Arc;
use wire::sqlstate;

use exec::{Bound, ExecError, Forwarded};
use plan::kind::Kind;
use sql::NodeEnum;

use crate::activity::Pins;
use crate::backends;
use crate::herd_views;
use crate::prepared::Parsed;
use crate::session::{Result, Session};
use crate::special;

impl Session {
    /// What a text is. Plans come from the cache of the current catalog.
    pub async fn parse(&mut self, sql: &str, types: &[u32]) -> Result<Parsed> {
        self.take_epoch();
        self.settle_path().await?;
        if let Some(compiled) = self.epoch.by_text(self.context, sql, types) {
            return Ok(Parsed::Planned(compiled));
        }
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
        let Some(statement) = statements.pop() else { return Ok(Parsed::Empty) };
        Box::pin(self.planned(statement, sql, types)).await
    }

    /// Plans a tree if it is of a kind that is planned.
    pub async fn planned(&mut self, statement: NodeEnum, sql: &str, types: &[u32]) -> Result<Parsed> {
        let kind = Kind::of(&statement);
        if kind.planned {
            self.refuse_hidden_type(&statement, kind)?;
        }
        if !kind.planned
            || self.recognise(&statement).is_some()
            || !special::special(&statement, &self.names().with_parameters(types)).is_plain()
            || herd_views::names_herd_view(&statement, &self.names())
            || backends::names_backends(&statement)
            // Its columns are nobody else's, and may be others next time.
            || self.names().takes_distributed(&statement).is_some()
        {
            return Ok(Parsed::Tree(Arc::new(statement)));
        }
        let compiled = Arc::new(self.compile_with(&statement, sql, types).await?);
        self.epoch.keep_text(&compiled, types);
        Ok(Parsed::Planned(compiled))
    }

    pub(super) async fn run_kind(
        &mut self,
        statement: &Arc<NodeEnum>,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let described = bound.is_none();
        let put = self.with_rows_of_views(statement, sql).await?.map(|(tree, text)| (Arc::new(tree), text));
        let (statement, sql) = put.as_ref().map_or((statement, sql), |(tree, text)| (tree, text));
        let around = match statement.as_ref() {
            NodeEnum::ExplainStmt(_) => true,
            NodeEnum::CreateTableAsStmt(c) => c.objtype != sql::ast::ObjectType::ObjectMatview as i32,
            _ => false,
        };
        let given = match bound.filter(|b| around && !b.values.is_empty()) {
            Some(bound) => {
                let (tree, text) = self.with_parameters(statement, bound).await?;
                Some((Arc::new(tree), text, bound.without_values()))
            }
            None => None,
        };
        let (statement, sql, bound) = given.as_ref().map_or((statement, sql, bound), |(t, s, b)| (t, s, Some(b)));
        match statement.as_ref() {
            NodeEnum::TransactionStmt(t) => self.transaction_statement(t, sql).await,
            NodeEnum::VariableSetStmt(s) => self.set(s, sql).await,
            NodeEnum::VariableShowStmt(s) => self.show(s, sql, described).await,
            NodeEnum::DiscardStmt(d) => self.discard(d, sql).await,
            NodeEnum::ConstraintsSetStmt(s) => self.set_constraints(s, sql, bound).await,
            NodeEnum::PrepareStmt(p) => self.sql_prepare(p, sql).await,
            NodeEnum::ExecuteStmt(e) => self.sql_execute(e, bound).await,
            NodeEnum::DeallocateStmt(d) => self.sql_deallocate(d),
            NodeEnum::DeclareCursorStmt(d) => self.declare_cursor(d, sql, bound).await,
            NodeEnum::FetchStmt(f) => self.fetch(f, sql, bound).await,
            NodeEnum::ClosePortalStmt(c) => self.close_cursor(c, sql).await,
            NodeEnum::ExplainStmt(e) => self.explain(e, sql, described).await,
            NodeEnum::CopyStmt(c) => self.copy(c, sql).await,
            NodeEnum::ListenStmt(_) => {
                self.pin_home(Pins::LISTEN);
                self.on_home(sql).await
            }
            // Who never listened has nothing to unlisten: any connection does.
            NodeEnum::UnlistenStmt(_) => self.on_home(sql).await,
            NodeEnum::LoadStmt(_) => {
                self.pin_home(Pins::SETTING);
                self.on_home(sql).await
            }
            NodeEnum::NotifyStmt(_) | NodeEnum::CheckPointStmt(_) => self.on_home(sql).await,
            NodeEnum::DoStmt(_) | NodeEnum::CallStmt(_) => self.code(statement, sql, bound).await,
            NodeEnum::SelectStmt(_)
            | NodeEnum::InsertStmt(_)
            | NodeEnum::UpdateStmt(_)
            | NodeEnum::DeleteStmt(_)
            | NodeEnum::MergeStmt(_) => self.special_statement(statement, sql, bound).await,
            NodeEnum::LockStmt(_) => self.lock_table(statement, sql, bound).await,
            NodeEnum::CreatedbStmt(_)
            | NodeEnum::DropdbStmt(_)
            | NodeEnum::AlterDatabaseStmt(_)
            | NodeEnum::AlterDatabaseRefreshCollStmt(_) => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "a herd serves one database: CREATE, DROP and ALTER DATABASE are not supported through the router",
            )
            .hint("Make the database on every node directly, and run a herd of its own (`herd router`) for it.")),
            _ => self.utility(statement, sql, bound).await,
        }
    }

    /// An admin function's call; not of one of that name in a schema that comes before theirs.
    pub(crate) fn recognise(&self, statement: &NodeEnum) -> Option<Result<exec::AdminCall>> {
        let before = |schema: &String| self.search_path.iter().take_while(|s| *s != "public").any(|s| s == schema);
        exec::recognise(statement, |name| {
            self.epoch.snapshot.functions.get(name).is_some_and(|all| all.iter().any(|f| before(&f.schema)))
        })
    }

    async fn admin(&mut self, call: exec::AdminCall, bound: Option<&Bound>) -> Result<Forwarded> {
        let described = bound.is_none();
        let (call, format) = match bound {
            Some(b) => (call.with_params(b)?, b.result_format(0)),
            None => (call, 0),
        };
        let path = self.search_path.clone();
        let shards = self.own.get("citus.shard_count").parse().unwrap_or(self.router.defaults.shards);
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
