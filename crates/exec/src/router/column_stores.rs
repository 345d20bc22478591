//! The stores of column copies that a router knows, and how one is asked. Which statements go there, and what their rows become, is
//! not known here.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catalog::{Column, NodeId, Oid, Relation, Row};
use md5::Digest;
use parking_lot::Mutex;
use pool::{NodeTarget, OwnConns, PoolError};
use serde_json::json;
use wire::type_oid::FIRST_NORMAL_OBJECT_ID;

use crate::column_settings::ColumnUse;

/// What one answer may have: more is a read of rows.
const ROWS_MAX: usize = 100_000;
const BYTES_MAX: usize = 16 << 20;

/// A store that has not answered for so long, beyond what it may wait for its node, is asked whether it is there, again and again: a large
/// answer takes its time.
const LOOK: Duration = Duration::from_secs(1);
/// One that is not is left alone for so long.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// A store of column copies, and the router's connections to it.
#[derive(Clone)]
pub struct Store {
    pub target: NodeTarget,
    conns: OwnConns,
    /// When it was found to be silent.
    silent: Arc<Mutex<Option<Instant>>>,
}

/// What a store is asked for one part of a statement.
pub struct Asked {
    pub tables: Vec<TableAsked>,
    /// How each column of the answer is printed.
    pub types: Vec<String>,
    /// In the store's own SQL.
    pub sql: String,
    /// The same for copies that have the first bytes of long texts in columns of their own.
    pub by_first_bytes: Option<String>,
    /// The answer may come in pieces, each of other rows of the table.
    pub in_pieces: bool,
    pub fresh: ColumnUse,
    /// Which server the store's node is (`servers.rs`).
    pub server: Arc<str>,
}

/// A table of which a copy is read, as the router's catalog has it.
pub struct TableAsked {
    copy: i64,
    schema: String,
    name: String,
    /// Which tables the node has of it: its shards, or itself.
    shards: String,
    /// What is read, as it was planned for: names, types (0: one of users' own, which has another object id there), modifiers.
    columns: Vec<(String, Oid, i32)>,
}

impl TableAsked {
    /// A node's part of a table: shards of a distributed one, all of a reference table.
    pub fn of(copy: i64, relation: &Relation, read: &[String], node: NodeId) -> Self {
        let names = match relation.distribution() {
            Some(d) => {
                let here = d.group.shards.iter().filter(|s| s.node == node);
                let mut names: Vec<String> = here.map(|s| format!("{}_{}", d.prefix, s.number)).collect();
                names.sort_unstable();
                names
            }
            None => vec![relation.name.clone()],
        };
        let shards = wire::hex::encode(&md5::Md5::digest(names.join(",")));
        let own = |c: &Column| if c.type_oid < FIRST_NORMAL_OBJECT_ID { c.type_oid } else { 0 };
        let columns = relation.columns.iter().filter(|c| read.contains(&c.name));
        let columns = columns.map(|c| (c.name.clone(), own(c), c.typmod)).collect();
        TableAsked { copy, schema: relation.schema.clone(), name: relation.name.clone(), shards, columns }
    }
}

impl Store {
    /// Nobody is asked yet.
    pub fn new(target: NodeTarget, conns: OwnConns) -> Self {
        Store { target, conns, silent: Arc::default() }
    }

    /// What it says of its copies.
    pub async fn copies(&self) -> Result<Vec<Row>, PoolError> {
        self.show("SHOW copies").await
    }

    /// And of what they take. Stores of before don't tell it.
    pub async fn sizes(&self) -> Result<Vec<Row>, PoolError> {
        self.show("SHOW sizes").await
    }

    async fn show(&self, what: &str) -> Result<Vec<Row>, PoolError> {
        let limit = tokio::time::timeout(2 * LOOK, self.conns.rows(&self.target, what));
        limit.await.unwrap_or_else(|_| Err(self.no_answer()))
    }

    /// The rows of each part, as text, all as they are at one moment. A store that stands still is not waited for.
    pub async fn rows(&self, asked: &[Asked]) -> Result<Vec<Vec<Row>>, PoolError> {
        let [first, more @ ..] = asked else { return Ok(vec![]) };
        let mut rows = self.all_rows(first, more).await?;
        if more.is_empty() {
            return Ok(vec![rows]);
        }
        // A row comes first that says how many rows each has.
        let strange =
            || PoolError::Closed { node: self.target.to_string(), reason: "its answer is not understood".into() };
        let counts = rows.first().ok_or_else(strange)?.iter();
        let counts = counts.map(|count| count.as_ref()?.parse().ok()).collect::<Option<Vec<usize>>>();
        let counts = counts.filter(|c| c.len() == asked.len() && c.iter().sum::<usize>() + 1 == rows.len());
        let mut rows = rows.drain(1..);
        Ok(counts.ok_or_else(strange)?.into_iter().map(|count| rows.by_ref().take(count).collect()).collect())
    }

    async fn all_rows(&self, asked: &Asked, more: &[Asked]) -> Result<Vec<Row>, PoolError> {
        if self.silent.lock().is_some_and(|since| since.elapsed() < LEFT_ALONE) {
            return Err(self.no_answer());
        }
        let mut answer = pin!(self.answer(asked, more, false));
        let mut look = LOOK + Duration::from_millis(asked.fresh.wait_ms.into());
        loop {
            match tokio::time::timeout(look, &mut answer).await {
                Ok(answer) => return answer,
                Err(_) if self.is_there().await => look = LOOK,
                Err(_) => {
                    *self.silent.lock() = Some(Instant::now());
                    return Err(self.no_answer());
                }
            }
        }
    }

    /// By a connection of its own: others may be busy.
    pub(crate) async fn is_there(&self) -> bool {
        let ask = async { self.conns.connect(&self.target).await?.simple("SHOW version").await };
        matches!(tokio::time::timeout(LOOK, ask).await, Ok(Ok(_)))
    }

    fn no_answer(&self) -> PoolError {
        PoolError::Timeout { node: self.target.to_string(), doing: "answering for a column copy" }
    }

    /// How it would get the rows: the lines of DuckDB's plan. An older store knows no such question.
    pub async fn plan(&self, asked: &Asked) -> Result<String, PoolError> {
        let limit = LOOK + Duration::from_millis(asked.fresh.wait_ms.into());
        let rows = tokio::time::timeout(limit, self.answer(asked, &[], true))
            .await
            .unwrap_or_else(|_| Err(self.no_answer()))?;
        let lines = rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    async fn answer(&self, asked: &Asked, more: &[Asked], explain: bool) -> Result<Vec<Row>, PoolError> {
        let table = |t: &TableAsked| json!({"copy": t.copy, "schema": t.schema, "name": t.name, "shards": t.shards, "columns": t.columns});
        let tables = |asked: &Asked| asked.tables.iter().map(table).collect::<Vec<_>>();
        let mut header = json!({
            "tables": tables(asked),
            "types": asked.types,
            "wait_ms": asked.fresh.wait_ms,
            "stale_ms": asked.fresh.stale_ms,
            "rows_max": ROWS_MAX,
            "bytes_max": BYTES_MAX,
            "by_first_bytes": asked.by_first_bytes,
            "server": &*asked.server,
        });
        if explain {
            header["explain"] = json!(true);
        }
        if asked.in_pieces && more.is_empty() && !explain {
            // As below.
            header["in_pieces"] = json!(true);
        }
        if !more.is_empty() {
            // A store of before does not know that word, and refuses.
            let one = |asked: &Asked| json!({"tables": tables(asked), "types": asked.types, "by_first_bytes": asked.by_first_bytes, "sql": asked.sql});
            header["more"] = more.iter().map(one).collect();
        }
        self.conns.rows(&self.target, &format!("{header}\n{}", asked.sql)).await
    }
}

/// How often columns have answered, for the metrics page.
#[derive(Default)]
pub struct ColumnReads {
    read: AtomicU64,
    passed_over: AtomicU64,
}

impl ColumnReads {
    /// Stores have answered all parts of a statement.
    pub fn read(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    /// A store could not answer, and rows were read.
    pub fn passed_over(&self, why: &impl std::fmt::Display) {
        self.passed_over.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%why, "a column copy was passed over");
    }

    /// As lines of the metrics page.
    pub fn page(&self) -> String {
        let (read, passed_over) = (self.read.load(Ordering::Relaxed), self.passed_over.load(Ordering::Relaxed));
        format!(
            "# HELP herd_column_reads_total Statements that column copies were asked for, by what answered them.\n\
             # TYPE herd_column_reads_total counter\n\
             herd_column_reads_total{{by=\"columns\"}} {read}\nherd_column_reads_total{{by=\"rows\"}} {passed_over}\n"
        )
    }
}
