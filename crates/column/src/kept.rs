//! Totals and groups that are known already: what a SELECT has said of a copy's first rows is kept, and as long as rows are only added to the copy,
//! the next time only those behind are read. The answer has both, in pieces, which the asker adds up as it does those of several stores. It does
//! not know what is asked, nor who asks.
//!
//! Why it is right. DuckDB numbers the rows of a table (`rowid`) in the order in which they were committed. Who commits that a row of a copy is gone, or
//! makes the copy anew, counts that (`unchanged.rs`, [`Removals`](crate::unchanged::Removals)): with the same count the first rows of one snapshot are
//! the first of another. Which these are the number of the last of them tells, as long as rows keep their numbers. They do where no row was missing
//! among them; else a checkpoint may leave out the gaps of rows that are gone, and those behind move up, none of them less than one before it: if
//! the last of the first rows has the number that it had, all have.

use std::collections::HashMap;
use std::hash::BuildHasher;

use duckdb::Connection;
use duckdb::arrow::record_batch::RecordBatch;
use parking_lot::Mutex;

use crate::duck;
use crate::error::Result;
use crate::lsn::Lsn;

/// Of copies with fewer rows nothing is kept: they are read as fast.
const ROWS_MIN: u64 = 1 << 16;
/// What is behind is read each time, until it is so many rows, and this part of all.
const BEHIND_MIN: u64 = 1 << 16;
const BEHIND_SHARE: u64 = 16;
/// Then all is read again.
const PIECES_MAX: usize = 8;
/// An answer of more rows, or more bytes with its SELECT, is not kept.
const ANSWER_ROWS_MAX: usize = 1000;
const ANSWER_BYTES_MAX: usize = 1 << 18;
/// SELECTs whose answers are kept.
const SELECTS_MAX: usize = 512;
/// SELECTs that are known to have been asked.
const ASKED_MAX: usize = 8192;
/// What a column of an answer takes beside its values and its name, about.
const COLUMN_BYTES: usize = 128;

/// Which rows a copy has: with two that are equal the first rows of one are those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    pub copy: i64,
    pub since: Lsn,
    /// See [`Removals`](crate::unchanged::Removals).
    pub removals: u64,
}

/// What is known.
pub struct Kept(Mutex<Known>);

/// How much that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub selects: usize,
    pub bytes: usize,
    /// How often it was all of an answer, or part of one.
    pub uses: u64,
}

struct Known {
    selects: HashMap<String, Answer>,
    /// Others that were asked, by their hashes, of which rows they were asked last, and whether their answers can be kept.
    asked: HashMap<u64, (Rows, bool), foldhash::fast::RandomState>,
    /// Grows with every question.
    now: u64,
    bytes: usize,
    bytes_max: usize,
    uses: u64,
}

/// The first rows of a copy.
#[derive(Clone, Debug)]
struct First {
    /// The number behind the last one's.
    to: u64,
    /// The last of them, where numbers are missing.
    last: Option<Vec<u64>>,
}

/// Of one SELECT.
#[derive(Clone)]
struct Answer {
    of: Rows,
    first: First,
    pieces: Vec<Vec<RecordBatch>>,
    bytes: usize,
    used: u64,
}

/// What there is to do for a question.
enum Found {
    /// It is asked for the first time, or rows have gone since the last, or its answer is not one to be kept.
    New,
    Asked,
    Answer(Answer),
}

impl Kept {
    /// Nothing yet, and never more than so many bytes.
    pub fn new(bytes_max: usize) -> Kept {
        let (selects, asked) = (HashMap::new(), HashMap::default());
        Kept(Mutex::new(Known { selects, asked, now: 0, bytes: 0, bytes_max, uses: 0 }))
    }

    /// How much is known.
    pub fn size(&self) -> Size {
        let known = self.0.lock();
        Size { selects: known.selects.len(), bytes: known.bytes, uses: known.uses }
    }

    /// All rows of the SELECT's answer, in pieces. The snapshot that `conn` has has these rows.
    pub fn all(&self, conn: &Connection, sql: &str, of: &Rows) -> Result<Vec<RecordBatch>> {
        let table = duck::table(of.copy);
        let before = match self.find(sql, of) {
            // Most are never asked again.
            Found::New => return duck::all(conn, sql),
            Found::Asked => {
                let batches = duck::all(conn, sql)?;
                let fits = rows(&batches) <= ANSWER_ROWS_MAX && sql.len() + bytes(&batches) <= ANSWER_BYTES_MAX;
                match if fits { First::of(conn, &table)? } else { None } {
                    Some(first) => self.keep(sql, of, first, vec![batches.clone()]),
                    None => self.is_unfit(sql, of),
                }
                return Ok(batches);
            }
            Found::Answer(before) => before,
        };
        let Some(came) = before.first.came_behind(conn, &table)? else {
            // It is of rows that this snapshot does not have yet, or they have other numbers by now.
            self.forget(sql);
            return duck::all(conn, sql);
        };
        let mut batches: Vec<RecordBatch> = before.pieces.iter().flatten().cloned().collect();
        if came == 0 {
            return Ok(batches);
        }
        // The name means the rows behind here.
        let to = before.first.to;
        let behind =
            duck::all(conn, &format!("WITH {table} AS (SELECT * FROM main.{table} WHERE rowid >= {to}) {sql}"))?;
        if came >= BEHIND_MIN.max(to / BEHIND_SHARE) {
            self.add(sql, of, before, &behind, First::of(conn, &table)?);
        }
        batches.extend(behind);
        Ok(batches)
    }

    fn find(&self, sql: &str, of: &Rows) -> Found {
        let mut known = self.0.lock();
        known.now += 1;
        let now = known.now;
        if let Some(answer) = known.selects.get_mut(sql) {
            if answer.of == *of {
                answer.used = now;
                let answer = answer.clone();
                known.uses += 1;
                return Found::Answer(answer);
            }
            known.remove(sql);
        }
        if known.asked.len() >= ASKED_MAX {
            known.asked.clear();
        }
        let hash = known.asked.hasher().hash_one(sql);
        match known.asked.get(&hash) {
            Some((last, true)) if last == of => Found::Asked,
            Some((last, false)) if last == of => Found::New,
            _ => {
                known.asked.insert(hash, (*of, true));
                Found::New
            }
        }
    }

    /// Nothing is to be kept of it while the copy has these rows.
    fn is_unfit(&self, sql: &str, of: &Rows) {
        let mut known = self.0.lock();
        let hash = known.asked.hasher().hash_one(sql);
        known.asked.insert(hash, (*of, false));
    }

    fn forget(&self, sql: &str) {
        self.0.lock().remove(sql);
    }

    fn keep(&self, sql: &str, of: &Rows, first: First, pieces: Vec<Vec<RecordBatch>>) {
        let bytes = sql.len() + pieces.iter().map(|piece| bytes(piece)).sum::<usize>();
        let mut known = self.0.lock();
        let used = known.now;
        known.put(sql, Answer { of: *of, first, pieces, bytes, used });
    }

    /// A piece more; or all is read again the next time, where there are too many.
    fn add(&self, sql: &str, of: &Rows, before: Answer, behind: &[RecordBatch], first: Option<First>) {
        let fits = before.pieces.len() < PIECES_MAX && before.bytes + bytes(behind) <= ANSWER_BYTES_MAX;
        match first.filter(|_| fits && rows(behind) <= ANSWER_ROWS_MAX) {
            Some(first) => self.keep(sql, of, first, [before.pieces, vec![behind.to_vec()]].concat()),
            None => self.forget(sql),
        }
    }
}

impl Known {
    fn put(&mut self, sql: &str, answer: Answer) {
        self.remove(sql);
        self.bytes += answer.bytes;
        self.selects.insert(sql.to_string(), answer);
        while self.selects.len() > SELECTS_MAX || self.bytes > self.bytes_max {
            let oldest = self.selects.iter().min_by_key(|(_, answer)| answer.used).map(|(sql, _)| sql.clone());
            oldest.into_iter().for_each(|sql| self.remove(&sql));
        }
    }

    fn remove(&mut self, sql: &str) {
        self.bytes -= self.selects.remove(sql).map_or(0, |answer| answer.bytes);
    }
}

impl First {
    /// All that the snapshot has; `None`: they are few, or their numbers can't be asked for.
    fn of(conn: &Connection, table: &str) -> Result<Option<First>> {
        let named = conn.prepare(&format!("SELECT * FROM main.{table} LIMIT 0")).and_then(|mut statement| {
            statement.execute([])?;
            Ok(statement.column_names().iter().any(|name| name.eq_ignore_ascii_case("rowid")))
        })?;
        let rows = number(conn, &format!("SELECT count(*) FROM {table}"))?;
        if named || rows < ROWS_MIN {
            return Ok(None);
        }
        // The last number is no less than it would be without gaps.
        let last = number(conn, &format!("SELECT max(rowid) FROM {table} WHERE rowid >= {}", rows - 1))?;
        let to = last + 1;
        match to > rows {
            true => Ok(row(conn, table, last)?.map(|row| First { to, last: Some(row) })),
            false => Ok(Some(First { to, last: None })),
        }
    }

    /// How many rows there are behind; `None`: these are not the first ones by these numbers.
    fn came_behind(&self, conn: &Connection, table: &str) -> Result<Option<u64>> {
        match &self.last {
            // DuckDB knows without looking.
            None => Ok(number(conn, &format!("SELECT count(*) FROM {table}"))?.checked_sub(self.to)),
            Some(last) if row(conn, table, self.to - 1)?.as_ref() != Some(last) => Ok(None),
            Some(_) => Ok(Some(number(conn, &format!("SELECT count(*) FROM {table} WHERE rowid >= {}", self.to))?)),
        }
    }
}

/// What each value of the row of this number hashes to, those of its key among them, which no other row has.
fn row(conn: &Connection, table: &str, number: u64) -> Result<Option<Vec<u64>>> {
    let mut statement = conn.prepare(&format!("SELECT hash(COLUMNS(*)) FROM {table} WHERE rowid = {number}"))?;
    let mut rows = statement.query([])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let columns = row.as_ref().column_count();
    Ok(Some((0..columns).map(|at| row.get(at)).collect::<duckdb::Result<_>>()?))
}

fn number(conn: &Connection, sql: &str) -> Result<u64> {
    Ok(conn.query_row(sql, [], |row| row.get(0))?)
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

fn bytes(batches: &[RecordBatch]) -> usize {
    let names =
        |batch: &RecordBatch| batch.schema().fields().iter().map(|f| f.name().len() + COLUMN_BYTES).sum::<usize>();
    batches.iter().map(|batch| batch.get_array_memory_size() + names(batch)).sum()
}
