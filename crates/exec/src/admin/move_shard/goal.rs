//! Which shard is moved next where several are to be: until a node has none, all have as many, or all weigh as much. By what is given alone; it
//! does not know how a shard is moved, nor what is weighed (`weights.rs`).

use std::collections::{BTreeMap, HashSet};

use catalog::NodeId;

/// Nodes need not weigh the same: so much of what one has in the middle may be between two.
const LIKE: f64 = 0.1;

/// What is moved together: a shard of every table of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    pub group: i32,
    pub shard: i32,
    pub node: NodeId,
    pub weight: f64,
}

/// What a series of moves is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A node without shards.
    Empty(NodeId),
    /// Of each group as many on every node, or one more.
    Even,
    /// All nodes weigh much the same.
    Weight,
}

/// The next to move, by its place among `units`, and where to; nothing: it is reached, as far as that is possible. `moved`: those of which
/// that was done, by group and shard, which stay where they are.
pub fn next(units: &[Unit], nodes: &[NodeId], goal: Goal, moved: &HashSet<(i32, i32)>) -> Option<(usize, NodeId)> {
    if goal == Goal::Weight {
        return by_weight(units, nodes, moved);
    }
    let groups: BTreeMap<i32, ()> = units.iter().map(|u| (u.group, ())).collect();
    groups.keys().find_map(|group| by_number(units, *group, nodes, goal))
}

/// Of one group: to the node that has the fewest of it.
fn by_number(units: &[Unit], group: i32, nodes: &[NodeId], goal: Goal) -> Option<(usize, NodeId)> {
    let mut counts: BTreeMap<NodeId, usize> = nodes.iter().map(|n| (*n, 0)).collect();
    for unit in units.iter().filter(|u| u.group == group) {
        *counts.entry(unit.node).or_default() += 1;
    }
    let from = match goal {
        Goal::Empty(node) => node,
        _ => *counts.iter().max_by_key(|(node, count)| (**count, -**node))?.0,
    };
    let (to, fewest) = counts.iter().filter(|(node, _)| **node != from).min_by_key(|(_, count)| **count)?;
    if goal == Goal::Even && counts[&from] <= fewest + 1 {
        return None;
    }
    Some((units.iter().position(|u| u.group == group && u.node == from)?, *to))
}

/// From the heaviest node that has something to give to the lightest: what makes the two most alike.
fn by_weight(units: &[Unit], nodes: &[NodeId], moved: &HashSet<(i32, i32)>) -> Option<(usize, NodeId)> {
    let weight = |node: NodeId| units.iter().filter(|u| u.node == node).map(|u| u.weight).sum::<f64>();
    let mut loads: Vec<(f64, NodeId)> = nodes.iter().map(|n| (weight(*n), *n)).collect();
    loads.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let (least, to) = *loads.first()?;
    let middle = loads.iter().map(|(load, _)| load).sum::<f64>() / loads.len() as f64;
    loads.iter().rev().find_map(|(load, from)| {
        let apart = load - least;
        if apart <= LIKE * middle {
            return None;
        }
        let off = |u: &Unit| (u.weight - apart / 2.0).abs();
        let may =
            |u: &Unit| u.node == *from && u.weight > 0.0 && u.weight < apart && !moved.contains(&(u.group, u.shard));
        let fit = (0..units.len()).filter(|at| may(&units[*at]));
        Some((fit.min_by(|a, b| off(&units[*a]).total_cmp(&off(&units[*b])))?, to))
    })
}

/// All of them, one after another.
pub fn all(mut units: Vec<Unit>, nodes: &[NodeId], goal: Goal) -> Vec<(Unit, NodeId)> {
    let (mut moves, mut moved) = (Vec::new(), HashSet::new());
    while let Some((at, to)) = next(&units, nodes, goal, &moved) {
        let unit = &mut units[at];
        moves.push((unit.clone(), to));
        moved.insert((unit.group, unit.shard));
        unit.node = to;
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn units(on: &[NodeId]) -> Vec<Unit> {
        (0..).zip(on).map(|(shard, node)| Unit { group: 1, shard, node: *node, weight: 1.0 }).collect()
    }

    fn after(mut units: Vec<Unit>, nodes: &[NodeId], goal: Goal) -> Vec<NodeId> {
        for (unit, to) in all(units.clone(), nodes, goal) {
            let at = units.iter().position(|u| u.shard == unit.shard).expect("one of them");
            units[at].node = to;
        }
        units.into_iter().map(|u| u.node).collect()
    }

    #[test]
    fn a_series_comes_to_its_end() {
        let count = |on: &[NodeId]| [1, 2, 3].map(|n| on.iter().filter(|o| **o == n).count());
        assert_eq!(count(&after(units(&[1, 2, 1, 2, 1, 2]), &[1, 2, 3], Goal::Even)), [2, 2, 2]);
        assert_eq!(count(&after(units(&[1, 1, 1, 1, 1, 1, 1]), &[1, 2, 3], Goal::Even)), [3, 2, 2]);
        assert_eq!(after(units(&[1, 2, 1]), &[1, 2], Goal::Even), [1, 2, 1]);
        assert_eq!(count(&after(units(&[1, 2, 3, 1, 2, 3, 3]), &[1, 2, 3], Goal::Empty(3))), [4, 3, 0]);
        assert_eq!(after(units(&[1, 2]), &[1, 2, 3], Goal::Empty(3)), [1, 2]);
        assert_eq!(count(&after(units(&[1, 1, 1, 1, 1, 1]), &[1, 2, 3], Goal::Weight)), [2, 2, 2]);
    }

    #[test]
    fn weight_is_what_counts() {
        let mut units = units(&[1, 1, 1, 2, 2, 2]);
        // As many each, but all that is large is on the first.
        for (unit, weight) in units.iter_mut().zip([50.0, 30.0, 20.0, 1.0, 1.0, 1.0]) {
            unit.weight = weight;
        }
        assert_eq!(all(units.clone(), &[1, 2], Goal::Even), []);
        assert_eq!(after(units.clone(), &[1, 2], Goal::Weight), [2, 1, 1, 2, 2, 2]);
        // One that is heavier than all others together has a node for itself.
        units[0].weight = 500.0;
        assert_eq!(after(units, &[1, 2], Goal::Weight), [2, 1, 1, 1, 1, 1]);
    }

    proptest! {
        /// Each shard moves once at most, the heaviest node gets no heavier, and behind it no single move that is left would help much.
        #[test]
        fn moves_help(weights in prop::collection::vec((0.0..1000.0f64, 1..5i32), 0..40)) {
            let nodes = [1, 2, 3, 4];
            let units: Vec<Unit> = (0..).zip(&weights).map(|(shard, (weight, node))| Unit { group: shard % 3, shard, node: *node, weight: *weight }).collect();
            let load = |units: &[Unit], node| units.iter().filter(|u| u.node == node).map(|u| u.weight).sum::<f64>();
            let most = |units: &[Unit]| nodes.iter().map(|n| load(units, *n)).fold(0.0, f64::max);
            let moves = all(units.clone(), &nodes, Goal::Weight);
            let mut now = units.clone();
            for (unit, to) in &moves {
                let at = now.iter().position(|u| u.shard == unit.shard).expect("one of them");
                prop_assert_eq!(now[at].node, unit.node);
                let before = most(&now);
                now[at].node = *to;
                prop_assert!(most(&now) <= before + 1e-6);
            }
            let moved: HashSet<i32> = moves.iter().map(|(u, _)| u.shard).collect();
            prop_assert_eq!(moved.len(), moves.len());
        }
    }
}
