//! Asks every node for its part of a read, and keeps small answers for the finish.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};
use catalog::NodeId;
use plan::Part;
use txn::{Lane, Participant};
use wire::backend;

use crate::client::Client;
use crate::compiled::Compiled;
use crate::cut_statement::{Opened, Wanted, take_opened};
use crate::error::{ExecError, Result};
use crate::render;
use crate::request::{Bound, Request};
use crate::rows::{self, Reply};
use crate::work::Work;

/// Bytes of partial rows the router holds for a finish; beyond them the statement is refused rather than the memory used.
pub const PARTIAL_BYTES_MAX: usize = 256 << 20;

/// The answer of a part: one array literal a column, for `unnest`.
pub struct Arrays {
    columns: Vec<BytesMut>,
    pub rows: u64,
}

impl Arrays {
    pub fn new(width: usize) -> Self {
        let columns = (0..width).map(|_| BytesMut::from(&b"{"[..])).collect();
        Arrays { columns, rows: 0 }
    }

    /// Adds a row of text values.
    pub fn push(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        if values.len() != self.columns.len() {
            return Err(ExecError::internal("a part has another number of columns than described"));
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            if self.rows > 0 {
                column.put_u8(b',');
            }
            match value {
                None => column.put_slice(b"NULL"),
                Some(v) => {
                    column.put_u8(b'"');
                    for b in *v {
                        if matches!(b, b'"' | b'\\') {
                            column.put_u8(b'\\');
                        }
                        column.put_u8(*b);
                    }
                    column.put_u8(b'"');
                }
            }
        }
        self.rows += 1;
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.columns.iter().map(BytesMut::len).sum()
    }

    pub fn clear(&mut self) {
        for c in &mut self.columns {
            c.truncate(1);
        }
        self.rows = 0;
    }

    pub fn finish(&mut self) -> Vec<Option<Bytes>> {
        self.columns
            .iter_mut()
            .map(|c| {
                c.put_u8(b'}');
                let literal = Bytes::copy_from_slice(c);
                Some(literal)
            })
            .collect()
    }
}

impl<C: Client> Work<'_, C> {
    /// The nodes a part concerns.
    pub async fn part_nodes(
        &mut self,
        compiled: &Compiled,
        request: &Request<'_>,
        part: &Part,
    ) -> Result<BTreeSet<NodeId>> {
        let mut nodes = BTreeSet::new();
        for t in &part.tables {
            let table = &compiled.plan.tables[*t];
            let Some(d) = table.relation.distribution() else { continue };
            match self.shards_of(compiled, request, table).await? {
                Some(shards) => nodes.extend(shards.iter().map(|s| d.group.shards[*s].node)),
                None => nodes.extend(d.group.shards.iter().map(|s| s.node)),
            }
        }
        if nodes.is_empty() {
            nodes.insert(self.home());
        }
        Ok(nodes)
    }

    /// Sends a part to its nodes, all at once; the lanes are returned with their answers still to be read.
    pub async fn ask_part(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        sql: &str,
        bound: &Bound,
        result_formats: &[i16],
    ) -> Result<Vec<Participant>> {
        let mut opened = match nodes.len() > 1 && self.opens_together() {
            true => self.open_together(&[Wanted { nodes, sql, formats: result_formats }], bound).await?,
            false => vec![],
        };
        self.ask_opened(nodes, sql, bound, result_formats, &mut opened).await
    }

    /// As [`ask_part`](Self::ask_part), where portals may have been opened for it already.
    async fn ask_opened(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        part: &str,
        bound: &Bound,
        result_formats: &[i16],
        opened: &mut Vec<Opened>,
    ) -> Result<Vec<Participant>> {
        let sql = render::with_now(part, &self.now);
        let mut lanes = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut p = match self.lane(*node).await {
                Ok(p) => p,
                Err(e) => {
                    self.abandon(lanes).await;
                    return Err(e);
                }
            };
            let foreign = *node != self.home();
            let types: Vec<u32> = bound.types.iter().map(|t| if foreign && *t >= 16384 { 0 } else { *t }).collect();
            match take_opened(opened, *node, part) {
                Some(portal) => rows::send_opened(&mut p.lane, &portal),
                None => rows::send(&mut p.lane, &sql, &types, &bound.formats, &bound.values, result_formats),
            }
            let flushed = p.lane.conn.flush().await;
            lanes.push(p);
            if let Err(e) = flushed {
                self.abandon(lanes).await;
                return Err(e.into());
            }
        }
        Ok(lanes)
    }

    /// Lanes whose answers are no longer wanted: read to their end and put back.
    pub async fn abandon(&mut self, lanes: Vec<Participant>) {
        for mut p in lanes {
            if p.lane.conn.outstanding() > 0 && !p.lane.conn.is_broken() && finish_owed(&mut p.lane).await.is_err() {
                // An error here is the same error, or the lane is broken and goes away by itself.
            }
            self.put_back(p).await;
        }
    }

    /// The rows of a part from all its nodes, as arrays.
    pub async fn collect(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        sql: &str,
        bound: &Bound,
        width: usize,
        opened: &mut Vec<Opened>,
    ) -> Result<Arrays> {
        let mut arrays = Arrays::new(width);
        let mut lanes = self.ask_opened(nodes, sql, bound, &[], opened).await?;
        let mut failure = None;
        for p in &mut lanes {
            if let Err(e) = read_into(&mut arrays, p).await {
                failure = Some(e);
                break;
            }
        }
        self.abandon(lanes).await;
        failure.map_or(Ok(arrays), Err)
    }
}

/// Reads what is owed. A lane that has only just joined has not even sent its BEGIN, and nothing behind it.
async fn finish_owed(lane: &mut Lane) -> Result<()> {
    lane.conn.flush().await?;
    lane.settle_before().await?;
    match lane.conn.outstanding() {
        0 => Ok(()),
        _ => rows::drain(lane).await,
    }
}

async fn read_into(arrays: &mut Arrays, p: &mut Participant) -> Result<()> {
    loop {
        match rows::next(&mut p.lane).await? {
            Reply::Row(frame) => {
                arrays.push(&backend::parse_data_row(frame.body())?)?;
                if arrays.bytes() > PARTIAL_BYTES_MAX {
                    return Err(ExecError::sql(
                        "54000",
                        "the partial results of this statement are too large to be finished in one place",
                    )
                    .hint("Narrow the statement by a condition, or group by the distribution key."));
                }
            }
            Reply::Done => return Ok(()),
            _ => {}
        }
    }
}
