//! How rows come from the table that was to the one that is going to be: chunk by chunk from a cursor where each goes to the node of
//! its key (or stays on its own), or as they are to other nodes.
//!
//! Does not know what kind of table it is, or whose.

use std::collections::BTreeMap;

use catalog::{CopyRows, CopyTarget, NodeId};
use key::{Bound, Located};
use pool::{PoolError, Progress};
use txn::Participant;
use wire::{ErrorFields, put, sqlstate};

use crate::admin::chunks::{end_copy, open_copy, select_of};
use crate::client::Client;
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::work::Work;
use crate::work::ask_key::key_bytes;
use crate::work::copy_lane::copy_line;

/// Rows fetched at a time from the table that is moved.
const CHUNK_ROWS: usize = 20_000;
/// Fewer of them where they are long: so many bytes at a time, more or less.
const CHUNK_BYTES: usize = 4 << 20;
const FIRST_CHUNK_ROWS: usize = 100;
/// So many bytes wait for a node before more is read.
const PASSED_BYTES: usize = 256 << 10;

impl<C: Client> Work<'_, C> {
    /// Moves rows: a cursor on the source, chunk by chunk, each chunk split by key and copied into its nodes.
    pub(super) async fn copy_rows(&mut self, copy: &CopyRows) -> Result<()> {
        for (source, statement) in &copy.sources {
            let Some(select) = select_of(statement, copy)? else {
                self.pass_rows(*source, statement, copy).await?;
                continue;
            };
            let mut p = self.lane(*source).await?;
            p.wrote = true;
            let opened = open_copy(&mut p, &select).await;
            self.put_back(p).await;
            opened?;
            let mut count = FIRST_CHUNK_ROWS;
            loop {
                let mut p = self.lane(*source).await?;
                let rows = p.lane.rows(&format!("FETCH FORWARD {count} FROM herd_copy")).await;
                self.put_back(p).await;
                let rows = rows?;
                let bytes: usize = rows.iter().flatten().flatten().map(String::len).sum();
                if !rows.is_empty() {
                    self.begins("copy");
                    txn::failpoint::reached("kind.rows").await;
                }
                self.copy_chunk(copy, &rows).await?;
                self.counters.iter().for_each(|c| c.add(rows.len(), bytes));
                if rows.len() < count {
                    break;
                }
                // It may have come between two of them.
                if self.is_cancelled() {
                    return Err(ExecError::cancelled());
                }
                count = (count * CHUNK_BYTES / (bytes + 1)).clamp(1, CHUNK_ROWS.min(20 * count));
            }
            let mut p = self.lane(*source).await?;
            let closed = p.lane.run("CLOSE herd_copy").await;
            self.put_back(p).await;
            closed?;
        }
        Ok(())
    }

    /// Rows as they are read, with no query that would be planned, to nodes none of which is the source.
    async fn pass_rows(&mut self, source: NodeId, statement: &str, copy: &CopyRows) -> Result<()> {
        let CopyTarget::Nodes(nodes) = &copy.to else { return Err(ExecError::internal("rows of a table by key")) };
        let mut from = self.lane(source).await?;
        from.wrote = true;
        let mut lanes = Vec::new();
        let mut passed = Ok(());
        for node in nodes {
            match self.lane(*node).await {
                Ok(mut p) => {
                    p.wrote = true;
                    p.lane.put_query(&copy.into);
                    lanes.push(p);
                }
                Err(e) => passed = Err(e),
            }
        }
        from.lane.put_query(statement);
        let counters = self.counters.clone();
        let read = pass_frames(&mut from, &mut lanes, counters.as_deref()).await;
        self.put_back(from).await;
        passed = passed.and(read);
        for mut p in lanes {
            put::copy_done(p.lane.conn.out());
            let written = flush(&mut p).await;
            let ended = end_copy(&mut p).await;
            self.put_back(p).await;
            passed = passed.and(written).and(ended);
        }
        passed
    }

    /// What is done from now on, where it may be a job.
    pub(super) fn begins(&self, step: &'static str) {
        self.counters.iter().for_each(|c| c.begins(step));
    }

    async fn copy_chunk(&mut self, copy: &CopyRows, rows: &[catalog::Row]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let width = copy.columns.len();
        let mut data: BTreeMap<NodeId, Vec<u8>> = BTreeMap::new();
        let bounds: Vec<Bound> = match &copy.to {
            CopyTarget::ByKey { group, .. } => group.shards.iter().map(|s| s.bound.clone()).collect(),
            CopyTarget::Nodes(_) => vec![],
        };
        let mut line = Vec::new();
        for row in rows {
            let values: Vec<Option<&[u8]>> = row[..width].iter().map(|v| v.as_deref().map(str::as_bytes)).collect();
            line.clear();
            copy_line(&values, &mut line);
            match &copy.to {
                CopyTarget::ByKey { group, .. } => {
                    let keys = row[width..]
                        .iter()
                        .map(|hex| hex.as_deref().map(key_bytes).transpose())
                        .collect::<Result<Vec<_>>>()?;
                    let node = match key::locate(group.strategy, &group.key_types, &bounds, &keys)
                        .map_err(crate::work::shards::key_error)?
                    {
                        Located::Shard(s) => group.shards[s].node,
                        Located::Nowhere => {
                            return Err(ExecError::sql(
                                sqlstate::CHECK_VIOLATION,
                                "a row of the table fits none of the shards' bounds",
                            )
                            .hint("Add a shard with the bound DEFAULT, or widen the bounds."));
                        }
                    };
                    data.entry(node).or_default().extend_from_slice(&line);
                }
                CopyTarget::Nodes(nodes) => {
                    nodes.iter().for_each(|n| data.entry(*n).or_default().extend_from_slice(&line))
                }
            }
        }
        let mut lanes: Vec<Participant> = Vec::new();
        let mut failure = None;
        for (node, lines) in &data {
            let mut p = self.lane(*node).await?;
            p.wrote = true;
            p.lane.put_query(&copy.into);
            for piece in lines.chunks(256 << 10) {
                put::copy_data(p.lane.conn.out(), piece);
            }
            put::copy_done(p.lane.conn.out());
            if let Err(e) = flush(&mut p).await {
                failure = Some(e);
            }
            lanes.push(p);
        }
        for mut p in lanes {
            if let Err(e) = end_copy(&mut p).await {
                failure.get_or_insert(e);
            }
            self.put_back(p).await;
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Rows from one COPY to others.
async fn pass_frames(from: &mut Participant, to: &mut [Participant], counters: Option<&Counters>) -> Result<()> {
    flush(from).await?;
    let mut passed = Ok(());
    loop {
        let frame = from.lane.next().await?;
        match frame.tag() {
            b'd' => {
                if let Some(counters) = counters {
                    if !counters.has_begun() {
                        counters.begins("copy");
                    }
                    counters.add(1, frame.body().len());
                }
                for p in to.iter_mut() {
                    put::copy_data(p.lane.conn.out(), frame.body());
                    if p.lane.conn.out().len() > PASSED_BYTES {
                        passed = passed.and(flush(p).await);
                    }
                }
            }
            b'E' => passed = Err(PoolError::Server(Box::new(ErrorFields::parse(frame.body())?)).into()),
            b'Z' => return passed,
            _ => {}
        }
    }
}

async fn flush(p: &mut Participant) -> Result<()> {
    while let Progress::Filled = p.lane.conn.flush_or_fill().await? {}
    Ok(())
}
