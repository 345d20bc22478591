//! Rows in shards that they do not belong to, of all tables of a colocation group: they were written to a node past the routers (to a shard DEFAULT, which
//! takes there what the other nodes' shards should have), or PostgreSQL's own bounds were got round. Each goes to its shard if that has no
//! row of its key. Where nodes have other shards than the catalog says, nothing is touched. How they come there, `put.rs` knows.
//!
//! Which rows a shard may hold, its node says (`herd.shard_bounds`); how rows are told and put, the catalog's `schema/repair.sql`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::{NodeId, Oid, Relation, qualified};

use super::{Finding, Repair, changed, counted, is_between, name, regclass, texts};
use crate::admin::move_shard::group_of;
use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

/// Rows of a shard that belong to another one, or to none.
pub(super) struct Misplaced {
    pub table: Arc<Relation>,
    pub node: NodeId,
    pub shard: String,
    /// What tells where rows of the shard belong, and which place of it.
    pub bounds: Vec<String>,
    /// Below 0: their table is not even to have them.
    pub place: i64,
    pub count: i64,
    /// The shard that they belong to, and its node.
    pub to: Option<(String, NodeId)>,
}

impl<C: Client> Work<'_, C> {
    pub(super) async fn repair_rows(&mut self, repair: &Repair, group: i32) -> Result<Vec<Finding>> {
        let members = group_of(&self.epoch.snapshot, group);
        match self.misplaced(&members).await {
            Ok((misplaced, findings)) if misplaced.is_empty() && findings.is_empty() => return Ok(vec![]),
            Err(e) if !is_between(&e) => return Err(e),
            _ => {}
        }
        let now = group_of(&*self.hold_still(&members, repair.dry_run).await?, group);
        // Shards may be elsewhere by now, and have other names.
        let names = |of: &[Arc<Relation>]| of.iter().map(|r| (r.oid, name(r))).collect::<Vec<_>>();
        if names(&now) != names(&members) {
            return Err(changed());
        }
        let (misplaced, mut findings) = self.misplaced(&now).await?;
        let kept = self.kept(&misplaced).await?;
        if repair.dry_run || !findings.is_empty() || !kept.is_empty() || misplaced.is_empty() {
            findings.extend(misplaced.iter().map(|m| self.would_move(m, &kept)));
            return Ok(findings);
        }
        let before = self.dangling(&now).await?;
        for m in &misplaced {
            match m.to {
                Some(_) => findings.extend(self.move_rows_of(m).await?),
                None => findings.push(self.would_move(m, &kept)),
            }
        }
        self.none_dangles(&now, &before).await?;
        Ok(findings)
    }

    /// Tables whose rows are not moved, by their object ids, and why.
    async fn kept(&mut self, misplaced: &[Misplaced]) -> Result<BTreeMap<Oid, String>> {
        let (mut kept, mut asked) = (BTreeMap::new(), BTreeSet::new());
        for m in misplaced {
            let Some((to, there)) = &m.to else { continue };
            for (node, shard) in [(m.node, &m.shard), (*there, to)] {
                if !asked.insert(shard) {
                    continue;
                }
                let part = qualified("herd_shards", shard);
                if let Some(why) = self.keeps_from_writing(node, &m.table, &part).await? {
                    kept.entry(m.table.oid).or_insert(why);
                }
            }
        }
        Ok(kept)
    }

    /// What there is, and what keeps it from being repaired.
    async fn misplaced(&mut self, members: &[Arc<Relation>]) -> Result<(Vec<Misplaced>, Vec<Finding>)> {
        let (mut all, mut findings) = (Vec::new(), Vec::new());
        for table in members.iter().filter(|r| r.distribution().is_some_and(|d| !d.is_partitioned())) {
            let (shards, wrong) = self.shards_there(table).await?;
            if !wrong.is_empty() {
                findings.extend(wrong);
                continue;
            }
            all.extend(self.misplaced_of(table, &shards).await?);
        }
        Ok((all, findings))
    }

    /// The shards that nodes have of a table, each with its node and bound; and where these are not the catalog's.
    async fn shards_there(&mut self, table: &Arc<Relation>) -> Result<(Shards, Vec<Finding>)> {
        let Some(d) = table.distribution() else { return Ok(Default::default()) };
        let nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        let (mut shards, mut wrong) = (Shards::new(), Vec::new());
        let mut missing: BTreeMap<String, NodeId> =
            d.group.shards.iter().map(|s| (format!("{}_{}", d.prefix, s.number), s.node)).collect();
        for node in nodes {
            let parent = name(table);
            let ask = format!("SELECT b.shard, b.bound FROM herd.shard_bounds({}) b", regclass(&parent));
            for row in self.ask_node(node, &ask).await? {
                let mut cells = row.into_iter();
                let (Some(shard), bound) = (cells.next().flatten(), cells.next().flatten()) else { continue };
                if missing.get(&shard) == Some(&node) {
                    missing.remove(&shard);
                    shards.insert(shard, (node, bound));
                    continue;
                }
                wrong.push(Finding {
                    node: self.node_name(node),
                    object: qualified("herd_shards", &shard),
                    problem: format!("it is a partition of {parent} that the catalog does not have on this node"),
                    mended: false,
                    action: "its rows are seen beside those of the shards that herd.shards shows: decide which are right; then, on this node, DETACH the partition and DROP it".into(),
                });
            }
        }
        for (shard, node) in missing {
            wrong.push(Finding {
                node: self.node_name(node),
                object: qualified("herd_shards", &shard),
                problem: format!("it is no partition of {} on this node", name(table)),
                mended: false,
                action: "it was detached or dropped: ATTACH it again on this node, with the bound that herd.shards shows, or restore it (docs/backup.md)".into(),
            });
        }
        Ok((shards, wrong))
    }

    async fn misplaced_of(&mut self, table: &Arc<Relation>, shards: &Shards) -> Result<Vec<Misplaced>> {
        let rest =
            shards.iter().find(|(_, (_, bound))| bound.is_none()).map(|(shard, (node, _))| (shard.clone(), *node));
        let mut all = Vec::new();
        for (shard, (node, _)) in shards {
            let others: Vec<(&String, NodeId, &String)> = shards
                .iter()
                .filter(|(other, _)| *other != shard)
                .filter_map(|(other, (node, bound))| Some((other, *node, bound.as_ref()?)))
                .collect();
            let bounds: Vec<String> = others.iter().map(|(.., bound)| bound.to_string()).collect();
            let ask = format!(
                "SELECT m.place, m.count FROM herd.misplaced({}, {}, {}) m",
                regclass(&name(table)),
                regclass(&qualified("herd_shards", shard)),
                texts(&bounds)
            );
            for row in self.ask_node(*node, &ask).await? {
                let cell = |at: usize| row.get(at).and_then(|v| v.as_deref()?.parse::<i64>().ok()).unwrap_or(0);
                let (place, count) = (cell(0), cell(1));
                let to = match place {
                    0 => rest.clone(),
                    ..0 => None,
                    _ => others.get(place as usize - 1).map(|(other, node, _)| ((*other).clone(), *node)),
                };
                let (table, shard, bounds) = (table.clone(), shard.clone(), bounds.clone());
                all.push(Misplaced { table, node: *node, shard, bounds, place, count, to });
            }
        }
        Ok(all)
    }

    /// `kept`: of the group's tables those that are not written, and why.
    fn would_move(&self, m: &Misplaced, kept: &BTreeMap<Oid, String>) -> Finding {
        let (problem, action) = match &m.to {
            None if m.place < 0 => (
                "of another partition by time",
                "left there: INSERT them through a router, which knows the partition, and DELETE them on this node".into(),
            ),
            None => (
                "of no shard that there is",
                "left there: no shard has their keys. Delete them on this node, or distribute the table anew with a shard for them".into(),
            ),
            Some((to, node)) => {
                let action = match kept.get(&m.table.oid).or(kept.values().next()) {
                    Some(why) => format!("left there: {why}"),
                    None => format!("would be moved to {} on node \"{}\"", qualified("herd_shards", to), self.node_name(*node)),
                };
                ("of another shard", action)
            }
        };
        Finding {
            node: self.node_name(m.node),
            object: qualified("herd_shards", &m.shard),
            problem: format!("{} of {} {problem}", counted(m.count, "row"), name(&m.table)),
            mended: false,
            action,
        }
    }
}

/// By their names among the shards; without a bound: what no other one holds.
type Shards = BTreeMap<String, (NodeId, Option<String>)>;
