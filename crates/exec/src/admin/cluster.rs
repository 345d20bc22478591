//! `herd.cluster(table, index)`: the shards of a table are rewritten in the order of an index, one after another on each
//! node, all nodes at once. Each shard is a transaction of its own on its node.
//!
//! Transactions that have not begun with the table wait at the routers while a shard of each node is: they would come to wait for it in their middle.
//! How one shard is rewritten is `herd.cluster_partition` in the catalog's `schema/cluster.sql`.

use std::collections::BTreeMap;
use std::time::Duration;
use wire::sqlstate;

use catalog::NodeId;
use plan::admin::{AdminCall, split_name};
use txn::Participant;

use super::kind::waits;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::pause::{SETTLE, Who};
use crate::work::Work;

/// How often a shard in use is tried again, and how long its writers have for themselves in between.
const TRIES_MAX: usize = 40;
const TRY_EVERY: Duration = Duration::from_millis(500);

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
        let (schema, name) = split_name(&call.table()?)?;
        let index = call.index()?;
        let relation = self.epoch.snapshot.resolve(schema.as_deref(), &name, search_path).cloned();
        let relation = relation
            .ok_or_else(|| ExecError::sql(sqlstate::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist")))?;
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
        let parent = catalog::quote_literal(&catalog::qualified(&relation.schema, &relation.name));
        let all: usize = shards.values().map(Vec::len).sum();
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
        let mut done = 0;
        for round in 0.. {
            let parts: Vec<Option<&String>> = shards.values().map(|parts| parts.get(round)).collect();
            if failure.is_some() || parts.iter().all(Option::is_none) {
                break;
            }
            // It may have come between two shards.
            if self.is_cancelled() {
                failure = Some(ExecError::cancelled());
                break;
            }
            let mut parts = parts;
            for attempt in 0.. {
                let work = async {
                    tokio::time::sleep(SETTLE).await;
                    one_try(&mut lanes, &mut parts, &parent, &index).await
                };
                let (tried, pause) =
                    herd.keep_paused(&[relation.oid], Who::Blocks, || waits(&herd, &backends), work).await;
                herd.end_pauses(pause.as_slice()).await;
                done += tried.done;
                failure = failure.or(tried.failure).or(tried.in_use.filter(|_| attempt >= TRIES_MAX));
                if parts.iter().all(Option::is_none) || failure.is_some() || self.is_cancelled() {
                    break;
                }
                tokio::time::sleep(TRY_EVERY.mul_f64(0.5 + rand::random::<f64>())).await;
            }
        }
        for p in lanes {
            self.put_back(p).await;
        }
        match failure {
            None => Ok(done),
            Some(e) if done == 0 => Err(e),
            Some(e) => {
                let fields = e.to_fields().detail(format!("{done} of {all} shards are in the index's order now."));
                Err(ExecError::Partial(Box::new(fields)))
            }
        }
    }
}

/// What became of a try.
#[derive(Default)]
struct Tried {
    done: u32,
    /// A shard was in use: it may be tried again.
    in_use: Option<ExecError>,
    failure: Option<ExecError>,
}

/// A shard of each node, all nodes at once. Those that are done are taken out of `parts`.
async fn one_try(lanes: &mut [Participant], parts: &mut [Option<&String>], parent: &str, index: &str) -> Tried {
    let mut tried = Tried::default();
    for (p, part) in lanes.iter_mut().zip(parts.iter()) {
        let Some(part) = part else { continue };
        p.lane.put_query(&format!(
            "SELECT herd.cluster_partition({parent}::pg_catalog.regclass, {}::pg_catalog.regclass, {})",
            catalog::quote_literal(part),
            catalog::quote_literal(index)
        ));
        if let Err(e) = p.lane.conn.flush().await {
            tried.failure.get_or_insert(e.into());
        }
    }
    for (p, part) in lanes.iter_mut().zip(parts.iter_mut()).filter(|(_, part)| part.is_some()) {
        match p.lane.finish().await {
            Ok(_) => {
                *part = None;
                tried.done += 1;
            }
            Err(e) if e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE => {
                tried.in_use.get_or_insert(e.into());
            }
            Err(e) => {
                *part = None;
                tried.failure.get_or_insert(e.into());
            }
        }
    }
    tried
}
