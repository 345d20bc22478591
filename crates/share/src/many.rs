//! Writes of one row that are sent as one statement of many rows: a node then plans, starts and answers it once.
//!
//! It does not know SQL: who makes a [`Many`] says how the statement of `n` rows reads, and that it means what `n`
//! statements mean.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Buf, BufMut, BytesMut};
use parking_lot::Mutex;

use crate::Apart;
use pool::StatementKey;

/// Rows of one statement, its parameters and bytes of its text, at most: nodes keep the plan of each length.
const ROWS_MAX: usize = 64;
const PARAMS_MAX: usize = 1024;
const TEXT_MAX: usize = 64 << 10;
/// Above twice this, lengths are multiples of it, so that there are not too many.
const STEP: usize = 16;

/// The statement of any number of rows.
pub struct Many {
    /// What is equal here can be put together.
    key: StatementKey,
    /// Parameters of a row.
    params: usize,
    types: Vec<u32>,
    /// Rows of a statement, at most.
    most: usize,
    table: String,
    /// What is run behind them, and fails if they must not stand.
    guard: Option<(StatementKey, String)>,
    text: Box<dyn Fn(usize) -> String + Send + Sync>,
    made: Mutex<HashMap<usize, Arc<ManyStatement>>>,
    apart: Apart,
}

/// The statement of a number of rows.
pub(super) struct ManyStatement {
    pub key: StatementKey,
    pub text: String,
    pub types: Vec<u32>,
}

impl Many {
    /// `text` gives the statement of `n` rows with `params` parameters each, `types` (of a row) may be shorter than these.
    /// `key`: of one row, under the settings it is meant for. `None`: there are too many, or the text is too long.
    pub fn new(
        key: StatementKey,
        params: usize,
        mut types: Vec<u32>,
        text: impl Fn(usize) -> String + Send + Sync + 'static,
    ) -> Option<Many> {
        types.resize(params, 0);
        let most = ROWS_MAX.min(PARAMS_MAX / params.max(1)).min(TEXT_MAX / text(1).len().max(1));
        (most > 1).then(|| Many {
            key,
            params,
            types,
            most,
            table: String::new(),
            guard: None,
            text: Box::new(text),
            made: Mutex::default(),
            apart: Apart::default(),
        })
    }

    /// The table they go to, as it is called, and what is run behind them.
    pub fn for_table(self, table: &str, guard: Option<String>) -> Self {
        let guard = guard.map(|sql| (StatementKey::of(&sql, &[]), sql));
        Many { table: table.to_string(), guard, ..self }
    }

    /// The table the rows go to, as it is called.
    pub fn table(&self) -> &str {
        &self.table
    }

    pub(super) fn guard(&self) -> Option<&(StatementKey, String)> {
        self.guard.as_ref()
    }

    pub(super) fn key(&self) -> Option<StatementKey> {
        (!self.apart.is()).then_some(self.key)
    }

    /// For a while each goes by itself: one of them makes others wait, or the guard has failed.
    pub(super) fn set_apart(&self) {
        self.apart.set();
    }

    /// What a node says besides can't be told apart by clients: each goes by itself.
    pub(super) fn refuse(&self) {
        self.apart.set_for_good();
    }

    /// How many of `waiting` rows the next statement takes.
    pub(super) fn length(&self, waiting: usize) -> usize {
        match waiting.min(self.most) {
            n if n > 2 * STEP => n / STEP * STEP,
            n => n,
        }
    }

    pub(super) fn rows(&self, n: usize) -> Arc<ManyStatement> {
        let make = || {
            let (text, types) = ((self.text)(n), self.types.repeat(n));
            // The row's key has the settings and the epoch in it, this one through it.
            Arc::new(ManyStatement { key: StatementKey::of(&format!("{:?} {n}", self.key), &types), text, types })
        };
        self.made.lock().entry(n).or_insert_with(make).clone()
    }

    /// All of Bind behind the names for the rows of several; `None`: one of them has another number of parameters.
    pub(super) fn bind<'b>(&self, binds: impl Iterator<Item = &'b [u8]> + Clone) -> Option<BytesMut> {
        let size: usize = binds.clone().map(<[u8]>::len).sum();
        let (mut formats, mut values, mut rows) = (Vec::new(), BytesMut::with_capacity(size), 0);
        for bind in binds {
            let (row, given) = self.split(bind)?;
            formats.push(row);
            values.extend_from_slice(given);
            rows += 1;
        }
        let mut out = BytesMut::with_capacity(size + 8);
        if formats.iter().all(|f| f.is_empty()) {
            out.put_u16(0);
        } else {
            out.put_u16((rows * self.params) as u16);
            for row in formats {
                for i in 0..self.params {
                    // None: all text; one: for all.
                    let at = if row.len() == 2 { 0 } else { 2 * i };
                    out.put_slice(row.get(at..at + 2).unwrap_or(&[0, 0]));
                }
            }
        }
        out.put_u16((rows * self.params) as u16);
        out.extend_from_slice(&values);
        out.put_u16(0);
        Some(out)
    }

    /// The formats and the values of one row.
    fn split<'b>(&self, mut bind: &'b [u8]) -> Option<(&'b [u8], &'b [u8])> {
        let count = usize::from(bind.try_get_u16().ok()?);
        let formats = bind.get(..2 * count)?;
        bind.advance(2 * count);
        let params = usize::from(bind.try_get_u16().ok()?);
        if params != self.params || !(count <= 1 || count == params) {
            return None;
        }
        let values = bind;
        for _ in 0..params {
            let length = bind.try_get_i32().ok()?.max(0) as usize;
            bind = bind.get(length..)?;
        }
        Some((formats, &values[..values.len() - bind.len()]))
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use proptest::prelude::*;
    use wire::frontend;

    use super::Many;
    use pool::StatementKey;

    fn many(params: usize) -> Many {
        Many::new(StatementKey::of("x", &[]), params, vec![23], |n| format!("{n} rows")).unwrap()
    }

    type Values = Vec<Option<Vec<u8>>>;

    fn tail(formats: &[i16], values: &[Option<Vec<u8>>], results: &[i16]) -> Vec<u8> {
        let mut out = BytesMut::new();
        let list = |out: &mut BytesMut, list: &[i16]| {
            out.put_u16(list.len() as u16);
            list.iter().for_each(|f| out.put_i16(*f));
        };
        list(&mut out, formats);
        out.put_u16(values.len() as u16);
        for value in values {
            match value {
                None => out.put_i32(-1),
                Some(v) => {
                    out.put_i32(v.len() as i32);
                    out.put_slice(v);
                }
            }
        }
        list(&mut out, results);
        out.to_vec()
    }

    fn row() -> impl Strategy<Value = (Vec<i16>, Values, Vec<i16>)> {
        let formats = prop_oneof![
            Just(vec![]),
            proptest::collection::vec(0..2_i16, 1..=1),
            proptest::collection::vec(0..2_i16, 3..=3)
        ];
        let value = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..5));
        (formats, proptest::collection::vec(value, 3..=3), proptest::collection::vec(0..2_i16, 0..3))
    }

    proptest! {
        /// Each value keeps its bytes and its format.
        #[test]
        fn test_rows_keep_their_values(rows in proptest::collection::vec(row(), 1..9)) {
            let tails: Vec<Vec<u8>> = rows.iter().map(|(f, v, r)| tail(f, v, r)).collect();
            let bind = many(3).bind(tails.iter().map(|t| &t[..])).unwrap();
            let mut message = vec![0, 0];
            message.extend_from_slice(&bind);
            let bind = frontend::bind(&message).unwrap();
            let formats: Vec<i16> = (0..rows.len() * 3).map(|i| frontend::format_of(&bind.formats, i)).collect();
            let own = rows.iter().flat_map(|(f, _, _)| (0..3).map(|i| frontend::format_of(f, i)));
            prop_assert_eq!(formats, own.collect::<Vec<_>>());
            let values: Values = bind.values.iter().map(|v| v.as_ref().map(|v| v.to_vec())).collect();
            prop_assert_eq!(values, rows.iter().flat_map(|(_, v, _)| v.clone()).collect::<Values>());
        }

        #[test]
        fn test_bytes_that_are_no_bind_are_left_alone(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = many(3).bind([&bytes[..]].into_iter());
        }
    }

    #[test]
    fn test_another_number_of_parameters_is_left_alone() {
        let two = tail(&[], &[None, None], &[]);
        assert!(many(3).bind([&two[..]].into_iter()).is_none());
        assert!(many(2).bind([&two[..]].into_iter()).is_some());
    }

    #[test]
    fn test_lengths_are_few() {
        let lengths: std::collections::BTreeSet<usize> = (1..=128).map(|n| many(4).length(n)).collect();
        assert_eq!(lengths.len(), 32 + 2, "{lengths:?}");
        assert_eq!(many(500).length(9), 2);
        assert_eq!(many(0).length(9), 9);
        assert!(Many::new(StatementKey::of("x", &[]), 600, vec![], |n| format!("{n} rows")).is_none());
        assert!(Many::new(StatementKey::of("x", &[]), 1, vec![], |n| "x".repeat(40_000 * n)).is_none());
    }

    #[test]
    fn test_statements_of_other_lengths_have_other_keys() {
        let many = many(2);
        assert!(many.rows(2).key != many.rows(3).key);
        assert_eq!(many.rows(2).types, vec![23, 0, 23, 0]);
        assert_eq!(many.rows(3).text, "3 rows");
    }
}
