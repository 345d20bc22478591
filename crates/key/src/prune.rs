//! The shards that may hold rows of which only part of the key is known: leading columns, or an interval of the first one.
//!
//! Every answer is a superset of the truth, in the order of the bounds. The default partition is always in it: it takes NULLs and whatever
//! no other partition takes.

use crate::bounds::{check_count, check_types, compare_prefix};
use crate::{Bound, Datum, KeyError, Located, Oid, PartitionStrategy, locate};

/// The shards of all rows whose leading key columns are `prefix` (`None`: NULL). Range bounds are pruned by the prefix; hash needs
/// the whole key, so a shorter prefix answers all shards.
///
/// # Errors
/// As [`locate`].
pub fn locate_prefix(
    strategy: PartitionStrategy,
    types: &[Oid],
    bounds: &[Bound],
    prefix: &[Option<Vec<u8>>],
) -> Result<Vec<usize>, KeyError> {
    if prefix.len() >= types.len() {
        return Ok(match locate(strategy, types, bounds, prefix)? {
            Located::Shard(index) => vec![index],
            Located::Nowhere => Vec::new(),
        });
    }
    check_types(strategy, types)?;
    if strategy != PartitionStrategy::Range || prefix.is_empty() {
        return Ok((0..bounds.len()).collect());
    }
    let known = prefix.iter().map(Option::as_deref).collect::<Option<Vec<_>>>();
    select(types, bounds, |from, to| {
        // Only the default partition takes NULLs.
        let Some(known) = &known else {
            return Ok(false);
        };
        let next = known.len();
        let starts = compare_prefix(types, from, known)?;
        let ends = compare_prefix(types, to, known)?;
        // At a bound that starts with the prefix, the next column tells whether any row with the prefix is on this side of it.
        let starts_in_time = starts.is_lt() || starts.is_eq() && from[next] != Datum::MaxValue;
        let ends_in_time = ends.is_gt() || ends.is_eq() && to[next] != Datum::MinValue;
        Ok(starts_in_time && ends_in_time)
    })
}

/// Range strategy: the shards of all rows whose first key column lies between `low` and `high`, each a value in binary send format and
/// whether it is itself included; `None` for no limit.
///
/// # Errors
/// As [`locate`].
pub fn overlapping(
    types: &[Oid],
    bounds: &[Bound],
    low: Option<(&[u8], bool)>,
    high: Option<(&[u8], bool)>,
) -> Result<Vec<usize>, KeyError> {
    check_types(PartitionStrategy::Range, types)?;
    select(types, bounds, |from, to| {
        let starts_in_time = match high {
            None => true,
            Some((high, inclusive)) => {
                let order = compare_prefix(types, from, &[high])?;
                order.is_lt() || order.is_eq() && inclusive && from.get(1) != Some(&Datum::MaxValue)
            }
        };
        let ends_in_time = match low {
            None => true,
            Some((low, inclusive)) => {
                let order = compare_prefix(types, to, &[low])?;
                // `to` is itself excluded: rows with its first value lie below it only by their further columns.
                let below = to.get(1).is_some_and(|next| *next != Datum::MinValue);
                order.is_gt() || order.is_eq() && inclusive && below
            }
        };
        Ok(starts_in_time && ends_in_time)
    })
}

/// The indexes of the range bounds that `may_hold` keeps, and of every other kind of bound.
fn select(
    types: &[Oid],
    bounds: &[Bound],
    may_hold: impl Fn(&[Datum], &[Datum]) -> Result<bool, KeyError>,
) -> Result<Vec<usize>, KeyError> {
    let mut selected = Vec::new();
    for (index, bound) in bounds.iter().enumerate() {
        let keep = match bound {
            Bound::Range { from, to } => {
                check_count(types.len(), from.len())?;
                check_count(types.len(), to.len())?;
                may_hold(from, to)?
            }
            _ => true,
        };
        if keep {
            selected.push(index);
        }
    }
    Ok(selected)
}
