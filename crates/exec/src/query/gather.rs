//! Asks every node for its part of a read, and keeps small answers for the finish.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};
use catalog::NodeId;
use plan::{Part, Target};
use txn::{Lane, Participant};
use wire::backend;
use wire::type_oid;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::query::spill::Spill;
use crate::render::NodeStatement;
use crate::request::{Keep, Request};
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::work::cut_statement::{Opened, Wanted, take_opened};
use crate::work::rows::{self, Reply};

/// The answer of a part: one `text[]` a column, for `unnest`, in binary: how a literal is read is the session's to set (`array_nulls`).
pub struct Arrays {
    columns: Vec<BytesMut>,
    pub rows: u64,
}

/// The number of dimensions, whether there are NULLs, the type of the elements; if there are any, how many and the number of the first.
const HEADER_LEN: usize = 20;
const EMPTY_HEADER_LEN: usize = 12;

impl Arrays {
    pub fn new(width: usize) -> Self {
        let columns = (0..width).map(|_| BytesMut::zeroed(HEADER_LEN)).collect();
        Arrays { columns, rows: 0 }
    }

    /// Adds a row of text values.
    pub fn push(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        if values.len() != self.columns.len() {
            return Err(ExecError::internal("a part has another number of columns than described"));
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            match value {
                None => column.put_i32(-1),
                Some(v) => {
                    column.put_i32(v.len() as i32);
                    column.put_slice(v);
                }
            }
        }
        self.rows += 1;
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.columns.iter().map(BytesMut::len).sum()
    }

    /// The values to send; nothing is left.
    pub fn finish(mut self) -> Vec<Option<Bytes>> {
        let is_empty = self.rows == 0;
        let header = [i32::from(!is_empty), 1, type_oid::TEXT as i32, self.rows as i32, 1];
        self.columns
            .iter_mut()
            .map(|c| {
                for (at, number) in c.chunks_exact_mut(4).zip(header) {
                    at.copy_from_slice(&number.to_be_bytes());
                }
                let len = if is_empty { EMPTY_HEADER_LEN } else { c.len() };
                Some(c.split_to(len).freeze())
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
        let Target::Shards(uses) = &part.target;
        for t in uses {
            let table = &compiled.plan.whole().tables[*t];
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
        statement: &NodeStatement,
        result_formats: &[i16],
        keep: Keep,
    ) -> Result<Vec<Participant>> {
        let mut opened = match nodes.len() > 1 && self.opens_together() {
            true => self.open_together(&[Wanted { nodes, statement, formats: result_formats }]).await?,
            false => vec![],
        };
        self.ask_opened(nodes, statement, result_formats, keep, &mut opened).await
    }

    /// As [`ask_part`](Self::ask_part), where portals may have been opened for it already.
    pub async fn ask_opened(
        &mut self,
        nodes: &BTreeSet<NodeId>,
        part: &NodeStatement,
        result_formats: &[i16],
        keep: Keep,
        opened: &mut Vec<Opened>,
    ) -> Result<Vec<Participant>> {
        let mark = self.mark(keep, part);
        let home = self.home();
        self.ask_each(nodes.iter().map(|node| (*node, ())), |_, p, ()| {
            match take_opened(opened, p.lane.node, &part.sql) {
                Some(portal) => rows::send_opened(&mut p.lane, &portal),
                None => {
                    let foreign = p.lane.node != home;
                    rows::send_statement(&mut p.lane, mark.as_deref(), part, foreign, result_formats);
                }
            }
        })
        .await
    }

    /// Takes a lane to each node and has `ask` send something there. If one can't be asked, the others' answers are not wanted.
    pub async fn ask_each<T>(
        &mut self,
        asked: impl Iterator<Item = (NodeId, T)>,
        mut ask: impl FnMut(&Self, &mut Participant, T),
    ) -> Result<Vec<Participant>> {
        let mut lanes = Vec::with_capacity(asked.size_hint().0);
        for (node, what) in asked {
            let mut p = match self.lane(node).await {
                Ok(p) => p,
                Err(e) => {
                    self.abandon(lanes).await;
                    return Err(e);
                }
            };
            p.lane.look = self.looks.of(node);
            ask(self, &mut p, what);
            let flushed = p.lane.conn.flush().await;
            lanes.push(p);
            if let Err(e) = flushed {
                self.abandon(lanes).await;
                return Err(e.into());
            }
        }
        Ok(lanes)
    }

    /// Under which mark nodes keep a statement.
    pub fn mark(&self, keep: Keep, statement: &NodeStatement) -> Option<String> {
        let keeps = keep == Keep::Yes && !self.own_schema && !statement.once;
        let settings = self.settings.fingerprint() ^ self.transaction.settings_mark();
        keeps.then(|| format!("{settings:x} {}", self.epoch.snapshot.epoch))
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

    /// The rows of part `n`, which was asked of its nodes.
    pub async fn collect(
        &mut self,
        mut lanes: Vec<Participant>,
        n: usize,
        types: &[String],
        spill: &mut Spill,
    ) -> Result<PartRows> {
        let read = async {
            let (mut held, mut stored) = (Arrays::new(types.len()), false);
            for p in &mut lanes {
                loop {
                    match self.next_reply(&mut p.lane).await? {
                        Reply::Row(frame) => {
                            held.push(&backend::parse_data_row(frame.body())?)?;
                            stored = spill.watch(self, n, types, &mut held, stored).await?;
                        }
                        Reply::Done => break,
                        _ => {}
                    }
                }
            }
            if stored {
                spill.store(n, types, &mut held).await?;
                return Ok(PartRows::Stored);
            }
            spill.keep(&held);
            Ok(PartRows::Held(held))
        }
        .await;
        self.abandon(lanes).await;
        read
    }
}

/// The answer of a part.
pub enum PartRows {
    Held(Arrays),
    /// In the part's temporary table.
    Stored,
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
