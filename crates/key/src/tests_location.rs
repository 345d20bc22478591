//! Locations: split hash shards, malformed calls, and pruning against brute force over small domains.

use proptest::prelude::*;

use crate::bounds::Datum::{MaxValue, MinValue, Value};
use crate::types::{INT4, JSONB, TEXT};
use crate::{Bound, Datum, KeyError, Located, PartitionStrategy as Split, locate, locate_prefix, overlapping};

fn int(value: i32) -> Option<Vec<u8>> {
    Some(value.to_be_bytes().to_vec())
}

fn at(value: i32) -> Datum {
    Value(value.to_be_bytes().to_vec())
}

fn range(from: &[Datum], to: &[Datum]) -> Bound {
    Bound::Range { from: from.to_vec(), to: to.to_vec() }
}

#[test]
fn wrong_calls_are_errors() {
    let bounds = [Bound::Hash { modulus: 1, remainder: 0 }];
    let count = KeyError::ColumnCount { expected: 2, got: 1 };
    assert_eq!(locate(Split::Hash, &[INT4, TEXT], &bounds, &[int(1)]), Err(count));
    assert_eq!(locate(Split::Range, &[JSONB], &[], &[None]), Err(KeyError::Unsupported { type_oid: JSONB }));
    assert!(matches!(locate(Split::Hash, &[INT4], &bounds, &[Some(vec![1])]), Err(KeyError::InvalidBinary { .. })));
    let short = [range(&[at(1)], &[at(2)])];
    assert!(matches!(
        locate(Split::Range, &[INT4, INT4], &short, &[int(1), int(1)]),
        Err(KeyError::ColumnCount { .. })
    ));
}

#[test]
fn a_row_without_a_shard_is_nowhere() {
    let hash = [Bound::Hash { modulus: 0, remainder: 0 }];
    assert_eq!(locate(Split::Hash, &[INT4], &hash, &[int(1)]), Ok(Located::Nowhere));
    let bounds = [range(&[at(1)], &[at(5)])];
    assert_eq!(locate(Split::Range, &[INT4], &bounds, &[int(5)]), Ok(Located::Nowhere));
    assert_eq!(locate(Split::Range, &[INT4], &bounds, &[None]), Ok(Located::Nowhere));
    assert_eq!(locate(Split::Range, &[INT4], &[bounds[0].clone(), Bound::Default], &[None]), Ok(Located::Shard(1)));
    assert_eq!(locate_prefix(Split::Range, &[INT4], &bounds, &[int(0)]), Ok(vec![]));
}

#[test]
fn prefixes_prune_ranges_and_nothing_else() {
    let types = [INT4, INT4];
    let bounds = [
        range(&[MinValue, MinValue], &[at(1), MinValue]),
        range(&[at(1), MinValue], &[at(1), at(10)]),
        range(&[at(1), at(10)], &[at(1), MaxValue]),
        range(&[at(1), MaxValue], &[at(3), at(0)]),
        range(&[at(3), at(0)], &[MaxValue, MaxValue]),
    ];
    let shards = |value| locate_prefix(Split::Range, &types, &bounds, &[int(value)]);
    assert_eq!(shards(0), Ok(vec![0]));
    assert_eq!(shards(1), Ok(vec![1, 2]));
    assert_eq!(shards(2), Ok(vec![3]));
    assert_eq!(shards(3), Ok(vec![3, 4]));
    assert_eq!(locate_prefix(Split::Range, &types, &bounds, &[]), Ok(vec![0, 1, 2, 3, 4]));
    assert_eq!(locate_prefix(Split::Range, &types, &bounds, &[None]), Ok(vec![]));
    let hashes = [Bound::Hash { modulus: 2, remainder: 0 }, Bound::Hash { modulus: 2, remainder: 1 }];
    assert_eq!(locate_prefix(Split::Hash, &types, &hashes, &[int(1)]), Ok(vec![0, 1]));
}

/// Splits some of `modulus` hash shards in two, by doubling their modulus, some of those again.
fn split_bounds(modulus: u32, splits: &[bool]) -> Vec<Bound> {
    let mut bounds = Vec::new();
    let mut splits = splits.iter().copied();
    let mut open: Vec<(u32, u32)> = (0..modulus).map(|remainder| (modulus, remainder)).collect();
    while let Some((modulus, remainder)) = open.pop() {
        if splits.next().unwrap_or(false) {
            open.extend([(modulus * 2, remainder), (modulus * 2, remainder + modulus)]);
        } else {
            bounds.push(Bound::Hash { modulus, remainder });
        }
    }
    bounds
}

/// Points over two columns of even values, sorted, and the range bounds between them.
fn bounds_of(points: Vec<(Datum, Datum)>) -> Vec<Bound> {
    let rank = |datum: &Datum| match datum {
        MinValue => (0, 0),
        Value(value) => (1, i32::from_be_bytes([value[0], value[1], value[2], value[3]])),
        MaxValue => (2, 0),
    };
    let mut points: Vec<[Datum; 2]> = points
        .into_iter()
        // Behind MINVALUE or MAXVALUE PostgreSQL wants the same again.
        .map(|(first, second)| if matches!(first, Value(_)) { [first, second] } else { [first.clone(), first] })
        .collect();
    points.sort_by_key(|point| (rank(&point[0]), rank(&point[1])));
    points.dedup();
    points.windows(2).map(|pair| range(&pair[0], &pair[1])).collect()
}

fn datum() -> impl proptest::strategy::Strategy<Value = Datum> {
    prop_oneof![1 => Just(MinValue), 6 => (0..4_i32).prop_map(|value| at(value * 2)), 1 => Just(MaxValue)]
}

/// Every pair of values from below the least to above the greatest of the bounds.
fn domain() -> impl Iterator<Item = (i32, i32)> {
    (-1..8).flat_map(|first| (-1..8).map(move |second| (first, second)))
}

fn shard_of(bounds: &[Bound], row: (i32, i32)) -> Option<usize> {
    match locate(Split::Range, &[INT4, INT4], bounds, &[int(row.0), int(row.1)]) {
        Ok(Located::Shard(index)) => Some(index),
        _ => None,
    }
}

proptest! {
    #[test]
    fn split_shards_are_found(modulus in 1_u32..9, splits in prop::collection::vec(any::<bool>(), 0..20), keys: Vec<i32>, rotation in 0_usize..20) {
        let mut bounds = split_bounds(modulus, &splits);
        let rotation = rotation % bounds.len();
        bounds.rotate_left(rotation);
        for key in keys {
            let row = crate::combine(&[crate::hash(INT4, &key.to_be_bytes()).ok()]);
            let Ok(Located::Shard(found)) = locate(Split::Hash, &[INT4], &bounds, &[int(key)]) else {
                return Err(TestCaseError::fail("every row has a shard"));
            };
            let Bound::Hash { modulus, remainder } = bounds[found] else { unreachable!() };
            prop_assert_eq!(row % u64::from(modulus), u64::from(remainder));
        }
    }

    #[test]
    fn order_of_bounds_does_not_matter(points in prop::collection::vec((datum(), datum()), 2..8), rotation in 0_usize..8, reverse: bool) {
        let sorted = bounds_of(points);
        prop_assume!(!sorted.is_empty());
        let mut shuffled = sorted.clone();
        shuffled.rotate_left(rotation % sorted.len());
        if reverse {
            shuffled.reverse();
        }
        for row in domain() {
            let (a, b) = (shard_of(&sorted, row), shard_of(&shuffled, row));
            prop_assert_eq!(a.map(|index| &sorted[index]), b.map(|index| &shuffled[index]));
        }
    }

    #[test]
    fn pruning_is_exact(points in prop::collection::vec((datum(), datum()), 2..8), low in -1..8_i32, len in 0..4_i32, include_low: bool, include_high: bool) {
        let bounds = bounds_of(points);
        let types = [INT4, INT4];
        let holding = |wanted: &dyn Fn(i32) -> bool| {
            let mut shards: Vec<usize> = domain().filter(|row| wanted(row.0)).filter_map(|row| shard_of(&bounds, row)).collect();
            shards.sort_unstable();
            shards.dedup();
            shards
        };
        prop_assert_eq!(locate_prefix(Split::Range, &types, &bounds, &[int(low)]), Ok(holding(&|first| first == low)));

        let high = low + len;
        let (low_bytes, high_bytes) = (low.to_be_bytes(), high.to_be_bytes());
        let found = overlapping(&types, &bounds, Some((&low_bytes, include_low)), Some((&high_bytes, include_high)))?;
        let inside = |first: i32| (first > low || include_low && first == low) && (first < high || include_high && first == high);
        for shard in holding(&inside) {
            prop_assert!(found.contains(&shard), "{} is missing in {:?} of {:?}", shard, found, bounds);
        }
        // Every shard found would hold a row in one of the intervals that are open to one side.
        let from_low = overlapping(&types, &bounds, Some((&low_bytes, true)), None)?;
        prop_assert_eq!(from_low, holding_beyond(&bounds, |first| first >= low));
        let to_high = overlapping(&types, &bounds, None, Some((&high_bytes, true)))?;
        prop_assert_eq!(to_high, holding_beyond(&bounds, |first| first <= high));
    }
}

/// The shards that hold some row with such a first value, over a domain wide enough for every bound to hold a row.
fn holding_beyond(bounds: &[Bound], wanted: impl Fn(i32) -> bool) -> Vec<usize> {
    let rows = (-20..20).flat_map(|first| (-2..9).map(move |second| (first, second)));
    let mut shards: Vec<usize> = rows.filter(|row| wanted(row.0)).filter_map(|row| shard_of(bounds, row)).collect();
    shards.sort_unstable();
    shards.dedup();
    shards
}
