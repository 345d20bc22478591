//! One statement, whichever protocol it came by: what it is, and who runs it.
//!
//! Planned statements go to the executor; transactions, settings, cursors and the like are the session's own.

mod copy;
mod lasting;

use std::sync::Arc;
use std::time::Instant;
use wire::sqlstate;

use exec::code::Watch;
use exec::{Bound, Compiled, ExecError, Forwarded, Literals, Request, RowWay};
use sql::NodeEnum;
use sql::ast;
use sql::template::Template;

use crate::activity::Pins;
use crate::backends;
use crate::code::Code;
use crate::herd_views;
use crate::metrics::Strategy;
use crate::prepared::Parsed;
use crate::router_settings::RouterSettings;
use crate::sequences;
use crate::session::{Result, Session};
use crate::special;

/// How often a statement begins again after deadlocks.
const DEADLOCKS_MAX: usize = 10;

impl Session {
    /// What a text is. Plans come from the cache of the current catalog.
    pub async fn parse(&mut self, sql: &str, types: &[u32]) -> Result<Parsed> {
        self.take_epoch();
        self.settle_path().await?;
        if let Some(compiled) = self.epoch.by_text(self.context, sql, types) {
            return Ok(Parsed::Planned(compiled));
        }
        let mut statements = sql::parse(sql, self.standard_conforming_strings())?;
        if statements.len() > 1 {
            return Err(ExecError::sql(
                sqlstate::SYNTAX_ERROR,
                "cannot insert multiple commands into a prepared statement",
            ));
        }
        let Some(statement) = statements.pop() else { return Ok(Parsed::Empty) };
        self.planned(statement, sql, types).await
    }

    /// Plans a tree if it is of a kind that is planned.
    pub async fn planned(&mut self, statement: NodeEnum, sql: &str, types: &[u32]) -> Result<Parsed> {
        let tree = match &statement {
            NodeEnum::SelectStmt(s) => s.into_clause.is_some() || exec::recognise(&statement).is_some(),
            NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) | NodeEnum::MergeStmt(_) => {
                false
            }
            _ => true,
        };
        if special::names_prepared_statements(&statement) {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "pg_prepared_statements is not supported through the router",
            )
            .hint("It would show the statements of one connection to a node, not those of this session."));
        }
        let special = special::special(&statement, &self.epoch.snapshot);
        if tree
            || !special.is_plain()
            || herd_views::names_herd_view(&statement)
            || backends::names_backends(&statement)
        {
            return Ok(Parsed::Tree(Arc::new(statement)));
        }
        let compiled = Arc::new(self.compile(&statement, sql, None).await?);
        self.epoch.keep_text(&compiled, types);
        Ok(Parsed::Planned(compiled))
    }

    /// Runs a planned statement, again with a fresh catalog if the one it was planned with proves stale.
    pub async fn run(
        &mut self,
        compiled: &Arc<Compiled>,
        sql: &str,
        bound: Option<&Bound>,
        template: Option<&Template>,
    ) -> Result<Forwarded> {
        let started = Instant::now();
        let literals = template.map_or(Literals::Own, Literals::Template);
        let request = Request { sql, bound, literals };
        let mut retry = self.retry();
        let paused;
        let mut compiled = compiled;
        let mut request = request;
        if (self.transaction.is_block() || !self.router.herd.pauses.none())
            && let Some(again) = self.touch(compiled, sql).await?
        {
            paused = again;
            compiled = &paused;
            request.literals = Literals::Own;
        }
        let _turn = match self.share_rows(compiled, &request).await? {
            RowWay::Done(forwarded) => {
                self.router.metrics.statement(Strategy::Route, started.elapsed());
                return Ok(forwarded);
            }
            RowWay::Ahead(turn) => Some(turn),
            RowWay::Apart => None,
        };
        let mut result = self.work().run(compiled, &request).await;
        // Cancelled to break a deadlock: all of it is undone, and nobody has seen any of it. The others go first.
        for _ in 0..DEADLOCKS_MAX {
            let undone = matches!(&result, Err(e) if e.code() == sqlstate::QUERY_CANCELED && !matches!(e, ExecError::Partial(_)));
            if !undone
                || !retry.fresh
                || self.io.answered() != retry.before
                || self.io.has_left()
                || !self.io.take_deadlocked()
            {
                break;
            }
            self.finish_implicit(true).await?;
            self.io.begin();
            result = self.work().run(compiled, &request).await;
        }
        let result = loop {
            let e = match result {
                Ok(f) if !f.stale => break Ok(f),
                Ok(_) => ExecError::Stale,
                Err(e) => e,
            };
            if let Err(e) = self.begin_anew(e, &mut retry, sql).await {
                break Err(e);
            }
            let statement = sql::parse(sql, self.standard_conforming_strings())?.pop();
            let statement = statement.ok_or_else(|| ExecError::internal("no statement"))?;
            let again = Arc::new(self.compile(&statement, sql, None).await?);
            result = self.work().run(&again, &Request { sql, bound, literals: Literals::Own }).await;
        };
        let strategy = match (&result, compiled.plan.strategy()) {
            (_, plan::Strategy::Reference) => Strategy::Reference,
            // What it was this time; the plan has the other ways, too.
            (Ok(f), _) if !f.several => Strategy::Route,
            (_, plan::Strategy::Scatter | plan::Strategy::Refused) => Strategy::Scatter,
            (_, plan::Strategy::Route) => Strategy::Route,
        };
        self.router.metrics.statement(strategy, started.elapsed());
        match result {
            Ok(f) => Ok(f),
            Err(e) => Err(Box::pin(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e)).await),
        }
    }

    /// The statement begins with its tables. Where a change takes its locks on one that the transaction has not touched it
    /// waits, and is planned anew if the catalog is another one afterwards.
    async fn touch(&mut self, compiled: &Compiled, sql: &str) -> Result<Option<Arc<Compiled>>> {
        let touched = &self.transaction.touched;
        let oids = compiled.relations().map(|r| r.oid);
        let new: Vec<u32> = oids.filter(|oid| !touched.contains(oid)).collect();
        if new.is_empty() || self.own_schema {
            return Ok(None);
        }
        let mut again = None;
        let herd = self.router.herd.clone();
        if !herd.pauses.none() {
            let cancelled = exec::Client::cancelled(&mut self.io);
            tokio::select! {
                biased;
                () = cancelled => return Err(ExecError::sql(sqlstate::QUERY_CANCELED, "canceling statement due to user request")),
                () = herd.pauses.wait(&new, compiled.plan.whole().writes, &self.transaction.pauses) => {}
            }
            let before = self.epoch.clone();
            self.take_epoch();
            if !Arc::ptr_eq(&before, &self.epoch) {
                let statement = sql::parse(sql, self.standard_conforming_strings())?.pop();
                let statement = statement.ok_or_else(|| ExecError::internal("no statement"))?;
                again = Some(Arc::new(self.compile(&statement, sql, None).await?));
            }
        }
        if self.transaction.is_block() {
            self.transaction.touched.extend(new);
        }
        Ok(again)
    }

    /// An INSERT of rows together with those of others, unless that was tried for this statement already.
    pub async fn share_rows(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<RowWay> {
        if let Some(way) = self.row_way.take() {
            return Ok(way);
        }
        if compiled.plan.share_rows().is_none() {
            return Ok(RowWay::Apart);
        }
        let two_phase = self.own.is_on("herd.two_phase");
        self.work().share_rows(compiled, request, two_phase).await
    }

    pub(super) async fn run_kind(
        &mut self,
        statement: &Arc<NodeEnum>,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let described = bound.is_none();
        match statement.as_ref() {
            NodeEnum::TransactionStmt(t) => self.transaction_statement(t, sql).await,
            NodeEnum::VariableSetStmt(s) => self.set(s, sql).await,
            NodeEnum::VariableShowStmt(s) => self.show(s, sql, described).await,
            NodeEnum::DiscardStmt(d) => self.discard(d, sql).await,
            NodeEnum::ConstraintsSetStmt(s) => self.set_constraints(s, sql, bound).await,
            NodeEnum::PrepareStmt(p) => self.sql_prepare(p).await,
            NodeEnum::ExecuteStmt(e) => self.sql_execute(e, bound).await,
            NodeEnum::DeallocateStmt(d) => self.sql_deallocate(d),
            NodeEnum::DeclareCursorStmt(d) => self.declare_cursor(d, sql, bound).await,
            NodeEnum::FetchStmt(f) => self.fetch(f, sql, bound).await,
            NodeEnum::ClosePortalStmt(c) => self.close_cursor(c, sql).await,
            NodeEnum::ExplainStmt(_) if bound.is_some_and(|b| !b.values.is_empty()) => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "EXPLAIN with parameters is not supported through the router",
            )
            .hint("Write the values in place of the parameters.")),
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
            NodeEnum::CreateTableAsStmt(c)
                if matches!(c.query.as_deref().and_then(|q| q.node.as_ref()), Some(NodeEnum::ExecuteStmt(_))) =>
            {
                Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "CREATE TABLE AS EXECUTE is not supported through the router",
                )
                .hint("Write the statement itself in place of EXECUTE."))
            }
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

    /// DO and CALL run whole on home: code that uses tables of the herd would see a part of them only.
    async fn code(&mut self, statement: &NodeEnum, sql: &str, bound: Option<&Bound>) -> Result<Forwarded> {
        let watched = exec::code::judge_at_home(statement, sql, &self.epoch, &self.search_path)?;
        let before = if watched { Some(self.watch().await?) } else { None };
        let known = &self.epoch.snapshot.session_code;
        let (settings, unknown) = catalog::SessionCode::settings_in(sql);
        let (called, inside) = (known.is_called_in(sql), catalog::SessionCode::is_text(sql));
        let forwarded = if called || inside {
            let code = Code {
                settings: known.settings.iter().cloned().chain(settings).collect(),
                opaque: unknown || called && known.opaque,
                sequences: known.sequences_in(sql),
            };
            let scope = self.code_begins(code, true);
            let result = self.on_home_bound(sql, bound).await;
            self.code_ends(scope, result).await?
        } else {
            self.taint = true;
            let result = self.on_home_bound(sql, bound).await;
            self.taint = false;
            result?
        };
        if let Some(before) = before {
            self.watched(before).await?;
        }
        Ok(forwarded)
    }

    /// Code is about to run on home that may use anything: in a transaction, so that it can be looked at, and undone.
    pub(crate) async fn watch(&mut self) -> Result<Watch> {
        let mut work = self.work();
        work.need_transaction();
        match work.watch_home().await? {
            (Some(table), _) => Err(exec::code::touched_before(&table)),
            (None, watch) => Ok(watch),
        }
    }

    /// It has used nothing that others have a part of; what it has changed in the catalog is judged as DDL is.
    pub(crate) async fn watched(&mut self, before: Watch) -> Result<()> {
        let mut work = self.work();
        let (touched, made) = work.watched_home(&before).await?;
        if let Some(table) = touched {
            return Err(exec::code::touched(&table));
        }
        if work.made_on_home(before.made, made).await? {
            self.schema_changed().await?;
        }
        Ok(())
    }

    async fn special_statement(
        &mut self,
        statement: &Arc<NodeEnum>,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        if let Some(call) = exec::recognise(statement) {
            return self.admin(call?, bound).await;
        }
        if herd_views::names_herd_view(statement) {
            return self.herd_view(statement, sql, bound).await;
        }
        if let NodeEnum::SelectStmt(s) = statement.as_ref()
            && s.into_clause.is_some()
        {
            return self.utility(statement, sql, bound).await;
        }
        if backends::names_backends(statement) {
            return self.backends(statement, sql, bound).await;
        }
        let special = special::special(statement, &self.epoch.snapshot);
        let whole = statement;
        let seen = if special.reads_sequences { self.with_values_seen(statement)? } else { None };
        let (statement, sql) = seen.as_ref().map_or((statement, sql), |(tree, text)| (tree, &**text));
        if special.pins {
            self.pin_home(Pins::LOCK);
        }
        let mut compiled = self.compile(statement, sql, None).await;
        let asked = match special.reads_sequences && sequences::asks_elsewhere(&compiled) {
            true => self.with_values_of_home(whole).await?,
            false => None,
        };
        if let Some((tree, text)) = &asked {
            compiled = self.compile(tree, text, None).await;
        }
        let sql = asked.as_ref().map_or(sql, |(_, text)| text);
        let compiled = Arc::new(compiled?);
        let before = if special.watched { Some(self.watch().await?) } else { None };
        let result = if special.leaves.anything(self.transaction.is_active()) {
            let mut code = self.code_of(special.leaves, bound)?;
            code.sequences = compiled.plan.whole().sequences == plan::Sequences::Any;
            let scope = self.code_begins(code, matches!(compiled.plan, plan::Plan::Forward(_)));
            let result = self.run(&compiled, sql, bound, None).await;
            self.code_ends(scope, result).await
        } else {
            self.taint = special.writes;
            let result = self.run(&compiled, sql, bound, None).await;
            self.taint = false;
            result
        };
        if let Some(before) = before
            && result.is_ok()
        {
            self.watched(before).await?;
        }
        if special.reads_sequences { result.map_err(Session::no_value) } else { result }
    }

    fn code_of(&self, leaves: special::Leaves, bound: Option<&Bound>) -> Result<Code> {
        let known = &self.epoch.snapshot.session_code;
        let mut settings = leaves.settings;
        settings.extend(crate::code::named_in(bound, &leaves.named_by)?);
        if let Some(own) = settings.iter().find_map(|name| RouterSettings::canonical(name)) {
            let message = format!("set_config() of {own}, a setting of the router, is not supported");
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(&format!("Use SET {own}.")));
        }
        if leaves.code {
            settings.extend(known.settings.iter().cloned());
        }
        Ok(Code { settings, opaque: leaves.unknown || leaves.code && known.opaque, sequences: false })
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
            self.load_own_schema().await?;
        }
        Ok(done.forwarded)
    }

    /// DDL and other utility statements.
    pub(crate) async fn utility(
        &mut self,
        statement: &Arc<NodeEnum>,
        sql: &str,
        bound: Option<&Bound>,
    ) -> Result<Forwarded> {
        let started = Instant::now();
        let relation = makes_temporary_relation(statement);
        let makes = relation || plan::ddl::makes_temporary_type(statement);
        exec::code::refuse_temporary_code(statement)?;
        if makes {
            exec::code::judge_temporary(statement, &self.epoch, &self.search_path)?;
            self.use_pg_temp();
        }
        let (path, names) = (self.search_path.clone(), self.temporary.clone());
        let mut retry = self.retry();
        let done = loop {
            if relation {
                break None;
            }
            let mut work = self.work();
            work.uses = plan::Sequences::Any;
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
        let facts = plan::ddl::Facts {
            search_path: path.to_vec(),
            temporary: temporary.to_vec(),
            ..plan::ddl::Facts::default()
        };
        plan::ddl::inert(statement, &self.router.herd.epoch.load().snapshot, &facts)
    }

    /// After DDL: the transaction's own view of the catalog, by which the code in it is judged; or at once everybody's.
    async fn schema_changed(&mut self) -> Result<()> {
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

    /// Keeps the connection to home from now on; `why` is one of [`Pins`]. Temporary is what has ever had a pg_temp.
    pub fn pin_home(&mut self, why: u8) {
        self.pin.want();
        self.pins |= why;
        self.transaction.keep = Some(self.epoch.snapshot.home);
    }

    /// The statement as it is on home, its rows described.
    pub async fn on_home(&mut self, sql: &str) -> Result<Forwarded> {
        self.on_home_described(sql, true).await
    }

    pub async fn on_home_described(&mut self, sql: &str, described: bool) -> Result<Forwarded> {
        let home = self.epoch.snapshot.home;
        self.on_node(home, sql, described).await
    }

    pub async fn on_node(&mut self, node: i32, sql: &str, described: bool) -> Result<Forwarded> {
        let mut work = self.work();
        if writes(sql) || runs_query(sql) {
            work.uses = plan::Sequences::Any;
        }
        let mut p = work.lane(node).await?;
        p.wrote |= writes(sql);
        p.lane.put_query(sql);
        let result = match p.lane.conn.flush().await {
            Ok(()) => exec::forward(&mut p.lane, work.client, described, exec::Ids::Home).await,
            Err(e) => Err(e.into()),
        };
        work.put_back(p).await;
        result
    }

    pub(crate) async fn on_home_bound(&mut self, sql: &str, bound: Option<&Bound>) -> Result<Forwarded> {
        match bound {
            Some(b) if !b.values.is_empty() || b.result_formats.iter().any(|f| *f != 0) => {
                let compiled = Arc::new(Compiled::new(plan::Plan::home(true), sql, self.context, None));
                self.run(&compiled, sql, bound, None).await
            }
            Some(_) => self.on_home_described(sql, false).await,
            None => self.on_home(sql).await,
        }
    }
}

/// Statements of the session's own that change nothing need no part in a commit over several nodes.
fn writes(sql: &str) -> bool {
    let word = sql::split::first_keyword(sql).to_ascii_uppercase();
    !matches!(
        word.as_str(),
        "FETCH" | "MOVE" | "CLOSE" | "DECLARE" | "SHOW" | "SET" | "RESET" | "EXPLAIN" | "LISTEN" | "UNLISTEN"
    )
}

/// What a query inside may take from sequences is taken then.
fn runs_query(sql: &str) -> bool {
    matches!(&*sql::split::first_keyword(sql).to_ascii_uppercase(), "FETCH" | "MOVE" | "DECLARE" | "EXPLAIN")
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

/// It makes a relation for this session alone.
fn makes_temporary_relation(statement: &NodeEnum) -> bool {
    let made = match statement {
        NodeEnum::CreateStmt(c) => c.relation.as_ref(),
        NodeEnum::CreateTableAsStmt(c) => c.into.as_deref().and_then(|i| i.rel.as_ref()),
        NodeEnum::ViewStmt(v) => v.view.as_ref(),
        NodeEnum::CreateSeqStmt(s) => s.sequence.as_ref(),
        NodeEnum::SelectStmt(s) => s.into_clause.as_deref().and_then(|i| i.rel.as_ref()),
        _ => None,
    };
    made.is_some_and(|rv| rv.relpersistence == "t" || rv.schemaname == "pg_temp")
}
