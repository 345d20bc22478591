//! Plans a session's statements. One over views may take long whatever its own length is, and one whose WITH queries name each other, so
//! they are planned on a thread apart, while the thread that serves others does so; large plans a few at a time, and no longer than the client lets a statement run. It does not know where plans are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catalog::{Relation, RelationKind, TemporaryRelation};
use exec::{Compiled, Epoch, ExecError};
use sql::{NodeEnum, ast, names};

use crate::session::{Result, Session};
use crate::shares::Share;

/// Planning that takes longer is others' time: the session's statements are worked on apart from then on.
const LONG: Duration = Duration::from_millis(20);

/// What a plan depends on besides its statement.
struct Planning<'p> {
    epoch: &'p Epoch,
    search_path: &'p [String],
    temporary: &'p [TemporaryRelation],
    context: u64,
    upsert: bool,
    target: Option<&'p Arc<Relation>>,
    /// Types of the statement's parameters.
    parameters: &'p [u32],
}

impl Planning<'_> {
    /// None: it is more work than that.
    fn within(&self, statement: &NodeEnum, sql: &str, steps: &plan::Steps) -> Option<Result<Compiled>> {
        let planned = self.plan(statement, sql, steps);
        (!steps.is_spent()).then_some(planned)
    }

    fn plan(&self, statement: &NodeEnum, sql: &str, steps: &plan::Steps) -> Result<Compiled> {
        let names = plan::Context::new(&self.epoch.snapshot, self.search_path, self.temporary);
        let cx = plan::Context { target: self.target, parameters: self.parameters, steps: Some(steps), ..names };
        if self.upsert {
            plan::upsert::refuse_nested(statement)?;
            if let NodeEnum::InsertStmt(insert) = statement
                && let Some(plan) = plan::upsert::plan(insert, &cx)?
            {
                return Ok(Compiled::new(plan, sql, self.context, None));
            }
        }
        let plan = plan::plan(statement, sql, &cx)?;
        let mut compiled = Compiled::new(plan, sql, self.context, None);
        if self.names_temporary(statement) {
            static PARSED: AtomicU64 = AtomicU64::new(1);
            compiled.own = PARSED.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        Ok(compiled)
    }

    fn names_temporary(&self, statement: &NodeEnum) -> bool {
        let temporary =
            |rv: &ast::RangeVar| rv.schemaname == "pg_temp" || self.temporary.iter().any(|t| *t == *rv.relname);
        !self.temporary.is_empty() && sql::relations::of(statement).into_iter().any(temporary)
    }

    fn names_view(&self, statement: &NodeEnum) -> bool {
        sql::relations::of(statement).into_iter().any(|rv| {
            if rv.schemaname.is_empty() && self.temporary.iter().any(|t| t.view.is_some() && *t == *rv.relname) {
                return true;
            }
            let (schema, name) = names::table(rv);
            let relation = self.epoch.snapshot.resolve(schema, name, self.search_path);
            relation.is_some_and(|r| r.kind == RelationKind::View)
        })
    }
}

impl Session {
    /// What took long to plan, for a text of any length, may do so again: the session works apart from now on.
    pub async fn compile(&mut self, statement: &NodeEnum, sql: &str) -> Result<Compiled> {
        self.compile_with(statement, sql, &[]).await
    }

    /// The same with the types of its parameters.
    pub async fn compile_with(&mut self, statement: &NodeEnum, sql: &str, parameters: &[u32]) -> Result<Compiled> {
        let started = Instant::now();
        self.settle_path().await?;
        let target = match self.names().takes_distributed(statement) {
            Some(name) => self.temporary_table(name).await?,
            None => None,
        };
        let planning = Planning {
            epoch: &self.epoch,
            search_path: &self.search_path,
            temporary: &self.temporary,
            context: self.context,
            upsert: self.bulk.upsert,
            target: target.as_ref(),
            parameters,
        };
        let here = match planning.names_view(statement) {
            true => None,
            false => planning.within(statement, sql, &plan::Steps::new(plan::Steps::SHORT)),
        };
        let compiled = match here {
            Some(compiled) => compiled,
            None => Box::pin(self.compile_apart(statement, sql, target.as_ref(), parameters)).await,
        };
        self.large_statements |= started.elapsed() > LONG;
        self.keep_time().await?;
        compiled
    }

    async fn compile_apart(
        &mut self,
        statement: &NodeEnum,
        sql: &str,
        target: Option<&Arc<Relation>>,
        parameters: &[u32],
    ) -> Result<Compiled> {
        let parameters = parameters.to_vec();
        let (epoch, context, upsert) = (self.epoch.clone(), self.context, self.bulk.upsert);
        let (search_path, temporary) = (self.search_path.clone(), self.temporary.clone());
        let (statement, sql, target) = (statement.clone(), sql.to_string(), target.cloned());
        let (router, role) = (self.router.clone(), self.share_of());
        let plan = Arc::new(move |steps: &plan::Steps| {
            let planning = Planning {
                epoch: &epoch,
                search_path: &search_path,
                temporary: &temporary,
                context,
                upsert,
                target: target.as_ref(),
                parameters: &parameters,
            };
            planning.plan(&statement, &sql, steps)
        });
        let short = Arc::new(plan::Steps::new(plan::Steps::SHORT));
        let planned = self.on_a_thread(plan.clone(), short.clone(), None).await?;
        if !short.is_spent() {
            return planned;
        }
        self.keep_time().await?;
        // Whoever waits for a place has no thread: others need those.
        exec::Client::waits(&mut self.io);
        let cancelled = exec::Client::cancelled(&mut self.io);
        let place = tokio::select! {
            biased;
            () = cancelled => return Err(ExecError::cancelled()),
            place = router.apart.plan(role) => place,
        };
        self.on_a_thread(plan, Arc::new(plan::Steps::new(plan::Steps::MOST)), Some(place)).await?
    }

    /// Plans apart, until it is cancelled; the place is free again when that has ended, be it for nobody.
    async fn on_a_thread(
        &mut self,
        plan: Arc<impl Fn(&plan::Steps) -> Result<Compiled> + Send + Sync + 'static>,
        steps: Arc<plan::Steps>,
        place: Option<Share>,
    ) -> Result<Result<Compiled>> {
        let work = steps.clone();
        let mut planned = tokio::task::spawn_blocking(move || {
            let planned = plan(&work);
            drop(place);
            planned
        });
        let cancelled = exec::Client::cancelled(&mut self.io);
        tokio::select! {
            biased;
            () = cancelled => {
                steps.stop();
                Err(ExecError::cancelled())
            }
            planned = &mut planned => planned.map_err(|_| ExecError::internal("planning ended in a panic")),
        }
    }
}
