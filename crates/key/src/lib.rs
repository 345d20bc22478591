//! From a key value to its shard: PostgreSQL's partition hash, partition bounds. Pure.
//!
//! stub: interface

/// How a table's rows are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    Hash,
    Range,
    List,
}

/// One shard's partition bound.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    Hash { modulus: u32, remainder: u32 },
}
