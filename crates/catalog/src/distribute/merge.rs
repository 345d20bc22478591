//! The bound of the shard that two become, where that is one: of hash shards those that differ in the highest bit of what they were split by, of
//! range shards two neighbours, of list shards any. How their rows come together, and on which node, is not known here.

use std::cmp::Ordering;

use key::{Bound, Datum};

use super::NewShard;
use super::bounds::{hash_bound_sql, shard_bound_sql};
use crate::bound_text::BoundText;
use crate::{Colocation, Oid, Refusal, RefusalKind, Shard, Snapshot};

/// What two shards of a group become. It has the lower one's number, which of hash is its remainder: what a split made it goes again.
pub fn merge_bounds(snapshot: &Snapshot, group: &Colocation, one: &Shard, other: &Shard) -> Result<NewShard, Refusal> {
    let (low, high) = if one.number <= other.number { (one, other) } else { (other, one) };
    if low.number == high.number {
        return Err(refused(format!("shard {} can't be merged with itself", low.number), "Name two shards.".into()));
    }
    let text = |shard| BoundText::parse(&shard_bound_sql(snapshot, group, shard));
    let bound = match (text(low)?, text(high)?) {
        (BoundText::Default, _) | (_, BoundText::Default) => {
            return Err(Refusal::unsupported(
                "merging the shard of the bound DEFAULT is not supported",
                "It holds whatever no other shard holds: undistribute_table(), and create_distributed_table() with other bounds.",
            ));
        }
        (BoundText::Hash { modulus, remainder }, BoundText::Hash { modulus: same, remainder: next })
            if modulus == same && modulus % 2 == 0 && remainder.abs_diff(next) == modulus / 2 =>
        {
            hash_bound_sql(modulus / 2, remainder.min(next))
        }
        (BoundText::Hash { .. }, BoundText::Hash { .. }) => {
            let message = format!("shards {} and {} are not the two halves of one", low.number, high.number);
            return Err(refused(message, half_of(group, one)));
        }
        (BoundText::Range { from, to }, BoundText::Range { from: next, to: end }) => {
            let whole = match (follows(group, low, high), follows(group, high, low)) {
                (true, _) => BoundText::Range { from, to: end },
                (_, true) => BoundText::Range { from: next, to },
                _ => {
                    let message = format!("shards {} and {} are not neighbours", low.number, high.number);
                    let hint = "One has to begin where the other one ends: herd.shards shows their bounds.";
                    return Err(refused(message, hint.into()));
                }
            };
            whole.clause()
        }
        (BoundText::List { mut values }, BoundText::List { values: more }) => {
            values.extend(more);
            BoundText::List { values }.clause()
        }
        _ => return Err(refused("shards of one table have bounds of one kind".into(), String::new())),
    };
    Ok(NewShard { number: low.number, bound })
}

fn refused(message: String, hint: String) -> Refusal {
    Refusal::new(RefusalKind::InvalidParameter, message, hint)
}

/// With which a shard of hash can be merged.
fn half_of(group: &Colocation, shard: &Shard) -> String {
    let Bound::Hash { modulus, remainder } = shard.bound else { return String::new() };
    let (number, half) = (shard.number, modulus / 2);
    if modulus % 2 != 0 {
        return format!("Shard {number} is no half of anything: its modulus, {modulus}, is odd.");
    }
    let other = if remainder < half { remainder + half } else { remainder - half };
    let wanted = Bound::Hash { modulus, remainder: other };
    match group.shards.iter().find(|s| s.bound == wanted) {
        Some(found) => format!("The other half of shard {number} is shard {}.", found.number),
        None => format!(
            "The other half of shard {number}, of MODULUS {modulus} and REMAINDER {other}, has been split itself: merge its halves before."
        ),
    }
}

/// The second one begins where the first one ends.
fn follows(group: &Colocation, first: &Shard, second: &Shard) -> bool {
    let (Bound::Range { to, .. }, Bound::Range { from, .. }) = (&first.bound, &second.bound) else { return false };
    for ((end, begin), of) in to.iter().zip(from).zip(&group.key_types) {
        match (end, begin) {
            (Datum::Value(end), Datum::Value(begin)) if same(*of, end, begin) => {}
            // What comes behind these says nothing.
            (Datum::MinValue, Datum::MinValue) | (Datum::MaxValue, Datum::MaxValue) => return true,
            _ => return false,
        }
    }
    !to.is_empty()
}

fn same(of: Oid, end: &[u8], begin: &[u8]) -> bool {
    end == begin || matches!(key::compare(of, end, begin), Ok(Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use key::PartitionStrategy;

    use super::*;
    use crate::bound_text::Edge;

    /// Edges of ranges are ints.
    fn bound_of(text: &BoundText) -> Bound {
        let edge = |edge: &Edge| match edge {
            Edge::MinValue => Datum::MinValue,
            Edge::MaxValue => Datum::MaxValue,
            Edge::Value(v) => Datum::Value(v.parse::<i32>().unwrap().to_be_bytes().to_vec()),
        };
        match text {
            BoundText::Hash { modulus, remainder } => Bound::Hash { modulus: *modulus, remainder: *remainder },
            BoundText::Default => Bound::Default,
            BoundText::List { .. } => Bound::List { values: vec![] },
            BoundText::Range { from, to } => {
                Bound::Range { from: from.iter().map(edge).collect(), to: to.iter().map(edge).collect() }
            }
        }
    }

    /// The first two of shards that are numbered as given.
    fn merged(shards: &[(i32, &str)]) -> Result<NewShard, Refusal> {
        let mut texts = HashMap::new();
        let shards: Vec<Shard> = shards
            .iter()
            .map(|(number, text)| {
                texts.insert(*number, text.to_string());
                Shard { number: *number, node: 1, bound: bound_of(&BoundText::parse(text).unwrap()) }
            })
            .collect();
        let snapshot = Snapshot { bound_texts: HashMap::from([(1, Arc::new(texts))]), ..Snapshot::default() };
        let group = Colocation { id: 1, strategy: PartitionStrategy::Hash, key_types: vec![23, 23], shards };
        merge_bounds(&snapshot, &group, &group.shards[0], &group.shards[1])
    }

    fn hash(modulus: u32, remainder: u32) -> String {
        hash_bound_sql(modulus, remainder)
    }

    #[test]
    fn two_bounds_become_one() {
        for (one, other, becomes) in [
            ((2, &*hash(12, 2)), (8, &*hash(12, 8)), (2, &*hash(6, 2))),
            ((3, &*hash(4, 3)), (1, &*hash(4, 1)), (1, &*hash(2, 1))),
            ((0, &*hash(2, 0)), (1, &*hash(2, 1)), (0, &*hash(1, 0))),
            (
                (0, "FROM (MINVALUE) TO (5)"),
                (1, "FROM (5) TO (MAXVALUE)"),
                (0, "FOR VALUES FROM (MINVALUE) TO (MAXVALUE)"),
            ),
            ((4, "FROM (5) TO (9)"), (2, "FROM (9) TO (20)"), (2, "FOR VALUES FROM ('5') TO ('20')")),
            ((4, "FROM (9) TO (20)"), (2, "FROM (5) TO (09)"), (2, "FOR VALUES FROM ('5') TO ('20')")),
            (
                (1, "FROM (1, 2) TO (3, MINVALUE)"),
                (2, "FROM (3, MINVALUE) TO (3, 4)"),
                (1, "FOR VALUES FROM ('1', '2') TO ('3', '4')"),
            ),
            ((5, "IN ('a', NULL)"), (3, "IN ('b')"), (3, "FOR VALUES IN ('b', 'a', NULL)")),
        ] {
            let made = merged(&[one, other]).unwrap();
            assert_eq!((made.number, &*made.bound), becomes, "{one:?} {other:?}");
        }
    }

    #[test]
    fn what_is_not_one_is_refused_and_the_hint_says_what_would_be() {
        let halves = [(2, hash(12, 2)), (3, hash(12, 3)), (8, hash(12, 8))];
        let halves = halves.each_ref().map(|(n, bound)| (*n, &**bound));
        let refusal = merged(&halves).unwrap_err();
        assert_eq!(refusal.hint, "The other half of shard 2 is shard 8.");
        let refusal = merged(&[(8, &hash(12, 8)), (2, &hash(24, 2))]).unwrap_err();
        assert!(refusal.hint.contains("MODULUS 12 and REMAINDER 2, has been split itself"));
        let refusal = merged(&[(0, &hash(5, 0)), (1, &hash(5, 1))]).unwrap_err();
        assert!(refusal.hint.contains("is odd"));
        for (one, other, sqlstate) in [
            ("FROM (1) TO (5)", "FROM (6) TO (9)", "22023"),
            ("FROM (1, 2) TO (3, 4)", "FROM (3, MINVALUE) TO (4, 1)", "22023"),
            ("IN ('a')", "DEFAULT", "0A000"),
            ("DEFAULT", "FROM (6) TO (9)", "0A000"),
        ] {
            assert_eq!(merged(&[(0, one), (1, other)]).unwrap_err().sqlstate(), sqlstate, "{one} {other}");
        }
        assert_eq!(merged(&[(1, &hash(2, 1)), (1, &hash(2, 1))]).unwrap_err().sqlstate(), "22023");
    }
}
