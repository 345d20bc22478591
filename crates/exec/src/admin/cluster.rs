//! `herd.cluster(table, index)`: the shards of a table are rewritten in the order of an index, one after another on each
//! node, all nodes at once. Each shard is a transaction of its own on its node. A job is beside it (`beside.rs`); whoever begins again in the
//! background passes over the shards that were done.
//!
//! Transactions that have not begun with the table wait at the routers while a shard of each node is: they would come to wait for it in their middle.
//! How one shard is rewritten is `herd.cluster_partition` in the catalog's `schema/cluster.sql`.

use std::collections::BTreeMap;
use std::time::Duration;
use wire::sqlstate;

use catalog::{NodeId, Relation};
use plan::admin::AdminCall;
use txn::Participant;

use super::beside::with_job;
use super::job::{Entry, done_before};
use super::kind::waits;
use super::named;
use crate::client::Client;
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::router::pause::{SETTLE, Who};
use crate::work::Work;

/// How often a shard in use is tried again, and how long its writers have for themselves in between.
const TRIES_MAX: usize = 40;
const TRY_EVERY: Duration = Duration::from_millis(500);
/// How long locks are waited for to see how large shards are.
const SIZES_MAX: Duration = Duration::from_millis(450);
/// What `herd.jobs` calls it.
const KIND: &str = "cluster";

impl<C: Client> Work<'_, C> {
    /// The number of shards that were rewritten.
    pub async fn cluster(&mut self, call: &AdminCall, search_path: &[String]) -> Result<u32> {
        if self.transaction.is_active() {
            return Err(ExecError::sql(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                "herd.cluster() cannot run inside a transaction block",
            )
            .hint("Each shard is a transaction of its own."));
        }
        let index = call.index()?;
        let relation = named(&self.epoch.snapshot, &call.table()?, search_path)?;
        let name = &relation.name;
        let d = relation.distribution().ok_or_else(|| {
            ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, format!("table \"{name}\" is not distributed"))
                .hint("Use CLUSTER.")
        })?;
        if d.is_partitioned() {
            let message = format!("table \"{name}\" is partitioned, and has no shards of its own");
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Call it for its partitions."));
        }
        let mut shards: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
        for shard in &d.group.shards {
            shards.entry(shard.node).or_default().push(d.partition(shard.number));
        }
        let table = catalog::qualified(&relation.schema, &relation.name);
        let (entry, counters) = (Entry::clean(KIND, format!("table {table} by {index}")), Counters::start());
        let (herd, parent, cancels) = (self.herd.clone(), self.client.job(), self.client.cancels());
        if let Some(parent) = parent {
            // The index is the same: it is the same call.
            let before = done_before(&herd, parent, KIND).await?;
            shards.values_mut().for_each(|parts| parts.retain(|part| !before.contains(part)));
            *counters.done.lock() =
                d.group.shards.iter().map(|s| d.partition(s.number)).filter(|p| before.contains(p)).collect();
        }
        let all = d.group.shards.len();
        let work = self.cluster_all(&relation, shards, &index, &counters);
        let (clustered, job) = with_job(&herd, &entry, &counters, parent, cancels, work).await;
        let done = counters.done.lock().len() as u32;
        match (&clustered, job) {
            (Ok(()), Some(job)) => {
                if let Err(error) = job.done().await {
                    tracing::warn!(%error, "herd.jobs will not show that a table was clustered");
                }
            }
            (Err(e), Some(job)) => job.fail(&herd, &self.epoch.snapshot, e).await,
            (_, None) => {}
        }
        match clustered {
            Ok(()) => Ok(done),
            Err(e) if done == 0 => Err(e),
            Err(e) => {
                let fields = e.to_fields().detail(format!("{done} of {all} shards are in the index's order now."));
                Err(ExecError::Partial(Box::new(fields)))
            }
        }
    }

    /// `shards`: those that are to be, of each node. What is done is counted.
    async fn cluster_all(
        &mut self,
        relation: &Relation,
        shards: BTreeMap<NodeId, Vec<String>>,
        index: &str,
        counters: &Counters,
    ) -> Result<()> {
        let mut lanes = Vec::new();
        let mut failure = None;
        for node in shards.keys() {
            match self.lane(*node).await {
                Ok(p) => lanes.push(p),
                Err(e) => {
                    failure = Some(e);
                    break;
                }
            }
        }
        let herd = self.herd.clone();
        let mut backends = Vec::new();
        for p in &lanes {
            backends.push((herd.target(&self.epoch.snapshot, p.lane.node)?, p.lane.conn.pid()));
        }
        let parent = catalog::qualified(&relation.schema, &relation.name);
        let mut todo = Todo { parent: &parent, index, counters, parts: vec![] };
        let sizes = match failure.is_none() {
            true => sizes(&mut lanes, &shards).await.unwrap_or_else(|e| {
                failure = Some(e);
                Sizes::new()
            }),
            false => Sizes::new(),
        };
        if sizes.len() < shards.values().map(Vec::len).sum() || sizes.values().any(|(rows, _)| *rows > 0) {
            counters.begins("rewrite");
        }
        counters.add_total(sizes.values().map(|(_, bytes)| bytes).sum());
        for round in 0.. {
            todo.parts = shards.values().map(|parts| parts.get(round)).collect();
            if failure.is_some() || todo.is_done() {
                break;
            }
            // It may have come between two shards.
            if self.is_cancelled() {
                failure = Some(ExecError::cancelled());
                break;
            }
            for attempt in 0.. {
                let work = async {
                    tokio::time::sleep(SETTLE).await;
                    one_try(&mut lanes, &mut todo, &sizes).await
                };
                let (tried, pause) =
                    herd.keep_paused(&[relation.oid], Who::Blocks, || waits(&herd, &backends), work).await;
                herd.end_pauses(pause.as_slice()).await;
                failure = failure.or(tried.failure).or(tried.in_use.filter(|_| attempt >= TRIES_MAX));
                if todo.is_done() || failure.is_some() || self.is_cancelled() {
                    break;
                }
                tokio::time::sleep(TRY_EVERY.mul_f64(0.5 + rand::random::<f64>())).await;
            }
            txn::failpoint::reached("cluster.shards").await;
        }
        for p in lanes {
            self.put_back(p).await;
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Bytes of each shard's rows: of its table alone, and with what is beside it.
type Sizes = BTreeMap<String, (u64, u64)>;

/// What is to be done at once, a shard of each node.
struct Todo<'t> {
    /// Quoted.
    parent: &'t str,
    index: &'t str,
    counters: &'t Counters,
    parts: Vec<Option<&'t String>>,
}

impl Todo<'_> {
    fn is_done(&self) -> bool {
        self.parts.iter().all(Option::is_none)
    }
}

/// How large shards are, all nodes at once. What is locked is not waited for, and is not there.
async fn sizes(lanes: &mut [Participant], shards: &BTreeMap<NodeId, Vec<String>>) -> Result<Sizes> {
    for (p, parts) in lanes.iter_mut().zip(shards.values()) {
        let names: Vec<String> = parts.iter().map(|part| catalog::quote_literal(part)).collect();
        // One value, as that is what is read of it.
        p.lane.put_query(&format!(
            "SET LOCAL lock_timeout = '{}'; \
             SELECT pg_catalog.jsonb_object_agg(p, pg_catalog.jsonb_build_array(pg_catalog.pg_relation_size(p::pg_catalog.regclass), \
                                                                                pg_catalog.pg_table_size(p::pg_catalog.regclass))) \
               FROM pg_catalog.unnest(ARRAY[{}]::pg_catalog.text[]) AS p",
            SIZES_MAX.as_millis(),
            names.join(", ")
        ));
        p.lane.conn.flush().await?;
    }
    let (mut sizes, mut failure) = (Sizes::new(), None);
    for p in lanes.iter_mut() {
        match p.lane.value().await {
            Ok(said) => {
                let said = said.and_then(|said| serde_json::from_str::<Sizes>(&said).ok());
                sizes.extend(said.into_iter().flatten());
            }
            Err(e) if e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE => {}
            Err(e) => failure = Some(e),
        }
    }
    failure.map_or(Ok(sizes), |e| Err(e.into()))
}

/// What became of a try.
#[derive(Default)]
struct Tried {
    /// A shard was in use: it may be tried again.
    in_use: Option<ExecError>,
    failure: Option<ExecError>,
}

/// A shard of each node, all nodes at once. Those that are done are taken out of what is to be done, and counted.
async fn one_try(lanes: &mut [Participant], todo: &mut Todo<'_>, sizes: &Sizes) -> Tried {
    let mut tried = Tried::default();
    for (p, part) in lanes.iter_mut().zip(&todo.parts) {
        let Some(part) = part else { continue };
        let (parent, part) = (catalog::quote_literal(todo.parent), catalog::quote_literal(part));
        p.lane.put_query(&format!(
            "SELECT herd.cluster_partition({parent}::pg_catalog.regclass, {part}::pg_catalog.regclass, {}); \
             SELECT pg_catalog.int8(c.reltuples) FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) {part}::pg_catalog.regclass",
            catalog::quote_literal(todo.index)
        ));
        if let Err(e) = p.lane.conn.flush().await {
            tried.failure.get_or_insert(e.into());
        }
    }
    for (p, place) in lanes.iter_mut().zip(&mut todo.parts) {
        let Some(part) = *place else { continue };
        match p.lane.value().await {
            Ok(rows) => {
                *place = None;
                let rows = rows.and_then(|rows| rows.parse().ok()).unwrap_or(0);
                todo.counters.add(rows, sizes.get(part).map_or(0, |(_, bytes)| *bytes as usize));
                todo.counters.done.lock().push(part.clone());
            }
            Err(e) if e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE => {
                tried.in_use.get_or_insert(e.into());
            }
            Err(e) => {
                *place = None;
                tried.failure.get_or_insert(e.into());
            }
        }
    }
    tried
}
