//! `herd.merge_shards(table, shard, other)`: what two shards become, and that the other one has to be on the node of the first. How rows come
//! together is the work of a move: both are its shards, and there is one instead.

use std::sync::Arc;

use ::plan::admin::{AdminCall, AdminFunction, Arg};
use catalog::{NewShard, qualified};

use super::Named;
use crate::client::Client;
use crate::error::Result;
use crate::router::herd::refused;
use crate::work::Work;

/// How far two shards are from being one.
pub enum Merging {
    /// The other one is on another node: this call brings it.
    Moves(AdminCall),
    /// They are one, of this number.
    Done(i32),
}

impl<C: Client> Work<'_, C> {
    /// Where it is done, a transaction that makes the change is left to be committed.
    pub async fn merge_shards(&mut self, call: &AdminCall, search_path: &[String]) -> Result<Merging> {
        self.merge_as_known(call, search_path).await.map_err(super::met_a_change)
    }

    async fn merge_as_known(&mut self, call: &AdminCall, search_path: &[String]) -> Result<Merging> {
        self.may_begin_job(call).await?;
        let (stays, comes, whole) = self.to_be_merged(call, search_path)?;
        let (one, other) = call.two_shards()?;
        if stays.node != comes.node {
            // Who may, and what can be done at all, is said before anything is moved.
            for (number, shard) in [(one, &stays), (other, &comes)] {
                let of = self.plan_move(shard.group, vec![number], shard.node, shard.node).await?;
                self.may_move_shard(&of).await?;
            }
            let table = qualified(&stays.table.schema, &stays.table.name);
            let args = [table, other.to_string(), stays.node.to_string()].map(Arg::Text);
            return Ok(Merging::Moves(AdminCall::step(AdminFunction::MoveShard, "move_shard", args)));
        }
        // What is made is like the one whose number it has.
        let shards = if whole.number == one { vec![one, other] } else { vec![other, one] };
        let mut of = self.plan_move(stays.group, shards, stays.node, stays.node).await?;
        let number = whole.number;
        of.into = Some(vec![whole]);
        self.run_job(of).await?;
        Ok(Merging::Done(number))
    }

    /// The two shards of a call, and what they become.
    pub(super) fn to_be_merged(&self, call: &AdminCall, search_path: &[String]) -> Result<(Named, Named, NewShard)> {
        let (one, other) = call.two_shards()?;
        let named = (self.shard_of(call, one, search_path)?, self.shard_of(call, other, search_path)?);
        let snapshot = Arc::clone(&self.epoch.snapshot);
        let group = snapshot.groups.get(&named.0.group).ok_or_else(super::changes::changed)?;
        let of = |number| group.shards.iter().find(|s| s.number == number).ok_or_else(super::changes::changed);
        let whole = catalog::merge_bounds(&snapshot, group, of(one)?, of(other)?).map_err(|r| refused(&r))?;
        Ok((named.0, named.1, whole))
    }

    /// What a router that died has already done in the course of the job that makes the call.
    pub async fn merged_before(&mut self) -> Result<Option<i32>> {
        let Some(job) = self.client.job() else { return Ok(None) };
        Ok(crate::admin::job::made_in(self.herd, job, "merge").await?.map(|(_, number)| number))
    }
}
