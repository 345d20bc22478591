//! Which colocation group a new distributed table joins, or the group made for it.

use std::sync::Arc;

use key::{Bound, PartitionStrategy};

use super::bounds::{hash_bound_sql, shard_bound_sql, strategy_name};
use super::{DistributeRequest, SHARDS_MAX, ShardBound};
use crate::definition::Definition;
use crate::{Colocation, Oid, Refusal, RefusalKind, Shard, Snapshot, quote_literal};

/// The group of a table to be.
pub(super) struct Chosen {
    pub group: Arc<Colocation>,
    /// Bound of each shard as SQL, in the order of `group.shards`.
    pub bounds: Vec<String>,
    pub private: bool,
    /// Not in the catalog yet.
    pub new: bool,
}

pub(super) fn choose(
    snapshot: &Snapshot,
    definition: &Definition,
    request: &DistributeRequest,
    shards_default: i32,
) -> Result<Chosen, Refusal> {
    let colocate_with = request.colocate_with.as_deref().unwrap_or("default");
    if !matches!(colocate_with, "default" | "none") {
        return join(snapshot, definition, request, colocate_with);
    }
    let strategy = request.strategy.unwrap_or(PartitionStrategy::Hash);
    let key_types = definition.check_key(&request.columns, strategy)?;
    let bounds = new_bounds(request, strategy, shards_default)?;
    let private = colocate_with == "none";

    let same = |group: &&Arc<Colocation>| {
        let same_bounds = || match strategy {
            PartitionStrategy::Hash => made_with(group) == Some(bounds.len()),
            _ => group.shards.iter().map(|s| &s.bound).eq(bounds.iter().map(|b| &b.bound)),
        };
        group.strategy == strategy && group.key_types == key_types && same_bounds()
    };
    let candidates = snapshot.groups.values().filter(|group| !private && !snapshot.private_groups.contains(&group.id));
    Ok(match candidates.filter(same).min_by_key(|group| group.id) {
        Some(group) => existing(snapshot, group),
        None => new_group(snapshot, strategy, key_types, bounds, private),
    })
}

/// How many shards a group of hash shards was made with: some may have been split since, which doubled their moduli.
fn made_with(group: &Colocation) -> Option<usize> {
    let modulus = |shard: &Shard| match shard.bound {
        Bound::Hash { modulus, .. } => Some(modulus as usize),
        _ => None,
    };
    group.shards.iter().map(modulus).min().flatten()
}

fn existing(snapshot: &Snapshot, group: &Arc<Colocation>) -> Chosen {
    Chosen {
        group: group.clone(),
        bounds: group.shards.iter().map(|shard| shard_bound_sql(snapshot, group, shard)).collect(),
        private: snapshot.private_groups.contains(&group.id),
        new: false,
    }
}

/// `colocate_with => 'table'`: everything else that is said must agree with that table.
fn join(
    snapshot: &Snapshot,
    definition: &Definition,
    request: &DistributeRequest,
    table: &str,
) -> Result<Chosen, Refusal> {
    let (schema, name) = match table.split_once('.') {
        Some((schema, name)) => (schema, name),
        None => (request.schema.as_str(), table),
    };
    let unquote = |part: &str| match part.strip_prefix('"').and_then(|p| p.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => part.to_lowercase(),
    };
    // Routers may resolve the name along the search path first; a name without a schema is looked for in the table's own.
    let relation = super::known(snapshot, &unquote(schema), &unquote(name))?;
    let Some(distribution) = relation.distribution() else {
        let message = format!("table \"{table}\" is not distributed");
        return Err(Refusal::new(
            RefusalKind::WrongObjectType,
            message,
            "Distribute it first, or leave colocate_with out.",
        ));
    };
    let group = &distribution.group;
    let key_types = definition.check_key(&request.columns, group.strategy)?;
    let differs = |what: &str| {
        let message = format!("cannot colocate \"{}\" with \"{table}\": {what} differs", request.name);
        Err(Refusal::new(RefusalKind::InvalidParameter, message, "Leave it out, or use colocate_with => 'none'."))
    };
    if request.strategy.is_some_and(|s| s != group.strategy) {
        return differs("the strategy");
    }
    let counts = [Some(group.shards.len()), made_with(group)];
    if request.shard_count.is_some_and(|count| !counts.contains(&Some(count as usize))) {
        return differs("the number of shards");
    }
    if request.bounds.as_ref().is_some_and(|b| !b.iter().map(|b| &b.bound).eq(group.shards.iter().map(|s| &s.bound))) {
        return differs("the list of bounds");
    }
    if key_types != group.key_types {
        return differs("the type of the key");
    }
    Ok(existing(snapshot, group))
}

fn new_bounds(
    request: &DistributeRequest,
    strategy: PartitionStrategy,
    shards_default: i32,
) -> Result<Vec<ShardBound>, Refusal> {
    let invalid = |message: String, hint: &str| Err(Refusal::new(RefusalKind::InvalidParameter, message, hint));
    match (strategy, &request.bounds) {
        (PartitionStrategy::Hash, Some(_)) => {
            invalid("a table distributed by hash takes no bounds".into(), "Give shard_count instead.")
        }
        (PartitionStrategy::Hash, None) => {
            let count = request.shard_count.unwrap_or(shards_default);
            if !(1..=SHARDS_MAX).contains(&count) {
                return invalid(format!("shard_count must be between 1 and {SHARDS_MAX}, not {count}"), "");
            }
            let modulus = count as u32;
            let hash = |remainder| ShardBound {
                text: hash_bound_sql(modulus, remainder),
                bound: Bound::Hash { modulus, remainder },
            };
            Ok((0..modulus).map(hash).collect())
        }
        (_, None) => {
            let message = format!("a table distributed by {} needs the bounds of its shards", strategy_name(strategy));
            invalid(
                message,
                "Give bounds, for example ARRAY['FROM (MINVALUE) TO (1000)', 'FROM (1000) TO (MAXVALUE)'].",
            )
        }
        (_, Some(bounds)) => {
            if request.shard_count.is_some_and(|count| count as usize != bounds.len()) {
                return invalid(
                    format!("shard_count differs from the number of bounds, {}", bounds.len()),
                    "Leave it out.",
                );
            }
            if bounds.is_empty() || bounds.len() > SHARDS_MAX as usize {
                return invalid(format!("there must be between 1 and {SHARDS_MAX} bounds, not {}", bounds.len()), "");
            }
            Ok(bounds.clone())
        }
    }
}

/// Shards are numbered from 0 (of hash: their remainder) and go round the nodes.
fn new_group(
    snapshot: &Snapshot,
    strategy: PartitionStrategy,
    key_types: Vec<Oid>,
    bounds: Vec<ShardBound>,
    private: bool,
) -> Chosen {
    let id = snapshot.groups.keys().max().map_or(1, |id| id + 1);
    let nodes = snapshot.nodes.iter().map(|n| n.id).cycle();
    let (texts, bounds): (Vec<_>, Vec<_>) = bounds.into_iter().map(|b| (b.text, b.bound)).unzip();
    let shards = bounds.into_iter().zip(nodes).zip(0..).map(|((bound, node), number)| Shard { number, node, bound });
    let group = Colocation { id, strategy, key_types, shards: shards.collect() };
    Chosen { group: Arc::new(group), bounds: texts, private, new: true }
}

impl Chosen {
    /// The shards of one node: number and bound.
    pub fn shards_on(&self, node: crate::NodeId) -> Vec<(i32, String)> {
        let shards = self.group.shards.iter().zip(&self.bounds);
        shards.filter(|(shard, _)| shard.node == node).map(|(shard, bound)| (shard.number, bound.clone())).collect()
    }

    /// Puts a new group into the catalog.
    pub fn insert(&self) -> Vec<String> {
        if !self.new {
            return Vec::new();
        }
        let Colocation { id, strategy, key_types, shards } = &*self.group;
        let types = key_types.iter().map(Oid::to_string).collect::<Vec<_>>().join(", ");
        let rows = shards
            .iter()
            .zip(&self.bounds)
            .map(|(shard, bound)| format!("({id}, {}, {}, {})", shard.number, shard.node, quote_literal(bound)));
        vec![
            format!(
                "INSERT INTO herd.colocation (id, strategy, key_types, shard_count, private) VALUES ({id}, '{}', ARRAY[{types}]::oid[], {}, {})",
                strategy_name(*strategy),
                shards.len(),
                self.private
            ),
            format!(
                "INSERT INTO herd.shard (colocation, number, node, bound) VALUES {}",
                rows.collect::<Vec<_>>().join(", ")
            ),
        ]
    }
}
