//! What changes come to, by key: which rows of the copy have to go, and which come. Several transactions make one batch.
//! It does not know DuckDB, nor where the changes come from.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use crate::value::Val;

/// A key's values as texts, each behind its length.
pub type KeyText = Box<[u8]>;

/// A row as it is to be.
#[derive(Debug, PartialEq)]
pub struct Row {
    pub vals: Box<[Val]>,
    /// The key of the row in the copy from which its [`Val::Kept`] are to be taken.
    pub source: Option<Arc<[Val]>>,
}

/// The net of changes of one table.
#[derive(Default)]
pub struct Net {
    /// All that the copy had goes first.
    pub emptied: bool,
    /// Keys of rows that are in the copy, and go.
    pub gone: Vec<Arc<[Val]>>,
    rows: Vec<Option<Row>>,
    slots: HashMap<KeyText, Option<usize>, foldhash::fast::RandomState>,
    /// Rows that have values to be kept.
    pub keeps: bool,
    bytes: usize,
}

/// A change that can't be, if the copy is what it should be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Impossible(&'static str);

impl Net {
    /// Nothing has changed.
    pub fn is_empty(&self) -> bool {
        !self.emptied && self.gone.is_empty() && self.rows.is_empty()
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Rows that come, in the order in which they were last written.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.rows.iter_mut().flatten()
    }

    /// See [`rows_mut`](Self::rows_mut).
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().flatten()
    }

    /// How many rows come.
    pub fn rows_len(&self) -> usize {
        self.rows.iter().flatten().count()
    }

    /// A row that was not there.
    pub fn insert(&mut self, key: KeyText, vals: Box<[Val]>) -> Result<(), Impossible> {
        if vals.contains(&Val::Kept) {
            return Err(Impossible("a new row lacks a value"));
        }
        self.put(key, Row { vals, source: None })
    }

    /// A row goes; `old` is its key as it is in the copy.
    pub fn delete(&mut self, key: KeyText, old: Box<[Val]>) -> Result<(), Impossible> {
        self.take(key, old).map(|_| ())
    }

    /// `before`: the key that the row had, and `old` its values.
    pub fn update(
        &mut self,
        before: KeyText,
        old: Box<[Val]>,
        key: KeyText,
        mut vals: Box<[Val]>,
    ) -> Result<(), Impossible> {
        let taken = self.take(before, old)?;
        let mut source = None;
        if vals.contains(&Val::Kept) {
            match taken {
                Taken::Copys(old) => source = Some(old),
                Taken::Rows(mut row) => {
                    for (val, was) in vals.iter_mut().zip(&mut row.vals).filter(|(val, _)| **val == Val::Kept) {
                        *val = mem::replace(was, Val::Null);
                    }
                    source = row.source;
                }
            }
            self.keeps |= vals.contains(&Val::Kept);
        }
        self.put(key, Row { vals, source })
    }

    /// The table was emptied.
    pub fn truncate(&mut self) {
        *self = Net { emptied: true, ..Net::default() };
    }

    fn put(&mut self, key: KeyText, row: Row) -> Result<(), Impossible> {
        self.bytes += key.len() + 64 + row.vals.iter().map(Val::bytes).sum::<usize>();
        let at = self.slots.entry(key).or_insert(None);
        if at.is_some() {
            return Err(Impossible("a row came twice"));
        }
        *at = Some(self.rows.len());
        self.rows.push(Some(row));
        Ok(())
    }

    fn take(&mut self, key: KeyText, old: Box<[Val]>) -> Result<Taken, Impossible> {
        match self.slots.get_mut(&key) {
            None if self.emptied => Err(Impossible("a row of an emptied table was changed")),
            None => {
                let old: Arc<[Val]> = old.into();
                self.bytes += key.len() + 64 + old.iter().map(Val::bytes).sum::<usize>();
                self.gone.push(old.clone());
                self.slots.insert(key, None);
                Ok(Taken::Copys(old))
            }
            Some(at) => {
                let row = at.take().and_then(|at| self.rows[at].take());
                row.map(Taken::Rows).ok_or(Impossible("a row that is gone was changed"))
            }
        }
    }
}

enum Taken {
    /// It is in the copy, under this key.
    Copys(Arc<[Val]>),
    /// It is of this batch.
    Rows(Row),
}

/// A key's texts in the making, so that different keys are different bytes.
pub struct KeyWriter(Vec<u8>);

impl Default for KeyWriter {
    fn default() -> Self {
        KeyWriter(Vec::with_capacity(24))
    }
}

impl KeyWriter {
    /// The next of them.
    pub fn put(&mut self, part: &str) {
        self.0.extend_from_slice(&(part.len() as u32).to_be_bytes());
        self.0.extend_from_slice(part.as_bytes());
    }

    /// All there are.
    pub fn done(self) -> KeyText {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(k: i32) -> KeyText {
        let mut key = KeyWriter::default();
        key.put(&k.to_string());
        key.done()
    }

    fn old(k: i32) -> Box<[Val]> {
        Box::new([Val::Int4(k)])
    }

    fn row(k: i32, v: &str) -> Box<[Val]> {
        Box::new([Val::Int4(k), if v == "u" { Val::Kept } else { Val::Text(v.into()) }])
    }

    fn told(net: &mut Net) -> (Vec<i32>, Vec<(i32, String)>) {
        let number = |val: &Val| if let Val::Int4(k) = val { *k } else { panic!("{val:?}") };
        let gone = net.gone.iter().map(|k| number(&k[0])).collect();
        let text = |row: &Row| match (&row.vals[1], &row.source) {
            (Val::Text(text), _) => text.to_string(),
            (Val::Kept, Some(source)) => format!("of {}", number(&source[0])),
            other => panic!("{other:?}"),
        };
        (gone, net.rows_mut().map(|row| (number(&row.vals[0]), text(row))).collect())
    }

    #[test]
    fn many_changes_of_a_row_come_to_one() {
        let mut net = Net::default();
        net.insert(key(1), row(1, "a")).unwrap();
        net.update(key(1), old(1), key(1), row(1, "b")).unwrap();
        net.update(key(2), old(2), key(2), row(2, "c")).unwrap();
        net.insert(key(3), row(3, "d")).unwrap();
        net.delete(key(3), old(3)).unwrap();
        net.delete(key(4), old(4)).unwrap();
        net.insert(key(4), row(4, "e")).unwrap();
        // Its key moves on, twice.
        net.update(key(5), old(5), key(6), row(6, "f")).unwrap();
        net.update(key(6), old(6), key(7), row(7, "g")).unwrap();
        let rows = [(1, "b"), (2, "c"), (4, "e"), (7, "g")].map(|(k, v)| (k, v.to_string()));
        assert_eq!(told(&mut net), (vec![2, 4, 5], rows.to_vec()));
    }

    #[test]
    fn what_is_not_told_again_is_kept() {
        let mut net = Net::default();
        net.insert(key(1), row(1, "a")).unwrap();
        net.update(key(1), old(1), key(2), row(2, "u")).unwrap();
        assert!(!net.keeps);
        net.update(key(5), old(5), key(6), row(6, "u")).unwrap();
        net.update(key(6), old(6), key(7), row(7, "u")).unwrap();
        assert!(net.keeps);
        assert_eq!(told(&mut net), (vec![5], vec![(2, "a".into()), (7, "of 5".into())]));
    }

    #[test]
    fn what_can_not_be_is_said() {
        let mut net = Net::default();
        net.insert(key(1), row(1, "a")).unwrap();
        assert!(net.insert(key(1), row(1, "b")).is_err());
        net.delete(key(2), old(2)).unwrap();
        assert!(net.delete(key(2), old(2)).is_err());
        net.truncate();
        assert!(net.emptied && net.gone.is_empty() && net.rows_len() == 0);
        assert!(net.delete(key(2), old(2)).is_err());
        net.insert(key(2), row(2, "a")).unwrap();
        assert!(net.insert(key(3), row(3, "u")).is_err());
    }
}
