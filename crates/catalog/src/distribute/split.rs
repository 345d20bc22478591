//! What becomes of a shard's bound when the shard is split in two: of a hash shard its modulus is doubled, of a range shard it is cut
//! at a value, of a list shard some of its values leave. How rows come to their halves is not known here.

use key::Bound;

use super::SHARDS_MAX;
use super::bounds::{hash_bound_sql, shard_bound_sql};
use crate::bound_text::{BoundText, Edge};
use crate::{Colocation, Refusal, RefusalKind, Shard, Snapshot};

/// A shard that there will be instead of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewShard {
    /// Of hash its remainder, which no other shard of whatever modulus has, as they would hold the same rows.
    pub number: i32,
    /// `FOR VALUES …`
    pub bound: String,
}

/// Between which values of the first key column a range shard can be cut, as literals; `None`: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// The cut is above this.
    pub above: Option<String>,
    /// And below this,
    pub below: Option<String>,
    /// or at it: rows of this value are on both sides of the shard's end.
    pub or_at: bool,
}

fn invalid(message: String, hint: &str) -> Refusal {
    Refusal::new(RefusalKind::InvalidParameter, message, hint)
}

/// A shard's halves, of which the first keeps its number. `at`: of a range shard the one value of the first key column that the second half begins with, of a
/// list shard the values that leave for it; of a hash shard none.
pub fn split_bounds(
    snapshot: &Snapshot,
    group: &Colocation,
    shard: &Shard,
    at: &[String],
) -> Result<[NewShard; 2], Refusal> {
    if group.shards.len() >= SHARDS_MAX as usize {
        let message = format!("a table has {SHARDS_MAX} shards at most");
        return Err(Refusal::new(RefusalKind::ObjectNotInPrerequisiteState, message, ""));
    }
    let bound = BoundText::parse(&shard_bound_sql(snapshot, group, shard))?;
    let next = group.shards.iter().map(|s| s.number).max().unwrap_or(0) + 1;
    let of = |first: String, second: String, number| {
        [NewShard { number: shard.number, bound: first }, NewShard { number, bound: second }]
    };
    let halves = |first: BoundText, second: BoundText| of(first.clause(), second.clause(), next);
    match bound {
        BoundText::Hash { .. } if !at.is_empty() => {
            Err(invalid("a hash shard is split by its modulus, not at a value".into(), "Leave the value out."))
        }
        BoundText::Hash { modulus, remainder } => {
            let doubled = modulus.checked_mul(2).filter(|m| i32::try_from(*m).is_ok());
            let number = i32::try_from(remainder + modulus).ok();
            let (Some(doubled), Some(number)) = (doubled, number) else {
                let message = format!("the modulus {modulus} can't be doubled");
                return Err(Refusal::new(RefusalKind::ObjectNotInPrerequisiteState, message, ""));
            };
            let (first, second) = (hash_bound_sql(doubled, remainder), hash_bound_sql(doubled, remainder + modulus));
            Ok(of(first, second, number))
        }
        BoundText::Range { from, to } => {
            let [at] = at else {
                return Err(invalid(
                    "a range shard is split at one value".into(),
                    "Give a value of the first key column.",
                ));
            };
            let mut cut = vec![Edge::MinValue; from.len()];
            cut[0] = Edge::Value(at.clone());
            Ok(halves(BoundText::Range { from, to: cut.clone() }, BoundText::Range { from: cut, to }))
        }
        BoundText::List { values } => {
            let leaves = |value: &Option<String>| value.as_ref().is_some_and(|v| at.contains(v));
            let (second, first): (Vec<_>, Vec<_>) = values.iter().cloned().partition(leaves);
            if at.is_empty() || second.len() != at.len() || first.is_empty() {
                let message = "a list shard is split by some of its values, which are named as its bound has them";
                let hint = format!("Give some, but not all, of {}: at => ARRAY['…'].", BoundText::List { values });
                return Err(invalid(message.into(), &hint));
            }
            Ok(halves(BoundText::List { values: first }, BoundText::List { values: second }))
        }
        BoundText::Default => Err(Refusal::unsupported(
            "splitting the shard of the bound DEFAULT is not supported",
            "It holds whatever no other shard holds: undistribute_table(), and create_distributed_table() with other bounds.",
        )),
    }
}

/// Where a range shard can be cut; `None`: it is no range shard.
pub fn room_in(snapshot: &Snapshot, group: &Colocation, shard: &Shard) -> Option<Room> {
    if !matches!(shard.bound, Bound::Range { .. }) {
        return None;
    }
    let Ok(BoundText::Range { from, to }) = BoundText::parse(&shard_bound_sql(snapshot, group, shard)) else {
        return None;
    };
    let value = |edges: &[Edge]| match edges.first() {
        Some(Edge::Value(value)) => Some(value.clone()),
        _ => None,
    };
    let or_at = to.get(1).is_some_and(|next| *next != Edge::MinValue);
    Some(Room { above: value(&from), below: value(&to), or_at })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Arc;

    use key::PartitionStrategy;

    use super::*;

    fn group(bounds: &[&str]) -> (Snapshot, Colocation) {
        let mut texts = HashMap::new();
        let shards = bounds.iter().enumerate().map(|(number, text)| {
            let number = number as i32;
            texts.insert(number, text.to_string());
            let bound = match BoundText::parse(text).unwrap() {
                BoundText::Hash { modulus, remainder } => Bound::Hash { modulus, remainder },
                BoundText::Default => Bound::Default,
                BoundText::List { .. } => Bound::List { values: vec![] },
                BoundText::Range { .. } => Bound::Range { from: vec![], to: vec![] },
            };
            Shard { number, node: 1, bound }
        });
        let shards = shards.collect();
        let snapshot = Snapshot { bound_texts: HashMap::from([(1, Arc::new(texts))]), ..Snapshot::default() };
        (snapshot, Colocation { id: 1, strategy: PartitionStrategy::Hash, key_types: vec![23], shards })
    }

    fn halves(bounds: &[&str], shard: usize, at: &[&str]) -> Result<[NewShard; 2], Refusal> {
        let (snapshot, group) = group(bounds);
        let at: Vec<String> = at.iter().map(|v| v.to_string()).collect();
        split_bounds(&snapshot, &group, &group.shards[shard], &at)
    }

    #[test]
    fn a_bound_becomes_two() {
        let hash = ["WITH (MODULUS 2, REMAINDER 0)", "WITH (MODULUS 2, REMAINDER 1)"];
        let [first, second] = halves(&hash, 1, &[]).unwrap();
        assert_eq!((first.number, &*first.bound), (1, "FOR VALUES WITH (MODULUS 4, REMAINDER 1)"));
        assert_eq!((second.number, &*second.bound), (3, "FOR VALUES WITH (MODULUS 4, REMAINDER 3)"));
        let [first, second] = halves(&["FROM (MINVALUE) TO (5)", "FROM (5) TO (MAXVALUE)"], 1, &["9"]).unwrap();
        assert_eq!((first.number, &*first.bound), (1, "FOR VALUES FROM ('5') TO ('9')"));
        assert_eq!((second.number, &*second.bound), (2, "FOR VALUES FROM ('9') TO (MAXVALUE)"));
        let [first, _] = halves(&["FROM (1, 2) TO (3, 4)"], 0, &["3"]).unwrap();
        assert_eq!(first.bound, "FOR VALUES FROM ('1', '2') TO ('3', MINVALUE)");
        let [first, second] = halves(&["IN ('a', 'b', NULL)"], 0, &["b"]).unwrap();
        assert_eq!((&*first.bound, &*second.bound), ("FOR VALUES IN ('a', NULL)", "FOR VALUES IN ('b')"));
    }

    #[test]
    fn what_can_not_be_split_is_refused() {
        let hash = "WITH (MODULUS 2, REMAINDER 0)";
        let large = "WITH (MODULUS 2000000000, REMAINDER 0)";
        for (bound, at, sqlstate) in [
            (hash, &["1"][..], "22023"),
            (large, &[], "55000"),
            ("FROM (1) TO (2)", &[], "22023"),
            ("FROM (1) TO (2)", &["1", "2"], "22023"),
            ("IN ('a', 'b')", &[], "22023"),
            ("IN ('a', 'b')", &["a", "b"], "22023"),
            ("IN ('a', 'b')", &["c"], "22023"),
            ("IN ('a', 'b')", &["a", "a"], "22023"),
            ("DEFAULT", &["1"], "0A000"),
        ] {
            assert_eq!(halves(&[bound], 0, at).unwrap_err().sqlstate(), sqlstate, "{bound} {at:?}");
        }
        let many = vec![hash; SHARDS_MAX as usize];
        assert_eq!(halves(&many, 0, &[]).unwrap_err().sqlstate(), "55000");
    }

    #[test]
    fn room_is_between_the_first_values() {
        let room = |bound| {
            let (snapshot, group) = group(&[bound]);
            room_in(&snapshot, &group, &group.shards[0])
        };
        assert_eq!(room("FROM (MINVALUE) TO (MAXVALUE)"), Some(Room::default()));
        let (above, below) = (Some("1".to_string()), Some("3".to_string()));
        assert_eq!(room("FROM (1, 2) TO (3, 4)"), Some(Room { above, below, or_at: true }));
        assert_eq!(room("FROM (1, 2) TO (3, MINVALUE)").map(|r| r.or_at), Some(false));
        assert_eq!(room("WITH (MODULUS 2, REMAINDER 0)"), None);
    }
}
