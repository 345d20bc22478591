//! Rows in shards that they do not belong to, of all tables of a colocation group: they were written to a node past the routers (to a shard DEFAULT, which
//! takes there what the other nodes' shards should have), or PostgreSQL's own bounds were got round. Each goes to its shard if that has no
//! row of its key. Where nodes have other shards than the catalog says, nothing is touched.
//!
//! Which rows a shard may hold, its node says (`herd.shard_bounds`); how rows are told and put, the catalog's `schema/repair.sql`.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{NodeId, Relation, qualified, quote_literal};

use super::{Finding, Repair, counted, name, number, regclass, texts};
use crate::admin::move_shard::{changed, group_of};
use crate::client::Client;
use crate::ddl::Locks;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// Rows that are taken at a time.
const AT_ONCE: usize = 500;

/// Rows of a shard that belong to another one, or to none.
struct Misplaced {
    table: Arc<Relation>,
    node: NodeId,
    shard: String,
    /// What tells where rows of the shard belong, and which place of it.
    bounds: Vec<String>,
    place: i64,
    count: i64,
    /// The shard that they belong to, and its node.
    to: Option<(String, NodeId)>,
}

impl<C: Client> Work<'_, C> {
    pub(super) async fn repair_rows(&mut self, repair: &Repair, group: i32) -> Result<Vec<Finding>> {
        let members = group_of(&self.epoch.snapshot, group);
        let (misplaced, findings) = self.misplaced(&members).await?;
        if repair.dry_run || !findings.is_empty() || misplaced.is_empty() {
            return Ok(findings.into_iter().chain(misplaced.iter().map(|m| self.would_move(m))).collect());
        }
        let known = self.epoch.snapshot.clone();
        self.transaction.begin("BEGIN ISOLATION LEVEL READ COMMITTED", false);
        self.take_locks(&Locks::of_group(&members, &[])).await?;
        let now = self.snapshot_now().await?;
        let shards = |of: &catalog::Snapshot| {
            of.groups.get(&group).map(|g| g.shards.iter().map(|s| (s.number, s.node)).collect::<Vec<_>>())
        };
        let names = |of: &[Arc<Relation>]| {
            of.iter().map(|r| (r.oid, name(r), r.distribution().map(|d| d.prefix.clone()))).collect::<Vec<_>>()
        };
        if shards(&now) != shards(&known) || names(&group_of(&now, group)) != names(&members) {
            return Err(changed());
        }
        // What is there now, as nobody writes any more.
        let (misplaced, mut findings) = self.misplaced(&members).await?;
        let before = self.dangling(&members).await?;
        for m in &misplaced {
            match m.to {
                Some(_) => findings.extend(self.move_rows_of(m).await?),
                None => findings.push(self.would_move(m)),
            }
        }
        self.none_dangles(&members, &before).await?;
        Ok(findings)
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
            // Code of its owner's would run as who reads the rows.
            let parent = name(table);
            self.ask_node(node, &format!("SELECT herd.ask_rows({}, NULL)", texts([&parent]))).await?;
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
                    _ => others.get(place as usize - 1).map(|(other, node, _)| ((*other).clone(), *node)),
                };
                let (table, shard, bounds) = (table.clone(), shard.clone(), bounds.clone());
                all.push(Misplaced { table, node: *node, shard, bounds, place, count, to });
            }
        }
        Ok(all)
    }

    /// Nobody reads or writes the tables. What was found, and done.
    async fn move_rows_of(&mut self, m: &Misplaced) -> Result<Vec<Finding>> {
        let Some((to, there)) = &m.to else { return Ok(vec![]) };
        let (parent, from) = (regclass(&name(&m.table)), regclass(&qualified("herd_shards", &m.shard)));
        let into = regclass(&qualified("herd_shards", to));
        let (mut moved, mut left, mut behind) = (0, 0, "(0,0)".to_string());
        loop {
            let ask = format!(
                "SELECT r.at, r.told FROM herd.misplaced_rows({parent}, {from}, {}, {}, {}, {AT_ONCE}) r",
                texts(&m.bounds),
                m.place,
                quote_literal(&behind)
            );
            let rows = self.ask_node(m.node, &ask).await?;
            let rows: Vec<(String, String)> = rows
                .into_iter()
                .filter_map(|row| {
                    let mut cells = row.into_iter().flatten();
                    Some((cells.next()?, cells.next()?))
                })
                .collect();
            let Some((last, _)) = rows.last() else { break };
            behind = last.clone();
            let told = texts(rows.iter().map(|(_, told)| told));
            let put = format!("SELECT herd.put_rows({into}, herd.told_columns({parent}), {told})");
            let put = self.write_on(*there, &put).await?;
            if put.len() != rows.len() {
                return Err(ExecError::internal("a node does not say which rows it has taken"));
            }
            let is_put = |row: &catalog::Row| row.first().and_then(|v| v.as_deref()) == Some("t");
            let gone: Vec<&String> =
                rows.iter().zip(&put).filter(|(_, put)| is_put(put)).map(|((at, _), _)| at).collect();
            left += (rows.len() - gone.len()) as i64;
            if gone.is_empty() {
                continue;
            }
            let dropped = self.write_on(m.node, &format!("SELECT herd.drop_rows({from}, {})", texts(&gone))).await?;
            if number(&dropped) != gone.len() as i64 {
                return Err(ExecError::internal("rows that were locked are not where they were"));
            }
            moved += gone.len() as i64;
        }
        let finding = |count: i64, mended: bool, action: String| Finding {
            node: self.node_name(m.node),
            object: qualified("herd_shards", &m.shard),
            problem: format!("{} of {} of another shard", counted(count, "row"), name(&m.table)),
            mended,
            action,
        };
        let target = format!("{} on node \"{}\"", qualified("herd_shards", to), self.node_name(*there));
        let mut findings = Vec::new();
        if moved > 0 {
            findings.push(finding(moved, true, format!("moved to {target}")));
        }
        if left > 0 {
            let action = format!(
                "left there: {target} has rows of the same keys. Decide which are right: on this node DELETE those of {} that are wrong, or delete the others through a router, and repair again",
                qualified("herd_shards", &m.shard)
            );
            findings.push(finding(left, false, action));
        }
        Ok(findings)
    }

    fn would_move(&self, m: &Misplaced) -> Finding {
        let (problem, action) = match &m.to {
            Some((to, node)) => (
                "of another shard",
                format!("would be moved to {} on node \"{}\"", qualified("herd_shards", to), self.node_name(*node)),
            ),
            None => (
                "of no shard that there is",
                "left there: no shard has their keys. Delete them on this node, or distribute the table anew with a shard for them".into(),
            ),
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
