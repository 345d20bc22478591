//! The writing thread's part of sorting a copy anew: which keys change while that is done, and the exchange. The rows are sorted elsewhere
//! (`resort.rs`). It does not know when, nor why.

use duckdb::Connection;

use crate::apply::Writer;
use crate::batch::Net;
use crate::columns::Columns;
use crate::duck::{self, key_definitions, noted, resorted, table};
use crate::error::{Error, Result};
use crate::held::Held;
use crate::shape::Shape;
use crate::types::Kind;
use crate::value::Val;

/// With more keys than that to catch up with, there is no exchange: reads and the stream would wait for it.
const LAST_MAX: i64 = 50_000;
/// Keys that are handed to DuckDB at once.
const KEYS_AT_ONCE: usize = 20_480;

/// A copy is being sorted anew.
pub(crate) struct Sorting {
    /// Which of all sorts it is.
    number: u64,
    /// The last batch of keys that was noted.
    batch: i64,
}

/// How an exchange went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanged {
    Done,
    /// Not now.
    Later,
    /// The copy is no more what was sorted.
    Gone,
}

/// Which keys have changed: their number, and the last batch of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub keys: i64,
    pub last: i64,
}

impl Writer {
    /// From now on all keys of this copy that change are noted; the sort's number, or `None`: not now.
    pub fn begin_sort(&mut self, id: i64) -> Result<Option<u64>> {
        // What is written already and not committed was not noted, and who sorts would not see it.
        if self.is_open() {
            return Ok(None);
        }
        let number = self.sorts + 1;
        let Some(held) = self.copies.values_mut().flatten().find(|held| held.id == id) else { return Ok(None) };
        let sql = format!(
            "DROP TABLE IF EXISTS {}; DROP TABLE IF EXISTS {noted}; CREATE TABLE {noted} ({}, n BIGINT)",
            resorted(id),
            key_definitions(&held.shape),
            noted = noted(id)
        );
        self.conn.execute_batch(&sql)?;
        held.sorting = Some(Sorting { number, batch: 0 });
        self.sorts = number;
        Ok(Some(number))
    }

    /// Whether this sort is still of use.
    pub fn is_sorting(&self, id: i64, number: u64) -> bool {
        self.copies.values().flatten().any(|held| held.is_in_sort(id, number))
    }

    /// Nothing of this sort stays. Whoever sorts has ended.
    pub fn give_up_sort(&mut self, id: i64, number: u64) -> Result<()> {
        let held = self.copies.values_mut().flatten().find(|held| held.is_in_sort(id, number));
        let drop_noted = held.map(|held| {
            held.sorting = None;
            format!("DROP TABLE IF EXISTS {}", noted(id))
        });
        // In whatever transaction there is: nobody else knows these tables.
        self.conn.execute_batch(&format!(
            "DROP TABLE IF EXISTS {}; {}",
            resorted(id),
            drop_noted.unwrap_or_default()
        ))?;
        Ok(())
    }

    /// What has come since the copy was sorted is in order, too: so many rows of it are.
    pub fn is_in_order(&mut self, id: i64, rows: u64) -> Result<()> {
        if !self.is_open() {
            let sql = "UPDATE herd_copy SET unsorted = unsorted - least(unsorted, ?) WHERE id = ?";
            self.conn.execute(sql, duckdb::params![rows, id])?;
        }
        Ok(())
    }

    /// The sorted rows become the copy, once they have caught up: that is done up to this batch of keys, by so many rows that came.
    pub fn exchange(&mut self, id: i64, number: u64, upto: i64, came: usize) -> Result<Exchanged> {
        if self.is_open() {
            return Ok(Exchanged::Later);
        }
        let Some(held) = self.copies.values_mut().flatten().find(|held| held.is_in_sort(id, number)) else {
            return Ok(Exchanged::Gone);
        };
        if changed(&self.conn, id, upto)?.keys > LAST_MAX {
            return Ok(Exchanged::Later);
        }
        let exchange = || {
            self.conn.execute_batch("BEGIN TRANSACTION")?;
            let unsorted = came + catch_up(&self.conn, id, &held.shape, upto)?;
            self.conn.execute_batch("COMMIT")?;
            let (is, was) = (count(&self.conn, &resorted(id))?, count(&self.conn, &table(id))?);
            if is != was {
                return Err(Error::surprise(format!("there are {is} rows in order, and {was} of copy {id}")));
            }
            let removals = self.shared.removals.of(id);
            let _changes = [self.shared.content.changes(), removals.changes()];
            self.conn.execute_batch(&format!(
                "BEGIN TRANSACTION; DROP TABLE {copy}; ALTER TABLE {} RENAME TO {copy}; DROP TABLE {};
                 UPDATE herd_copy SET unsorted = {unsorted} WHERE id = {id}; COMMIT",
                resorted(id),
                noted(id),
                copy = table(id)
            ))?;
            Ok(())
        };
        exchange().inspect_err(|_| {
            // There may be none.
            let _ = self.conn.execute_batch("ROLLBACK");
        })?;
        held.sorting = None;
        Ok(Exchanged::Done)
    }
}

impl Held {
    fn is_in_sort(&self, id: i64, number: u64) -> bool {
        self.id == id && self.sorting.as_ref().is_some_and(|sorting| sorting.number == number)
    }

    /// Puts down how much of the copy is not in order once this is part of it, and which keys that changes, where somebody sorts it.
    pub(crate) fn note(&mut self, conn: &Connection, net: &Net) -> Result<()> {
        if self.shape.order_by.is_empty() {
            return Ok(());
        }
        let before = if net.emptied { "0" } else { "unsorted" };
        let sql = format!("UPDATE herd_copy SET unsorted = {before} + ? WHERE id = ?");
        conn.execute(&sql, duckdb::params![net.rows_len() as u64, self.id])?;
        if net.emptied {
            self.sorting = None;
        }
        let Some(sorting) = &mut self.sorting else { return Ok(()) };
        sorting.batch += 1;
        let batch = Val::Int8(sorting.batch);
        let mut columns = Columns::new(self.shape.key_kinds().chain([Kind::Int8]));
        let mut appender = conn.appender(&noted(self.id))?;
        let came = net.rows().map(|row| self.shape.key.iter().map(|at| &row.vals[*at]).collect::<Vec<_>>());
        for key in net.gone.iter().map(|key| key.iter().collect()).chain(came) {
            for (k, val) in key.into_iter().chain([&batch]).enumerate() {
                columns.push(k, val)?;
            }
            columns.end_row();
            if columns.size().0 >= KEYS_AT_ONCE {
                appender.append_record_batch(columns.finish()?)?;
            }
        }
        appender.append_record_batch(columns.finish()?)?;
        Ok(appender.flush()?)
    }
}

/// Which keys of a copy that is sorted have changed after this batch, as a transaction sees it.
pub fn changed(conn: &Connection, id: i64, after: i64) -> Result<Changed> {
    let sql = format!("SELECT count(*), coalesce(max(n), 0) FROM {} WHERE n > ?", noted(id));
    let (keys, last): (i64, i64) = conn.query_row(&sql, [after], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Changed { keys, last: last.max(after) })
}

/// Gives the sorted rows what the copy has of all keys that have changed after this batch, as the transaction sees both; how many rows came.
pub fn catch_up(conn: &Connection, id: i64, shape: &Shape, after: i64) -> Result<usize> {
    let names = (0..shape.key.len()).map(|k| format!("k{k}")).collect::<Vec<_>>().join(", ");
    // A join: DuckDB takes twenty times as long for EXISTS.
    let changed = format!("(SELECT DISTINCT {names} FROM {} WHERE n > {after}) AS k", noted(id));
    let (to, from, joined, order) = (resorted(id), table(id), duck::joined(shape), duck::order(shape));
    conn.execute(&format!("DELETE FROM {to} AS t USING {changed} WHERE {joined}"), [])?;
    let come = format!("INSERT INTO {to} SELECT t.* FROM {from} AS t, {changed} WHERE {joined} ORDER BY {order}");
    Ok(conn.execute(&come, [])?)
}

/// How many rows a table has.
pub fn count(conn: &Connection, table: &str) -> Result<i64> {
    Ok(conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?)
}
