//! Rows on their way into a table: to the node of its shard, to all or to home, by COPY or by INSERTs of whole batches. Memory is bounded by the lanes' write buffers and a batch.

mod batch;
mod end;
mod filled;
mod returned;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::sqlstate;

use catalog::{NodeId, Placement, Relation};
use key::Bound;
use plan::InsertRows;
use pool::{ClientLogin, NodeTarget, Pools, Settings};
use txn::{Lane, Participant};
use wire::put;

use crate::arrays::Arrays;
use crate::bulk_settings::Batching;
use crate::carried::{Carriers, TEXT};
use crate::client::{Client, PENDING_MAX};
use crate::error::{ExecError, Result};
use crate::kept_rows::KeptRows;
use crate::now::Now;
use crate::request::Bound as BoundParameters;
use crate::router::looks::Looks;
use crate::router::progress::{self, Running};
use crate::work::Work;
use crate::work::copy_lane::{any_said, copy_line, error_said, push};
use crate::work::row_node::node_of;
use crate::work::rows;
use crate::write::bulk::{self, Held, HeldSql, Stream};
use crate::write::copy_lines::CopyLines;
use filled::Filled;
use returned::Returned;

/// How rows go into the table.
pub enum SinkKind {
    Copy,
    Insert(Box<SinkInsert>),
}

/// Where values of sequences come from: a connection beside those that rows go to.
struct Source {
    home: NodeId,
    pools: Pools,
    target: NodeTarget,
    login: ClientLogin,
    settings: Settings,
    /// What the transaction has set.
    set: Vec<String>,
}

impl Source {
    async fn rows(&self, sql: &str) -> Result<Vec<catalog::Row>> {
        let conn = self.pools.get_beside(&self.target, &self.login).await?;
        let mut lane = Lane::lent(self.home, conn, &self.settings);
        lane.conn.sequences = pool::Remembers::Somebodys;
        Ok(lane.rows_with(&self.set, sql).await?)
    }
}

/// Rows go by statements, with values of the statement that sends them.
pub struct SinkInsert {
    pub rows: InsertRows,
    pub returning: bool,
    pub bound: BoundParameters,
    pub now: Now,
}

impl SinkKind {
    /// Keeps the values of this execution for all batches. `returning`: the nodes give rows back.
    pub fn insert(rows: &InsertRows, returning: bool, bound: &BoundParameters, now: &Now) -> Self {
        let (rows, bound, now) = (rows.clone(), bound.clone(), now.clone());
        SinkKind::Insert(Box::new(SinkInsert { rows, returning, bound, now }))
    }
}

/// Rows of one INSERT batch.
const STATEMENT_ROWS: u64 = 2000;
const STATEMENT_BYTES: usize = 1 << 20;

/// A table that rows go into, on all its nodes at once.
pub struct Sink {
    pub relation: Arc<Relation>,
    /// Target columns of a row, in order; those after `given` are filled.
    columns: Vec<usize>,
    given: usize,
    /// The types of what goes with each row, behind its columns, and into no column: what is returned is made of it.
    beside: Vec<String>,
    /// Positions of given columns that may hold moments, of a table of which each node reads all values.
    moments: Vec<usize>,
    /// For each key column its position in a row.
    key: Vec<Option<usize>>,
    bounds: Arc<[Bound]>,
    lanes: Vec<Participant>,
    /// Lanes, from the first, that were told to COPY: only these have an end of it to wait for.
    copying: usize,
    batches: Vec<Arrays>,
    kind: SinkKind,
    result_formats: Vec<i16>,
    returned: Returned,
    /// Rows counted by nodes so far (INSERT).
    count: u64,
    /// A node was sent an INSERT.
    inserted: bool,
    home: NodeId,
    filled: Vec<Filled>,
    source: Source,
    looks: Looks,
    batching: Option<Batching>,
    bulk: Batches,
    /// Rows given are numbered as the client's data is.
    pub numbered: bool,
    followed: Option<(Arc<Running>, Vec<Arc<AtomicU64>>)>,
    /// Where each lane's lines are in the client's data.
    lines: Option<CopyLines>,
}

/// How rows travel that are cut into batches.
enum Batches {
    None,
    Stream(Stream),
    Held(Held),
}

/// For each key column its position among `columns`; `None`: its rows have NULL there.
fn key_positions(relation: &Relation, columns: &[usize]) -> Result<Vec<Option<usize>>> {
    let Some(d) = relation.distribution() else { return Ok(vec![]) };
    let position = |k: &usize| {
        let at = columns.iter().position(|c| c == k);
        match relation.columns.get(*k).filter(|column| at.is_none() && column.default.is_some()) {
            Some(column) => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!(
                    "the distribution key \"{}\" must be given here: its default calls functions that may read tables or sequences",
                    column.name
                ),
            )),
            None => Ok(at),
        }
    };
    d.key.iter().map(position).collect()
}

impl Sink {
    /// Opens lanes in the transaction to every node that may get rows.
    pub async fn open<C: Client>(
        work: &mut Work<'_, C>,
        relation: Arc<Relation>,
        mut columns: Vec<usize>,
        kind: SinkKind,
        result_formats: &[i16],
        batching: Option<Batching>,
    ) -> Result<Sink> {
        let given = columns.len();
        let filled = filled::missing(work, &relation, &mut columns)?;
        filled::may_be_taken(work, &relation, &filled).await?;
        let is_moment = |(_, c): &(usize, &usize)| plan::clock_text::may_hold(relation.columns[**c].type_oid);
        let moments = match relation.is_reference() {
            true => columns[..given].iter().enumerate().filter(is_moment).map(|(at, _)| at).collect(),
            false => vec![],
        };
        let key = key_positions(&relation, &columns)?;
        let snapshot = &work.epoch.snapshot;
        let (nodes, bounds): (Vec<NodeId>, _) = match &relation.placement {
            Placement::Local => (vec![snapshot.home], Arc::from([])),
            Placement::Reference => (snapshot.nodes.iter().map(|n| n.id).collect(), Arc::from([])),
            Placement::Distributed(d) => {
                let nodes: BTreeSet<NodeId> = d.group.shards.iter().map(|s| s.node).collect();
                (nodes.into_iter().collect(), work.epoch.bounds(d.group.id))
            }
        };
        let home = snapshot.home;
        let source = Source {
            home,
            pools: work.herd.pools.clone(),
            target: work.herd.target(snapshot, home)?,
            login: work.login.clone(),
            settings: work.settings.clone(),
            set: work.transaction.settings().map(str::to_string).collect(),
        };
        let mut sink = Sink {
            looks: Looks::of_tables(std::iter::once(&relation)),
            relation,
            columns,
            given,
            beside: vec![],
            moments,
            key,
            bounds,
            lanes: vec![],
            copying: 0,
            batches: vec![],
            kind,
            result_formats: result_formats.to_vec(),
            returned: Returned::none(KeptRows::new(work.memory)),
            count: 0,
            inserted: false,
            home,
            filled,
            source,
            batching,
            bulk: Batches::None,
            numbered: false,
            followed: None,
            lines: None,
        };
        sink.lanes = work.lanes_to(nodes).await?;
        for p in &mut sink.lanes {
            p.wrote = true;
            sink.batches.push(Arrays::of_text(sink.columns.len()));
        }
        Ok(sink)
    }

    /// Given values come as these say; those of keys are text. By [`SinkKind::Insert`] only, and before there are rows.
    pub fn carry(&mut self, given: &Carriers) {
        let filled = (self.given..self.columns.len()).map(|_| TEXT);
        let carriers = Carriers::of(given.iter().copied().chain(filled));
        self.batches.iter_mut().for_each(|rows| *rows = Arrays::new(&carriers));
    }

    /// Names of the target columns, those filled last.
    pub fn column_names(&self) -> Vec<String> {
        self.columns.iter().map(|c| catalog::quote_ident(&self.relation.columns[*c].name)).collect()
    }

    /// Columns that are filled, not given.
    pub fn filled_columns(&self) -> impl Iterator<Item = &catalog::Column> {
        self.columns[self.given..].iter().map(|c| &self.relation.columns[*c])
    }

    /// One of the nodes that get rows runs a PostgreSQL older than this (a major version).
    pub fn has_server_before(&self, major: u32) -> bool {
        let version = |p: &Participant| {
            let version = p.lane.conn.parameters().get("server_version")?;
            version.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
        };
        self.lanes.iter().filter_map(version).any(|version| version < major)
    }

    /// Names of the columns that are filled.
    pub fn filled_names(&self) -> Vec<&str> {
        self.columns[self.given..].iter().map(|c| self.relation.columns[*c].name.as_str()).collect()
    }

    /// Positions of the key columns among those that are sent, the filled ones behind the given; `None` for one that is not.
    pub fn key_positions(&self) -> &[Option<usize>] {
        &self.key
    }

    /// Batches commit one by one.
    pub fn commits(&self) -> bool {
        self.batching.is_some_and(|b| b.commits)
    }

    /// How many of the columns that are sent the client gives; those behind them are filled.
    pub fn given(&self) -> usize {
        self.given
    }

    /// Starts COPY FROM STDIN on every lane.
    pub async fn start_copy(&mut self, sql: &str) -> Result<()> {
        if let Some(batching) = &self.batching {
            self.bulk = Batches::Stream(Stream::begin(batching, sql, self.looks.clone(), &mut self.lanes).await?);
            return Ok(());
        }
        for p in &mut self.lanes {
            self.copying += 1;
            p.lane.put_query(&self.looks.in_front(p.lane.node, sql));
            p.lane.conn.flush().await?;
        }
        for p in &mut self.lanes {
            loop {
                let frame = p.lane.next().await?;
                match frame.tag() {
                    b'G' => break,
                    b'E' => return Err(rows::after_error(&mut p.lane, &frame).await),
                    b'N' => p.lane.said.hear(&frame),
                    b'Z' => return Err(ExecError::internal("COPY did not start")),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn copy_sql(&self) -> String {
        let table = catalog::qualified(&self.relation.schema, &self.relation.name);
        format!("COPY {table} ({}) FROM STDIN", self.column_names().join(", "))
    }

    /// Begins batches that are kept until their nodes have taken them.
    pub fn start_held(&mut self) {
        let Some(batching) = self.batching else { return };
        let table = catalog::qualified(&self.relation.schema, &self.relation.name);
        let returning = matches!(&self.kind, SinkKind::Insert(insert) if insert.returning);
        let key = self.relation.unique.iter().find(|u| batching.upsert && u.primary).map(|u| &u.columns[..]);
        // COPY would not look at policies.
        let by_copy = batching.upsert && !returning && !self.relation.row_security;
        let copy = by_copy.then(|| format!("COPY {table} ({}) FROM STDIN", self.column_names().join(", ")));
        let insert = self.batch_statement(bulk::rows_sql(&self.relation, &self.columns, key.unwrap_or_default()));
        let only = match self.relation.is_reference() {
            true => self.lanes.iter().position(|p| p.lane.node == self.home),
            false => None,
        };
        let (sql, width) = (HeldSql { copy, insert, looks: self.looks.clone() }, self.columns.len());
        let held =
            Held::new(&batching, sql, width, self.lanes.len(), only, &self.result_formats, self.returned.another());
        self.bulk = Batches::Held(held.at_home(self.home));
    }

    /// Begins as its kind and batches want it; COPY FROM a client begins by [`start_copy`](Self::start_copy).
    pub async fn start(&mut self) -> Result<()> {
        if self.batching.is_some_and(|b| b.upsert || !matches!(self.kind, SinkKind::Copy)) {
            self.start_held();
            return Ok(());
        }
        if matches!(self.kind, SinkKind::Copy) {
            self.start_copy(&self.copy_sql()).await?;
        }
        Ok(())
    }

    /// Whether rows get values that were not given.
    pub fn fills(&self) -> bool {
        !self.filled.is_empty()
    }

    /// Values for the columns that are filled, for the next row.
    pub async fn next_values(&mut self) -> Result<Vec<Option<String>>> {
        let mut values = Vec::with_capacity(self.filled.len());
        for f in &mut self.filled {
            values.push(f.next(&self.source).await?);
        }
        Ok(values)
    }

    /// Positions of given values that each node would read by itself.
    pub fn moment_positions(&self) -> &[usize] {
        &self.moments
    }

    /// Refuses a value, of the column at that position, which each node would take for a moment of its own.
    pub fn refuse_moment(&self, at: usize, value: Option<&[u8]>) -> Result<()> {
        match value.and_then(|v| std::str::from_utf8(v).ok()) {
            Some(text) if plan::clock_text::may_name(text) => {
                let column = &self.relation.columns[self.columns[at]].name;
                let message = format!(
                    "{} among the rows for column \"{column}\" of reference table \"{}\" is not supported: each node would read it by itself",
                    plan::clock_text::said(),
                    self.relation.name
                );
                Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Give the moment itself."))
            }
            _ => Ok(()),
        }
    }

    /// The lanes a row belongs to. `values`: of the key columns, as text or binary.
    pub fn lanes_for(&self, keys: &[Option<&[u8]>], binary: bool) -> Result<std::ops::Range<usize>> {
        if self.relation.distribution().is_none() {
            return Ok(0..self.lanes.len());
        }
        // A row that belongs nowhere: the node that gets it says what is wrong with it.
        let Some(node) = node_of(&self.relation, &self.bounds, keys, binary)? else { return Ok(0..1) };
        let at = self.lanes.iter().position(|p| p.lane.node == node);
        at.map(|at| at..at + 1).ok_or_else(|| ExecError::internal("a shard without a lane"))
    }

    /// Counts rows for whoever follows the statement.
    pub fn follow(&mut self, running: &Arc<Running>) {
        let nodes = self.lanes.iter().map(|p| running.node(p.lane.node)).collect();
        self.followed = Some((running.clone(), nodes));
    }

    fn count_row(&self, lanes: std::ops::Range<usize>) {
        let Some((running, nodes)) = &self.followed else { return };
        progress::add(&running.rows, 1);
        nodes[lanes].iter().for_each(|node| progress::add(node, 1));
        if self.commits() {
            running.committed.store(self.tally().committed, Ordering::Relaxed);
        }
    }

    /// From now on errors of nodes tell the client's lines. `header`: the data begins with one.
    pub fn number_lines(&mut self, table: &str, csv: bool, header: bool) {
        if let Batches::None = self.bulk {
            self.lines = Some(CopyLines::new(table, self.lanes.len(), csv, header));
        }
    }

    /// See [`CopyLines::may_skip`].
    pub fn may_skip(&mut self) {
        self.lines.iter_mut().for_each(CopyLines::may_skip);
    }

    /// All nodes together pass over so many rows at most; false: they are not counted here.
    pub fn limit_rejected(&mut self, rows: u64) -> bool {
        let lines = self.lines.as_mut().filter(|_| matches!(self.bulk, Batches::None));
        lines.map(|lines| lines.limit_rejected(rows)).is_some()
    }

    /// Sends what waits, until a node says something of its own accord: which lane. Cancel-safe.
    pub async fn said(&mut self) -> Result<usize> {
        match self.bulk {
            Batches::None => any_said(&mut self.lanes).await,
            // Batches are heard while they are written.
            _ => std::future::pending().await,
        }
    }

    /// The error a lane's node has raised, as the client's data has it.
    pub async fn error_of(&mut self, at: usize) -> Result<Option<ExecError>> {
        let error = error_said(&mut self.lanes[at]).await?;
        Ok(error.map(|e| self.at_line(at, e)))
    }

    fn at_line(&self, lane: usize, error: ExecError) -> ExecError {
        match &self.lines {
            Some(lines) => lines.restore(lane, error),
            None => error,
        }
    }

    /// Adds a record of COPY data for lanes: `given` as the client has sent it, `data` with values added.
    pub async fn record(&mut self, lanes: std::ops::Range<usize>, given: &[u8], data: &[u8]) -> Result<()> {
        self.note_record(lanes.clone(), given);
        self.send(lanes, data).await
    }

    /// The same where nothing has to be waited for, which is almost always; false: it is not done.
    pub fn record_at_once(&mut self, lanes: std::ops::Range<usize>, given: &[u8], data: &[u8]) -> bool {
        let room = |p: &mut Participant| p.lane.conn.out().len() + data.len() < PENDING_MAX;
        if !matches!(self.bulk, Batches::None) || !self.lanes[lanes.clone()].iter_mut().all(room) {
            return false;
        }
        self.note_record(lanes.clone(), given);
        self.lanes[lanes].iter_mut().for_each(|p| put::copy_data(p.lane.conn.out(), data));
        true
    }

    fn note_record(&mut self, lanes: std::ops::Range<usize>, given: &[u8]) {
        self.count_row(lanes.clone());
        if let Some(lines) = &mut self.lines {
            lines.add(lanes, given);
        }
    }

    async fn send(&mut self, lanes: std::ops::Range<usize>, data: &[u8]) -> Result<()> {
        if let Batches::Stream(stream) = &mut self.bulk {
            for at in lanes {
                stream.add(&mut self.lanes, at, data).await?;
            }
            return Ok(());
        }
        for at in lanes {
            let p = &mut self.lanes[at];
            put::copy_data(p.lane.conn.out(), data);
            if p.lane.conn.out().len() > PENDING_MAX
                && let Err(e) = push(p).await
            {
                return Err(self.at_line(at, e));
            }
        }
        Ok(())
    }

    async fn send_all(&mut self, data: &[u8]) -> Result<()> {
        self.send(0..self.lanes.len(), data).await
    }

    /// What COPY data begins and ends with on every node.
    pub async fn preamble(&mut self, preamble: &[u8], trailer: &'static [u8]) -> Result<()> {
        match &mut self.bulk {
            Batches::None => self.send_all(preamble).await,
            Batches::Stream(stream) => {
                stream.preamble(preamble, trailer);
                Ok(())
            }
            // Values travel, not the client's data.
            Batches::Held(_) => Ok(()),
        }
    }

    /// What ends each lane's data. Batches have their own.
    pub async fn trailer(&mut self, trailer: &[u8]) -> Result<()> {
        if let Batches::None = self.bulk { self.send_all(trailer).await } else { Ok(()) }
    }

    /// A row of text values.
    pub async fn row(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        for at in &self.moments {
            self.refuse_moment(*at, values.get(*at).copied().flatten())?;
        }
        let filled = self.next_values().await?;
        let all: Vec<Option<&[u8]>> =
            values.iter().copied().chain(filled.iter().map(|v| v.as_deref().map(str::as_bytes))).collect();
        let keys: Vec<Option<&[u8]>> = self.key.iter().map(|k| all.get((*k)?).copied().flatten()).collect();
        let lanes = self.lanes_for(&keys, false)?;
        self.count_row(lanes.clone());
        if let Batches::Held(held) = &mut self.bulk {
            return held.add(&mut self.lanes, lanes, &all).await;
        }
        match &self.kind {
            SinkKind::Copy => {
                let mut line = Vec::with_capacity(64);
                copy_line(&all, &mut line);
                self.send(lanes, &line).await
            }
            SinkKind::Insert(insert) => {
                if insert.returning && lanes.len() == 1 {
                    self.returned.sent(lanes.start);
                }
                for i in lanes {
                    self.batches[i].push(&all)?;
                    if self.batches[i].rows >= STATEMENT_ROWS || self.batches[i].bytes() > STATEMENT_BYTES {
                        self.insert_batch(i).await?;
                    }
                }
                Ok(())
            }
        }
    }

    /// An error a node has raised on its own while data was sent, if that is why sending failed.
    pub async fn node_error(&mut self) -> Option<ExecError> {
        for at in 0..self.lanes.len() {
            if self.lanes[at].lane.conn.outstanding() > 0
                && let Ok(Some(error)) = self.error_of(at).await
            {
                return Some(error);
            }
        }
        None
    }
}
