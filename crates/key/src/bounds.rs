//! Partition bounds, and the one shard of a full key (src/backend/partitioning/partbounds.c, execPartition.c).
//!
//! A shard is an index into the bounds as given; they may stand in any order, but must not overlap (PostgreSQL sees to that).

use std::cmp::Ordering;

use crate::hash::hash_combine64;
use crate::{KeyError, Oid, compare, hash, hashable, orderable};

/// How a table's rows are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionStrategy {
    Hash,
    Range,
    List,
}

/// One column of a range bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// Below every value.
    MinValue,
    /// A value in binary send format.
    Value(Vec<u8>),
    /// Above every value.
    MaxValue,
}

/// One shard's partition bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    Hash {
        modulus: u32,
        remainder: u32,
    },
    /// `from` is included, `to` is not; one datum a key column.
    Range {
        from: Vec<Datum>,
        to: Vec<Datum>,
    },
    /// `None` is NULL.
    List {
        values: Vec<Option<Vec<u8>>>,
    },
    /// What no other bound holds.
    Default,
}

/// Where a full key belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Located {
    /// The index of its bound.
    Shard(usize),
    /// No bound holds it: PostgreSQL would say "no partition of relation found for row" (23514).
    Nowhere,
}

/// The shard of a full key: `values` holds each key column's value in binary send format, `None` for NULL.
///
/// Constant time for hash bounds of one modulus that stand in the order of their remainders, logarithmic for range bounds that stand in
/// order, logarithmic for those of which some were split; other arrangements are searched.
///
/// # Errors
/// Types that cannot be hashed or ordered here, malformed values, and a number of values other than that of the key's columns.
pub fn locate(
    strategy: PartitionStrategy,
    types: &[Oid],
    bounds: &[Bound],
    values: &[Option<Vec<u8>>],
) -> Result<Located, KeyError> {
    check_count(types.len(), values.len())?;
    check_types(strategy, types)?;
    let found = match strategy {
        PartitionStrategy::Hash => find_hash(bounds, row_hash(types, values)?),
        PartitionStrategy::Range => find_range(types, bounds, values)?,
        PartitionStrategy::List => find_list(types, bounds, values)?,
    };
    let default = || match strategy {
        PartitionStrategy::Hash => None,
        _ => bounds.iter().position(|bound| *bound == Bound::Default),
    };
    Ok(found.or_else(default).map_or(Located::Nowhere, Located::Shard))
}

pub(crate) fn check_count(expected: usize, got: usize) -> Result<(), KeyError> {
    if expected == got { Ok(()) } else { Err(KeyError::ColumnCount { expected, got }) }
}

/// Fails for a type outside of what the strategy can use, even where no value of it would be looked at.
pub(crate) fn check_types(strategy: PartitionStrategy, types: &[Oid]) -> Result<(), KeyError> {
    let supported = if strategy == PartitionStrategy::Hash { hashable } else { orderable };
    match types.iter().find(|type_oid| !supported(**type_oid)) {
        Some(type_oid) => Err(KeyError::Unsupported { type_oid: *type_oid }),
        None => Ok(()),
    }
}

/// `compute_partition_hash_value`.
fn row_hash(types: &[Oid], values: &[Option<Vec<u8>>]) -> Result<u64, KeyError> {
    types.iter().zip(values).try_fold(0, |row, (type_oid, value)| {
        Ok(match value {
            Some(value) => hash_combine64(row, hash(*type_oid, value)?),
            None => row,
        })
    })
}

fn find_hash(bounds: &[Bound], hash: u64) -> Option<usize> {
    let holds = |bound: &Bound| match *bound {
        Bound::Hash { modulus, remainder } => hash.checked_rem(modulus.into()) == Some(remainder.into()),
        _ => false,
    };
    // Where all share a modulus and stand in order, the remainder is the index. A hit is right in any case, as bounds do not overlap.
    if let Some(Bound::Hash { modulus, .. }) = bounds.first() {
        let guess = hash.checked_rem((*modulus).into())? as usize;
        if bounds.get(guess).is_some_and(holds) {
            return Some(guess);
        }
        if let Some(found) = find_split(bounds, hash, *modulus) {
            return Some(found);
        }
    }
    bounds.iter().position(holds)
}

/// Where shards were split, moduli are one another's doubles; no two shards have a remainder in common, and they stand in its order.
fn find_split(bounds: &[Bound], hash: u64, modulus: u32) -> Option<usize> {
    let remainder_of = |bound: &Bound| match *bound {
        Bound::Hash { remainder, .. } => remainder,
        _ => u32::MAX,
    };
    let larger = std::iter::successors(modulus.checked_mul(2), |m| m.checked_mul(2));
    let smaller = std::iter::successors(Some(modulus), |m| (m % 2 == 0).then_some(m / 2)).skip(1);
    smaller.chain(larger).find_map(|modulus| {
        let remainder = hash.checked_rem(modulus.into())? as u32;
        let found = bounds.binary_search_by_key(&remainder, remainder_of).ok()?;
        (bounds[found] == Bound::Hash { modulus, remainder }).then_some(found)
    })
}

fn find_range(types: &[Oid], bounds: &[Bound], values: &[Option<Vec<u8>>]) -> Result<Option<usize>, KeyError> {
    // Only the default partition takes NULLs.
    let Some(values) = values.iter().map(Option::as_deref).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let reaches = |bound: &Bound| match bound {
        Bound::Range { from, .. } => Ok(compare_bound(types, from, &values)?.is_le()),
        _ => Ok(false),
    };
    let holds = |bound: &Bound| match bound {
        Bound::Range { to, .. } => Ok(reaches(bound)? && compare_bound(types, to, &values)?.is_gt()),
        _ => Ok::<_, KeyError>(false),
    };
    // A binary search as if the bounds stood in order; a hit is right in any case, as bounds do not overlap.
    let (mut low, mut high) = (0, bounds.len());
    while low < high {
        let middle = low + (high - low) / 2;
        if reaches(&bounds[middle])? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if low > 0 && holds(&bounds[low - 1])? {
        return Ok(Some(low - 1));
    }
    for (index, bound) in bounds.iter().enumerate() {
        if holds(bound)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// `partition_rbound_datum_cmp`: a bound against a full key. MINVALUE and MAXVALUE decide at once, so later columns do not count.
fn compare_bound(types: &[Oid], bound: &[Datum], values: &[&[u8]]) -> Result<Ordering, KeyError> {
    check_count(types.len(), bound.len())?;
    compare_prefix(types, bound, values)
}

/// A bound's first columns against as many values.
pub(crate) fn compare_prefix(types: &[Oid], bound: &[Datum], values: &[&[u8]]) -> Result<Ordering, KeyError> {
    for ((type_oid, datum), value) in types.iter().zip(bound).zip(values) {
        let order = match datum {
            Datum::MinValue => Ordering::Less,
            Datum::MaxValue => Ordering::Greater,
            Datum::Value(datum) => compare(*type_oid, datum, value)?,
        };
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(Ordering::Equal)
}

fn find_list(types: &[Oid], bounds: &[Bound], values: &[Option<Vec<u8>>]) -> Result<Option<usize>, KeyError> {
    // PostgreSQL's list keys have one column.
    let ([type_oid], [value]) = (types, values) else {
        return Err(KeyError::ColumnCount { expected: 1, got: types.len() });
    };
    for (index, bound) in bounds.iter().enumerate() {
        let Bound::List { values: listed } = bound else {
            continue;
        };
        for listed in listed {
            let equal = match (listed, value) {
                (None, None) => true,
                (Some(listed), Some(value)) => compare(*type_oid, listed, value)?.is_eq(),
                _ => false,
            };
            if equal {
                return Ok(Some(index));
            }
        }
    }
    Ok(None)
}
