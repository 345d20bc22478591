//! The rows of one batch as text values, in one piece of memory. It does not know their types.

use crate::arrays::Arrays;
use crate::error::Result;

/// The rows of a batch.
#[derive(Default)]
pub struct BatchRows {
    data: Vec<u8>,
    /// Length of each value, row after row; `None`: NULL.
    lengths: Vec<Option<u32>>,
    width: usize,
    count: u64,
}

impl BatchRows {
    /// No rows yet; rows will have `width` values.
    pub fn new(width: usize) -> Self {
        BatchRows { width, ..Default::default() }
    }

    /// Copies a row of text values; `None`: NULL.
    pub fn push(&mut self, values: &[Option<&[u8]>]) {
        debug_assert_eq!(values.len(), self.width);
        for value in values {
            self.lengths.push(value.map(|v| v.len() as u32));
            self.data.extend_from_slice(value.unwrap_or_default());
        }
        self.count += 1;
    }

    /// Rows so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Memory of values and lengths.
    pub fn bytes(&self) -> usize {
        self.data.len() + self.lengths.len() * size_of::<Option<u32>>()
    }

    /// Hands out each row, first to last.
    pub fn each(&self, mut row: impl FnMut(&[Option<&[u8]>]) -> Result<()>) -> Result<()> {
        let mut at = 0;
        let mut values = Vec::with_capacity(self.width);
        for lengths in self.lengths.chunks(self.width.max(1)) {
            values.clear();
            for length in lengths {
                values.push(length.map(|n| {
                    let start = at;
                    at += n as usize;
                    &self.data[start..at]
                }));
            }
            row(&values)?;
        }
        Ok(())
    }

    /// One array a column.
    pub fn arrays(&self) -> Result<Arrays> {
        let mut arrays = Arrays::of_text(self.width);
        self.each(|values| arrays.push(values))?;
        Ok(arrays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_went_in() {
        let given: [&[Option<&[u8]>]; 3] = [&[Some(b"a"), None], &[Some(b""), Some(b"bc")], &[None, None]];
        let mut rows = BatchRows::new(2);
        given.iter().for_each(|r| rows.push(r));
        let mut seen = 0;
        rows.each(|values| {
            assert_eq!(values, given[seen]);
            seen += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!((seen, rows.count()), (3, 3));
        assert_eq!(rows.arrays().unwrap().rows, 3);
    }
}
