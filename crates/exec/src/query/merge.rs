//! K-way merge of sorted streams by hidden binary sort columns. It does not read from lanes.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::{BufMut, BytesMut};
use plan::SortKey;
use wire::Frame;
use wire::backend::Field;
use wire::frame::Reader;
use wire::type_oid;

use crate::error::{ExecError, Result};

/// Whether the router orders values of these types exactly as PostgreSQL does.
pub fn comparable(fields: &[Field], bytewise: bool) -> bool {
    fields.iter().all(|f| key::orderable(f.type_oid) && (bytewise || !type_oid::is_string(f.type_oid)))
}

/// Sorted streams, one row of each in hand.
pub struct Merge {
    sort: Vec<SortKey>,
    types: Vec<u32>,
    visible: usize,
    /// The row at the head of each stream.
    heads: Vec<Option<Head>>,
    /// Where the sort values of the heads are in their frames, one stream's behind the other's; `None`: NULL.
    keys: Vec<Option<Range<usize>>>,
    /// The row that was taken last.
    taken: BytesMut,
}

struct Head {
    frame: Frame,
    /// Where the visible columns end in the frame.
    visible_end: usize,
}

impl Merge {
    /// No rows yet. Rows have `visible` columns and, behind them, a hidden one for each of `sort`, of these `types`.
    pub fn new(sort: Vec<SortKey>, types: Vec<u32>, visible: usize, streams: usize) -> Self {
        let keys = vec![None; streams * sort.len()];
        Merge { sort, types, visible, heads: (0..streams).map(|_| None).collect(), keys, taken: BytesMut::new() }
    }

    /// The next row of a stream; `None`: it has ended.
    pub fn put(&mut self, i: usize, row: Option<Frame>) -> Result<()> {
        self.heads[i] = None;
        let Some(frame) = row else { return Ok(()) };
        let keys = &mut self.keys[i * self.sort.len()..][..self.sort.len()];
        let mut values = Reader::new(frame.body());
        if values.count(4)? != self.visible + keys.len() {
            return Err(ExecError::internal("a row has another number of columns than described"));
        }
        for _ in 0..self.visible {
            values.value()?;
        }
        let visible_end = frame.raw.len() - values.remaining();
        for key in keys {
            let value = values.value()?;
            let end = frame.raw.len() - values.remaining();
            *key = value.map(|value| end - value.len()..end);
        }
        values.end()?;
        self.heads[i] = Some(Head { frame, visible_end });
        Ok(())
    }

    /// The stream whose head comes first; equal heads in stream order.
    pub fn smallest(&self) -> Result<Option<usize>> {
        let mut best = None;
        for i in (0..self.heads.len()).filter(|i| self.heads[*i].is_some()) {
            if match best {
                None => true,
                Some(b) => self.compare(i, b)? == Ordering::Less,
            } {
                best = Some(i);
            }
        }
        Ok(best)
    }

    /// How the heads of two streams compare.
    fn compare(&self, a: usize, b: usize) -> Result<Ordering> {
        for (i, sort) in self.sort.iter().enumerate() {
            let order = match (self.key(a, i), self.key(b, i)) {
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

    fn key(&self, stream: usize, i: usize) -> Option<&[u8]> {
        let at = self.keys[stream * self.sort.len() + i].clone()?;
        self.heads[stream].as_ref().map(|head| &head.frame.raw[at])
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
