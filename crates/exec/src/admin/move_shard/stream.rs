//! How a shard's rows come to another node, or to what it is made into, while they are written to: a temporary replication slot, a COPY at its very snapshot,
//! then what the slot tells of changes (`follow.rs`). The slot ends with its connection, so that nothing is left of it,
//! however a router ends. It does not know when it is time to switch.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use pool::{Conn, PoolError, Progress};
use wire::{ErrorFields, backend, put, sqlstate};

use super::changes::{Copied, Decoder};
use super::follow::Followed;
use super::pace::Pace;
use super::plan::Move;
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::router::herd::Herd;

/// Values are written alike on both nodes, whatever is set there.
const ALIKE: &str = "SET TimeZone = 'UTC'; SET bytea_output = hex; SET lc_monetary = 'C'; SET xmloption = content";
/// So many bytes wait for the copy's node before more is read.
const WAITING_BYTES: usize = 256 << 10;

/// The connections of a move: to the shard's node, which has the slot, and to the copy's.
pub struct Stream {
    pub(super) source: Conn,
    pub(super) copy: Conn,
    slot: String,
    pub(super) followed: Followed,
    pub(super) counters: Arc<Counters>,
    pub(super) pace: Pace,
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
        source.simple("SET row_security = off; SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET wal_sender_timeout = 0").await?;
        source.simple(ALIKE).await?;
        copy.simple(ALIKE).await?;
        let copies = of.tables.iter().flat_map(|t| {
            t.parts.iter().map(|part| Copied {
                part: part.oid,
                fresh: t.fresh(),
                key: part.key.clone(),
                generated: part.generated.clone(),
                deferrable: part.deferrable,
            })
        });
        let followed = Followed::new(of, Decoder::new(copies.collect()));
        Ok(Stream { source, copy, slot: of.slot(), followed, counters, pace: Pace::start(herd, of).await? })
    }

    /// Everything up to a moment: rows, then indexes. What is there is compared with what the slot's snapshot has.
    pub async fn copy_all(&mut self, of: &Move) -> Result<()> {
        *self.counters.step.lock() = "copy";
        self.source.simple("BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ").await?;
        let slot = format!("CREATE_REPLICATION_SLOT \"{}\" TEMPORARY LOGICAL pgoutput (SNAPSHOT 'use')", self.slot);
        self.source.simple(&slot).await?;
        pool::slot_snapshot::settled(&mut self.source, self.pace.source()).await?;
        let mut copied = Vec::with_capacity(of.tables.len());
        for t in &of.tables {
            let columns = t.columns();
            let into = format!("COPY {} ({columns}) FROM STDIN", t.fresh());
            let mut rows = Rows::default();
            for part in &t.parts {
                rows.add(self.copy_rows(&format!("COPY {} ({columns}) TO STDOUT", part.name), &into).await?);
            }
            copied.push(rows);
        }
        self.source.simple("COMMIT").await?;
        txn::failpoint::reached("move.rows").await;
        *self.counters.step.lock() = "verify";
        // The copy has no indexes yet, whose expressions, which another owner may have made, are folded where a query is planned.
        for (t, copied) in of.tables.iter().zip(copied) {
            if self.rows_there(&format!("COPY (SELECT {} FROM {}) TO STDOUT", t.columns(), t.fresh())).await? != copied
            {
                return Err(differs());
            }
        }
        *self.counters.step.lock() = "index";
        if self.pace.is_beside_others().await? {
            self.copy.simple("SET max_parallel_maintenance_workers = 0").await?;
        }
        for t in &of.tables {
            for piece in of.pieces(t) {
                self.copy.simple(&t.call("herd.move_index", &piece, "")).await?;
            }
        }
        Ok(())
    }

    async fn copy_rows(&mut self, from: &str, into: &str) -> Result<Rows> {
        for (conn, sql) in [(&mut self.source, from), (&mut self.copy, into)] {
            put::query(conn.out(), sql);
            conn.sent_sync();
            conn.flush().await?;
        }
        let (mut failure, mut sent) = (None, Rows::default());
        loop {
            let frame = self.source.frame().await?;
            match frame.tag() {
                b'd' => {
                    sent.see(frame.body());
                    self.counters.add(1, frame.body().len());
                    put::copy_data(self.copy.out(), frame.body());
                    if self.copy.out().len() > WAITING_BYTES {
                        written(&mut self.copy).await?;
                        self.pace.rest().await?;
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
        if copied? == [sent.count] { Ok(sent) } else { Err(differs()) }
    }

    /// What the copy's node has, by a COPY of it.
    async fn rows_there(&mut self, copy: &str) -> Result<Rows> {
        put::query(self.copy.out(), copy);
        self.copy.sent_sync();
        self.copy.flush().await?;
        let (mut failure, mut there) = (None, Rows::default());
        loop {
            let frame = self.copy.frame().await?;
            match frame.tag() {
                b'd' => {
                    there.see(frame.body());
                    self.pace.rest().await?;
                }
                b'E' => failure = Some(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?))),
                b'Z' => return failure.map_or(Ok(there), |e| Err(e.into())),
                _ => {}
            }
        }
    }
}

/// Rows as COPY tells them, one message each, in whatever order.
#[derive(Default, PartialEq)]
struct Rows {
    count: u64,
    sum: u128,
}

impl Rows {
    fn see(&mut self, row: &[u8]) {
        let mut hasher = DefaultHasher::new();
        row.hash(&mut hasher);
        self.add(Rows { count: 1, sum: hasher.finish().into() });
    }

    fn add(&mut self, others: Rows) {
        self.count += others.count;
        self.sum += others.sum;
    }
}

/// The copy is not what it should be: nothing comes of it.
pub(super) fn differs() -> ExecError {
    ExecError::sql(sqlstate::DATA_CORRUPTED, "the copy of a shard has other rows than the shard: it is thrown away")
        .hint("Was schema herd_shards written to past the routers? Try again.")
}

/// All that waits to be sent; what comes meanwhile stays to be read.
pub(super) async fn written(conn: &mut Conn) -> Result<()> {
    while let Progress::Filled = conn.flush_or_fill().await? {}
    Ok(())
}

/// Reads to ReadyForQuery: how many rows each statement has changed, or the first error.
pub(super) async fn answered(conn: &mut Conn) -> Result<Vec<u64>> {
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
