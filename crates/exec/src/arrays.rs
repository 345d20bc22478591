//! Rows as one array a column, for `unnest` on a node. What their elements are cast to there is not known here.

use std::collections::HashSet;

use bytes::{BufMut, Bytes, BytesMut};
use foldhash::fast::RandomState;
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

    /// The different rows that these columns have, without those that have NULL in one of them; `None`: they are more, or more bytes, than that.
    pub fn distinct(&self, columns: &[usize], rows_max: u64, bytes_max: usize) -> Option<Arrays> {
        let carriers = Carriers::of(columns.iter().filter_map(|c| self.carriers.iter().nth(*c).copied()));
        let mut all = Arrays::new(&carriers);
        let mut values: Vec<Values> =
            columns.iter().filter_map(|c| self.columns.get(*c).map(|c| Values::of(c))).collect();
        let mut known = HashSet::with_hasher(RandomState::default());
        for _ in 0..self.rows {
            let row: Vec<Option<&[u8]>> = values.iter_mut().map(|column| column.next().flatten()).collect();
            if row.iter().all(Option::is_some) && known.insert(row.clone()) {
                all.push(&row).ok()?;
                if all.rows > rows_max || all.bytes() > bytes_max {
                    return None;
                }
            }
        }
        Some(all)
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

/// A column's values, one after the other.
pub struct Values<'c>(&'c [u8]);

impl<'c> Values<'c> {
    fn of(column: &'c [u8]) -> Self {
        Values(column.get(HEADER_LEN..).unwrap_or_default())
    }

    /// Of a column that is finished; `None`: it has none that could be read.
    pub fn of_array(array: &'c Array) -> Option<Self> {
        array.value.as_deref().map(Values::of)
    }
}

impl<'c> Iterator for Values<'c> {
    type Item = Option<&'c [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let (len, rest) = self.0.split_first_chunk::<4>()?;
        let len = usize::try_from(i32::from_be_bytes(*len)).ok();
        let (value, rest) = rest.split_at_checked(len.unwrap_or(0))?;
        self.0 = rest;
        Some(len.map(|_| value))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_rows_are_told_once() {
        let mut all = Arrays::of_text(3);
        let rows: [[Option<&[u8]>; 3]; 5] = [
            [Some(b"1"), Some(b"x"), Some(b"")],
            [Some(b"1"), None, Some(b"y")],
            [None, Some(b"x"), Some(b"y")],
            [Some(b"1"), Some(b"z"), Some(b"")],
            [Some(b"2"), None, Some(b"")],
        ];
        rows.iter().for_each(|row| all.push(row).unwrap());
        let values = |columns: &[usize]| {
            let told = all.distinct(columns, 9, 1000).unwrap();
            let rows = told.columns.iter().map(|c| Values::of(c).map(|v| v.unwrap().to_vec()).collect::<Vec<_>>());
            rows.map(|column| column.iter().map(|v| String::from_utf8_lossy(v).into()).collect::<Vec<String>>())
                .collect::<Vec<_>>()
        };
        assert_eq!(values(&[0]), [["1", "2"]]);
        assert_eq!(values(&[2, 0]), [["", "y", ""], ["1", "1", "2"]]);
        assert_eq!(values(&[1, 2]), [["x", "x", "z"], ["", "y", ""]]);
        assert!(all.distinct(&[0], 9, 24).is_none() && all.distinct(&[0], 1, 1000).is_none());
    }
}
