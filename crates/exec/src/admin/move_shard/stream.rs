//! How a shard's rows come to another node, or to what it is made into, while they are written to: a temporary replication slot, a COPY at its very snapshot,
//! then what the slot tells of changes, applied in order. The slot ends with its connection, so that nothing is left of it,
//! however a router ends. It does not know when it is time to switch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::quote_literal;
use pool::{Conn, PoolError, Progress};
use txn::Lane;
use wire::frame::Reader;
use wire::{ErrorFields, backend, put, sqlstate};

use super::changes::{Batch, Copied, Decoder};
use super::plan::Move;
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::router::herd::Herd;

/// So many bytes wait for the copy's node before more is read.
const WAITING_BYTES: usize = 256 << 10;
/// Changes of a round, rounded up to a whole transaction, and how many are few.
const ROUND: usize = 20_000;
const FEW: usize = 1_000;

/// The connections of a move: to the shard's node, which has the slot, and to the copy's.
pub struct Stream {
    source: Conn,
    copy: Conn,
    slot: String,
    publication: String,
    decoder: Decoder,
    counters: Arc<Counters>,
}

impl Stream {
    /// With nothing begun.
    pub async fn open(herd: &Herd, of: &Move, counters: Arc<Counters>) -> Result<Stream> {
        let mut source = herd.own.connect_to_replicate(&herd.target(&of.snapshot, of.from)?).await?;
        let mut copy = herd.admin(&of.snapshot, of.to).await?;
        // No policy hides rows: that would be an error. The last of it is flushed with the transaction that makes the copies shards.
        copy.simple(
            "SET synchronous_commit = off; SET row_security = off; SET statement_timeout = 0; SET lock_timeout = 0",
        )
        .await?;
        source.simple("SET synchronous_commit = local; SET row_security = off; SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0").await?;
        let copies = of.tables.iter().flat_map(|t| {
            t.parts.iter().map(|part| Copied { part: part.oid, fresh: t.fresh(), key: part.key.clone() })
        });
        let decoder = Decoder::new(copies.collect());
        Ok(Stream { source, copy, slot: of.slot(), publication: of.publication(), decoder, counters })
    }

    /// Everything up to a moment: rows, then indexes. What is there is compared with what the slot's snapshot has.
    pub async fn copy_all(&mut self, of: &Move) -> Result<()> {
        *self.counters.step.lock() = "copy";
        self.source.simple("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ").await?;
        let slot = format!("CREATE_REPLICATION_SLOT \"{}\" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use')", self.slot);
        self.source.simple(&slot).await?;
        for t in &of.tables {
            let columns = t.columns();
            let into = format!("COPY {} ({columns}) FROM STDIN", t.fresh());
            for part in &t.parts {
                self.copy_rows(&format!("COPY {} ({columns}) TO STDOUT", part.name), &into).await?;
            }
        }
        txn::failpoint::reached("move.rows").await;
        *self.counters.step.lock() = "verify";
        // To plan a query folds expressions of indexes, which another owner may have made on the shard itself.
        for t in of.tables.iter().filter(|t| t.trusted()) {
            let columns = t.columns();
            let sum = |tables: &[String]| {
                let rows = tables.iter().map(|table| format!("SELECT ROW({columns})::text FROM {table}"));
                let rows = rows.collect::<Vec<_>>().join(" UNION ALL ");
                format!("SELECT count(*), sum(hashtextextended(r, 0)::numeric) FROM ({rows}) AS s (r)")
            };
            let parts: Vec<String> = t.parts.iter().map(|part| format!("ONLY {}", part.name)).collect();
            let there = self.source.simple(&sum(&parts)).await?;
            if self.copy.simple(&sum(&[t.fresh()])).await? != there {
                return Err(differs());
            }
        }
        self.source.simple("COMMIT").await?;
        *self.counters.step.lock() = "index";
        for t in &of.tables {
            for piece in of.pieces(t) {
                self.copy.simple(&t.call("herd.move_index", &piece, "")).await?;
            }
        }
        Ok(())
    }

    async fn copy_rows(&mut self, from: &str, into: &str) -> Result<()> {
        for (conn, sql) in [(&mut self.source, from), (&mut self.copy, into)] {
            put::query(conn.out(), sql);
            conn.sent_sync();
            conn.flush().await?;
        }
        let (mut failure, mut sent) = (None, 0);
        loop {
            let frame = self.source.frame().await?;
            match frame.tag() {
                b'd' => {
                    sent += 1;
                    self.counters.add(1, frame.body().len());
                    put::copy_data(self.copy.out(), frame.body());
                    if self.copy.out().len() > WAITING_BYTES {
                        written(&mut self.copy).await?;
                    }
                }
                b'E' => failure = Some(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?))),
                b'Z' => break,
                _ => {}
            }
        }
        match failure {
            None => put::copy_done(self.copy.out()),
            Some(_) => put::copy_fail(self.copy.out(), "the shard could not be read"),
        }
        written(&mut self.copy).await?;
        let copied = answered(&mut self.copy).await;
        failure.map_or(Ok(()), Err)?;
        if copied? == [sent] { Ok(()) } else { Err(differs()) }
    }

    /// Until there is little left to do.
    pub async fn follow(&mut self) -> Result<()> {
        *self.counters.step.lock() = "follow";
        while self.round(None).await? >= FEW {}
        Ok(())
    }

    /// Every change that was committed before this, in the transaction that has the tables locked on the copy's node: what says which rows a
    /// hash partition may hold looks at its parent (`satisfies_hash_partition`), which nobody else can any more.
    pub async fn finish(&mut self, locked: &mut Lane) -> Result<()> {
        *self.counters.step.lock() = "switch";
        // A commit that waits for the disk: what slots tell of ends where the log is flushed.
        self.read_out().await?;
        self.source.simple("SELECT pg_logical_emit_message(true, 'herd', ''::text)").await?;
        self.round(Some(locked)).await?;
        Ok(())
    }

    /// A try to finish that came to nothing may have left something to be read.
    async fn read_out(&mut self) -> Result<()> {
        while self.source.outstanding() > 0 {
            self.source.frame().await?;
        }
        Ok(())
    }

    /// Applies what is next; how many messages that were. Under locks that is all there is, and it is only looked at: if nothing comes of the
    /// transaction, it is told again. They are read as they are applied, as a row may be of any length.
    async fn round(&mut self, mut locked: Option<&mut Lane>) -> Result<usize> {
        let (read, most) = match locked {
            None => ("get", ROUND.to_string()),
            Some(_) => ("peek", "NULL".to_string()),
        };
        let changes = format!(
            "SELECT data FROM pg_logical_slot_{read}_binary_changes('{}', NULL, {most}, 'proto_version', '1', 'publication_names', '{}')",
            self.slot, self.publication
        );
        self.read_out().await?;
        put::query(self.source.out(), &changes);
        self.source.sent_sync();
        self.source.flush().await?;
        let (mut messages, mut batch, mut failure) = (0, Batch::default(), None);
        loop {
            let frame = self.source.frame().await?;
            match frame.tag() {
                b'D' => {
                    messages += 1;
                    self.decoder.read(&told(frame.body())?, &mut batch)?;
                }
                b'E' => {
                    failure.get_or_insert(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?)));
                }
                b'Z' => break,
                _ => {}
            }
            if batch.is_full() {
                self.apply(std::mem::take(&mut batch), locked.as_deref_mut()).await?;
            }
        }
        failure.map_or(Ok(()), Err)?;
        self.apply(batch, locked).await?;
        let lag = format!(
            "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), confirmed_flush_lsn)::int8 FROM pg_replication_slots WHERE slot_name = '{}'",
            self.slot
        );
        let lag = self.source.simple(&lag).await?;
        let lag = lag.first().and_then(|row| row.first()?.as_deref()?.parse().ok()).unwrap_or(-1);
        self.counters.lag_bytes.store(lag, Ordering::Relaxed);
        Ok(messages)
    }

    /// In one transaction. Each statement changes as many rows as there were on the shard's node: anything else is an error.
    async fn apply(&mut self, batch: Batch, locked: Option<&mut Lane>) -> Result<()> {
        if batch.rows.is_empty() {
            return Ok(());
        }
        let changed = match locked {
            None => {
                put::query(self.copy.out(), &batch.statements.join(";\n"));
                self.copy.sent_sync();
                written(&mut self.copy).await?;
                answered(&mut self.copy).await?
            }
            Some(lane) => {
                let statements: Vec<String> = batch.statements.iter().map(|s| quote_literal(s)).collect();
                let rows = lane.rows(&format!("SELECT herd.move_apply(ARRAY[{}])", statements.join(", "))).await?;
                rows.iter().map(|row| row.first()?.as_deref()?.parse().ok()).collect::<Option<_>>().unwrap_or_default()
            }
        };
        if changed != batch.rows {
            return Err(differs());
        }
        self.counters.changes.fetch_add(batch.rows.iter().sum(), Ordering::Relaxed);
        Ok(())
    }
}

/// The message in a row of one bytea.
fn told(row: &[u8]) -> Result<Vec<u8>> {
    let mut r = Reader::new(row);
    let columns = r.count(4)?;
    let len = r.u32()? as usize;
    let data = std::str::from_utf8(r.bytes(len)?).ok().and_then(|data| data.strip_prefix("\\x"));
    let message = data.filter(|_| columns == 1).and_then(wire::hex::decode);
    message.ok_or_else(|| ExecError::internal("logical replication told of no bytes"))
}

/// The copy is not what it should be: nothing comes of it.
fn differs() -> ExecError {
    ExecError::sql(sqlstate::DATA_CORRUPTED, "the copy of a shard has other rows than the shard: it is thrown away")
        .hint("Was schema herd_shards written to past the routers? Try again.")
}

/// All that waits to be sent; what comes meanwhile stays to be read.
async fn written(conn: &mut Conn) -> Result<()> {
    while let Progress::Filled = conn.flush_or_fill().await? {}
    Ok(())
}

/// Reads to ReadyForQuery: how many rows each statement has changed, or the first error.
async fn answered(conn: &mut Conn) -> Result<Vec<u64>> {
    let (mut changed, mut failure) = (Vec::new(), None);
    loop {
        let frame = conn.frame().await?;
        match frame.tag() {
            b'C' => {
                let tag = backend::parse_command_complete(frame.body())?;
                changed.push(tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0));
            }
            b'E' => {
                failure.get_or_insert(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?)));
            }
            b'Z' => return failure.map_or(Ok(changed), |e| Err(e.into())),
            _ => {}
        }
    }
}
