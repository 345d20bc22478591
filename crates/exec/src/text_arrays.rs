//! Rows of text as one `text[]` a column, for `unnest` on a node. What the texts are cast to there is not known here.

use bytes::{BufMut, Bytes, BytesMut};
use wire::type_oid;

use crate::error::{ExecError, Result};

/// The answer of a part: one `text[]` a column, for `unnest`, in binary: how a literal is read is the session's to set (`array_nulls`).
pub struct Arrays {
    columns: Vec<BytesMut>,
    pub rows: u64,
}

/// The number of dimensions, whether there are NULLs, the type of the elements; if there are any, how many and the number of the first.
const HEADER_LEN: usize = 20;
const EMPTY_HEADER_LEN: usize = 12;

impl Arrays {
    /// No rows yet; rows will have `width` values.
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

    /// What was gathered so far.
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
