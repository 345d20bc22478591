//! Columns that rows on their way do not have: values of sequences, defaults that each node would compute for itself, and those of keys.

use std::collections::VecDeque;

use catalog::{Column, Oid, Relation};
use wire::sqlstate;

use super::{Sink, Source};
use crate::arrays::Arrays;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::render::Fill;
use crate::request::Bound;
use crate::work::Work;

/// Values of columns that are filled, fetched at a time, growing.
const FILLED_BATCH_MAX: usize = 5000;

/// A column that is not given: its values are made once, whichever nodes they go to.
pub(super) struct Filled {
    /// A query of its values, up to their number.
    query: String,
    /// The sequence they come from.
    pub(super) sequence: Option<(Oid, String)>,
    values: VecDeque<Option<String>>,
    batch: usize,
    /// The value of the last row.
    pub(super) last: Option<String>,
}

/// Columns that are not given and must not be left to each node; they are put behind the given ones.
pub(super) fn missing<C: Client>(
    work: &Work<'_, C>,
    relation: &Relation,
    columns: &mut Vec<usize>,
) -> Result<Vec<Filled>> {
    let mut filled = Vec::new();
    if relation.distribution().is_none() && !relation.is_reference() {
        return Ok(filled);
    }
    for (i, c) in relation.columns.iter().enumerate() {
        if columns.contains(&i) {
            continue;
        }
        if let Some(name) = &c.sequence {
            filled.push(Filled::of_sequence(c.sequence_oid, name));
        } else if (relation.is_reference() && plan::same::default_differs(&work.epoch.snapshot, c)
            || is_key(relation, i) && reads_nothing(work, c))
            && let Some(query) = plan::copy_from::defaults(c)?
        {
            work.travel_whole([c.type_name.as_str()])?;
            let query = Fill::new(&Bound::default(), &work.now).statement([&query]);
            filled.push(Filled::new(query.sql, None));
        } else {
            continue;
        }
        columns.push(i);
    }
    Ok(filled)
}

/// Of a distributed table: where a row goes must be known before it goes.
fn is_key(relation: &Relation, column: usize) -> bool {
    relation.distribution().is_some_and(|d| d.key.contains(&column))
}

fn reads_nothing<C: Client>(work: &Work<'_, C>, column: &Column) -> bool {
    let default = column.default.as_deref();
    default.is_some_and(|default| plan::same::default_reads_nothing(&work.epoch.snapshot, default))
}

/// Values are taken beside the transaction: an error where that would wait for the transaction itself, which has made or changed a sequence and so
/// holds a lock on it that keeps `nextval` waiting.
pub(super) async fn may_be_taken<C: Client>(
    work: &mut Work<'_, C>,
    relation: &Relation,
    filled: &[Filled],
) -> Result<()> {
    let home = work.epoch.snapshot.home;
    let sequences: Vec<String> = filled.iter().filter_map(|f| Some(f.sequence.as_ref()?.0.to_string())).collect();
    if sequences.is_empty() || !work.transaction.is_active() || !work.transaction.has(home) {
        return Ok(());
    }
    let held = format!(
        "SELECT FROM pg_catalog.pg_locks WHERE pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() AND granted \
         AND locktype OPERATOR(pg_catalog.=) 'relation' AND relation OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.oid[]) \
         AND mode OPERATOR(pg_catalog.<>) ALL ('{{AccessShareLock,RowShareLock,RowExclusiveLock,ShareUpdateExclusiveLock}}')",
        sequences.join(",")
    );
    if work.ask_home(&held).await?.is_empty() {
        return Ok(());
    }
    let message = format!(
        "this transaction has made or changed sequences: values for {} can't be taken beside it before it commits",
        catalog::qualified(&relation.schema, &relation.name)
    );
    Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("COMMIT first, or give the values."))
}

impl Filled {
    pub(super) fn new(query: String, sequence: Option<(Oid, String)>) -> Self {
        Filled { query, sequence, values: VecDeque::new(), batch: 16, last: None }
    }

    pub(super) fn of_sequence(oid: Oid, name: &str) -> Self {
        let query = format!(
            "SELECT pg_catalog.nextval({}::pg_catalog.regclass) FROM pg_catalog.generate_series(1, ",
            catalog::quote_literal(name)
        );
        Self::new(query, Some((oid, name.to_string())))
    }

    pub(super) async fn next(&mut self, source: &Source) -> Result<Option<String>> {
        if self.values.is_empty() {
            let rows = source.rows(&format!("{}{})", self.query, self.batch)).await?;
            self.values = rows.into_iter().filter_map(|r| r.into_iter().next()).collect();
            self.batch = (self.batch * 4).min(FILLED_BATCH_MAX);
        }
        let value = self.values.pop_front().ok_or_else(|| ExecError::internal("a default gave no value"))?;
        if self.sequence.is_some() {
            self.last = value.clone();
        }
        Ok(value)
    }
}

impl Sink {
    /// Fills columns of a distributed table whose defaults read the clock: each node would store its own time. To be called
    /// before rows are sent, and not for rows that may take others' places, which keep what they have.
    pub fn fill_clocks<C: Client>(&mut self, work: &Work<'_, C>) -> Result<()> {
        let relation = self.relation.clone();
        if relation.distribution().is_none() || self.lanes.len() < 2 {
            return Ok(());
        }
        for (i, column) in relation.columns.iter().enumerate() {
            if self.columns.contains(&i) || !plan::reads_clock(column) {
                continue;
            }
            // Under settings that would lose a part of it, nodes store their own.
            let whole = work.travel_whole([column.type_name.as_str()]).is_ok();
            let Some(query) = plan::copy_from::defaults(column)?.filter(|_| whole) else { continue };
            let query = Fill::new(&Bound::default(), &work.now).statement([&query]);
            self.filled.push(Filled::new(query.sql, None));
            self.columns.push(i);
        }
        let width = self.columns.len();
        self.batches.iter_mut().for_each(|rows| *rows = Arrays::of_text(width));
        Ok(())
    }
}
