//! `herd.split_shard(table, shard)`: what the halves of a shard are. How rows come to them is the work of a move.

use ::plan::admin::AdminCall;
use catalog::{Room, quote_literal};
use wire::{sqlstate, type_oid};

use super::Named;
use super::isolate::plain_text;
use super::plan::Move;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::herd::refused;
use crate::work::Work;

/// A shard that was split.
pub struct Split {
    /// The second half's number.
    pub number: i32,
    /// It is to be moved to another node.
    pub moves: bool,
}

impl<C: Client> Work<'_, C> {
    /// A transaction that makes the change is left to be committed. The second half is on the node of the first one.
    pub async fn split_shard(&mut self, call: &AdminCall, search_path: &[String]) -> Result<Split> {
        self.split_as_known(call, search_path).await.map_err(super::met_a_change)
    }

    async fn split_as_known(&mut self, call: &AdminCall, search_path: &[String]) -> Result<Split> {
        self.may_begin_job(call).await?;
        let (number, node, at) = call.shard_node_and_bound()?;
        let node = node.map(|name| self.node_called(&name)).transpose()?;
        let shard = self.shard_of(call, number, search_path)?;
        let mut of = self.plan_move(shard.group, vec![number], shard.node, shard.node).await?;
        // Who may, and what can be done at all, is said before anything is looked for in the rows.
        self.may_move_shard(&of).await?;
        let at = self.where_to_split(&of, &shard, at).await?;
        let snapshot = of.snapshot.clone();
        let group = snapshot.groups.get(&of.group);
        let found = group.and_then(|g| Some((g, g.shards.iter().find(|s| s.number == number)?)));
        let (group, found) = found.ok_or_else(super::changes::changed)?;
        let halves = catalog::split_bounds(&snapshot, group, found, &at).map_err(|r| refused(&r))?;
        let split = Split { number: halves[1].number, moves: node.is_some_and(|node| node != shard.node) };
        of.into = Some(halves.to_vec());
        self.run_job(of).await?;
        Ok(split)
    }

    /// What a router that died has already done in the course of the job that makes the call.
    pub async fn split_before(&mut self, call: &AdminCall) -> Result<Option<Split>> {
        let Some(job) = self.client.job() else { return Ok(None) };
        let (_, node, _) = call.shard_node_and_bound()?;
        let node = node.map(|name| self.node_called(&name)).transpose()?;
        let Some((group, number)) = crate::admin::job::made_in(self.herd, job, "split").await? else { return Ok(None) };
        self.herd.refresh(None).await?;
        let snapshot = self.herd.epoch.load().snapshot.clone();
        let shards = snapshot.groups.get(&group).map(|g| &g.shards[..]).unwrap_or_default();
        let now = shards.iter().find(|s| s.number == number).map(|s| s.node);
        Ok(Some(Split { number, moves: node.is_some() && node != now }))
    }

    /// Of a range shard the value it is cut at, as its node prints it; of others what was asked for.
    async fn where_to_split(&mut self, of: &Move, shard: &Named, at: Vec<String>) -> Result<Vec<String>> {
        let group = of.snapshot.groups.get(&of.group);
        let room =
            group.and_then(|g| catalog::room_in(&of.snapshot, g, g.shards.iter().find(|s| s.number == of.shard())?));
        let Some(Room { above, below, or_at }) = room else { return Ok(at) };
        if at.len() > 1 {
            return Ok(at);
        }
        // Of one that is partitioned by time, the partition with most rows tells.
        let named = |t: &&super::plan::Table| t.relation.oid == shard.table.oid;
        let most = || of.parts_of(&shard.table).max_by_key(|t| t.bytes());
        let Some(t) = of.tables.iter().find(named).or_else(most) else { return Ok(at) };
        // To plan a query folds expressions of indexes.
        if at.is_empty() && !t.trusted() {
            let message = format!(
                "table \"{}\" belongs to nobody who is a superuser: its rows are not read for a place to split",
                t.relation.name
            );
            return Err(
                ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Say where: at => a value of its key.")
            );
        }
        // As the session reads it; a node has settings of its own.
        let key_type = group.and_then(|g| g.key_types.first().copied());
        let given = match (at.first(), key_type.and_then(|ty| Some((ty, as_written(ty)?)))) {
            (Some(value), Some((ty, name))) => {
                let value = plain_text(&format!("({}::{name})", quote_literal(value)), ty);
                self.ask_home(&format!("SELECT {value}")).await?.into_iter().flatten().flatten().next()
            }
            (given, _) => given.cloned(),
        };
        let text = |value: Option<&String>| value.map_or_else(|| "NULL".to_string(), |v| quote_literal(v));
        let ask = format!(
            "SELECT herd.split_at({}, {}::pg_catalog.regclass, {}, {}, {}, {or_at})",
            t.parent(),
            quote_literal(&t.part_name(of.shard())),
            text(given.as_ref()),
            text(above.as_ref()),
            text(below.as_ref()),
        );
        let found = self.herd.admin(&of.snapshot, of.from).await?.simple(&ask).await?;
        let found = found.into_iter().next().and_then(|row| row.into_iter().next()).flatten();
        found.map(|value| vec![value]).ok_or_else(|| {
            let message =
                format!("shard {} of table \"{}\" has no rows of different keys", of.shard(), t.relation.name);
            ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .hint("Say where to split it: at => a value.")
        })
    }
}

/// The types whose values' texts settings decide.
fn as_written(of: catalog::Oid) -> Option<&'static str> {
    match of {
        type_oid::DATE => Some("pg_catalog.date"),
        type_oid::TIMESTAMP => Some("pg_catalog.timestamp"),
        type_oid::TIMESTAMPTZ => Some("pg_catalog.timestamptz"),
        _ => None,
    }
}
