//! How a copy follows its shard: the slot's changes are streamed once, and applied in order. How far that is marks say, which a transaction of the router's own
//! puts into the shard's log: transactions are streamed as they were committed, so all that was committed before a mark has come when one has that ends behind it,
//! the mark's own at the latest. What a mark says does not matter, as anybody may write such messages.
//! It does not know what the changes mean (`changes.rs`), nor when it is time to switch.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use catalog::quote_literal;
use pool::PoolError;
use txn::Lane;
use wire::frame::Reader;
use wire::walsender::{Streamed, put_status, streamed};
use wire::{ErrorFields, put, sqlstate};

use super::changes::{Batch, DEFER, Decoder, LOOK};
use super::plan::Move;
use super::stream::{Stream, answered, differs, written};
use crate::error::{ExecError, Result};

const BEGIN: &str = "BEGIN";
const COMMIT: &str = "COMMIT";

/// So many changes between two marks are few.
const FEW: u64 = 1_000;
/// So many bytes of changes are applied under locks at most: while more come, who writes would wait for long.
const LOCKED_MAX: usize = 64 << 20;
/// How long what is left is waited for under locks: a node may have to read through what others have written at length.
const LOCKED_LONG: Duration = Duration::from_secs(10);
/// Its position in the log. The commit waits for the disk: what slots tell of ends where the log is flushed.
const MARK: &str = "SET synchronous_commit = local; \
    SELECT pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_logical_emit_message(true, 'herd', ''::pg_catalog.text), '0/0')::pg_catalog.int8";

/// By which a server knows itself from the one that it was before it stopped; the same whatever a session's settings are.
const STARTED: &str = "SELECT EXTRACT(epoch FROM pg_catalog.pg_postmaster_start_time())::pg_catalog.numeric::pg_catalog.text, s.system_identifier::pg_catalog.text \
    FROM pg_catalog.pg_control_system() s";

/// How far a copy has followed.
pub struct Followed {
    slot: String,
    publication: String,
    decoder: Decoder,
    streams: bool,
    /// What was read and is not in the copy for good: of a try to switch of which nothing came, and what is read next.
    read: Vec<Batch>,
    /// Where the last transaction ended that was read.
    end: u64,
}

impl Followed {
    /// With nothing read.
    pub fn new(of: &Move, decoder: Decoder) -> Self {
        let (slot, publication) = (of.slot(), of.publication());
        Followed { slot, publication, decoder, streams: false, read: vec![], end: 0 }
    }

    /// Reads a message.
    fn message(&mut self, message: &[u8]) -> Result<()> {
        if message.first() == Some(&b'C') {
            self.end = commit_end(message)?;
            return Ok(());
        }
        if self.read.last().is_none_or(Batch::is_full) {
            let goes_on = message.first() != Some(&b'B');
            self.read.iter_mut().last().into_iter().for_each(|last| last.is_part = goes_on);
            self.read.push(Batch::new(goes_on));
        }
        match self.read.last_mut() {
            Some(batch) => self.decoder.read(message, batch),
            None => Ok(()),
        }
    }
}

impl Stream {
    /// Until there is little left to do.
    pub async fn follow(&mut self) -> Result<()> {
        *self.counters.step.lock() = "follow";
        self.start().await?;
        loop {
            let before = self.counters.changes.load(Ordering::Relaxed);
            self.until_a_mark(None).await?;
            put_status(self.source.out(), self.followed.end, self.followed.end, false);
            self.source.flush().await?;
            if self.counters.changes.load(Ordering::Relaxed) - before < FEW {
                return Ok(());
            }
        }
    }

    /// Every change that was committed before this, in the transaction that has the tables locked on the copy's node: what says which rows a
    /// hash partition may hold looks at its parent (`satisfies_hash_partition`), which nobody else can any more. If nothing comes of that
    /// transaction, they are still to be applied.
    pub async fn finish(&mut self, locked: &mut Lane) -> Result<()> {
        *self.counters.step.lock() = "switch";
        self.is_all_there(locked).await?;
        self.until_a_mark(Some(locked)).await
    }

    /// The copy's own transactions are flushed with the one that has the locks: a server that has stopped since, or another one in its place, may
    /// not have all of them. Then its start is another one; or, where it only began anew, the copy's connection has ended.
    async fn is_all_there(&mut self, locked: &mut Lane) -> Result<()> {
        let of_copy = self.copy.simple(STARTED).await?;
        let rows = locked.rows(STARTED).await?;
        if of_copy != rows {
            let message = "the node that a shard is copied to has been restarted";
            return Err(ExecError::sql(sqlstate::CONNECTION_FAILURE, message)
                .hint("What was copied is thrown away: try again."));
        }
        Ok(())
    }

    async fn start(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.followed.streams, true) {
            return Ok(());
        }
        let Followed { slot, publication, .. } = &self.followed;
        let sql = format!(
            "START_REPLICATION SLOT \"{slot}\" LOGICAL 0/0 (proto_version '1', publication_names '{publication}', messages 'true')"
        );
        Ok(self.source.start_replication(&sql).await?)
    }

    /// Makes a mark, and applies what comes before it.
    async fn until_a_mark(&mut self, mut locked: Option<&mut Lane>) -> Result<()> {
        let made = self.pace.source().simple(MARK).await?;
        let mark = made.first().and_then(|row| row.first()?.as_deref()?.parse::<u64>().ok());
        let mark = mark.ok_or_else(|| ExecError::internal("the shard's node does not say where its log is"))?;
        let (mut applied, since) = (0, Instant::now());
        loop {
            let frame = match locked {
                None => self.source.frame().await?,
                Some(_) => {
                    let left = LOCKED_LONG.saturating_sub(since.elapsed());
                    tokio::time::timeout(left, self.source.frame()).await.map_err(|_| in_the_moment())??
                }
            };
            match frame.tag() {
                b'd' => match streamed(frame.body())? {
                    Streamed::Data { start, end, data } => {
                        let lag = i64::try_from(end.saturating_sub(start)).unwrap_or(-1);
                        self.counters.lag_bytes.store(lag, Ordering::Relaxed);
                        self.followed.message(data)?;
                    }
                    Streamed::Keepalive { reply: true, .. } => {
                        put_status(self.source.out(), self.followed.end, self.followed.end, false);
                        self.source.flush().await?;
                    }
                    Streamed::Keepalive { .. } => {}
                },
                b'E' => return Err(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?)).into()),
                b'c' => return Err(ExecError::internal("the shard's node has ended the stream")),
                _ => {}
            }
            let is_reached = self.followed.end > mark;
            // The last one may still grow.
            let whole = if is_reached { self.followed.read.len() } else { self.followed.read.len().saturating_sub(1) };
            match locked.as_deref_mut() {
                None => {
                    // Where constraints hold at a transaction's end, it is one here, too.
                    let defers = self.followed.decoder.defers();
                    for batch in self.followed.read.drain(..whole) {
                        let before = [BEGIN, DEFER].into_iter().filter(|_| defers && !batch.goes_on);
                        let behind = Some(COMMIT).filter(|_| defers && !batch.is_part);
                        let texts: Vec<&str> = before.clone().chain(batch.statements()).chain(behind).collect();
                        if texts.is_empty() {
                            continue;
                        }
                        put::query(self.copy.out(), &texts.join(";\n"));
                        self.copy.sent_sync();
                        written(&mut self.copy).await?;
                        let changed = answered(&mut self.copy).await?;
                        let rows = batch.rows();
                        let around = before.map(|_| 0).chain(rows.iter().copied()).chain(behind.map(|_| 0));
                        all_were_there(&changed, &around.collect::<Vec<_>>())?;
                        self.counters.changes.fetch_add(rows.iter().sum(), Ordering::Relaxed);
                    }
                }
                Some(lane) => {
                    if self.followed.read.iter().map(Batch::bytes).sum::<usize>() > LOCKED_MAX {
                        return Err(in_the_moment());
                    }
                    if applied == 0 && self.followed.decoder.defers() {
                        lane.run(DEFER).await?;
                    }
                    for batch in self.followed.read[applied..whole].iter().filter(|batch| !batch.is_empty()) {
                        let statements: Vec<String> = batch.statements().map(quote_literal).collect();
                        let rows =
                            lane.rows(&format!("SELECT herd.move_apply(ARRAY[{}])", statements.join(", "))).await?;
                        let changed =
                            rows.iter().map(|row| row.first()?.as_deref()?.parse().ok()).collect::<Option<Vec<u64>>>();
                        all_were_there(&changed.unwrap_or_default(), &batch.rows())?;
                    }
                    applied = whole;
                    if is_reached && self.followed.decoder.defers() {
                        lane.run(LOOK).await?;
                    }
                }
            }
            if is_reached {
                return Ok(());
            }
        }
    }
}

/// Each statement changes as many rows as there were on the shard's node: anything else is an error.
fn all_were_there(changed: &[u64], rows: &[u64]) -> Result<()> {
    if changed == rows { Ok(()) } else { Err(differs()) }
}

/// It is tried again.
fn in_the_moment() -> ExecError {
    ExecError::sql(sqlstate::LOCK_NOT_AVAILABLE, "too much was written to a shard's node in the moment of its switch")
}

/// Of a Commit of pgoutput's: where it ends in the log.
fn commit_end(message: &[u8]) -> std::result::Result<u64, wire::WireError> {
    let mut r = Reader::new(message);
    r.bytes(1 + 1 + 8)?;
    r.u64()
}
