//! Changes of a table's kind: what it locks, what it looks at, in which order.
//!
//! All locks that it needs are taken first, on all nodes, in short tries (`ddl/lock.rs`): that no node comes or goes, that no other
//! table changes its kind, the table, and those its foreign keys refer to. Then the catalog is read, which others may have changed
//! until that moment; from then on nothing the plan rests on can change, and the change waits for nobody. Statements that begin with
//! the table wait at the routers meanwhile, and are planned by what it is then. What code of others' could break is judged by
//! the session once more when the transaction commits.
//!
//! A job is beside it where it takes long (`beside.rs`); in a client's block, too: its row is done when the block is committed.

use std::sync::Arc;
use std::time::Duration;
use wire::{ErrorFields, sqlstate};

use catalog::{Definition, DistributionPlan, Oid, Relation, Snapshot};
use plan::admin::{AdminCall, AdminFunction, split_name};
use plan::code::{Broken, Graph, PlacementKind};
use plan::ddl::place::is_herd;
use pool::NodeTarget;

use super::beside::with_job;
use super::distribute::Begun;
use super::job::{Entry, is_done_in};
use super::{find, named, views};
use crate::client::{Answer, Client};
use crate::counters::Counters;
use crate::ddl::Locks;
use crate::error::{ExecError, Result};
use crate::router::bodies;
use crate::router::herd::{Herd, catalog_error, refused};
use crate::router::pause::Who;
use crate::work::Work;

/// How long making shards may wait for another's transaction, which can hold nothing but a name.
const NAMES_TRY: Duration = Duration::from_millis(500);
const NAMES: &str = "herd_names";

/// How often a table that is another one when it can be locked is looked for again, in a block; by itself the whole change begins again.
const MOVED_MAX: usize = 20;
const TABLE: &str = "herd_table";

/// Which change of which table.
#[derive(Clone)]
pub(super) struct Change<'c> {
    call: &'c AdminCall,
    search_path: &'c [String],
    pub(super) shards: i32,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) table: Arc<Relation>,
    definition: Definition,
}

impl<C: Client> Work<'_, C> {
    pub(super) async fn change_kind(&mut self, call: &AdminCall, search_path: &[String], shards: i32) -> Result<()> {
        if self.is_done_before(call).await? {
            self.need_transaction();
            return Ok(());
        }
        let block = self.transaction.is_active();
        if !block {
            self.transaction.begin("BEGIN ISOLATION LEVEL READ COMMITTED", false);
        }
        let (snapshot, table, definition) = match block {
            true => self.locked_table_in_block(call, search_path).await?,
            false => self.locked_table(call, search_path).await?,
        };
        let broken = broken_by_kind(call, &snapshot, &table).await;
        if let Some(broken) = self.refused_of(broken).await? {
            return Err(broken.refusal.into());
        }
        let change = Change { call, search_path, shards, snapshot, table, definition };
        self.raises_epoch();
        let about = format!("table {}", catalog::qualified(&change.table.schema, &change.table.name));
        let (entry, counters) = (Entry::clean(job_kind(call), about), Counters::start());
        let (herd, parent, cancels) = (self.herd.clone(), self.client.job(), self.client.cancels());
        self.counters = Some(counters.clone());
        let work = async {
            if block {
                return self.run_change(&change).await;
            }
            let backends = self.backends(&change.snapshot).await?;
            let oids = [change.table.oid];
            let (done, pause) =
                herd.keep_paused(&oids, Who::All, || waits(&herd, &backends), self.run_change(&change)).await;
            self.transaction.pauses.extend(pause);
            done
        };
        let (done, job) = with_job(&herd, &entry, &counters, parent, cancels, work).await;
        self.counters = None;
        self.end_job(done, job).await?;
        txn::failpoint::reached("kind.done").await;
        Ok(())
    }

    /// In the course of a job: a router that died has done it.
    async fn is_done_before(&mut self, call: &AdminCall) -> Result<bool> {
        match self.client.job() {
            Some(parent) => is_done_in(self.herd, parent, job_kind(call)).await,
            None => Ok(false),
        }
    }

    /// As [`locked_table`](Self::locked_table), of what the name means by the time its locks are there.
    async fn locked_table_in_block(
        &mut self,
        call: &AdminCall,
        search_path: &[String],
    ) -> Result<(Arc<Snapshot>, Arc<Relation>, Definition)> {
        let before = self.transaction.pauses.len();
        for _ in 0..MOVED_MAX {
            self.transaction.savepoint(TABLE).await?;
            match self.locked_table(call, search_path).await {
                Err(ExecError::Stale) => {
                    self.transaction.rollback_to(TABLE).await?;
                    self.transaction.release(TABLE).await?;
                    let pauses = self.transaction.pauses.split_off(before);
                    self.herd.end_pauses(&pauses).await;
                }
                done => {
                    if done.is_ok() {
                        self.transaction.release(TABLE).await?;
                    }
                    return done;
                }
            }
        }
        Err(ExecError::Stale)
    }

    /// All locks, then the catalog as it is under them.
    async fn locked_table(
        &mut self,
        call: &AdminCall,
        search_path: &[String],
    ) -> Result<(Arc<Snapshot>, Arc<Relation>, Definition)> {
        let name = call.table()?;
        let mut known = self.epoch.snapshot.clone();
        let is_missing = find(&known, &name, search_path)?.is_none();
        if self.may_change_kinds().await? != known.epoch || is_missing {
            known = self.snapshot_now().await?;
        }
        let before = named(&known, &name, search_path)?;
        let referenced = self.referenced(&before, &known).await?;
        let views = self.views_over(&[before.oid]).await?;
        views::refuse_temporary(&views)?;
        self.take_locks(&Locks::of_kind(&before, &referenced).with_views(&views)).await?;
        let snapshot = self.snapshot_now().await?;
        let table = named(&snapshot, &name, search_path)?;
        let mut p = self.lane(snapshot.home).await?;
        let definition = catalog::read_definition(&mut p.lane, &table.schema, &table.name).await.map_err(catalog_error);
        self.put_back(p).await;
        let definition = definition?;
        let held = |(schema, name): (&str, &str)| {
            std::iter::once(&table).chain(&referenced).any(|r| (&*r.schema, &*r.name) == (schema, name))
        };
        // Others may have changed it, or what its name means, before the locks were there.
        let same = (before.oid, is_herd(&before)) == (table.oid, is_herd(&table)) && definition.oid == table.oid;
        let views_held = definition.views.iter().all(|v| views.iter().any(|held| held.oid == v.oid));
        match same && views_held && definition.referenced().all(held) {
            true => Ok((snapshot, table, definition)),
            false => Err(ExecError::Stale),
        }
    }

    /// Tables that its foreign keys refer to.
    pub(super) async fn referenced(&mut self, table: &Relation, snapshot: &Snapshot) -> Result<Vec<Arc<Relation>>> {
        let sql = format!(
            "SELECT DISTINCT n.nspname, c.relname, c.oid FROM pg_catalog.pg_constraint k \
             JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) k.confrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
             WHERE k.conrelid OPERATOR(pg_catalog.=) {0} AND k.contype OPERATOR(pg_catalog.=) 'f' AND c.oid OPERATOR(pg_catalog.<>) {0} \
             ORDER BY 3",
            table.oid
        );
        let rows = self.ask_home(&sql).await?;
        let found = |row: catalog::Row| {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            let name = (cells.next()?, cells.next()?);
            snapshot.relations.get(&name).cloned()
        };
        Ok(rows.into_iter().filter_map(found).collect())
    }

    /// Everything that takes time. No lock is waited for but those of names that others are about to take.
    async fn run_change(&mut self, change: &Change<'_>) -> Result<()> {
        let kind = kind_of(change.call);
        let mut tables = vec![change.table.oid];
        if change.definition.kind == b'p' && !change.definition.views.is_empty() {
            tables.extend(self.part_oids(change.table.oid).await?);
        }
        let mut change = change.clone();
        let elsewhere = views::wanted_elsewhere(&change.snapshot, &tables, &mut change.definition.views, kind);
        self.change_table(&change).await?;
        self.make_views_elsewhere(&elsewhere).await
    }

    async fn change_table(&mut self, change: &Change<'_>) -> Result<()> {
        let distributes = change.call.function == AdminFunction::CreateDistributedTable;
        if distributes && change.definition.kind == b'p' && !is_herd(&change.table) {
            return self.distribute_partitioned(change).await;
        }
        let plan = self.plan_table(change, true).await?;
        if !distributes && change.table.distribution().is_some_and(|d| d.is_partitioned()) {
            return self.undistribute_partitioned(change, &plan).await;
        }
        if !distributes {
            return self.run_plan(&plan, None).await;
        }
        match self.begin_if_names_are_free(&plan).await? {
            Some(begun) => self.run_plan(&plan, Some(begun)).await?,
            None => {
                let plan = self.plan_table(change, false).await?;
                self.run_plan(&plan, None).await?;
            }
        }
        if let Some(column) = change.definition.opened_identity() {
            let message = format!(
                "column \"{column}\" takes the values that it is given, too: before PostgreSQL 17 partitioned tables have no identity \
                 columns, and GENERATED ALWAYS becomes a DEFAULT"
            );
            let warning = ErrorFields::with_severity("WARNING", sqlstate::WARNING, message);
            self.client.tell(Answer::Notice(&warning));
        }
        Ok(())
    }

    async fn plan_table(&mut self, change: &Change<'_>, plain_names: bool) -> Result<DistributionPlan> {
        let Change { call, snapshot, definition, .. } = change;
        match call.function {
            AdminFunction::CreateReferenceTable => {
                return catalog::plan_reference(snapshot, definition).map_err(|r| refused(&r));
            }
            AdminFunction::UndistributeTable => {
                return catalog::plan_undistribute(snapshot, definition).map_err(|r| refused(&r));
            }
            _ => {}
        }
        Ok(self.plan_distribution(change, plain_names).await?.0)
    }

    /// The plan of a table that its owner has partitioned, without its partitions; and the key's columns.
    pub(super) async fn plan_partitioned(&mut self, change: &Change<'_>) -> Result<(DistributionPlan, Vec<String>)> {
        self.plan_distribution(change, true).await
    }

    async fn plan_distribution(
        &mut self,
        change: &Change<'_>,
        plain_names: bool,
    ) -> Result<(DistributionPlan, Vec<String>)> {
        let Change { call, search_path, shards, snapshot, table, definition } = change;
        let (mut request, bounds) =
            call.distribute_request(&table.schema, &table.name, |column| table.column(column).is_some())?;
        if let Some(other) = request.colocate_with.as_mut().filter(|o| *o != "default" && *o != "none") {
            let (schema, table) = split_name(other)?;
            if let Some(r) = snapshot.resolve(schema.as_deref(), &table, search_path) {
                *other = catalog::qualified(&r.schema, &r.name);
            }
        }
        let mut p = self.lane(snapshot.home).await?;
        let read = async {
            if let Some(texts) = bounds {
                let strategy = request.strategy.unwrap_or(key::PartitionStrategy::Hash);
                let read = catalog::read_bounds(&mut p.lane, definition, &request.columns, strategy, &texts).await;
                request.bounds = Some(read.map_err(catalog_error)?);
            }
            Ok::<_, ExecError>(())
        }
        .await;
        self.put_back(p).await;
        read?;
        request.prefix = self.new_prefix(&table.name, plain_names).await?;
        let plan = catalog::plan_distribution(snapshot, definition, &request, *shards).map_err(|r| refused(&r))?;
        Ok((plan, request.columns))
    }

    /// What no table's shards were ever called. `plain`: as the table is, if nobody's were.
    pub(super) async fn new_prefix(&mut self, name: &str, plain: bool) -> Result<Option<String>> {
        let rows = self.ask_home(&catalog::new_prefix_sql(name, plain)).await?;
        Ok(rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten())
    }

    /// Begins a plan that makes shards. Owners of tables may make something among the shards, and so take a name, or be about to
    /// on any node. `None`, and nothing is done: one is taken; other names are to be had, which nobody can guess.
    pub(super) async fn begin_if_names_are_free(&mut self, plan: &DistributionPlan) -> Result<Option<Begun>> {
        self.transaction.savepoint(NAMES).await?;
        let begun = match self.begin_plan(plan, Some(NAMES_TRY)).await {
            Ok(begun) => Some(begun),
            Err(e) if is_taken(&e) => {
                self.transaction.rollback_to(NAMES).await?;
                None
            }
            Err(e) => return Err(e),
        };
        self.transaction.release(NAMES).await?;
        Ok(begun)
    }

    /// The transaction's backends, on all nodes.
    pub(super) async fn backends(&mut self, snapshot: &Snapshot) -> Result<Vec<(NodeTarget, i32)>> {
        let mut backends = Vec::new();
        for node in &snapshot.nodes {
            let p = self.lane(node.id).await?;
            backends.push((self.herd.target(snapshot, node.id)?, p.lane.conn.pid()));
            self.put_back(p).await;
        }
        Ok(backends)
    }
}

/// Whether any of them waits for a lock, or can't be asked.
pub(super) async fn waits(herd: &Herd, backends: &[(NodeTarget, i32)]) -> bool {
    for (target, pid) in backends {
        let blocked = format!("SELECT pg_catalog.cardinality(pg_catalog.pg_blocking_pids({pid}))");
        let rows = herd.own.rows(target, &blocked).await;
        if !rows.is_ok_and(|rows| rows.first().and_then(|r| r.first()?.as_deref()) == Some("0")) {
            return true;
        }
    }
    false
}

/// Another's object has a name that the plan wants, or his transaction is about to.
fn is_taken(e: &ExecError) -> bool {
    const TAKEN: [&str; 4] = [
        sqlstate::DUPLICATE_TABLE,
        sqlstate::DUPLICATE_OBJECT,
        sqlstate::UNIQUE_VIOLATION,
        sqlstate::LOCK_NOT_AVAILABLE,
    ];
    TAKEN.contains(&e.code().as_str())
}

/// Code that works with the table as it is must be right with it as it will be.
async fn broken_by_kind(call: &AdminCall, snapshot: &Arc<Snapshot>, table: &Relation) -> Vec<Broken> {
    broken_as(snapshot, vec![table.oid], kind_of(call)).await
}

/// What `herd.jobs` calls it.
fn job_kind(call: &AdminCall) -> &'static str {
    match call.function {
        AdminFunction::CreateReferenceTable => "reference",
        AdminFunction::UndistributeTable => "undistribute",
        _ => "distribute",
    }
}

/// What a table becomes.
fn kind_of(call: &AdminCall) -> PlacementKind {
    match call.function {
        AdminFunction::CreateReferenceTable => PlacementKind::Reference,
        AdminFunction::UndistributeTable => PlacementKind::Local,
        _ => PlacementKind::Distributed,
    }
}

/// What code breaks once these tables are of another kind.
pub(super) async fn broken_as(snapshot: &Arc<Snapshot>, tables: Vec<Oid>, kind: PlacementKind) -> Vec<Broken> {
    let (long, snapshot) = (bodies::takes_long(snapshot), snapshot.clone());
    let broken = move || {
        let bodies = bodies::bodies(&snapshot);
        let before = Graph::new(&snapshot, &bodies).unmarked();
        let after = Graph::new(&snapshot, &bodies).unmarked();
        tables.into_iter().fold(after, |graph, oid| graph.with(oid, kind)).new_refusals(&[before])
    };
    bodies::apart(long, broken).await
}
