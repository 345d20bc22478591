//! Runs a planned statement: with those of others, on its nodes, and again by a newer catalog if the one it was planned with proves
//! stale. How it was planned, and by which protocol it came, is not known here.

use std::sync::Arc;
use std::time::Instant;
use wire::sqlstate;

use exec::{Bound, Compiled, ExecError, Forwarded, Literals, Request, RowWay};

use crate::anew::{Retry, Written};
use crate::metrics::CountedAs;
use crate::prepared::still_told;
use crate::session::{Result, Session};

/// How often a statement begins again by itself: after deadlocks, above all.
const AGAIN_MAX: usize = 10;

/// What is known of a statement before it runs.
#[derive(Default)]
pub struct Tried {
    /// What its rows were told when they asked for company.
    pub rows: Option<RowWay>,
    /// Where it goes.
    pub placed: Option<exec::Placed>,
}

impl Session {
    /// Runs a planned statement, again with a fresh catalog if the one it was planned with proves stale.
    pub fn run<'a>(
        &'a mut self,
        compiled: &'a Arc<Compiled>,
        sql: &'a str,
        bound: Option<&'a Bound>,
    ) -> impl Future<Output = Result<Forwarded>> + 'a {
        self.run_request(compiled, Request::bound(sql, bound), Tried::default())
    }

    /// The same; `tried`: what is known of it already.
    pub async fn run_request(
        &mut self,
        compiled: &Arc<Compiled>,
        request: Request<'_>,
        tried: Tried,
    ) -> Result<Forwarded> {
        if let Some(name) = compiled.plan.whole().current_of.as_deref()
            && let Some(changed) = Box::pin(self.under_cursor(compiled, &request)).await?
        {
            let request = Request { sql: &changed.text, literals: Literals::Own, ..request };
            let result = Box::pin(self.run_as_planned(&changed, request, Tried::default())).await;
            return self.named_by_client(result, name);
        }
        self.run_as_planned(compiled, request, tried).await
    }

    async fn run_as_planned(
        &mut self,
        compiled: &Arc<Compiled>,
        mut request: Request<'_>,
        mut tried: Tried,
    ) -> Result<Forwarded> {
        let started = Instant::now();
        let sql = request.sql;
        self.reads_still()?;
        let mut retry = self.retry_since(started);
        let paused;
        let mut compiled = compiled;
        if (self.transaction.is_block() || !self.router.herd.pauses.none())
            && let Some(again) = Box::pin(self.touch(compiled, &request)).await?
        {
            paused = again;
            compiled = &paused;
            request.literals = Literals::Own;
            tried.placed = None;
        }
        let rows = match tried.rows {
            Some(way) => way,
            None => self.share_rows(compiled, &request).await?,
        };
        let _turn = match rows {
            RowWay::Done(forwarded) => {
                self.router.metrics.statement(CountedAs::Route, started.elapsed());
                return Ok(forwarded);
            }
            RowWay::Ahead(turn) => Some(turn),
            RowWay::Apart => None,
        };
        let mut aside = self.aside(compiled, &request);
        let mut from = self.may_read_standbys(compiled, &request, aside.is_some());
        let mut work = self.work();
        if let Some(aside) = &mut aside {
            work.transaction = aside;
        }
        work.standbys = from.as_deref_mut();
        let mut result = work.run_at(compiled, &request, tried.placed).await;
        let mut on_one = work.on_one;
        if let Some(from) = from
            && Box::pin(self.left_standbys(&from, &result, &retry)).await?
        {
            aside = self.aside(compiled, &request);
            let mut work = self.work();
            if let Some(aside) = &mut aside {
                work.transaction = aside;
            }
            result = Box::pin(work.run(compiled, &request)).await;
            on_one = work.on_one;
        }
        let mut again: Option<Arc<Compiled>> = None;
        let mut tries = 0;
        let result = loop {
            let e = match result {
                Ok(f) if !f.stale => break Ok(f),
                Ok(_) => ExecError::Stale,
                Err(e) => e,
            };
            if self.copies_met_apart(&e, &mut retry, again.as_ref().unwrap_or(compiled)) {
                self.finish_implicit(true).await?;
                self.work().rest(None, retry.pause_for_copies()).await?;
                self.io.begin_again();
            } else if tries < AGAIN_MAX && self.lost_deadlock(&e, &retry) {
                tries += 1;
                self.finish_implicit(true).await?;
                self.io.begin_again();
            } else if let Err(e) = Box::pin(self.begin_anew(e, &mut retry, Written { sql, bound: request.bound })).await
            {
                break Err(e);
            } else {
                again = Some(Box::pin(self.planned_again(&request, compiled)).await?);
            }
            aside = self.aside(again.as_ref().unwrap_or(compiled), &request);
            let mut work = self.work();
            if let Some(aside) = &mut aside {
                work.transaction = aside;
            }
            result = match &again {
                Some(again) => Box::pin(work.run(again, &Request { literals: Literals::Own, ..request })).await,
                None => Box::pin(work.run(compiled, &request)).await,
            };
            on_one = work.on_one;
        };
        self.router.metrics.statement(counted_as(compiled, on_one), started.elapsed());
        match result {
            Ok(f) => Ok(f),
            Err(e) => Err(Box::pin(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e)).await),
        }
    }

    /// Nobody has seen anything of the statement, and nothing else is undone with it.
    fn is_unseen(&mut self, retry: &Retry) -> bool {
        retry.fresh && self.io.answered() == retry.before && !self.io.has_left()
    }

    /// Cancelled to break a deadlock: all of it is undone, and the others go first.
    fn lost_deadlock(&mut self, e: &ExecError, retry: &Retry) -> bool {
        let cancelled = e.code() == sqlstate::QUERY_CANCELED && !matches!(e, ExecError::Partial(_));
        cancelled && self.is_unseen(retry) && self.io.take_deadlocked()
    }

    /// A change of a reference table met another's commit that one node had already and another not yet (the router's own word,
    /// not a node's): it begins again once that is everywhere.
    fn copies_met_apart(&mut self, e: &ExecError, retry: &mut Retry, compiled: &Compiled) -> bool {
        let apart = e.code() == sqlstate::T_R_SERIALIZATION_FAILURE && matches!(e, ExecError::Sql(_));
        let copies = || compiled.plan.written().is_some_and(|table| table.is_reference());
        apart && copies() && self.is_unseen(retry) && retry.may_wait_for_copies()
    }

    /// A text that was planned before, by today's catalog. `told`: whose columns the client may have been told of before it came to this.
    async fn planned_again(&mut self, request: &Request<'_>, told: &Compiled) -> Result<Arc<Compiled>> {
        let sql = request.sql;
        let _reading = self.before_reading(sql).await?;
        let statement = sql::parse(sql, self.standard_conforming_strings())?.pop();
        let statement = statement.ok_or_else(|| ExecError::internal("no statement"))?;
        let types = request.bound.map_or(&[][..], |b| &b.types);
        let again = Arc::new(self.compile_with(&statement, sql, types).await?);
        if let (Some(_), Some(told)) = (request.bound, told.described.get()) {
            let now = self.work().described(&again, types).await?;
            still_told(told.fields.as_deref(), now.fields.as_deref())?;
        }
        Ok(again)
    }

    /// The statement begins with its tables, and is planned anew if the catalog is another one by then.
    async fn touch(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<Option<Arc<Compiled>>> {
        let oids = compiled.relations().map(|r| r.oid).chain(compiled.plan.whole().others.iter().copied());
        match self.begins_with(oids.collect(), compiled.plan.whole().writes).await? {
            true => Ok(Some(self.planned_again(request, compiled).await?)),
            false => Ok(None),
        }
    }

    /// As [`begins_with`](Self::begins_with), with all tables of what is planned: whether it has to be planned anew.
    pub(crate) async fn begins_anew(&mut self, compiled: &Compiled) -> Result<bool> {
        let whole = compiled.plan.whole();
        let tables = compiled.relations().map(|r| r.oid).chain(whole.others.iter().copied()).collect();
        Box::pin(self.begins_with(tables, whole.writes)).await
    }

    /// A statement begins with tables. Where a change takes its locks on one that the transaction has not touched it waits. Whether the
    /// catalog is another one afterwards.
    pub(super) async fn begins_with(&mut self, mut tables: Vec<u32>, writes: bool) -> Result<bool> {
        if !self.transaction.is_block() && self.router.herd.pauses.none() {
            return Ok(false);
        }
        tables.retain(|oid| !self.transaction.has_touched(*oid));
        if tables.is_empty() || self.own_catalog.is_own() {
            return Ok(false);
        }
        let mut changed = false;
        let herd = self.router.herd.clone();
        if !herd.pauses.none() {
            let begins = exec::Begins { writes, in_block: self.transaction.is_block() };
            let mut limits = None;
            let begun = Instant::now();
            loop {
                let cancelled = exec::Client::cancelled(&mut self.io);
                let kept = tokio::select! {
                    biased;
                    () = cancelled => return Err(ExecError::cancelled()),
                    kept = herd.pauses.wait(&tables, begins, &self.transaction.pauses, |t| self.transaction.has_touched(t)) => kept,
                };
                if !kept {
                    break;
                }
                // A table is being moved, and will be another one then.
                if limits.is_none() {
                    limits = Some(self.work().limits_beside(begun).await?);
                }
                limits.iter().try_for_each(exec::Limits::check)?;
            }
            let before = self.epoch.clone();
            self.take_epoch();
            changed = !Arc::ptr_eq(&before, &self.epoch);
        }
        if self.transaction.is_block() {
            self.transaction.touches(tables);
        }
        Ok(changed)
    }

    /// An INSERT of rows together with those of others.
    pub async fn share_rows(&mut self, compiled: &Compiled, request: &Request<'_>) -> Result<RowWay> {
        if compiled.plan.share_rows().is_none() || request.limit.is_some() {
            return Ok(RowWay::Apart);
        }
        self.transaction.may_have_written = true;
        let two_phase = self.own.is_on("herd.two_phase");
        self.work().share_rows(compiled, request, two_phase).await
    }
}

/// How metrics count it. `on_one`: what it was this time; the plan has the other ways, too.
fn counted_as(compiled: &Compiled, on_one: bool) -> CountedAs {
    match compiled.plan.strategy() {
        plan::Strategy::Reference => CountedAs::Reference,
        plan::Strategy::Route => CountedAs::Route,
        plan::Strategy::Scatter | plan::Strategy::Refused if on_one => CountedAs::Route,
        plan::Strategy::Scatter | plan::Strategy::Refused => CountedAs::Scatter,
    }
}
