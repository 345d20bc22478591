//! Cursors over several nodes: on each node concerned a cursor of its own, from which rows are taken as they are asked for: node after node, or
//! merged in order. What they see is what the nodes saw when they were declared. Rows of plans that PostgreSQL finishes, and those that
//! outlive their transaction, are held by the router.
//!
//! Names of cursors, and which transaction one belongs to, are the session's affair.

mod again;
mod convert;
mod current;
mod declare;
mod further;
mod order;
mod position;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use catalog::NodeId;
use parking_lot::Mutex;
use plan::SortKey;
use wire::backend::Field;
use wire::sqlstate;

pub use current::Standing;
pub use declare::Opening;
pub use position::{ALL, Position};

use crate::budget::Taken;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::kept_rows::KeptRows;
use crate::object_ids;
use crate::query::cursor::current::Key;
use crate::query::cursor::order::Order;
use crate::request::Bound;
use crate::work::Work;

/// Rows that are asked of a node at a time, at most.
const BATCH_MAX: u64 = 1000;
/// Bytes of one node that wait in the router, about.
const BATCH_BYTES: u64 = 64 << 10;
/// Rows asked of a node where nobody knows yet how large they are.
const BATCH_FIRST: u64 = 50;

/// Cursors on nodes that nobody needs any more: closed when something is asked there next.
pub type Leftover = Arc<Mutex<Vec<(NodeId, String)>>>;

/// Whether a cursor can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scroll {
    No,
    Yes,
    /// Nothing was said: the nodes know, by their plans.
    Unasked,
}

/// A cursor over several nodes.
pub struct Cursor {
    /// As home describes its columns; the last one is hidden where rows are stood on.
    fields: Vec<Field>,
    /// The key of the row that was read last, where who changes the row it stands on must know it.
    key: Option<Key>,
    pub position: Position,
    scroll: Scroll,
    source: Source,
    /// Something went wrong while rows were read: it gives none any more.
    failed: bool,
    /// What is said when the first row is asked for.
    late: Option<Box<wire::ErrorFields>>,
    /// The formats of the rows that are asked for now, one a column.
    formats: Vec<i16>,
}

/// Where rows go.
pub enum To<'k> {
    Client,
    Kept(&'k mut KeptRows),
    Nowhere,
}

enum Source {
    Nodes(Nodes),
    Kept(Kept),
}

/// Rows the router holds.
struct Kept {
    rows: KeptRows,
    /// Rows in front of them that are gone.
    before: u64,
    formats: Vec<i16>,
}

/// Cursors on nodes.
struct Nodes {
    streams: Vec<Stream>,
    merge: Option<Merged>,
    /// Where passed rows came from; kept where it may go back.
    order: Order,
    passed: u64,
    /// The stream whose row was passed last.
    last: Option<usize>,
    /// OFFSET, as far as it is still to come.
    skip: u64,
    limit: Option<u64>,
    /// Rows are locked as they are read: none is before it must be.
    locks: bool,
    /// The formats of rows read ahead, visible columns first.
    formats: Vec<i16>,
    /// Rows and bytes read so far, by which the next batch is measured.
    seen: (u64, u64),
    memory: Taken,
    leftover: Leftover,
}

/// How rows of several nodes become one order.
struct Merged {
    sort: Vec<SortKey>,
    /// Object ids of the hidden columns' types.
    keys: Vec<u32>,
    /// The names of all columns' types.
    types: Vec<String>,
}

/// One node's cursor.
struct Stream {
    node: NodeId,
    name: String,
    /// Rows read and not passed yet.
    ahead: VecDeque<Bytes>,
    /// Rows passed.
    passed: u64,
    /// Those that OFFSET left out.
    skipped: u64,
    /// Where the node's cursor stands.
    at: u64,
    ended: bool,
}

impl Cursor {
    /// Over rows that the router holds, in these formats.
    pub fn over(rows: KeptRows, fields: Vec<Field>, formats: &[i16], scroll: Scroll) -> Self {
        let formats = each(formats, fields.len());
        let kept = Kept { rows, before: 0, formats: formats.clone() };
        Cursor {
            position: Position::default(),
            scroll,
            source: Source::Kept(kept),
            failed: false,
            late: None,
            formats,
            fields,
            key: None,
        }
    }

    /// One whose query failed when it was run: PostgreSQL runs it when its first row is asked for, and fails then.
    pub fn of_error(error: wire::ErrorFields, rows: KeptRows, fields: Vec<Field>, scroll: Scroll) -> Self {
        Cursor { late: Some(Box::new(error)), ..Cursor::over(rows, fields, &[], scroll) }
    }

    /// What is fetched from now on has these formats (as in Bind).
    pub fn as_formats(&mut self, formats: &[i16]) {
        self.formats = each(formats, self.fields().len());
        self.formats.extend(self.key.as_ref().map(|_| 0));
    }

    /// The columns that a client sees, as home describes them.
    pub fn fields(&self) -> &[Field] {
        &self.fields[..self.fields.len() - usize::from(self.key.is_some())]
    }

    /// A savepoint behind it was rolled back: rows that were read ahead and locked since are not locked any more.
    pub fn undone(&mut self) {
        let Source::Nodes(nodes) = &self.source else { return };
        if nodes.locks && nodes.streams.iter().any(|s| !s.ahead.is_empty()) {
            let message =
                "rows of a cursor over several nodes that locks them can't be fetched after ROLLBACK TO SAVEPOINT";
            let error = wire::ErrorFields::error(sqlstate::FEATURE_NOT_SUPPORTED, message);
            self.late = Some(Box::new(error.hint("Declare the cursor behind the savepoint, and again after it.")));
        }
    }

    /// What it takes of the router's memory besides rows.
    pub fn bytes(&self) -> usize {
        let columns = self.fields.iter().map(|f| size_of::<Field>() + f.name.len());
        columns.sum::<usize>() + (self.fields.len() * size_of::<i16>())
    }

    /// It needs nothing of a transaction any more.
    pub fn is_kept(&self) -> bool {
        matches!(self.source, Source::Kept(_))
    }

    /// Before its transaction is committed: what may still be asked for is read.
    ///
    /// # Errors
    /// 53200 if it is more than may be held; and what goes wrong on the nodes.
    pub async fn keep<C: Client>(&mut self, work: &mut Work<'_, C>) -> Result<()> {
        if let Some(error) = self.late.take() {
            return Err(ExecError::Sql(error));
        }
        if self.failed || self.is_kept() {
            return Ok(());
        }
        let all = self.scrolls(work).await?;
        let before = if all { 0 } else { self.position.row };
        let mut rows = KeptRows::new(work.memory);
        self.as_formats(&[]);
        if all || !self.position.at_end {
            self.give_forward(work, before, ALL, &mut To::Kept(&mut rows)).await?;
        }
        self.source = Source::Kept(Kept { rows, before, formats: self.formats.clone() });
        Ok(())
    }

    /// Closes what it has on nodes, which is seen by who looks there.
    pub async fn close<C: Client>(self, work: &mut Work<'_, C>) -> Result<()> {
        let Source::Nodes(nodes) = &self.source else { return Ok(()) };
        let names: Vec<_> = nodes.streams.iter().map(|s| (s.node, s.name.clone())).collect();
        work.close_on_nodes(names).await
    }

    /// Whether it can go back.
    ///
    /// # Errors
    /// What goes wrong when nodes are asked.
    pub async fn scrolls<C: Client>(&mut self, work: &mut Work<'_, C>) -> Result<bool> {
        if self.scroll == Scroll::Unasked {
            self.scroll = match &self.source {
                Source::Nodes(nodes) if nodes.scroll(work).await? => Scroll::Yes,
                _ => Scroll::No,
            };
        }
        Ok(self.scroll == Scroll::Yes)
    }

    async fn need_scroll<C: Client>(&mut self, work: &mut Work<'_, C>) -> Result<()> {
        if self.scrolls(work).await? {
            return Ok(());
        }
        Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
            .hint("Declare it with SCROLL option to enable backward scan."))
    }

    /// Rows `from`, counted from 0, and so many at most.
    async fn give_forward<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        from: u64,
        count: u64,
        to: &mut To<'_>,
    ) -> Result<u64> {
        let ids = object_ids_of(work, self.fields(), &self.formats);
        let reading = Reading { fields: &self.fields, formats: &self.formats, ids: &ids, key: self.key.as_ref() };
        self.key.iter().for_each(Key::forget);
        match &mut self.source {
            Source::Kept(kept) => {
                let until = from.saturating_add(count).min(kept.before + kept.rows.len() as u64);
                kept.give(work, from.min(until)..until, false, &reading, to).await?;
                Ok(until.saturating_sub(from))
            }
            Source::Nodes(nodes) => {
                let logs = self.scroll != Scroll::No;
                let until = from.saturating_add(count).min(nodes.passed);
                nodes.again(work, from..until, false, &reading, to).await?;
                let again = until.saturating_sub(from);
                Ok(again + nodes.further(work, count - again, logs, &reading, to).await?)
            }
        }
    }

    /// Rows `from` up to `top`, counted from 0, which were passed before; the last one first.
    async fn give_backward<C: Client>(
        &mut self,
        work: &mut Work<'_, C>,
        from: u64,
        top: u64,
        to: &mut To<'_>,
    ) -> Result<()> {
        let ids = object_ids_of(work, self.fields(), &self.formats);
        let reading = Reading { fields: &self.fields, formats: &self.formats, ids: &ids, key: self.key.as_ref() };
        self.key.iter().for_each(Key::forget);
        match &mut self.source {
            Source::Kept(kept) => kept.give(work, from..top, true, &reading, to).await,
            Source::Nodes(nodes) => nodes.again(work, from..top, true, &reading, to).await,
        }
    }
}

/// What rows are to look like.
struct Reading<'r> {
    fields: &'r [Field],
    formats: &'r [i16],
    ids: &'r object_ids::OidColumns,
    key: Option<&'r Key>,
}

fn object_ids_of<C: Client>(work: &Work<'_, C>, fields: &[Field], formats: &[i16]) -> object_ids::OidColumns {
    let bound = Bound { result_formats: formats.into(), ..Bound::default() };
    object_ids::columns(&work.epoch.snapshot, Some(fields), Some(&bound))
}

fn each(formats: &[i16], columns: usize) -> Vec<i16> {
    (0..columns).map(|i| wire::frontend::format_of(formats, i)).collect()
}

impl Nodes {
    /// Whether the nodes' cursors can go back.
    async fn scroll<C: Client>(&self, work: &mut Work<'_, C>) -> Result<bool> {
        for stream in &self.streams {
            let sql = format!(
                "SELECT is_scrollable FROM pg_catalog.pg_cursors WHERE name OPERATOR(pg_catalog.=) {}",
                catalog::quote_literal(&stream.name)
            );
            let mut p = work.lane(stream.node).await?;
            let rows = p.lane.rows(&sql).await;
            work.put_back(p).await;
            if rows?.first().is_none_or(|row| row[0].as_deref() != Some("t")) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many rows to ask a node for, if so many are wanted.
    fn batch(&self, wanted: u64) -> u64 {
        match self.seen {
            _ if self.locks => 1,
            (0, _) => wanted.clamp(1, BATCH_FIRST),
            (rows, bytes) => (BATCH_BYTES / (bytes / rows).max(1)).clamp(1, BATCH_MAX),
        }
    }

    fn saw(&mut self, row: &[u8]) {
        self.seen = (self.seen.0 + 1, self.seen.1 + row.len() as u64);
    }

    fn count_memory(&mut self) -> Result<()> {
        let ahead: usize = self.streams.iter().flat_map(|s| &s.ahead).map(Bytes::len).sum();
        self.memory.grow_to(self.order.bytes() + ahead)
    }
}

impl Stream {
    /// The next row that is to be read.
    fn next(&self) -> u64 {
        self.passed + self.ahead.len() as u64
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.leftover.lock().extend(self.streams.iter().map(|s| (s.node, s.name.clone())));
    }
}
