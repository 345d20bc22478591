//! One copy that follows its table: how rows that are told become rows of DuckDB, and what has changed since it was last written
//! to. It does not know when that is.

use crate::batch::{KeyText, KeyWriter, Net};
use crate::error::{Error, Result};
use crate::lsn::Lsn;
use crate::pgoutput::{Cell, Tuple};
use crate::resorted::Sorting;
use crate::shape::Shape;
use crate::value::Val;

/// A copy that follows its table.
pub(crate) struct Held {
    pub id: i64,
    pub shape: Shape,
    pub fingerprint: String,
    /// Transactions whose commits begin before this are in it already.
    pub since: Lsn,
    /// Where its columns are in the rows that are told; `None`: of another table, or not told yet.
    pub places: Option<Vec<usize>>,
    pub net: Net,
    /// It is being sorted anew.
    pub sorting: Option<Sorting>,
}

impl Held {
    /// It can't go on.
    pub(crate) fn broken(&self, why: String) -> Error {
        Error::Copy { id: self.id, why }
    }

    /// A row's key, as it is told. What is too long to be told again is as it was in `old`.
    pub(crate) fn key_text(&self, places: &[usize], tuple: &Tuple<'_>, old: Option<&Tuple<'_>>) -> Result<KeyText> {
        let texts = self.shape.key.iter().map(|at| match tuple.get(places[*at]) {
            Some(Cell::Unchanged) => old.and_then(|old| old.get(places[*at])),
            told => told,
        });
        let mut key = KeyWriter::default();
        for text in texts {
            let Some(Cell::Text(text)) = text else { return Err(self.broken("a row came without its key".into())) };
            key.put(text);
        }
        Ok(key.done())
    }

    /// The same as it is in DuckDB.
    pub(crate) fn key_vals(&self, places: &[usize], tuple: &Tuple<'_>) -> Result<Box<[Val]>> {
        let val = |at: &usize| match tuple.get(places[*at]) {
            Some(Cell::Text(text)) => self.val(*at, text),
            _ => Err(self.broken("a row came without its key".into())),
        };
        self.shape.key.iter().map(val).collect()
    }

    /// A row as it is in DuckDB.
    pub(crate) fn vals(&self, places: &[usize], tuple: &Tuple<'_>) -> Result<Box<[Val]>> {
        let val = |(at, place): (usize, &usize)| match tuple.get(*place) {
            Some(Cell::Text(text)) => self.val(at, text),
            Some(Cell::Null) => Ok(Val::Null),
            Some(Cell::Unchanged) => Ok(Val::Kept),
            None => Err(self.broken("a row has fewer values than its table has columns".into())),
        };
        places.iter().enumerate().map(val).collect()
    }

    fn val(&self, at: usize, text: &str) -> Result<Val> {
        let column = &self.shape.columns[at];
        Val::parse(column.kind(), text).ok_or_else(|| self.broken(unfit(&column.name, text)))
    }
}

/// Says which value has no place in DuckDB.
pub(crate) fn unfit(column: &str, text: &str) -> String {
    let shown: String = text.chars().take(40).collect();
    format!("a value of column \"{column}\" can't be held here: {shown}")
}
