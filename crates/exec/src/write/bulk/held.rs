//! Batches that are kept until their node has taken them, because they may have to be sent again.
//!
//! An upsert first goes as COPY, which is as fast as inserting gets. A node that finds a key already there takes the batch
//! back (to a savepoint, or it was a transaction of its own) and gets it again as INSERT … ON CONFLICT; then that is
//! what the next batches start with, for a while. One batch is on its way to each node while the next one fills, never
//! two: an older row must not come after a newer one with its key.

use catalog::NodeId;
use txn::Participant;
use wire::sqlstate;
use wire::{ErrorFields, backend, put};

use super::rows::BatchRows;
use super::{Tally, Unflushed, WITHOUT_FLUSH, make_durable};
use crate::bulk_settings::Batching;
use crate::error::{ExecError, Result};
use crate::kept_rows::KeptRows;
use crate::render::BatchStatement;
use crate::router::looks::Looks;
use crate::work::copy_lane::copy_line;
use crate::work::rows;

const UNIQUE_VIOLATION: &str = sqlstate::UNIQUE_VIOLATION;
/// Bytes of a batch, whatever its rows.
const BATCH_BYTES_MAX: usize = 2 << 20;
const COPY_DATA_BYTES: usize = 64 << 10;
/// How many batches go as INSERT before COPY is tried again: doubles with each conflict up to the last.
const WAIT_FIRST: u32 = 1;
const WAIT_MAX: u32 = 64;

/// What nodes are told.
pub struct HeldSql {
    /// `COPY t (…) FROM STDIN`; `None`: batches go as INSERTs.
    pub copy: Option<String>,
    pub insert: BatchStatement,
    pub looks: Looks,
}

/// What nodes have not yet taken, batch by batch.
pub struct Held {
    sql: HeldSql,
    commits: bool,
    batch_rows: u64,
    width: usize,
    lanes: Vec<LaneBatches>,
    result_formats: Vec<i16>,
    returned: KeptRows,
    tally: Tally,
    unflushed: Vec<Unflushed>,
    taken: u64,
    /// Rows are counted on this lane alone: the others have copies of them.
    only: Option<usize>,
    home: NodeId,
}

struct LaneBatches {
    filling: BatchRows,
    first: u64,
    sent: Option<Sent>,
    sent_first: u64,
    /// Batches before COPY is tried, and how many after the next conflict.
    wait: u32,
    wait_next: u32,
}

struct Sent {
    rows: BatchRows,
    first: u64,
    by_copy: bool,
}

impl Held {
    /// For `nodes` lanes and rows of `width` values. `only`: the one lane on which rows are counted; `returned`: where RETURNING's go.
    pub fn new(
        batching: &Batching,
        sql: HeldSql,
        width: usize,
        nodes: usize,
        only: Option<usize>,
        formats: &[i16],
        returned: KeptRows,
    ) -> Held {
        let lane = || LaneBatches {
            filling: BatchRows::new(width),
            first: 1,
            sent: None,
            sent_first: 1,
            wait: 0,
            wait_next: WAIT_FIRST,
        };
        Held {
            sql,
            commits: batching.commits,
            batch_rows: batching.rows_for(nodes, 2),
            width,
            lanes: (0..nodes).map(|_| lane()).collect(),
            result_formats: formats.to_vec(),
            returned,
            tally: Tally::default(),
            unflushed: vec![Unflushed::default(); nodes],
            taken: 0,
            only,
            home: NodeId::MIN,
        }
    }

    /// On which node object ids are the client's.
    pub fn at_home(self, home: NodeId) -> Self {
        Held { home, ..self }
    }

    /// What is committed so far; nothing where batches do not commit one by one.
    pub fn tally(&self) -> Tally {
        if self.commits { self.tally } else { Tally::default() }
    }

    /// What RETURNING gave so far; nothing is left.
    pub fn returned(&mut self) -> KeptRows {
        let none = self.returned.another();
        std::mem::replace(&mut self.returned, none)
    }

    /// A row of text values for these lanes. What is full is sent, as soon as the lane has answered the batch before.
    pub async fn add(
        &mut self,
        lanes: &mut [Participant],
        to: std::ops::Range<usize>,
        values: &[Option<&[u8]>],
    ) -> Result<()> {
        self.taken += 1;
        for at in to {
            let lane = &mut self.lanes[at];
            if lane.filling.count() == 0 {
                lane.first = self.taken;
            }
            lane.filling.push(values);
            if lane.filling.count() >= self.batch_rows || lane.filling.bytes() > BATCH_BYTES_MAX {
                self.settle(&mut lanes[at], at).await?;
                self.send(&mut lanes[at], at).await?;
            }
        }
        Ok(())
    }

    /// Ends the stream; the rows written.
    pub async fn finish(&mut self, lanes: &mut [Participant]) -> Result<u64> {
        // One that finds no row is sent all the same: whether it is allowed at all, a node says.
        let asks = (self.taken == 0).then(|| lanes.len().saturating_sub(1));
        for (at, p) in lanes.iter_mut().enumerate() {
            self.settle(p, at).await?;
            if self.lanes[at].filling.count() > 0 || asks == Some(at) {
                self.send(p, at).await?;
            }
        }
        for (at, p) in lanes.iter_mut().enumerate() {
            self.settle(p, at).await?;
        }
        make_durable(lanes, &mut self.unflushed, &mut self.tally).await?;
        Ok(self.tally.committed)
    }

    /// Nothing more is sent; what is on its way is waited for.
    pub async fn abort(&mut self, lanes: &mut [Participant]) {
        for (at, p) in lanes.iter_mut().enumerate() {
            let unsent = (self.lanes[at].filling.count() > 0).then_some(self.lanes[at].first);
            if let Some(first) = unsent {
                self.tally.lost(first);
            }
            if p.lane.conn.is_broken() {
                self.tally.doubtful = true;
            } else if let Some(sent) = self.lanes[at].sent.take() {
                match self.read(p, at).await {
                    Ok(Ok(())) => {}
                    // A batch that met a key is not sent again now.
                    Ok(Err(_)) => self.tally.lost(sent.first),
                    Err(_) => {
                        p.lane.conn.mark_broken();
                        self.tally.lost(sent.first);
                        self.tally.doubtful = true;
                    }
                }
            }
        }
        // An error is already on its way; what could not be made durable is no longer counted.
        let _ = make_durable(lanes, &mut self.unflushed, &mut self.tally).await;
    }

    async fn send(&mut self, p: &mut Participant, at: usize) -> Result<()> {
        let lane = &mut self.lanes[at];
        let rows = std::mem::replace(&mut lane.filling, BatchRows::new(self.width));
        let by_copy = self.sql.copy.is_some() && lane.wait == 0;
        lane.wait = lane.wait.saturating_sub(1);
        match &self.sql.copy {
            Some(sql) if by_copy => put_copy(p, &self.sql.looks.in_front(p.lane.node, sql), !self.commits, &rows)?,
            _ => self.put_insert(p, &rows)?,
        }
        let first = self.lanes[at].first;
        self.lanes[at].sent_first = first;
        self.lanes[at].sent = Some(Sent { rows, first, by_copy });
        p.lane.conn.flush().await?;
        Ok(())
    }

    fn put_insert(&self, p: &mut Participant, rows: &BatchRows) -> Result<()> {
        let statement = self.sql.insert.with(rows.arrays()?.finish());
        let foreign = p.lane.node != self.home;
        p.lane.look = self.sql.looks.of(p.lane.node);
        rows::send_statement(&mut p.lane, None, &statement, foreign, &self.result_formats);
        Ok(())
    }

    /// Waits for the batch that is on its way, and sends it again as INSERT if COPY met a key that was there.
    async fn settle(&mut self, p: &mut Participant, at: usize) -> Result<()> {
        let Some(sent) = self.lanes[at].sent.take() else { return Ok(()) };
        let first = sent.first;
        let error = match self.read(p, at).await {
            Ok(Ok(())) => {
                if sent.by_copy {
                    self.lanes[at].wait_next = WAIT_FIRST;
                }
                return Ok(());
            }
            Ok(Err(fields)) => fields,
            Err(e) => {
                p.lane.conn.mark_broken();
                self.tally.lost(first);
                self.tally.doubtful = true;
                return Err(e);
            }
        };
        if sent.by_copy && error.code() == UNIQUE_VIOLATION {
            let lane = &mut self.lanes[at];
            lane.wait = lane.wait_next;
            lane.wait_next = (lane.wait_next * 2).min(WAIT_MAX);
            if !self.commits {
                p.lane.run("ROLLBACK TO SAVEPOINT herd_batch; RELEASE SAVEPOINT herd_batch").await?;
            }
            self.put_insert(p, &sent.rows)?;
            p.lane.conn.flush().await?;
            self.lanes[at].sent = Some(Sent { by_copy: false, ..sent });
            return Box::pin(self.settle(p, at)).await;
        }
        self.tally.lost(first);
        Err(ExecError::Sql(Box::new(error)))
    }

    /// Reads a node's answer to its end; the error in it, if it is one.
    async fn read(&mut self, p: &mut Participant, at: usize) -> Result<std::result::Result<(), ErrorFields>> {
        let counts = self.only.is_none_or(|only| only == at);
        let first = self.lanes[at].sent_first;
        let mut count = 0;
        let mut error: Option<ErrorFields> = None;
        let mut kept = Ok(());
        loop {
            let frame = p.lane.next().await?;
            match frame.tag() {
                // To the end, whatever there is place for: the batch is written.
                b'D' if counts && kept.is_ok() => kept = self.returned.push(frame.raw),
                b'C' => {
                    let tag = backend::parse_command_complete(frame.body())?;
                    if tag.starts_with("COPY") || tag.starts_with("INSERT") {
                        count = backend::rows_of_tag(tag);
                    }
                }
                b'E' => {
                    let fields = ErrorFields::parse(frame.body())?;
                    if fields.is_fatal() {
                        return Err(pool::PoolError::Server(Box::new(fields)).into());
                    }
                    error.get_or_insert(fields);
                }
                b'N' => p.lane.said.hear(&frame),
                b'Z' => break,
                _ => {}
            }
        }
        Ok(match error {
            Some(fields) => Err(fields),
            None => {
                let count = if counts { count } else { 0 };
                self.tally.committed += count;
                if self.commits {
                    self.unflushed[at].add(count, first);
                }
                kept?;
                Ok(())
            }
        })
    }
}

fn put_copy(p: &mut Participant, sql: &str, savepoint: bool, rows: &BatchRows) -> Result<()> {
    match savepoint {
        true => p.lane.put_query(&format!("SAVEPOINT herd_batch; {sql}; RELEASE SAVEPOINT herd_batch")),
        false => p.lane.put_query(&format!("{WITHOUT_FLUSH}{sql}")),
    }
    let out = p.lane.conn.out();
    let mut lines = Vec::with_capacity(COPY_DATA_BYTES);
    rows.each(|values| {
        copy_line(values, &mut lines);
        if lines.len() > COPY_DATA_BYTES {
            put::copy_data(out, &lines);
            lines.clear();
        }
        Ok::<(), ExecError>(())
    })?;
    put::copy_data(out, &lines);
    put::copy_done(out);
    Ok(())
}
