//! DuckDB: its file and settings, the tables of copies, and how a batch gets into one. It does not know PostgreSQL, nor when
//! what is written is committed.

use std::path::Path;

use catalog::first_bytes;
use duckdb::arrow::array::{Array, BinaryArray, Int64Array, StringArray};
use duckdb::arrow::record_batch::RecordBatch;
use duckdb::{Config, Connection};

use crate::batch::Net;
use crate::columns::Columns;
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::value::Val;

/// The file in a store's directory.
pub const FILE: &str = "column.duckdb";
/// Rows that are handed to DuckDB at once.
const ROWS_AT_ONCE: usize = 20_480;
/// What DuckDB's own log may have before it goes into the file. It is read again when a store starts.
const CHECKPOINT: &str = "128MB";
/// As [`ROWS_AT_ONCE`], in bytes.
pub const BYTES_AT_ONCE: usize = 16 << 20;

/// Opens the file, or makes it. Nothing but this file and its folder for spilling can be reached from any of its connections, and no
/// setting be changed.
pub fn open(directory: &Path, memory: &str, threads: u16) -> Result<Connection> {
    let spill = directory.join("spill");
    let mut config = Config::default();
    for (key, value) in [
        ("autoinstall_known_extensions", "false"),
        ("autoload_known_extensions", "false"),
        ("allow_community_extensions", "false"),
        ("max_memory", memory),
        ("threads", &threads.to_string()),
        ("temp_directory", &spill.to_string_lossy()),
        ("enable_external_access", "false"),
        // What a batch adds to the last rows of a table is packed once it is so much, and each time all of them anew: rather seldom.
        ("checkpoint_threshold", CHECKPOINT),
        // BEGIN takes the snapshot, not the first statement behind it.
        ("immediate_transaction_mode", "true"),
        ("lock_configuration", "true"),
    ] {
        config = config.with(key, value)?;
    }
    let conn = Connection::open_with_flags(directory.join(FILE), config)?;
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS herd_state (system VARCHAR NOT NULL, slot VARCHAR NOT NULL, lsn UBIGINT NOT NULL);
         CREATE TABLE IF NOT EXISTS herd_copy (id BIGINT NOT NULL, relation UINTEGER NOT NULL, since UBIGINT NOT NULL,
             schema VARCHAR NOT NULL, name VARCHAR NOT NULL, fingerprint VARCHAR NOT NULL, shape VARCHAR NOT NULL);
         ALTER TABLE herd_copy ADD COLUMN IF NOT EXISTS signed_zeros BOOLEAN DEFAULT true;
         ALTER TABLE herd_copy ADD COLUMN IF NOT EXISTS unsorted UBIGINT;",
    )?;
    Ok(conn)
}

/// The table of a copy.
pub fn table(id: i64) -> String {
    format!("copy_{id}")
}

/// While a copy is sorted anew: its rows in their order, which become the copy, and the keys of those that change meanwhile.
pub fn resorted(id: i64) -> String {
    format!("sort_{id}")
}

/// See [`resorted`].
pub fn noted(id: i64) -> String {
    format!("noted_{id}")
}

/// What a copy's table `t` is sorted by, for ORDER BY; empty: by nothing.
pub fn order(shape: &Shape) -> String {
    let names = shape.order_by.iter().map(|at| format!("t.{}", quoted(&shape.columns[*at].name)));
    names.collect::<Vec<_>>().join(", ")
}

/// Quotes a name for DuckDB.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// CREATE TABLE of a copy's columns.
pub fn create(name: &str, shape: &Shape) -> String {
    let columns = shape.columns.iter().enumerate().map(|(at, column)| {
        let not_null = if shape.key.contains(&at) { " NOT NULL" } else { "" };
        format!("{} {}{not_null}", quoted(&column.name), column.kind().duck())
    });
    let long = shape.columns.iter().filter(|column| shape.has_first_bytes(column));
    let first_bytes = long.map(|column| format!("{} UBIGINT NOT NULL", quoted(&first_bytes::column(&column.name))));
    format!("CREATE TABLE {name} ({})", columns.chain(first_bytes).collect::<Vec<_>>().join(", "))
}

/// Gives all rows all of their values: see [`Net::keeps`].
pub fn complete(conn: &Connection, id: i64, shape: &Shape, net: &mut Net) -> Result<()> {
    if net.keeps { fill_in(conn, id, shape, net) } else { Ok(()) }
}

/// Puts what has changed into the copy, within whatever transaction there is; whether some zero among it has a sign, which table herd_copy says
/// then.
pub fn apply(conn: &Connection, id: i64, shape: &Shape, net: &mut Net) -> Result<bool> {
    let strange = |why: String| Error::Copy { id, why };
    if net.emptied {
        conn.execute(&format!("DELETE FROM {}", table(id)), [])?;
    }
    if !net.gone.is_empty() {
        let keys = net.gone.iter().map(|key| key.iter());
        let wanted = net.gone.len();
        fill_keys(conn, shape, keys)?;
        let deleted = conn.execute(
            &format!("DELETE FROM {} AS t USING temp.main.herd_keys AS k WHERE {}", table(id), joined(shape)),
            [],
        )?;
        if deleted != wanted {
            return Err(strange(format!("{wanted} rows were changed, of which the copy has {deleted}")));
        }
    }
    let mut columns = Columns::of(shape);
    let mut appender = None;
    for row in net.rows_mut() {
        for (at, val) in row.vals.iter().enumerate() {
            columns.push(at, val)?;
        }
        columns.end_row();
        let (rows, bytes) = columns.size();
        if rows >= ROWS_AT_ONCE || bytes >= BYTES_AT_ONCE {
            append(conn, &table(id), &mut appender, columns.finish()?)?;
        }
    }
    if columns.size().0 > 0 {
        append(conn, &table(id), &mut appender, columns.finish()?)?;
    }
    if let Some(mut appender) = appender {
        appender.flush()?;
    }
    if columns.has_signed_zeros() {
        conn.execute("UPDATE herd_copy SET signed_zeros = true WHERE id = ? AND NOT signed_zeros", [id])?;
    }
    Ok(columns.has_signed_zeros())
}

fn append<'c>(
    conn: &'c Connection,
    table: &str,
    appender: &mut Option<duckdb::Appender<'c>>,
    batch: RecordBatch,
) -> Result<()> {
    let appender = match appender {
        Some(appender) => appender,
        None => appender.insert(conn.appender(table)?),
    };
    Ok(appender.append_record_batch(batch)?)
}

/// Appends these rows to a table, at once.
pub fn append_all(conn: &Connection, table: &str, batch: RecordBatch) -> Result<()> {
    let mut appender = conn.appender(table)?;
    appender.append_record_batch(batch)?;
    Ok(appender.flush()?)
}

/// A row `t` of a copy has the key `k`.
pub fn joined(shape: &Shape) -> String {
    let terms = shape.key.iter().enumerate().map(|(k, at)| format!("t.{} = k.k{k}", quoted(&shape.columns[*at].name)));
    terms.collect::<Vec<_>>().join(" AND ")
}

/// The columns `k0`, `k1`, … of a table of keys.
pub fn key_definitions(shape: &Shape) -> String {
    shape.key_kinds().enumerate().map(|(k, kind)| format!("k{k} {}", kind.duck())).collect::<Vec<_>>().join(", ")
}

/// A temporary table of keys, `k0`, `k1`, … and `n`, their number from 0.
fn fill_keys<'v>(
    conn: &Connection,
    shape: &Shape,
    keys: impl Iterator<Item = impl Iterator<Item = &'v Val>>,
) -> Result<()> {
    conn.execute_batch(&format!("CREATE OR REPLACE TEMP TABLE herd_keys ({}, n BIGINT)", key_definitions(shape)))?;
    let number = shape.key.len();
    let mut columns = Columns::new(shape.key_kinds().chain([crate::types::Kind::Int8]));
    let mut appender = conn.appender_to_catalog_and_db("herd_keys", "temp", "main")?;
    for (n, key) in keys.enumerate() {
        for (k, val) in key.enumerate() {
            columns.push(k, val)?;
        }
        columns.push(number, &Val::Int8(n as i64))?;
        columns.end_row();
        if columns.size().0 >= ROWS_AT_ONCE {
            appender.append_record_batch(columns.finish()?)?;
        }
    }
    appender.append_record_batch(columns.finish()?)?;
    Ok(appender.flush()?)
}

/// Gives rows the values that were not told again, from the rows they were in the copy.
fn fill_in(conn: &Connection, id: i64, shape: &Shape, net: &mut Net) -> Result<()> {
    let strange = |why: &str| Error::Copy { id, why: why.into() };
    let mut rows: Vec<_> = net.rows_mut().filter(|row| row.vals.contains(&Val::Kept)).collect();
    let sources: Vec<_> = rows.iter().filter_map(|row| row.source.clone()).collect();
    if sources.len() != rows.len() {
        return Err(strange("a row has lost where it came from"));
    }
    fill_keys(conn, shape, sources.iter().map(|key| key.iter()))?;
    // Only texts and bytes are ever so long.
    let mut kept: Vec<usize> = (0..shape.columns.len()).collect();
    kept.retain(|at| rows.iter().any(|row| row.vals[*at] == Val::Kept));
    let names: String = kept.iter().map(|at| format!(", t.{}", quoted(&shape.columns[*at].name))).collect();
    let sql = format!("SELECT k.n{names} FROM {} AS t, temp.main.herd_keys AS k WHERE {}", table(id), joined(shape));
    let mut found = 0;
    for batch in all(conn, &sql)? {
        let numbers =
            batch.column(0).as_any().downcast_ref::<Int64Array>().ok_or_else(|| strange("a number is none"))?;
        for r in 0..batch.num_rows() {
            found += 1;
            let row = &mut rows[numbers.value(r) as usize];
            for (c, at) in kept.iter().enumerate().filter(|(_, at)| row.vals[**at] == Val::Kept).collect::<Vec<_>>() {
                row.vals[*at] = long_value(batch.column(c + 1), r)
                    .ok_or_else(|| strange("a value that is never long was not told again"))?;
            }
        }
    }
    match found == rows.len() {
        true => Ok(()),
        false => Err(strange("a row that was changed is not in the copy")),
    }
}

fn long_value(column: &dyn Array, row: usize) -> Option<Val> {
    if column.is_null(row) {
        return Some(Val::Null);
    }
    if let Some(texts) = column.as_any().downcast_ref::<StringArray>() {
        return Some(Val::Text(texts.value(row).into()));
    }
    column.as_any().downcast_ref::<BinaryArray>().map(|bytes| Val::Bytes(bytes.value(row).into()))
}

/// All rows of a query: what DuckDB says there are, or an error. It is prepared anew each time: DuckDB's plan goes by what the columns held when
/// it was made (`a > 100` of a column that had no more is no row, for ever), and is not made again when rows come.
pub fn all(conn: &Connection, sql: &str) -> Result<Vec<RecordBatch>> {
    let mut statement = conn.prepare(sql)?;
    let batches: Vec<RecordBatch> = statement.query_arrow([])?.collect();
    // The iterator ends where a part of the result could not be had, too.
    let got: usize = batches.iter().map(RecordBatch::num_rows).sum();
    match got == statement.row_count() {
        true => Ok(batches),
        false => Err(Error::Answer(format!("{got} rows of {} could be read", statement.row_count()))),
    }
}

/// How DuckDB would run it, in its own words. Nothing is run.
pub fn plan(conn: &Connection, sql: &str) -> Result<String> {
    let batches = all(conn, &format!("EXPLAIN {sql}"))?;
    // A name of the plan, and the plan.
    let texts = batches.iter().filter_map(|batch| batch.columns().get(1)?.as_any().downcast_ref::<StringArray>());
    Ok(texts.flat_map(|plans| plans.iter().flatten()).collect::<Vec<_>>().join("\n"))
}
