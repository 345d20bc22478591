//! Which shard is moved next where several are to be: until a node has none, or all have as many. By the catalog alone; it does not know
//! how a shard is moved.

use std::collections::BTreeMap;

use catalog::{Colocation, NodeId, Snapshot};
use plan::admin::{AdminCall, AdminFunction, Arg};
use wire::sqlstate;

use super::plan::group_of;
use crate::error::{ExecError, Result};

/// What a series of moves is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// A node without shards.
    Empty(NodeId),
    /// Of each group as many on every node, or one more.
    Even,
}

/// The next call of `herd.move_shard` for what was asked for; nothing: it is reached.
pub fn next_move(asked: &AdminCall, snapshot: &Snapshot) -> Result<Option<AdminCall>> {
    let goal = match asked.function {
        AdminFunction::DrainNode => {
            let name = asked.node()?;
            let node = snapshot.nodes.iter().find(|n| n.name == name || n.id.to_string() == name);
            let unknown = || {
                ExecError::sql(sqlstate::UNDEFINED_OBJECT, format!("node \"{name}\" is not part of the herd"))
                    .hint("herd.nodes shows them.")
            };
            Goal::Empty(node.ok_or_else(unknown)?.id)
        }
        _ => Goal::Even,
    };
    let nodes: Vec<NodeId> = snapshot.nodes.iter().map(|n| n.id).collect();
    if let Goal::Empty(node) = goal
        && nodes == [node]
    {
        return Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "the herd has no other node"));
    }
    let mut groups: Vec<_> = snapshot.groups.values().collect();
    groups.sort_by_key(|g| g.id);
    for group in groups {
        let Some((shard, to)) = next_of(group, &nodes, goal) else { continue };
        let Some(table) = group_of(snapshot, group.id).into_iter().next() else { continue };
        let args = [catalog::qualified(&table.schema, &table.name), shard.to_string(), to.to_string()];
        return Ok(Some(AdminCall {
            function: AdminFunction::MoveShard,
            name: "move_shard".into(),
            column: "move_shard".into(),
            args: args.into_iter().map(|arg| (None, Arg::Text(arg))).collect(),
            background: false,
        }));
    }
    Ok(None)
}

/// A shard of a group and its next node, which has the fewest of it.
fn next_of(group: &Colocation, nodes: &[NodeId], goal: Goal) -> Option<(i32, NodeId)> {
    let mut counts: BTreeMap<NodeId, usize> = nodes.iter().map(|n| (*n, 0)).collect();
    for shard in &group.shards {
        *counts.entry(shard.node).or_default() += 1;
    }
    let from = match goal {
        Goal::Empty(node) => node,
        Goal::Even => *counts.iter().max_by_key(|(node, count)| (**count, -**node))?.0,
    };
    let (to, fewest) = counts.iter().filter(|(node, _)| **node != from).min_by_key(|(_, count)| **count)?;
    if goal == Goal::Even && counts[&from] <= fewest + 1 {
        return None;
    }
    let shard = group.shards.iter().find(|s| s.node == from)?;
    Some((shard.number, *to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::Shard;
    use key::{Bound, PartitionStrategy};

    fn group(on: &[NodeId]) -> Colocation {
        let bound = || Bound::Hash { modulus: 8, remainder: 0 };
        let shards = (0..).zip(on).map(|(number, node)| Shard { number, node: *node, bound: bound() }).collect();
        Colocation { id: 1, strategy: PartitionStrategy::Hash, key_types: vec![23], shards }
    }

    fn moves(on: &[NodeId], nodes: &[NodeId], goal: Goal) -> Vec<NodeId> {
        let mut on = on.to_vec();
        for _ in 0..100 {
            let Some((shard, to)) = next_of(&group(&on), nodes, goal) else { return on };
            on[shard as usize] = to;
        }
        panic!("it does not end: {on:?}");
    }

    #[test]
    fn a_series_comes_to_its_end() {
        let count = |on: &[NodeId]| [1, 2, 3].map(|n| on.iter().filter(|o| **o == n).count());
        assert_eq!(count(&moves(&[1, 2, 1, 2, 1, 2], &[1, 2, 3], Goal::Even)), [2, 2, 2]);
        assert_eq!(count(&moves(&[1, 1, 1, 1, 1, 1, 1], &[1, 2, 3], Goal::Even)), [3, 2, 2]);
        assert_eq!(moves(&[1, 2, 1], &[1, 2], Goal::Even), [1, 2, 1]);
        assert_eq!(count(&moves(&[1, 2, 3, 1, 2, 3, 3], &[1, 2, 3], Goal::Empty(3))), [4, 3, 0]);
        assert_eq!(moves(&[1, 2], &[1, 2, 3], Goal::Empty(3)), [1, 2]);
    }
}
