//! Runs the catalog's plans that change what a table is, or the herd's nodes: statements on each node and rows copied in
//! bounded chunks, all in one transaction. Nodes are seen to here, tables in `kind.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::{ErrorFields, sqlstate};

use catalog::schema::CATALOG_LOCK;
use catalog::{Definition, DistributionPlan, NodeId, NodeSql, Relation, Snapshot, objects};
use plan::admin::{AdminCall, AdminFunction};
use pool::PoolError;

use crate::admin::AdminDone;
use crate::client::{Answer, Client};
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::route::Forwarded;
use crate::router::fitness::{self, Remark};
use crate::router::herd::{catalog_error, refused};
use crate::router::pause::{CATALOG, Who};
use crate::work::Work;

/// How long the catalog's lock is waited for in one go.
const CATALOG_TRY: Duration = Duration::from_millis(300);
/// How long a plan about everybody's tables waits for one of their owners while others' changes wait for it.
const OWNERS_TRY: Duration = Duration::from_millis(1000);

/// Who takes no connection for so long is not there.
const GONE: Duration = Duration::from_secs(3);

impl<C: Client> Work<'_, C> {
    /// Runs an admin call. In a transaction of its own it is tried again when the catalog has moved on.
    pub async fn admin(
        &mut self,
        call: AdminCall,
        search_path: &[String],
        shards: i32,
        described: bool,
        format: i16,
    ) -> Result<AdminDone> {
        if call.function == AdminFunction::Version {
            let version = format!("pgherd {}", env!("CARGO_PKG_VERSION"));
            return Ok(self.answer(&call, described, version.as_bytes(), vec![], false));
        }
        if call.function == AdminFunction::ExportSnapshot {
            let exported = self.export_snapshot().await?;
            return Ok(self.answer(&call, described, exported.as_bytes(), vec![], false));
        }
        if call.function == AdminFunction::RestorePoint {
            let places = self.restore_point(&call).await?;
            return Ok(self.answer(&call, described, places.as_bytes(), vec![], false));
        }
        if call.function == AdminFunction::Cluster {
            let done = self.cluster(&call, search_path).await?;
            let text = if format == 0 { done.to_string().into_bytes() } else { done.to_be_bytes().to_vec() };
            return Ok(self.answer(&call, described, &text, vec![], false));
        }
        if call.function == AdminFunction::MoveShard {
            let job = self.move_shard(&call, search_path).await?;
            let text = if format == 0 { job.to_string().into_bytes() } else { job.to_be_bytes().to_vec() };
            return Ok(self.answer(&call, described, &text, vec![], true));
        }
        if call.function == AdminFunction::AddColumnCopy {
            let id = self.add_column_copy(&call, search_path).await?;
            let text = if format == 0 { id.to_string().into_bytes() } else { id.to_be_bytes().to_vec() };
            return Ok(self.answer(&call, described, &text, vec![], true));
        }
        if call.function == AdminFunction::DropColumnCopy {
            self.drop_column_copy(&call, search_path).await?;
            return Ok(self.answer(&call, described, b"", vec![], true));
        }
        if matches!(call.function, AdminFunction::CreateTimePartitions | AdminFunction::DropOldTimePartitions) {
            let done = self.time_partitions(&call, search_path).await?;
            let text = if format == 0 { done.to_string().into_bytes() } else { done.to_be_bytes().to_vec() };
            return Ok(self.answer(&call, described, &text, vec![], done > 0));
        }
        if !matches!(call.function, AdminFunction::AddNode | AdminFunction::RemoveNode) {
            self.change_kind(&call, search_path, shards).await?;
            return Ok(self.answer(&call, described, b"", vec![], true));
        }
        self.need_transaction();
        let snapshot = self.current_snapshot().await?;
        let mut remarks = Vec::new();
        let (plan, value) = match call.function {
            AdminFunction::AddNode => {
                let planned = self.plan_node(&call, &snapshot, &mut remarks).await;
                let (plan, id) = planned.map_err(locked_by_owner)?;
                (plan, Some(id))
            }
            _ => {
                let (host, port, _) = call.address()?;
                let node = snapshot.nodes.iter().find(|n| n.host == host && n.port == port);
                let id = node
                    .ok_or_else(|| {
                        ExecError::sql(
                            sqlstate::UNDEFINED_OBJECT,
                            format!("node {host}:{port} is not part of the herd"),
                        )
                    })?
                    .id;
                let mut plan = catalog::plan_remove_node(&snapshot, id).map_err(|r| refused(&r))?;
                self.leave_out_who_is_gone(&snapshot, id, &mut plan).await?;
                (plan, None)
            }
        };
        let joining = value.filter(|_| call.function == AdminFunction::AddNode);
        let mut begun = None;
        if let Some(node) = joining {
            self.copy_objects(node, objects::BEFORE_TABLES).await?;
            begun = Some(self.begin_plan(&plan, Some(OWNERS_TRY)).await.map_err(locked_by_owner)?);
        }
        self.run_plan(&plan, begun).await?;
        if let Some(node) = joining {
            self.copy_objects(node, objects::AFTER_TABLES).await?;
            self.copy_views(node, &snapshot).await?;
            self.tell_of_new_node(&snapshot, &remarks);
        }
        let text = match (value, format) {
            (Some(id), 0) => id.to_string().into_bytes(),
            (Some(id), _) => id.to_be_bytes().to_vec(),
            (None, _) => Vec::new(),
        };
        Ok(self.answer(&call, described, &text, plan.after_commit, true))
    }

    /// A node that is removed need not be there any more: nobody waits for a machine that will not come back. One that fails over, or is slow, is
    /// there.
    async fn leave_out_who_is_gone(
        &mut self,
        snapshot: &Snapshot,
        node: NodeId,
        plan: &mut DistributionPlan,
    ) -> Result<()> {
        // By a new connection: one that has been there for long does not tell that its server hangs.
        let target = self.herd.target(snapshot, node)?;
        let trouble = match self.herd.own.connect(&target).await {
            Err(e @ (PoolError::Connect { .. } | PoolError::Closed { .. } | PoolError::Timeout { .. })) => e,
            answered => return Ok(answered.map(drop)?),
        };
        if pool::is_anybody_at(&target, GONE).await {
            return Err(trouble.into());
        }
        plan.after.retain(|part| part.node != node);
        let warning = ErrorFields::with_severity(
            "WARNING",
            sqlstate::WARNING,
            format!("the node is removed from the herd, and not asked: {trouble}"),
        )
        .hint("If its server comes back, nothing of the herd's is dropped on it: DROP SCHEMA herd, herd_shards CASCADE there before it is used for anything else.");
        self.client.tell(Answer::Notice(&warning));
        Ok(())
    }

    /// Answers a call of which nothing is left to do.
    pub fn answer_void(&mut self, call: &AdminCall, described: bool) -> Forwarded {
        self.answer(call, described, b"", vec![], false).forwarded
    }

    /// Answers a call that was run with a number.
    pub fn answer_number(&mut self, call: &AdminCall, described: bool, number: i32, format: i16) -> Forwarded {
        let text = if format == 0 { number.to_string().into_bytes() } else { number.to_be_bytes().to_vec() };
        self.answer(call, described, &text, vec![], false).forwarded
    }

    /// The same with a bigint.
    pub fn answer_bigint(&mut self, call: &AdminCall, described: bool, number: i64, format: i16) -> Forwarded {
        let text = if format == 0 { number.to_string().into_bytes() } else { number.to_be_bytes().to_vec() };
        self.answer(call, described, &text, vec![], false).forwarded
    }

    /// The same with a text.
    pub fn answer_text(&mut self, call: &AdminCall, described: bool, said: &str) -> Forwarded {
        self.answer(call, described, said.as_bytes(), vec![], false).forwarded
    }

    fn answer(
        &mut self,
        call: &AdminCall,
        described: bool,
        value: &[u8],
        after_commit: Vec<String>,
        changed: bool,
    ) -> AdminDone {
        if described {
            self.client.tell(Answer::Columns(&super::columns(call)));
        }
        self.client.tell(Answer::Row(&[Some(value)]));
        AdminDone { forwarded: Forwarded { tag: "SELECT 1".into(), ..Default::default() }, after_commit, changed }
    }

    /// The catalog as it is now, read inside the transaction with the catalog locked, so that plans about nodes are never stale.
    async fn current_snapshot(&mut self) -> Result<Arc<Snapshot>> {
        self.may_change_kinds().await?;
        self.lock_catalog().await?;
        self.ask_home("SELECT herd.forget_groups()").await?;
        self.snapshot_now().await
    }

    /// Only members of the herd's owner go on.
    pub async fn may_change_herd(&mut self) -> Result<()> {
        // On the client's connection, where `=` may be an operator of his own.
        const MAY: &str = "SELECT pg_catalog.pg_has_role(n.nspowner, 'MEMBER') FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'herd'";
        match self.ask_home(MAY).await?.first().and_then(|r| r[0].as_deref()) {
            Some("t") => Ok(()),
            _ => Err(not_the_herds()),
        }
    }

    /// Whether the client may, and his transaction can: one that keeps its snapshot would pass over rows of others. The epoch.
    pub async fn may_change_kinds(&mut self) -> Result<i64> {
        self.may_change_herd().await?;
        const NOW: &str = "SELECT pg_catalog.current_setting('transaction_isolation'), e.epoch FROM herd.epoch e";
        let rows = self.ask_home(NOW).await?;
        let cell = |n: usize| rows.first().and_then(|r| r.get(n)?.as_deref());
        if cell(0) != Some("read committed") {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "tables and nodes of the herd can't be changed in a transaction that keeps its snapshot",
            )
            .hint("BEGIN ISOLATION LEVEL READ COMMITTED, or call it outside of a transaction."));
        }
        Ok(cell(1).and_then(|e| e.parse().ok()).unwrap_or(0))
    }

    /// The catalog as the transaction sees it now.
    pub(crate) async fn snapshot_now(&mut self) -> Result<Arc<Snapshot>> {
        let home = self.home();
        let mut p = self.lane(home).await?;
        let loaded = Box::pin(catalog::load_in_transaction(&mut p.lane, Some(&self.epoch.snapshot)))
            .await
            .map_err(catalog_error);
        self.put_back(p).await;
        Ok(Arc::new(loaded?))
    }

    /// In short tries: whoever comes behind waits for those that are in front, too. Changes that have not begun let it go
    /// first for a moment ([`give_way`](Self::give_way)); beside changes without end it would never come through.
    async fn lock_catalog(&mut self) -> Result<()> {
        let mut pauses = Vec::new();
        let done = self.try_catalog(&mut pauses).await;
        self.herd.end_pauses(&pauses).await;
        done
    }

    async fn try_catalog(&mut self, pauses: &mut Vec<u64>) -> Result<()> {
        let (begun, home) = (Instant::now(), self.home());
        let lock = format!("SELECT herd.lock_catalog({CATALOG_LOCK}, {})::pg_catalog.int4", CATALOG_TRY.as_millis());
        let mut limits = None;
        loop {
            let pause = self.herd.pauses.begin(&[CATALOG], Who::All, 3 * CATALOG_TRY);
            if limits.is_some() {
                self.herd.announce_pause(pause).await;
            }
            self.herd.end_pauses(&std::mem::replace(pauses, vec![pause])).await;
            let mut p = self.lane(home).await?;
            p.wrote = true;
            let got = p.lane.rows(&lock).await;
            self.put_back(p).await;
            if got?.first().and_then(|r| r[0].as_deref()) == Some("1") {
                return Ok(());
            }
            limits = match limits {
                None => Some(self.limits(begun).await?),
                some => some,
            };
            self.rest(limits.as_ref(), CATALOG_TRY.mul_f64(rand::random())).await?;
        }
    }

    /// Prepares a new server and plans its place in the herd.
    async fn plan_node(
        &mut self,
        call: &AdminCall,
        snapshot: &Snapshot,
        remarks: &mut Vec<Remark>,
    ) -> Result<(DistributionPlan, NodeId)> {
        let (host, port, database) = call.address()?;
        let database = database.unwrap_or_else(|| self.herd.config.home.database.clone());
        let of_home = self.herd.config.home.clone();
        let target = pool::NodeTarget { host: host.clone(), port, database: database.clone(), ..of_home };
        let mut conn = self.herd.own.connect(&target).await?;
        let mut own_home = self.herd.own.connect(&self.herd.config.home).await?;
        crate::router::roles::is_trusted(&own_home, &conn)?;
        if crate::router::roles::bring_verifier(&mut own_home, &mut conn).await? {
            tracing::info!(host, port, "the router's role has home's verifier on the new node now");
        }
        *remarks = fitness::can_join(&mut own_home, &mut conn).await?;
        drop(own_home);
        let version = conn.simple("SELECT pg_catalog.current_setting('server_version_num')").await?;
        let version = version.first().and_then(|r| r[0].as_deref()?.parse().ok()).unwrap_or(0);
        let home = self.home();
        let timeout = self.set_on(home, "lock_timeout", &OWNERS_TRY.as_millis().to_string()).await?;
        let mut p = self.lane(home).await?;
        let read = async {
            let mut definitions: Vec<Definition> = Vec::new();
            for r in snapshot.relations.values().filter(|r| r.distribution().is_some() || r.is_reference()) {
                definitions
                    .push(catalog::read_definition(&mut p.lane, &r.schema, &r.name).await.map_err(catalog_error)?);
            }
            Ok::<_, ExecError>(definitions)
        }
        .await;
        self.put_back(p).await;
        let definitions = read?;
        self.set_on(home, "lock_timeout", &timeout).await?;
        let name = format!("node{}", snapshot.nodes.iter().map(|n| n.id).max().unwrap_or(0) + 1);
        let address = catalog::schema::NodeAddress { name, host, port, database };
        let (node, plan) =
            catalog::plan_add_node(snapshot, &definitions, &address, version).map_err(|r| refused(&r))?;
        conn.simple(&catalog::bootstrap_node_sql(&snapshot.herd_id)).await?;
        conn.with_parameters(catalog::SEAL_NODE, &[&self.herd.config.seal.hex()]).await?;
        // The node takes part in this very transaction.
        let lane = txn::Lane::new(node.id, self.herd.pools.get(&target, self.login).await?);
        self.transaction.join(lane).wrote = true;
        Ok((plan, node.id))
    }

    /// What is to be known of a node that has joined, and that it has no shards of tables that were there.
    fn tell_of_new_node(&mut self, before: &Snapshot, remarks: &[Remark]) {
        for remark in remarks {
            self.client.tell(Answer::Notice(&remark.warning()));
        }
        if before.groups.values().any(|g| !g.shards.is_empty()) {
            let message = "the new node has no shards of colocation groups that are there, nor will tables that join them have any on it";
            let notice = ErrorFields::with_severity("NOTICE", sqlstate::SUCCESSFUL_COMPLETION, message)
                .hint("SELECT herd.rebalance() moves shards to it, reads and writes going on.");
            self.client.tell(Answer::Notice(&notice));
        }
    }

    /// Makes on a new node what every node has besides tables, as it is on home.
    async fn copy_objects(&mut self, node: NodeId, objects: &str) -> Result<()> {
        const PATH: &str = "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)";
        let home = self.home();
        let mut p = self.lane(home).await?;
        let read = async {
            let before = p.lane.rows("SHOW search_path").await?;
            p.lane.rows(PATH).await?;
            let statements = p.lane.rows(&objects::query(objects)).await?;
            let before = before.into_iter().next().and_then(|r| r.into_iter().next()).flatten().unwrap_or_default();
            let back =
                format!("SELECT pg_catalog.set_config('search_path', {}, true)", catalog::quote_literal(&before));
            p.lane.rows(&back).await?;
            Ok::<_, ExecError>(statements)
        }
        .await;
        self.put_back(p).await;
        let statements: Vec<String> = read?.into_iter().filter_map(|r| r.into_iter().next().flatten()).collect();
        // Bodies may name what is made later.
        let checks = "SET LOCAL check_function_bodies = off".to_string();
        let statements = [vec![checks], statements].concat();
        let path = self.set_on(node, "search_path", "pg_catalog, pg_temp").await?;
        self.run_statements(&[NodeSql { node, statements }]).await?;
        self.set_on(node, "search_path", &path).await?;
        Ok(())
    }

    /// What comes before rows are copied, under a search path that no object of a user's is on: plans have PostgreSQL's own
    /// operators unqualified.
    pub(super) async fn begin_plan(
        &mut self,
        plan: &DistributionPlan,
        lock_timeout: Option<Duration>,
    ) -> Result<Begun> {
        let parts = plan.before.iter().chain(&plan.after).map(|part| part.node);
        let sources = plan.copies.iter().flat_map(|copy| copy.sources.iter().map(|(node, _)| *node));
        let nodes: BTreeSet<NodeId> = parts.chain(sources).collect();
        let mut before = Vec::new();
        let mut timeouts = Vec::new();
        // Of all nodes, or of none.
        let measured = self.counters.clone().filter(|c| !c.has_total());
        for node in nodes {
            before.push((node, self.begin_on(node, plan, measured.as_deref()).await?));
            if let Some(timeout) = lock_timeout {
                let timeout = timeout.as_millis().to_string();
                timeouts.push((node, self.set_on(node, "lock_timeout", &timeout).await?));
            }
        }
        self.run_statements(&plan.before).await?;
        for (node, timeout) in timeouts {
            self.set_on(node, "lock_timeout", &timeout).await?;
        }
        Ok(Begun { paths: before })
    }

    /// Runs a plan, or what is left of one that has begun.
    pub(super) async fn run_plan(&mut self, plan: &DistributionPlan, begun: Option<Begun>) -> Result<()> {
        let begun = match begun {
            Some(begun) => begun,
            None => self.begin_plan(plan, None).await?,
        };
        for copy in &plan.copies {
            self.copy_rows(copy).await?;
        }
        txn::failpoint::reached("kind.copied").await;
        if self.counters.as_ref().is_some_and(|c| c.has_begun()) {
            self.begins("index");
        }
        self.run_statements(&plan.after).await?;
        for (node, path) in begun.paths {
            self.set_on(node, "search_path", &path).await?;
        }
        Ok(())
    }

    /// Sets the search path for the plan, and returns what it was. In the same round trip it is asked how much there is to read, if that
    /// is to be counted.
    async fn begin_on(&mut self, node: NodeId, plan: &DistributionPlan, measured: Option<&Counters>) -> Result<String> {
        const PATH: &str = "pg_catalog, pg_temp";
        let Some(counters) = measured else {
            return self.set_on(node, "search_path", PATH).await;
        };
        let read = plan.copies.iter().filter(|copy| copy.sources.iter().any(|(source, _)| *source == node));
        let sizes: Vec<String> = read.map(|copy| size_of(&copy.table)).collect();
        let row = self.row_on(node, &format!("{}, {}", set_sql("search_path", PATH), or_nothing(&sizes))).await?;
        let mut cells = row.into_iter();
        let path = cells.next().flatten().unwrap_or_default();
        counters.add_total(cells.skip(1).flatten().filter_map(|bytes| bytes.parse::<u64>().ok()).sum());
        Ok(path)
    }

    /// How much there is to read of a table on some nodes, where that may be a job.
    pub(super) async fn measure(&mut self, table: &Relation, nodes: &[NodeId]) -> Result<()> {
        let Some(counters) = self.counters.clone() else { return Ok(()) };
        let ask = format!("SELECT {}", size_of(&catalog::qualified(&table.schema, &table.name)));
        for node in nodes {
            let bytes = self.row_on(*node, &ask).await?.into_iter().next().flatten();
            counters.add_total(bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0));
        }
        Ok(())
    }

    /// Sets something for a node's transaction, and returns what it was.
    pub(super) async fn set_on(&mut self, node: NodeId, name: &str, value: &str) -> Result<String> {
        let row = self.row_on(node, &set_sql(name, value)).await?;
        Ok(row.into_iter().next().flatten().unwrap_or_default())
    }

    async fn run_statements(&mut self, parts: &[NodeSql]) -> Result<()> {
        for part in parts {
            let mut p = self.lane(part.node).await?;
            p.wrote = true;
            let mut done = Ok(());
            for sql in &part.statements {
                if let Err(e) = p.lane.run(sql).await {
                    done = Err(e);
                    break;
                }
            }
            self.put_back(p).await;
            done?;
        }
        Ok(())
    }
}

/// What sets something for a transaction; answers with what it was, and what it is.
fn set_sql(name: &str, value: &str) -> String {
    let value = catalog::quote_literal(value);
    format!("SELECT pg_catalog.current_setting('{name}'), pg_catalog.set_config('{name}', {value}, true)")
}

/// How many bytes a table's rows are on a node, with those of its partitions.
fn size_of(table: &str) -> String {
    let table = format!("pg_catalog.to_regclass({})", catalog::quote_literal(table));
    // Of a table that has nothing to do with partitions the tree is empty.
    format!(
        "(SELECT pg_catalog.sum(pg_catalog.pg_table_size(t.r)) FROM (SELECT p.relid FROM pg_catalog.pg_partition_tree({table}) AS p UNION SELECT {table}) AS t (r))"
    )
}

fn or_nothing(sizes: &[String]) -> String {
    if sizes.is_empty() { "NULL".into() } else { sizes.join(", ") }
}

/// Who is no member of the herd's owner asks for what only they may.
pub(super) fn not_the_herds() -> ExecError {
    ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, "permission denied for the herd's catalog")
        .hint("Run it as a superuser, or as a member of the role that owns schema herd.")
}

/// A plan that has begun: the search path of each node's transaction before it.
pub(super) struct Begun {
    paths: Vec<(NodeId, String)>,
}

/// Nobody's lock of his own tables holds up the others: the whole change is undone, and begins again.
fn locked_by_owner(e: ExecError) -> ExecError {
    if e.code() != sqlstate::LOCK_NOT_AVAILABLE {
        return e;
    }
    let fields = e.to_fields();
    ExecError::sql(sqlstate::T_R_SERIALIZATION_FAILURE, format!("a table's owner holds a lock: {}", fields.message()))
        .hint("Try again when his transaction has ended; herd.locks shows it.")
}
