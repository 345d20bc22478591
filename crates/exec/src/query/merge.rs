//! K-way merge of sorted streams by hidden binary sort columns. It does not read from lanes.

use std::cmp::Ordering;

use bytes::{BufMut, BytesMut};
use plan::SortKey;
use wire::Frame;
use wire::backend::{self, Field};
use wire::type_oid;

use crate::error::{ExecError, Result};

/// Whether the router orders values of these types exactly as PostgreSQL does.
pub fn comparable(fields: &[Field], bytewise: bool) -> bool {
    fields.iter().all(|f| key::orderable(f.type_oid) && (bytewise || !is_string(f.type_oid)))
}

fn is_string(oid: u32) -> bool {
    matches!(oid, type_oid::NAME | type_oid::TEXT | type_oid::BPCHAR | type_oid::VARCHAR)
}

/// Sorted streams, one row of each in hand.
pub struct Merge {
    sort: Vec<SortKey>,
    types: Vec<u32>,
    visible: usize,
    /// The row at the head of each stream, with its sort values.
    heads: Vec<Option<Head>>,
    /// The row that was taken last.
    taken: BytesMut,
}

struct Head {
    frame: Frame,
    /// Where the visible columns end in the frame.
    visible_end: usize,
    keys: Vec<Option<Vec<u8>>>,
}

impl Merge {
    /// No rows yet. Rows have `visible` columns and, behind them, a hidden one for each of `sort`, of these `types`.
    pub fn new(sort: Vec<SortKey>, types: Vec<u32>, visible: usize, streams: usize) -> Self {
        Merge { sort, types, visible, heads: (0..streams).map(|_| None).collect(), taken: BytesMut::new() }
    }

    /// The next row of a stream; `None`: it has ended.
    pub fn put(&mut self, i: usize, row: Option<Frame>) -> Result<()> {
        self.heads[i] = match row {
            None => None,
            Some(frame) => {
                let values = backend::parse_data_row(frame.body())?;
                if values.len() != self.visible + self.sort.len() {
                    return Err(ExecError::internal("a row has another number of columns than described"));
                }
                let hidden: usize = values[self.visible..].iter().map(|v| 4 + v.map_or(0, <[u8]>::len)).sum();
                let keys = values[self.visible..].iter().map(|v| v.map(<[u8]>::to_vec)).collect();
                let visible_end = frame.raw.len() - hidden;
                Some(Head { visible_end, keys, frame })
            }
        };
        Ok(())
    }

    /// The stream whose head comes first; equal heads in stream order.
    pub fn smallest(&self) -> Result<Option<usize>> {
        let mut best: Option<usize> = None;
        for (i, head) in self.heads.iter().enumerate() {
            let Some(head) = head else { continue };
            let smaller = match best.and_then(|b| self.heads[b].as_ref()) {
                None => true,
                Some(b) => self.compare(head, b)? == Ordering::Less,
            };
            if smaller {
                best = Some(i);
            }
        }
        Ok(best)
    }

    fn compare(&self, a: &Head, b: &Head) -> Result<Ordering> {
        for (i, sort) in self.sort.iter().enumerate() {
            let order = match (&a.keys[i], &b.keys[i]) {
                (None, None) => Ordering::Equal,
                (None, Some(_)) if sort.nulls_first => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(_), None) if sort.nulls_first => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (Some(x), Some(y)) => {
                    let order = key::compare(self.types[i], x, y).map_err(crate::work::shards::key_error)?;
                    if sort.descending { order.reverse() } else { order }
                }
            };
            if order != Ordering::Equal {
                return Ok(order);
            }
        }
        Ok(Ordering::Equal)
    }

    /// What was put in and not taken.
    pub fn into_heads(self) -> impl Iterator<Item = Option<Frame>> {
        self.heads.into_iter().map(|head| head.map(|h| h.frame))
    }

    /// Passes over the head of a stream.
    pub fn skip(&mut self, i: usize) {
        self.heads[i] = None;
    }

    /// The head of a stream without its hidden columns, as a message.
    pub fn take(&mut self, i: usize) -> Result<&[u8]> {
        let head = self.heads[i].take().ok_or_else(|| ExecError::internal("merge of an empty stream"))?;
        let out = &mut self.taken;
        out.clear();
        out.put_u8(b'D');
        out.put_u32(head.visible_end as u32 - 1);
        out.put_u16(self.visible as u16);
        out.put_slice(&head.frame.raw[7..head.visible_end]);
        Ok(&self.taken)
    }
}
