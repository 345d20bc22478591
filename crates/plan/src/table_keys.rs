//! What a statement says of the key of a table that it uses. Who evaluates it, and where it leads, is not known here.

use std::sync::Arc;

use catalog::Relation;

use crate::types::KeyExpr;

/// The values the key of one use of a table can have: any of the alternatives, within all of the limits.
#[derive(Clone, Debug)]
pub struct TableKeys {
    pub relation: Arc<Relation>,
    /// One list of alternatives for each key column; an empty list: not restricted.
    pub columns: Vec<Vec<KeyExpr>>,
    /// Of a table that is split by range: between what its first key column is.
    pub limits: Vec<KeyLimit>,
    /// They are a new row's, and are converted as on assignment; others are compared with.
    pub written: bool,
}

impl TableKeys {
    /// Every value that decides where the table's rows are.
    pub fn values(&self) -> impl Iterator<Item = &KeyExpr> {
        self.columns.iter().flatten().chain(self.limits.iter().map(|limit| &limit.value))
    }

    /// Each key column has values, or the first one is between two: it is worth looking for one shard.
    pub fn may_be_one_shard(&self) -> bool {
        let has = |end| self.limits.iter().any(|limit| limit.end == end);
        let all = !self.columns.is_empty() && self.columns.iter().all(|c| !c.is_empty());
        all || has(LimitEnd::Low) && has(LimitEnd::High)
    }
}

/// `key > value`, say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyLimit {
    pub end: LimitEnd,
    pub value: KeyExpr,
    /// What is added to the value, an integer then: `key < $1 + 100`.
    pub plus: i64,
    /// The value itself is within.
    pub inclusive: bool,
}

/// Which end of the values a limit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitEnd {
    Low,
    High,
}

/// The least and the greatest value a column may have, both parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterRange {
    pub low: ParameterPlus,
    pub high: ParameterPlus,
}

/// `$n`, or that and an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterPlus {
    /// From 1.
    pub parameter: usize,
    pub plus: i64,
}
