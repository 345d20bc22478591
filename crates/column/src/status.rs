//! What a store says of itself: SHOW copies, SHOW sizes, SHOW kept, SHOW version. It reads what others keep.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::BytesMut;
use duckdb::Connection;
use wire::backend::{self, Field};
use wire::type_oid as oid;

use crate::duck;
use crate::duck_error;
use crate::error::Result;
use crate::kept::Size;
use crate::read::{Answer, Reads};
use crate::shared::{Copy, State};

/// One row: this program's version, and DuckDB's.
pub fn version() -> Answer {
    let mut messages = BytesMut::new();
    backend::row_description(&mut messages, &[Field::text("version")]);
    let text = concat!("herd-column ", env!("CARGO_PKG_VERSION"));
    backend::data_row(&mut messages, [Some(text.as_bytes())].into_iter());
    Answer { messages, rows: 1 }
}

/// One row: for how many SELECTs answers are kept, how many bytes all of that takes, and how often such an answer was used.
pub fn kept(reads: &Reads) -> Answer {
    let Size { selects, bytes, uses } = reads.kept.size();
    let mut messages = BytesMut::new();
    backend::row_description(&mut messages, &["selects", "bytes", "uses"].map(|name| Field::new(name, oid::INT8, 8)));
    let cells = [selects as u64, bytes as u64, uses].map(|n| n.to_string());
    backend::data_row(&mut messages, cells.iter().map(|cell| Some(cell.as_bytes())));
    Answer { messages, rows: 1 }
}

/// A row for each copy that can be read: its number, the bytes of the file that it takes, and by what its values are compressed: of each method
/// the percentage of them. What is in DuckDB's log yet counts as no bytes.
pub async fn sizes(reads: &Reads) -> Result<Answer> {
    let of_ready = |(id, copy): (&i64, &Copy)| (copy.state == State::Ready).then_some(*id);
    let ready: Vec<i64> = reads.shared.copies.lock().iter().filter_map(of_ready).collect();
    let mut reader = reads.readers.get().await?;
    let sizes = reader
        .run(move |conn| Ok(ready.iter().filter_map(|id| Some((*id, said(size(conn, *id))?))).collect::<Vec<_>>()));
    let sizes = sizes.await?;
    let mut messages = BytesMut::new();
    let fields = [Field::new("copy", oid::INT8, 8), Field::new("bytes", oid::INT8, 8), Field::text("compression")];
    backend::row_description(&mut messages, &fields);
    for (id, (bytes, compression)) in &sizes {
        let cells = [Some(id.to_string()), Some(bytes.to_string()), compression.clone()];
        backend::data_row(&mut messages, cells.iter().map(|cell| cell.as_deref().map(str::as_bytes)));
    }
    Ok(Answer { messages, rows: sizes.len() as u64 })
}

/// A copy may go meanwhile.
fn said<T>(of: duckdb::Result<T>) -> Option<T> {
    of.inspect_err(|error| match duck_error::is_internal(&error.to_string()) {
        true => tracing::error!("nothing can be said of a copy: {error}"),
        false => tracing::debug!("nothing can be said of a copy: {error}"),
    })
    .ok()
}

/// Of a copy; no words where it has no rows.
fn size(conn: &Connection, copy: i64) -> duckdb::Result<(u64, Option<String>)> {
    // Without a window: of DuckDB 1.5.5 it is reported that one over few rows may end the database (issue 25713 of duckdb/duckdb).
    let sql = format!(
        "WITH segments AS MATERIALIZED (FROM pragma_storage_info('{}')),
              blocks AS (SELECT block_id AS id FROM segments WHERE persistent AND block_id >= 0
                          UNION SELECT unnest(additional_block_ids) FROM segments WHERE persistent),
              counts AS MATERIALIZED (SELECT compression, sum(\"count\") AS number FROM segments WHERE segment_type <> 'VALIDITY' GROUP BY 1),
              methods AS (SELECT compression, 100 * number / (SELECT sum(number) FROM counts) AS part FROM counts)
         SELECT (SELECT count(*) FROM blocks) * (SELECT block_size FROM pragma_database_size()),
                (SELECT string_agg(compression || ' ' || round(part)::INTEGER || ' %', ', ' ORDER BY part DESC, compression) FROM methods)",
        duck::table(copy)
    );
    conn.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// A row for each copy that is listed.
pub async fn copies(reads: &Reads) -> Result<Answer> {
    let shared = &reads.shared;
    let listed: Vec<_> = shared.copies.lock().iter().map(|(id, copy)| (*id, copy.clone())).collect();
    let ready: Vec<i64> = listed.iter().filter(|(_, copy)| copy.state == State::Ready).map(|(id, _)| *id).collect();
    let mut reader = reads.readers.get().await?;
    let counts = reader.run(move |conn| {
        let count = |id: &i64| {
            let sql =
                format!("SELECT (SELECT count(*) FROM {}), unsorted FROM herd_copy WHERE id = ?", duck::table(*id));
            said(conn.query_row(&sql, [id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<u64>>(1)?))))
        };
        Ok(ready.iter().map(|id| (*id, count(id))).collect::<Vec<_>>())
    });
    let counts = counts.await?;
    let applied = shared.applied();
    let lag_bytes = shared.node_end.load(Ordering::Relaxed).saturating_sub(applied.0);
    let lag_ms = shared.fresh_as_of().map(|as_of| Instant::now().saturating_duration_since(as_of).as_millis());
    let file = shared.config.directory.join(duck::FILE);
    let bytes = std::fs::metadata(file).map(|file| file.len()).unwrap_or(0);
    let stuck = shared.stuck();
    let mut messages = BytesMut::new();
    let int = |name| Field::new(name, oid::INT8, 8);
    let fields = [
        int("copy"),
        Field::text("table"),
        Field::text("state"),
        Field::text("why"),
        int("rows"),
        Field::text("applied"),
        int("lag_bytes"),
        int("lag_ms"),
        int("file_bytes"),
        int("unsorted"),
    ];
    backend::row_description(&mut messages, &fields);
    for (id, copy) in &listed {
        let counted = counts.iter().find(|(of, _)| of == id).and_then(|(_, count)| *count);
        let rows = counted.map_or_else(|| copy.rows.to_string(), |(count, _)| count.to_string());
        let unsorted = counted.and_then(|(count, unsorted)| Some(unsorted?.min(count as u64)));
        let why = match (&stuck, copy.state) {
            (Some(stuck), State::Ready) => format!("nothing can be written: {stuck}"),
            _ => copy.why.clone(),
        };
        let cells = [
            Some(id.to_string()),
            Some(copy.table.clone()),
            Some(copy.state.word().to_string()),
            Some(why),
            Some(rows),
            Some(applied.to_string()),
            Some(lag_bytes.to_string()),
            lag_ms.map(|ms| ms.to_string()),
            Some(bytes.to_string()),
            unsorted.map(|rows| rows.to_string()),
        ];
        backend::data_row(&mut messages, cells.iter().map(|cell| cell.as_deref().map(str::as_bytes)));
    }
    Ok(Answer { messages, rows: listed.len() as u64 })
}
