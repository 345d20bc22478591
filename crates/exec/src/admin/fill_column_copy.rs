//! A column copy that is added in the background: it is there when the stores of all nodes have it, and all that their nodes' logs had by then; what they
//! have of it so far is the job's progress. How a copy is listed is `column_copy.rs`'s, and how stores come to its rows nobody's here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use catalog::{NodeId, Relation, Snapshot, qualified, quote_literal};
use plan::admin::AdminCall;
use wire::sqlstate;

use super::beside::with_job;
use super::job::Entry;
use crate::client::Client;
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::router::column_copies::nodes_of;
use crate::router::column_stores::Store;
use crate::router::herd::Herd;
use crate::work::Work;

/// How often stores are asked.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// How long a store may be silent before others' jobs come first; it is asked again later.
const SILENT_MAX: Duration = Duration::from_secs(30);
/// What `herd.jobs` calls it.
const KIND: &str = "column copy";

/// Of a node: how large the table is there, and roughly how many rows it has.
struct Size {
    bytes: u64,
    rows: u64,
}

/// What a store says of a copy.
enum Said {
    Ready {
        rows: u64,
        /// How long ago the log ended where the store is. A load before is read for some time, of whatever tables that was.
        behind: Option<Duration>,
    },
    Copying {
        rows: u64,
    },
    Refused {
        why: String,
    },
    /// It can't be reached, or has not heard of it yet.
    Nothing,
}

impl<C: Client> Work<'_, C> {
    /// The number of the copy that is the job's in whose course the call is made; none: none was listed yet. Tables may be called
    /// otherwise by now, and another one what the call says.
    pub async fn column_copy_of_job(&mut self, call: &AdminCall) -> Result<Option<i64>> {
        let Some(job) = self.client.job() else { return Ok(None) };
        let Some(copy) = self.noted_column_copy(job).await? else { return Ok(None) };
        if copied_by(&self.epoch.snapshot, copy).is_some() {
            return Ok(Some(copy));
        }
        // What was waited for was listed; a router may have died before that.
        let waited = format!("SELECT FROM herd.job WHERE parent = {job} AND kind = '{KIND}' LIMIT 1");
        match self.herd.own.rows(&self.herd.config.home, &waited).await?.is_empty() {
            true => Ok(None),
            false => Err(dropped(&call.table()?)),
        }
    }

    /// The same as it is noted, whether it is listed or not.
    pub(super) async fn noted_column_copy(&self, job: i64) -> Result<Option<i64>> {
        let ask = format!("SELECT arguments ->> 'copy' FROM herd.job WHERE id = {job}");
        let rows = self.herd.own.rows(&self.herd.config.home, &ask).await?;
        Ok(rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok()))
    }

    /// Before it is listed: whoever goes on with the job knows it by that.
    pub(super) async fn note_column_copy(&self, number: i64) -> Result<()> {
        let Some(job) = self.client.job() else { return Ok(()) };
        let note = format!(
            "UPDATE herd.job SET arguments = arguments || jsonb_build_object('copy', {number}) WHERE id = {job}"
        );
        self.herd.own.rows(&self.herd.config.home, &note).await?;
        Ok(())
    }

    /// Whether this router knows a store beside each node that has some of the table.
    pub(super) fn has_stores(&self, table: &Relation) -> Result<()> {
        let snapshot = &self.epoch.snapshot;
        let without = nodes_of(snapshot, table).into_iter().find(|node| self.herd.store(snapshot, *node).is_none());
        let Some(node) = without else { return Ok(()) };
        let name = snapshot.node(node).map_or("", |n| &n.name);
        let message = format!("this router knows of no store beside node \"{name}\", which could tell of the copy");
        Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
            .hint("Name it in herd.toml ([[column]]); without background => true nothing is waited for."))
    }

    /// Waits until all stores have a copy that is listed.
    pub async fn fill_column_copy(&mut self, call: &AdminCall, copy: i64) -> Result<()> {
        let table = copied_by(&self.epoch.snapshot, copy).ok_or_else(|| dropped(&call.table().unwrap_or_default()))?;
        self.has_stores(&table)?;
        let about = format!("table {}", qualified(&table.schema, &table.name));
        let (entry, counters) = (Entry::clean(KIND, about), Counters::start());
        let (herd, parent, cancels) = (self.herd.clone(), self.client.job(), self.client.cancels());
        self.client.waits();
        let cancelled = self.client.cancelled();
        let work = async {
            tokio::select! {
                biased;
                () = cancelled => Err(ExecError::cancelled()),
                filled = filled(&herd, &table, copy, &counters) => filled,
            }
        };
        let (done, job) = with_job(&herd, &entry, &counters, parent, cancels, work).await;
        match (&done, job) {
            (Ok(()), Some(job)) => job.done().await?,
            (Err(e), Some(job)) => job.fail(&herd, &self.epoch.snapshot, e).await,
            (_, None) => {}
        }
        done
    }
}

/// The table that a copy is of, whatever it is called.
fn copied_by(snapshot: &Snapshot, copy: i64) -> Option<Arc<Relation>> {
    snapshot.relations.values().find(|r| r.column_copy.as_ref().is_some_and(|c| c.id == copy)).cloned()
}

/// `table`: as it is, or was, called.
fn dropped(table: &str) -> ExecError {
    ExecError::sql(sqlstate::UNDEFINED_OBJECT, format!("the column copy of {table} was dropped"))
}

async fn filled(herd: &Arc<Herd>, table: &Relation, copy: i64, counters: &Counters) -> Result<()> {
    let mut sizes = BTreeMap::new();
    let first = herd.epoch.load().snapshot.clone();
    for node in nodes_of(&first, table) {
        sizes.insert(node, size(herd, table, node).await?);
    }
    counters.add_total(sizes.values().map(|size| size.bytes).sum());
    counters.begins("copy");
    let (mut heard, mut since) = (Instant::now(), BTreeMap::new());
    loop {
        // Shards may move, and the copy may be dropped.
        let snapshot = herd.epoch.load().snapshot.clone();
        let now = copied_by(&snapshot, copy).ok_or_else(|| dropped(&qualified(&table.schema, &table.name)))?;
        let (mut rows_done, mut bytes_done, mut ready, mut silent) = (0, 0, true, None);
        for node in nodes_of(&snapshot, &now) {
            let said = match herd.store(&snapshot, node) {
                Some(store) => ask(store, copy).await,
                None => Said::Nothing,
            };
            let size = sizes.get(&node);
            match said {
                Said::Ready { rows, behind } => {
                    let since = since.entry(node).or_insert_with(Instant::now);
                    ready &= behind.is_some_and(|behind| behind <= since.elapsed());
                    rows_done += rows;
                    bytes_done += size.map_or(0, |size| size.bytes);
                }
                Said::Copying { rows } => {
                    rows_done += rows;
                    // As far as one can tell by rows.
                    bytes_done += size.map_or(0, |size| size.bytes * rows.min(size.rows) / size.rows.max(1));
                    ready = false;
                }
                Said::Nothing => {
                    ready = false;
                    silent = Some(node);
                }
                Said::Refused { why } => {
                    let name = snapshot.node(node).map_or("", |n| &n.name);
                    let message = format!("the store of node \"{name}\" can't copy table \"{}\": {why}", now.name);
                    return Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                        .hint("The copy is listed nevertheless: herd.drop_column_copy() drops it."));
                }
            }
        }
        counters.rows.store(rows_done, Ordering::Relaxed);
        counters.bytes.store(bytes_done, Ordering::Relaxed);
        if ready {
            return Ok(());
        }
        if silent.is_none() {
            heard = Instant::now();
        }
        if let Some(node) = silent.filter(|_| heard.elapsed() > SILENT_MAX) {
            let name = snapshot.node(node).map_or("", |n| &n.name);
            let message = format!("the store of node \"{name}\" does not tell of the copy of \"{}\"", now.name);
            return Err(ExecError::sql(sqlstate::CONNECTION_FAILURE, message).hint("herd.column_copies says why."));
        }
        txn::failpoint::reached("column_copy.waits").await;
        tokio::time::sleep(ASK_EVERY).await;
    }
}

async fn size(herd: &Herd, table: &Relation, node: NodeId) -> Result<Size> {
    let snapshot = herd.epoch.load().snapshot.clone();
    let mut conn = herd.admin(&snapshot, node).await?;
    let ask = format!(
        "SELECT coalesce(sum(pg_table_size(c.oid)), 0), coalesce(sum(greatest(c.reltuples, 0))::int8, 0) \
           FROM pg_class c WHERE c.relkind = 'r' AND c.oid IN (SELECT to_regclass({0}) UNION SELECT relid FROM pg_partition_tree(to_regclass({0})))",
        quote_literal(&qualified(&table.schema, &table.name))
    );
    let rows = conn.simple(&ask).await?;
    let number = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref()?.parse().ok()).unwrap_or(0);
    Ok(Size { bytes: number(0), rows: number(1) })
}

async fn ask(store: &Store, copy: i64) -> Said {
    let Ok(rows) = store.copies().await else { return Said::Nothing };
    let row = rows.into_iter().find(|row| row.first().and_then(|id| id.as_deref()?.parse().ok()) == Some(copy));
    let Some([_, _, Some(state), why, rows, _, _, lag_ms, ..]) = row.as_deref() else { return Said::Nothing };
    let rows = rows.as_deref().and_then(|rows| rows.parse().ok()).unwrap_or(0);
    match &**state {
        "ready" => {
            let behind = lag_ms.as_ref().and_then(|ms| Some(Duration::from_millis(ms.parse().ok()?)));
            Said::Ready { rows, behind }
        }
        "refused" => Said::Refused { why: why.clone().unwrap_or_default() },
        _ => Said::Copying { rows },
    }
}
