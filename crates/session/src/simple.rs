//! The simple protocol: a string of statements, which share one implicit transaction.

use std::sync::Arc;
use std::time::Instant;
use wire::sqlstate;

use exec::{Compiled, ExecError, Forwarded, Pin, Request};
use plan::kind::{Joins, Kind};
use sql::NodeEnum;
use sql::template::Template;
use wire::backend;

use crate::apart;
use crate::locked::is_locked;
use crate::prepared::Parsed;
use crate::session::{Result, Session};
use crate::spare::Spare;
use crate::statement::Tried;

thread_local! {
    /// The buffers that statements are taken apart in.
    static TEMPLATES: Spare<Template> = const { Spare::new() };
}

/// What became of a statement whose template is known.
enum Known {
    Done(Forwarded),
    /// Its values lead to several nodes: it is planned by its own text. With what its rows were told when they asked for
    /// company.
    Unknown(Option<exec::RowWay>),
}

impl Session {
    /// A Query message. Errors are reported here; only a lost client comes back as an error.
    pub async fn query(&mut self, sql: &str) -> Result<()> {
        let unnamed = self.portals.remove("");
        self.forget_portal(unnamed);
        self.statements.remove("");
        let scs = self.standard_conforming_strings();
        let result = match sql::split::split_statements(sql, scs) {
            Ok(ranges) if ranges.is_empty() => {
                backend::empty_query(self.out());
                Ok(())
            }
            Ok(ranges) => {
                self.batch = ranges.len() > 1;
                let mut result = Ok(());
                // Nothing of a string runs if any of it can't be read. What begins and ends blocks stays out of its own.
                let mut joins = vec![];
                if self.batch {
                    result = self.blocks_of(sql, &mut joins).await;
                } else if self.io.encoding().is_some() {
                    joins.push(self.gives_rows(sql));
                }
                for (i, range) in ranges.iter().enumerate() {
                    if result.is_err() {
                        break;
                    }
                    let joins = joins.get(i).copied().unwrap_or_default();
                    result = self.one(&sql[range.clone()], joins, i + 1 == ranges.len()).await;
                }
                self.batch = false;
                result
            }
            // PostgreSQL itself says what is wrong with it, and where.
            Err(_) => Err(Box::pin(self.nodes_error(sql)).await),
        };
        if let Err(e) = result {
            Box::pin(self.failed(e)).await?;
        }
        self.ready();
        Ok(())
    }

    /// Whether a statement gives rows and may have changed others by then: rows that can't be told in the client's character set take that back,
    /// so it has a transaction around it.
    fn gives_rows(&self, sql: &str) -> bool {
        let trees = sql::parse(sql, self.standard_conforming_strings()).unwrap_or_default();
        trees.first().is_some_and(|tree| {
            matches!(tree, NodeEnum::ExecuteStmt(_)) || self.decide(tree, &[]).is_ok_and(|d| d.plan.gives_rows())
        })
    }

    /// Which statements of a string are no part of a block that it has.
    async fn blocks_of(&mut self, sql: &str, joins: &mut Vec<bool>) -> Result<()> {
        let _reading = self.before_reading(sql).await?;
        match sql::parse(sql, self.standard_conforming_strings()) {
            Ok(trees) => joins.extend(trees.iter().map(|tree| Kind::of(tree).joins != Joins::Never)),
            Err(e) => return Err(Box::pin(self.syntax_error(sql, e)).await),
        }
        self.keep_time().await
    }

    /// One statement of the string, with its completion. `joins`: it is part of the block that the string has.
    async fn one(&mut self, sql: &str, joins: bool, last: bool) -> Result<()> {
        if joins && !self.transaction.is_active() {
            self.transaction.begin("BEGIN", false);
        }
        let done = self.one_statement(sql).await;
        self.io.all_is_told()?;
        let done = done?;
        if last || !self.batch {
            self.finish_implicit(false).await?;
        }
        self.complete(&done);
        Ok(())
    }

    /// Tells the client that a statement is done, and counts its rows.
    pub fn complete(&mut self, done: &Forwarded) {
        let rows = backend::rows_of_tag(&done.tag);
        self.router.metrics.rows_sent.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
        if done.empty {
            backend::empty_query(self.out());
        } else {
            backend::command_complete(self.out(), &done.tag);
        }
    }

    async fn one_statement(&mut self, sql: &str) -> Result<Forwarded> {
        if self.batch {
            self.io.begin_time();
        }
        self.newest_epoch().await?;
        self.take_hint(sql)?;
        let mut template = TEMPLATES.with(Spare::take).unwrap_or_default();
        let scanned = template.scan(sql, self.standard_conforming_strings()).is_ok();
        let mut result = self.with_template(sql, if scanned { Some(&template) } else { None }).await;
        if matches!(&result, Err(e) if is_locked(e)) {
            result = Box::pin(self.when_unlocked(sql, result)).await;
        }
        // The buffers of a large one are given back.
        if sql.len() < apart::LARGE {
            TEMPLATES.with(|templates| templates.put(template));
        }
        result
    }

    /// Again and again: nothing of it has begun.
    async fn when_unlocked(&mut self, sql: &str, mut result: Result<Forwarded>) -> Result<Forwarded> {
        let begun = Instant::now();
        while let Err(e) = result {
            self.wait_for_definition(e, begun).await?;
            result = self.with_template(sql, None).await;
        }
        result
    }

    async fn with_template(&mut self, sql: &str, template: Option<&Template>) -> Result<Forwarded> {
        let mut tried = Tried::default();
        if let Some(t) = template
            && !self.transaction.has_failed()
            && let Some(compiled) = self.epoch.by_template(t, self.context)
        {
            match self.run_template(&compiled, sql, t).await? {
                Known::Done(done) => return Ok(done),
                Known::Unknown(rows) => tried.rows = rows,
            }
        }
        if !self.transaction.has_failed()
            && let Some(compiled) = self.epoch.by_text(self.context, sql, &[])
        {
            return self.run_request(&compiled, Request::simple(sql), tried).await;
        }
        let mut reading = self.before_reading(sql).await?;
        let statement = match sql::parse(sql, self.standard_conforming_strings()) {
            // Not to be held in place while it runs: a tree's root is large.
            Ok(mut s) => s.pop().map(Box::new),
            Err(e) => return Err(Box::pin(self.syntax_error(sql, e)).await),
        };
        let Some(statement) = statement else { return Ok(Forwarded { empty: true, ..Default::default() }) };
        self.allowed_when_failed(&statement)?;
        let decided = self.decide(&statement, &[])?;
        self.keep_time().await?;
        if !decided.lasts() {
            reading.is_read();
            return Box::pin(self.run_tree(&statement, decided, sql, None)).await;
        }
        drop(decided);
        let compiled = Box::pin(self.planned(&statement, sql, &[])).await?;
        drop((statement, reading));
        let compiled = match template {
            Some(t) if compiled.plan.whole().template || compiled.plan.share_rows().is_some() => {
                self.keep_template(compiled, t)
            }
            _ => compiled,
        };
        self.run_request(&compiled, Request::simple(sql), tried).await
    }

    /// A statement of a known template.
    async fn run_template(&mut self, compiled: &Arc<Compiled>, sql: &str, t: &Template) -> Result<Known> {
        let request = Request { literals: exec::Literals::Template(t), ..Request::simple(sql) };
        let other_setting = || sql.to_ascii_lowercase().contains(crate::encoding::NAME);
        if exec::has_moments(compiled, &request) || compiled.plan.whole().reads_setting && other_setting() {
            return Ok(Known::Unknown(None));
        }
        // What stores are asked has the literals of the statement that was planned.
        if compiled.plan.is_whole() && !self.work().one_asks_columns(compiled, None) {
            return self.run_request(compiled, request, Tried::default()).await.map(Known::Done);
        }
        if compiled.plan.share_rows().is_some() {
            return Ok(match self.share_rows(compiled, &request).await? {
                exec::RowWay::Done(forwarded) => Known::Done(forwarded),
                // Its own plan is made from its own text.
                way => Known::Unknown(Some(way)),
            });
        }
        match self.work().place(compiled, &request).await? {
            exec::Placed::Several(_) => Ok(Known::Unknown(None)),
            exec::Placed::One(_, shard) if self.work().one_asks_columns(compiled, shard) => Ok(Known::Unknown(None)),
            placed => {
                let tried = Tried { placed: Some(placed), ..Tried::default() };
                self.run_request(compiled, request, tried).await.map(Known::Done)
            }
        }
    }

    /// Keeps a plan for all statements of its template, where only keys depend on literals.
    fn keep_template(&self, compiled: Arc<Compiled>, t: &Template) -> Arc<Compiled> {
        if compiled.plan.share_rows().is_some() && !compiled.plan.is_whole() {
            let templated = Arc::new(compiled.for_template(t));
            // An upsert's plan depends on which rows there are.
            if !self.bulk.upsert && templated.rows_fit_template() {
                self.epoch.keep_template(&templated, t.hash());
            }
            return compiled;
        }
        let keyed = matches!(compiled.plan, plan::Planned::Forward(_))
            || (!compiled.plan.whole().tables.is_empty()
                && compiled.plan.whole().tables.iter().all(|t| t.may_be_one_shard()));
        if !keyed {
            return compiled;
        }
        let templated = Arc::new(compiled.for_template(t));
        if templated.fits_template() {
            self.epoch.keep_template(&templated, t.hash());
        }
        templated
    }

    /// Why a text could not be parsed here: PostgreSQL's own error, unless it is too deep.
    pub async fn syntax_error(&mut self, sql: &str, error: sql::SyntaxError) -> ExecError {
        if error.too_deep { error.into() } else { self.nodes_error(sql).await }
    }

    /// The error PostgreSQL itself gives for a text that could not be read here.
    pub async fn nodes_error(&mut self, sql: &str) -> ExecError {
        // A node writes what it can't read into its log. A password is replaced where a statement can be read, and only there.
        if sql.to_ascii_lowercase().contains("password")
            && let Err(e) = sql::parse(sql, self.standard_conforming_strings())
        {
            return e.into();
        }
        match self.work().describe_text(sql, &[]).await {
            Err(e) => e,
            Ok(_) => ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "this statement's syntax is newer than the router's parser",
            )
            .hint("Run it on each node directly."),
        }
    }

    /// As [`allowed_when_failed`](Self::allowed_when_failed), of what a text turned out to be.
    pub fn parsed_when_failed(&self, parsed: &Parsed) -> Result<()> {
        match parsed {
            Parsed::Tree(tree) => self.allowed_when_failed(tree),
            Parsed::Planned(_) if self.transaction.has_failed() => Err(in_failed_transaction()),
            Parsed::Planned(_) | Parsed::Empty => Ok(()),
        }
    }

    /// In a failed transaction only its end is allowed.
    pub fn allowed_when_failed(&self, statement: &NodeEnum) -> Result<()> {
        use sql::ast::TransactionStmtKind as Kind;
        if !self.transaction.has_failed() {
            return Ok(());
        }
        if let NodeEnum::TransactionStmt(t) = statement
            && matches!(
                Kind::try_from(t.kind),
                Ok(Kind::TransStmtCommit
                    | Kind::TransStmtRollback
                    | Kind::TransStmtRollbackTo
                    | Kind::TransStmtPrepare)
            )
        {
            return Ok(());
        }
        Err(in_failed_transaction())
    }

    /// A statement has failed: the client is told, and its transaction is over or failed.
    pub async fn failed(&mut self, e: ExecError) -> Result<()> {
        if let Some(said) = self.io.ended() {
            return Err(ExecError::Ended(said));
        }
        if let ExecError::Client(_) | ExecError::Ended(_) = e {
            return Err(e);
        }
        if let Pin::Lost(_) = self.pin {
            return self.still_stands();
        }
        // What could not be told of it came first.
        let e = self.io.all_is_told().err().unwrap_or(e);
        if e.code() == sqlstate::QUERY_CANCELED && self.io.has_left() {
            return Err(ExecError::lost("the client left"));
        }
        let late = self.io.take_late() && e.code() == sqlstate::QUERY_CANCELED;
        let e = if late { ExecError::late() } else { e };
        let e = match self.io.take_deadlocked() && e.code() == sqlstate::QUERY_CANCELED {
            true => ExecError::deadlocked(),
            false => e,
        };
        if self.transaction.is_block() {
            self.transaction.fail();
            let lost = self.transaction.depth() == 0;
            if lost {
                self.reading = None;
            }
            // With a savepoint there is a way back. Where all nodes know that it has failed, they hold nothing of it any more.
            let stands = |p: &txn::Participant| p.lane.conn.status() != b'E';
            if lost && self.transaction.participants.iter().any(stands) {
                self.transaction.doubtful |= !exec::Client::settled(&mut self.io).await;
                self.transaction.give_up().await;
            }
        } else {
            self.finish_implicit(true).await?;
        }
        self.report(&e);
        Ok(())
    }
}

/// 25P02, in PostgreSQL's words.
pub fn in_failed_transaction() -> ExecError {
    ExecError::sql(
        sqlstate::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}
