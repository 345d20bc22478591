//! The writing thread's work on whole copies: what is in the file at the start, rows of a first copy, dropping. It does not
//! know the stream.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use wire::Frame;
use wire::values::text_fields;

use crate::apply::Writer;
use crate::batch::Net;
use crate::columns::Columns;
use crate::duck::{self, BYTES_AT_ONCE, noted, quoted, table};
use crate::duck_error;
use crate::error::{Error, Result};
use crate::held::{Held, unfit};
use crate::lsn::Lsn;
use crate::shape::Shape;
use crate::shared::{Made, Position, Shared};
use crate::value::Val;

/// DuckDB's row groups have as many.
const ROWS_AT_ONCE: usize = 122_880;

/// What the stream's state was, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub system: String,
    pub slot: String,
    pub lsn: Lsn,
}

/// A copy that is about to be one.
#[derive(Clone, Debug)]
pub struct Fresh {
    pub id: i64,
    pub relation: u32,
    pub since: Lsn,
    pub schema: String,
    pub name: String,
    pub fingerprint: String,
    pub shape: Shape,
    /// See [`Columns::has_signed_zeros`].
    pub signed_zeros: bool,
}

/// What has been read of a table for a first copy.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    pub rows: u64,
    pub signed_zeros: bool,
}

impl Writer {
    /// Opens the file of a store. What is half done in it goes.
    pub fn open(shared: Arc<Shared>) -> Result<Writer> {
        let config = &shared.config;
        let conn = match duck::open(&config.directory, &config.memory, config.threads) {
            Ok(conn) => conn,
            Err(error) if duck_error::is_in_use(&error) => return Err(error),
            Err(error) => {
                tracing::warn!("the file of copies can't be opened, and is made anew: {error}");
                set_aside(&config.directory);
                duck::open(&config.directory, &config.memory, config.threads)?
            }
        };
        let mut copies: HashMap<u32, Vec<Held>> = HashMap::new();
        let mut kept = vec!["herd_state".to_string(), "herd_copy".to_string()];
        let mut statement =
            conn.prepare("SELECT id, relation, since, shape, fingerprint, signed_zeros FROM herd_copy")?;
        let rows = statement.query_map([], |row| {
            let (relation, since, fingerprint) = (row.get(1)?, Lsn(row.get(2)?), row.get(4)?);
            let made = Made {
                relation,
                since,
                fingerprint,
                signed_zeros: row.get(5)?,
                first_bytes: false,
                columns: Arc::default(),
            };
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(3)?, made))
        })?;
        for row in rows {
            let (id, shape, mut made) = row?;
            let shape: Shape = serde_json::from_str(&shape).map_err(|e| Error::surprise(e.to_string()))?;
            (made.first_bytes, made.columns) = (shape.first_bytes, shape.columns.clone().into());
            let (fingerprint, since) = (made.fingerprint.clone(), made.since);
            let held = Held { id, shape, fingerprint, since, places: None, net: Net::default(), sorting: None };
            copies.entry(made.relation).or_default().push(held);
            shared.made.write().insert(id, made);
            kept.push(table(id));
        }
        drop(statement);
        let mut statement =
            conn.prepare("SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary")?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<duckdb::Result<Vec<_>>>()?;
        drop(statement);
        for name in names.iter().filter(|name| !kept.contains(name)) {
            conn.execute_batch(&format!("DROP TABLE {}", quoted(name)))?;
        }
        Ok(Writer::new(conn, shared, copies))
    }

    /// The stream's state in the file; `None`: it never had one.
    pub fn stored(&self) -> Result<Option<Stored>> {
        let mut statement = self.conn.prepare("SELECT system, slot, lsn FROM herd_state")?;
        let mut rows = statement
            .query_map([], |row| Ok(Stored { system: row.get(0)?, slot: row.get(1)?, lsn: Lsn(row.get(2)?) }))?;
        Ok(rows.next().transpose()?)
    }

    /// All copies go; the stream is one of a new slot.
    pub fn begin_anew(&mut self, stored: &Stored) -> Result<()> {
        self.end_stream();
        self.shared.begin_anew(Position::default());
        // Nobody reads them from here on, whatever becomes of it.
        let mut made = self.shared.made.write();
        made.clear();
        let all = self.ids();
        let removals: Vec<_> = all.iter().map(|id| self.shared.removals.of(*id)).collect();
        let _changes: Vec<_> = removals.iter().map(|of| of.changes()).chain([self.shared.content.changes()]).collect();
        self.conn.execute_batch("BEGIN TRANSACTION")?;
        let gone: String = all.iter().map(|id| removed(*id)).collect();
        let values = duckdb::params![stored.system, stored.slot, stored.lsn.0];
        let replaced = self
            .conn
            .execute_batch(&format!("{gone}DELETE FROM herd_copy; DELETE FROM herd_state"))
            .and_then(|()| self.conn.execute("INSERT INTO herd_state VALUES (?, ?, ?)", values))
            .and_then(|_| self.conn.execute_batch("COMMIT"));
        replaced.inspect_err(|_| {
            let _ = self.conn.execute_batch("ROLLBACK");
        })?;
        self.copies.clear();
        self.shared.begin_anew(Position { applied: stored.lsn, stored: stored.lsn });
        Ok(())
    }

    /// Which copies there are.
    pub fn ids(&self) -> Vec<i64> {
        self.copies.values().flatten().map(|held| held.id).collect()
    }

    /// Which copies there are, and of which tables, by their oids.
    pub fn held(&self) -> Vec<(i64, u32)> {
        self.copies.iter().flat_map(|(relation, of)| of.iter().map(|held| (held.id, *relation))).collect()
    }

    /// The fingerprint and the columns that a copy is made of.
    pub fn made_of(&self, id: i64) -> Result<Option<(String, Vec<String>)>> {
        let Some(held) = self.copies.values().flatten().find(|held| held.id == id) else { return Ok(None) };
        let columns = held.shape.columns.iter().map(|column| column.name.clone()).collect();
        Ok(Some((held.fingerprint.clone(), columns)))
    }

    /// Nothing of this copy stays. The stream must not be in the middle of something.
    pub fn drop_copy(&mut self, id: i64) -> Result<()> {
        let mut made = self.shared.made.write();
        // Nobody reads it from here on, whatever becomes of it; until it is gone from the file, it gets what the stream tells.
        made.remove(&id);
        let removals = self.shared.removals.of(id);
        let _changes = [self.shared.content.changes(), removals.changes()];
        let sql = format!("BEGIN TRANSACTION; {}COMMIT", removed(id));
        self.conn.execute_batch(&sql).inspect_err(|_| {
            let _ = self.conn.execute_batch("ROLLBACK");
        })?;
        self.copies.retain(|_, of| {
            of.retain(|held| held.id != id);
            !of.is_empty()
        });
        Ok(())
    }

    /// Rows of a first copy, as COPY tells them, until no more come. They are not part of any copy yet.
    pub fn load(&mut self, id: i64, shape: &Shape, mut coming: mpsc::Receiver<Vec<Frame>>) -> Result<Loaded> {
        self.drop_copy(id)?;
        let name = format!("load_{id}");
        self.conn.execute_batch(&duck::create(&name, shape))?;
        let mut columns = Columns::of(shape);
        let mut total = 0;
        while let Some(frames) = coming.blocking_recv() {
            for frame in &frames {
                push_row(id, shape, frame.body(), &mut columns)?;
                let (rows, bytes) = columns.size();
                if rows >= ROWS_AT_ONCE || bytes >= BYTES_AT_ONCE * 2 {
                    duck::append_all(&self.conn, &name, columns.finish()?)?;
                }
            }
            total += frames.len() as u64;
            if let Some(copy) = self.shared.copies.lock().get_mut(&id) {
                copy.rows = total;
            }
        }
        duck::append_all(&self.conn, &name, columns.finish()?)?;
        Ok(Loaded { rows: total, signed_zeros: columns.has_signed_zeros() })
    }

    /// What was loaded is a copy from now on.
    pub fn finish_load(&mut self, fresh: Fresh) -> Result<()> {
        let Fresh { id, relation, since, .. } = fresh;
        let (from, to) = (format!("load_{id}"), table(id));
        self.conn.execute_batch("BEGIN TRANSACTION")?;
        let done = self.make(&fresh, &from, &to);
        let mut made = self.shared.made.write();
        let removals = self.shared.removals.of(id);
        let _changes = [self.shared.content.changes(), removals.changes()];
        let finished = done.and_then(|()| Ok(self.conn.execute_batch("COMMIT")?));
        if let Err(error) = finished {
            let _ = self.conn.execute_batch("ROLLBACK");
            return Err(error);
        }
        let Fresh { shape, fingerprint, signed_zeros, .. } = fresh;
        let (first_bytes, columns) = (shape.first_bytes, shape.columns.clone().into());
        let new = Made { relation, since, fingerprint: fingerprint.clone(), signed_zeros, first_bytes, columns };
        made.insert(id, new);
        drop(made);
        let held = Held { id, shape, fingerprint, since, places: None, net: Net::default(), sorting: None };
        self.copies.entry(relation).or_default().push(held);
        Ok(())
    }

    fn make(&self, fresh: &Fresh, from: &str, to: &str) -> Result<()> {
        let order = duck::order(&fresh.shape);
        if order.is_empty() {
            self.conn.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}"))?;
        } else {
            self.conn.execute_batch(&duck::create(to, &fresh.shape))?;
            self.conn.execute_batch(&format!(
                "INSERT INTO {to} SELECT * FROM {from} AS t ORDER BY {order}; DROP TABLE {from}"
            ))?;
        }
        let shape = serde_json::to_string(&fresh.shape).map_err(|e| Error::surprise(e.to_string()))?;
        let unsorted = (!order.is_empty()).then_some(0);
        let Fresh { id, relation, since, schema, name, fingerprint, signed_zeros, .. } = fresh;
        let values = duckdb::params![id, relation, since.0, schema, name, fingerprint, shape, signed_zeros, unsorted];
        self.conn.execute("INSERT INTO herd_copy VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)?;
        Ok(())
    }
}

/// What takes all of a copy out of the file.
fn removed(id: i64) -> String {
    format!(
        "DELETE FROM herd_copy WHERE id = {id}; DROP TABLE IF EXISTS {}; DROP TABLE IF EXISTS load_{id}; DROP TABLE IF EXISTS {}; ",
        table(id),
        noted(id)
    )
}

/// A file that can't be opened is of no use, but somebody may want to see why.
fn set_aside(directory: &Path) {
    for name in [duck::FILE.to_string(), format!("{}.wal", duck::FILE)] {
        let _ = std::fs::rename(directory.join(&name), directory.join(format!("{name}.broken")));
    }
}

/// One line of COPY's text format (`CopyAttributeOutText` in copyto.c).
fn push_row(id: i64, shape: &Shape, line: &[u8], columns: &mut Columns) -> Result<()> {
    let strange = || Error::Copy { id, why: "a copied row can't be read".into() };
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut fields = text_fields(line);
    for (at, column) in shape.columns.iter().enumerate() {
        let field = fields.next().ok_or_else(strange)?.map_err(|_| strange())?;
        let Some(field) = field else {
            columns.push(at, &Val::Null)?;
            continue;
        };
        let text = std::str::from_utf8(&field).map_err(|_| strange())?;
        let unfit = || Error::Copy { id, why: unfit(&column.name, text) };
        columns.push(at, &Val::parse(column.kind(), text).ok_or_else(unfit)?)?;
    }
    columns.end_row();
    fields.next().map_or(Ok(()), |_| Err(strange()))
}
