//! Rows as one array a column, for `unnest` on a node. What their elements are cast to there is not known here.

use bytes::{BufMut, Bytes, BytesMut};
use wire::sqlstate;

use crate::carried::{Carried, Carriers};
use crate::error::{ExecError, Result};

/// The answer of a part: one array a column, for `unnest`, in binary: how a literal is read is the session's to set (`array_nulls`).
pub struct Arrays {
    columns: Vec<BytesMut>,
    carriers: Carriers,
    pub rows: u64,
}

/// A column's values, as a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub carried: Carried,
    pub value: Option<Bytes>,
}

/// The number of dimensions, whether there are NULLs, the type of the elements; if there are any, how many and the number of the first.
const HEADER_LEN: usize = 20;
const EMPTY_HEADER_LEN: usize = 12;

impl Arrays {
    /// No rows yet; rows will have `width` values, all of them text.
    pub fn of_text(width: usize) -> Self {
        Self::new(&Carriers::text(width))
    }

    /// No rows yet; of values that come as these say.
    pub fn new(carriers: &Carriers) -> Self {
        let columns = carriers.iter().map(|_| BytesMut::zeroed(HEADER_LEN)).collect();
        Arrays { columns, carriers: carriers.clone(), rows: 0 }
    }

    /// What is here; none is left.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(&self.carriers);
        std::mem::replace(self, empty)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// 0A000 for a value that would not be read as it was written.
    pub fn push(&mut self, values: &[Option<&[u8]>]) -> Result<()> {
        if values.len() != self.columns.len() {
            return Err(ExecError::internal("a part has another number of columns than described"));
        }
        for ((column, carried), value) in self.columns.iter_mut().zip(self.carriers.iter()).zip(values) {
            match value {
                None => column.put_i32(-1),
                Some(v) => {
                    if carried.without_null && holds_null(v) {
                        return Err(null_inside());
                    }
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
    pub fn finish(mut self) -> Vec<Array> {
        let is_empty = self.rows == 0;
        let of = |c: &mut BytesMut, carried: &Carried| {
            let header = [i32::from(!is_empty), 1, carried.element as i32, self.rows as i32, 1];
            for (at, number) in c.chunks_exact_mut(4).zip(header) {
                at.copy_from_slice(&number.to_be_bytes());
            }
            let len = if is_empty { EMPTY_HEADER_LEN } else { c.len() };
            Array { carried: *carried, value: Some(c.split_to(len).freeze()) }
        };
        self.columns.iter_mut().zip(self.carriers.iter()).map(|(c, carried)| of(c, carried)).collect()
    }
}

/// It may say NULL where an array's element stands: the word is in it.
fn holds_null(text: &[u8]) -> bool {
    text.windows(4).any(|w| w.eq_ignore_ascii_case(b"null"))
}

fn null_inside() -> ExecError {
    let message = "moving arrays with NULL in them between nodes is not supported with array_nulls off";
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .hint("RESET array_nulls, or read from one node only: with a condition on one key.")
}
