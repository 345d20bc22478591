//! What shards weigh: all of them alike, or by their bytes, rows, or what is done with them, as their nodes say. What is made of it is
//! `goal.rs`'s.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use ::plan::admin::{AdminCall, AdminFunction, Arg, By};
use catalog::{NodeId, Oid, Snapshot};
use futures_util::future::try_join_all;
use wire::backend::Field;
use wire::{sqlstate, type_oid};

use super::goal::{self, Goal, Unit};
use super::plan::group_of;
use crate::client::{Answer, Client};
use crate::error::{ExecError, Result};
use crate::route::Forwarded;
use crate::router::herd::Herd;
use crate::work::Work;

/// How long it is looked what is done with shards, where that is what they weigh. Servers tell it with up to a second's delay.
const LOOK: Duration = Duration::from_secs(3);

/// Of each shard on its node: its bytes with indexes and TOAST, rows, and rows that were read and written so far.
/// Who has a table for himself keeps it waiting, for no longer than this.
const OF_SHARDS: &str = "SET LOCAL lock_timeout = '3s'; SET LOCAL statement_timeout = '10s'; SELECT c.relname, pg_total_relation_size(c.oid), greatest(c.reltuples, s.n_live_tup, 0)::bigint, \
           coalesce(s.seq_tup_read, 0) + coalesce(s.idx_scan, 0) + coalesce(s.idx_tup_fetch, 0) + coalesce(s.n_tup_ins, 0) \
           + coalesce(s.n_tup_upd, 0) + coalesce(s.n_tup_del, 0) \
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid \
     WHERE n.nspname = 'herd_shards' AND c.relkind = 'r'";

/// Nodes that shards have left since they joined, as far as that is remembered, and whether a job is emptying them now.
const EMPTIED: &str = "SELECT n.id, bool_or(j.kind = 'drain_node') FROM herd.node n JOIN herd.job j \
        ON j.kind = 'drain_node' AND j.state = 'running' AND j.about IN (n.name, n.id::text) \
        OR j.kind = 'move' AND j.state = 'done' AND j.arguments ->> 'from' = n.id::text AND j.ended_at > n.added_at \
      GROUP BY n.id";

/// What is known of a shard, with those colocated with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub bytes: u64,
    pub rows: u64,
    /// Since its node began to count.
    pub used: u64,
    pub node: NodeId,
    /// Of its tables the one with most bytes here.
    pub largest: Oid,
    largest_bytes: u64,
}

/// By group and shard.
pub type Measures = HashMap<(i32, i32), Measured>;

/// What all nodes say now.
pub async fn measured(herd: &Herd, snapshot: &Snapshot) -> Result<Measures> {
    let mut of: HashMap<(NodeId, String), ((i32, i32), Oid)> = HashMap::new();
    for r in snapshot.relations.values() {
        let Some(d) = r.distribution().filter(|d| !d.is_partitioned()) else { continue };
        for s in &d.group.shards {
            of.insert((s.node, format!("{}_{}", d.prefix, s.number)), ((d.group.id, s.number), r.oid));
        }
    }
    let ask = |node: NodeId| async move {
        let rows = herd.own.rows(&herd.target(snapshot, node)?, OF_SHARDS).await?;
        Ok::<_, ExecError>((node, rows))
    };
    let mut measures = Measures::new();
    for (node, rows) in try_join_all(snapshot.nodes.iter().map(|n| ask(n.id))).await? {
        for row in rows {
            let number = |at: usize| row.get(at).and_then(|v| v.as_deref()?.parse::<u64>().ok()).unwrap_or(0);
            let Some(Some(name)) = row.first().cloned() else { continue };
            let Some((unit, table)) = of.get(&(node, name)) else { continue };
            let m = measures.entry(*unit).or_default();
            if number(1) >= m.largest_bytes {
                (m.largest, m.largest_bytes) = (*table, number(1));
            }
            (m.bytes, m.rows, m.used, m.node) = (m.bytes + number(1), m.rows + number(2), m.used + number(3), node);
        }
    }
    Ok(measures)
}

/// The shards of all tables, each with what it weighs. `before`: measured a while ago.
pub fn units(snapshot: &Snapshot, by: By, now: &Measures, before: &Measures) -> Vec<Unit> {
    let mut groups: Vec<_> = snapshot.groups.values().collect();
    groups.sort_by_key(|g| g.id);
    let of = |group: i32, shard: i32| {
        let m = now.get(&(group, shard)).copied().unwrap_or_default();
        match by {
            By::Shards => 1.0,
            By::Size => m.bytes as f64,
            By::Rows => m.rows as f64,
            By::Load => {
                // A node that it has come to counts what came with it.
                let was = before.get(&(group, shard)).filter(|b| b.node == m.node).map_or(m.used, |b| b.used);
                m.used.saturating_sub(was) as f64
            }
        }
    };
    let units = groups.into_iter().flat_map(|g| {
        g.shards.iter().map(move |s| Unit { group: g.id, shard: s.number, node: s.node, weight: of(g.id, s.number) })
    });
    // Groups whose tables are all gone have nothing to move.
    let alive: HashSet<i32> = snapshot.relations.values().filter_map(|r| Some(r.distribution()?.group.id)).collect();
    units.filter(|u| alive.contains(&u.group)).collect()
}

/// The call that moves a shard with those colocated with it.
pub fn move_call(snapshot: &Snapshot, unit: &Unit, to: NodeId) -> Option<AdminCall> {
    let table = group_of(snapshot, unit.group).into_iter().next()?;
    let args = [catalog::qualified(&table.schema, &table.name), unit.shard.to_string(), to.to_string()];
    Some(AdminCall::step(AdminFunction::MoveShard, "move_shard", args.map(Arg::Text)))
}

/// A move of a series.
pub struct Next {
    pub call: AdminCall,
    /// Group and shard.
    pub unit: (i32, i32),
}

impl<C: Client> Work<'_, C> {
    /// The next move for what was asked for; nothing: it is reached. `moved`: what the series has moved.
    pub async fn next_move(&mut self, asked: &AdminCall, moved: &HashSet<(i32, i32)>) -> Result<Option<Next>> {
        let (goal, units) = self.goal_of(asked).await?;
        let snapshot = self.epoch.snapshot.clone();
        let nodes = match goal {
            Goal::Empty(node) => self.may_be_filled(node, &units, moved).await?,
            _ => snapshot.nodes.iter().map(|n| n.id).collect(),
        };
        let Some((at, to)) = goal::next(&units, &nodes, goal, moved) else { return Ok(None) };
        let unit = &units[at];
        Ok(move_call(&snapshot, unit, to).map(|call| Next { call, unit: (unit.group, unit.shard) }))
    }

    /// Answers with what a rebalance would move, in its order.
    pub async fn show_plan(
        &mut self,
        asked: &AdminCall,
        described: bool,
        format: impl Fn(usize) -> i16,
    ) -> Result<Forwarded> {
        self.may_change_herd().await?;
        let (goal, units) = self.goal_of(asked).await?;
        let snapshot = self.epoch.snapshot.clone();
        let nodes: Vec<NodeId> = snapshot.nodes.iter().map(|n| n.id).collect();
        let measures = measured(self.herd, &snapshot).await?;
        if described {
            self.client.tell(Answer::Columns(&plan_columns()));
        }
        let name = |id: NodeId| snapshot.node(id).map_or_else(String::new, |n| n.name.clone());
        let mut count = 0;
        for (unit, to) in goal::all(units, &nodes, goal) {
            let Some(table) = group_of(&snapshot, unit.group).into_iter().next() else { continue };
            let m = measures.get(&(unit.group, unit.shard)).copied().unwrap_or_default();
            let number = |at: usize, n: i64, len: usize| match format(at) {
                0 => n.to_string().into_bytes(),
                _ => n.to_be_bytes()[8 - len..].to_vec(),
            };
            let row = [
                catalog::qualified(&table.schema, &table.name).into_bytes(),
                number(1, unit.shard.into(), 4),
                name(unit.node).into_bytes(),
                name(to).into_bytes(),
                number(4, m.bytes as i64, 8),
                number(5, m.rows as i64, 8),
            ];
            let row = row.each_ref().map(|v| Some(&v[..]));
            self.client.tell(Answer::Row(&row));
            count += 1;
        }
        Ok(Forwarded { tag: format!("SELECT {count}"), ..Default::default() })
    }

    /// The nodes that shards of one may go to which is emptied, and itself: none that was emptied before, nor is meanwhile, as long as there are
    /// others.
    async fn may_be_filled(&self, emptied: NodeId, units: &[Unit], moved: &HashSet<(i32, i32)>) -> Result<Vec<NodeId>> {
        let all: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        let had_some = |node: NodeId| units.iter().any(|u| u.node == node && !moved.contains(&(u.group, u.shard)));
        let mut others: HashSet<NodeId> = all.iter().copied().filter(|node| *node != emptied).collect();
        for row in self.herd.own.rows(&self.herd.config.home, EMPTIED).await? {
            let node = row.first().and_then(|id| id.as_deref()?.parse().ok());
            let now = row.get(1).and_then(Option::as_deref) == Some("t");
            node.filter(|node| now || !had_some(*node)).map(|node| others.remove(&node));
        }
        Ok(if others.is_empty() { all } else { others.into_iter().chain([emptied]).collect() })
    }

    async fn goal_of(&mut self, asked: &AdminCall) -> Result<(Goal, Vec<Unit>)> {
        let snapshot = self.epoch.snapshot.clone();
        let none = Measures::new();
        if asked.function == AdminFunction::DrainNode {
            let node = self.node_called(&asked.node()?)?;
            if snapshot.nodes.iter().all(|n| n.id == node) {
                return Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "the herd has no other node"));
            }
            return Ok((Goal::Empty(node), units(&snapshot, By::Shards, &none, &none)));
        }
        let by = asked.by()?;
        if by == By::Shards {
            return Ok((Goal::Even, units(&snapshot, by, &none, &none)));
        }
        let herd = self.herd.clone();
        self.client.waits();
        let both = async {
            let before = measured(&herd, &snapshot).await?;
            if by != By::Load {
                return Ok::<_, ExecError>((before.clone(), before));
            }
            tokio::time::sleep(LOOK).await;
            Ok((before, measured(&herd, &snapshot).await?))
        };
        let (before, now) = tokio::select! {
            biased;
            () = self.client.cancelled() => return Err(ExecError::cancelled()),
            both = both => both?,
        };
        Ok((Goal::Weight, units(&snapshot, by, &now, &before)))
    }
}

/// Of `herd.rebalance_plan()`.
pub fn plan_columns() -> Vec<Field> {
    let (text, int4, int8) = ((type_oid::TEXT, -1), (type_oid::INT4, 4), (type_oid::INT8, 8));
    let columns = [
        ("table_name", text),
        ("shard", int4),
        ("from_node", text),
        ("to_node", text),
        ("bytes", int8),
        ("rows", int8),
    ];
    columns.map(|(name, (oid, len))| Field::new(name, oid, len)).to_vec()
}
