//! `herd.drain_node` and `herd.rebalance`: one move of a shard after another, each committed by itself, until nothing is left to move; and
//! `herd.split_shard`, behind which a half may be moved, `herd.merge_shards`, before which one may, and `herd.isolate_tenant`, which is several splits; and `herd.add_column_copy` in a job, which waits for stores. Which comes next, and how a shard is moved, is not known here.

use std::collections::HashSet;

use exec::{ExecError, Forwarded, Merging};
use plan::admin::{AdminCall, AdminFunction, Arg};
use wire::sqlstate;

use crate::session::{Result, Session};

impl Session {
    /// Answers with the number of shards that were moved.
    pub(super) async fn series_of_moves(&mut self, call: AdminCall, described: bool, format: i16) -> Result<Forwarded> {
        if self.transaction.is_active() {
            let message = format!("{}() cannot run inside a transaction block", call.name);
            let error = ExecError::sql(sqlstate::ACTIVE_SQL_TRANSACTION, message);
            return Err(error.hint("Each shard is moved in a transaction of its own."));
        }
        self.work().may_change_kinds().await?;
        let (mut done, mut moved) = (0i32, HashSet::new());
        loop {
            let next = match self.work().next_move(&call, &moved).await {
                Ok(None) => break,
                Ok(Some(next)) => Box::pin(self.one_move(&next.call)).await.map(|()| next.unit),
                Err(e) => Err(e),
            };
            match next {
                Ok(unit) => {
                    done += 1;
                    moved.insert(unit);
                }
                Err(e) if done == 0 => return Err(e),
                Err(e) => {
                    let fields = e.to_fields().detail(format!("{done} shards were moved before."));
                    return Err(ExecError::Partial(Box::new(fields)));
                }
            }
            self.newest_catalog().await?;
        }
        Ok(self.work().answer_number(&call, described, done, format))
    }

    /// As home has it: where home was away behind a commit, this router does not know what it has made, and goes on serving what it knew.
    async fn newest_catalog(&mut self) -> Result<()> {
        self.router.herd.refresh(None).await?;
        self.newest_epoch().await
    }

    /// Answers with the number of the second half. That is moved, where it is to be on another node, when there is one.
    pub(super) async fn split(&mut self, call: AdminCall, described: bool, format: i16) -> Result<Forwarded> {
        let before = self.work().split_before(&call).await?;
        let split = match before {
            Some(split) => split,
            None => self.one_split(&call).await?,
        };
        if split.moves {
            self.newest_catalog().await?;
            let (_, node, _) = call.shard_node_and_bound()?;
            if let Err(e) = Box::pin(self.one_move(&move_of(&call, split.number, node)?)).await {
                let detail = format!("The shard was split before: shard {} is its second half.", split.number);
                return Err(ExecError::Partial(Box::new(e.to_fields().detail(detail))));
            }
        }
        Ok(self.work().answer_number(&call, described, split.number, format))
    }

    /// Answers with the number of the shard that two became. The other one is moved before, where it is on another node.
    pub(super) async fn merge(&mut self, call: AdminCall, described: bool, format: i16) -> Result<Forwarded> {
        let mut merged = self.work().merged_before().await?;
        let mut moved = false;
        let number = loop {
            if let Some(number) = merged {
                break number;
            }
            match self.one_merge(&call).await {
                Ok(Merging::Done(number)) => merged = Some(number),
                Ok(Merging::Moves(next)) => {
                    Box::pin(self.one_move(&next)).await?;
                    moved = true;
                    self.newest_catalog().await?;
                }
                Err(e) if moved => {
                    let detail = format!("Shard {} was moved to the node of the other before.", call.two_shards()?.1);
                    return Err(ExecError::Partial(Box::new(e.to_fields().detail(detail))));
                }
                Err(e) => return Err(e),
            }
        };
        Ok(self.work().answer_number(&call, described, number, format))
    }

    /// Answers with the number of the key's shard, and tells what is in it. That is moved, where it is to be on another node, last.
    pub(super) async fn isolate(&mut self, call: AdminCall, described: bool, format: i16) -> Result<Forwarded> {
        let mut splits = 0;
        let isolated = loop {
            let path = self.search_path.clone();
            let next = self.work().next_isolation(&call, splits, &path).await;
            self.finish_implicit(next.is_err()).await?;
            let done = match next {
                Ok(exec::Isolation::Done(isolated)) => break isolated,
                Ok(exec::Isolation::Split(next)) => Box::pin(self.one_split(&next)).await,
                Err(e) => Err(e),
            };
            match done {
                Ok(_) => splits += 1,
                Err(e) if splits == 0 => return Err(e),
                Err(e) => {
                    let fields = e.to_fields().detail(format!("The key's shard was split {splits} times before."));
                    return Err(ExecError::Partial(Box::new(fields)));
                }
            }
            self.newest_catalog().await?;
        };
        self.notice("NOTICE", sqlstate::SUCCESSFUL_COMPLETION, &isolated.said);
        if isolated.moves {
            Box::pin(self.one_move(&move_of(&call, isolated.shard, call.key_node()?)?)).await?;
        }
        Ok(self.work().answer_number(&call, described, isolated.shard, format))
    }

    /// In the course of a job: answers with the copy's number once all stores have it.
    pub(super) async fn column_copy(&mut self, call: AdminCall, described: bool, format: i16) -> Result<Forwarded> {
        let path = self.search_path.clone();
        let number = match self.work().column_copy_of_job(&call).await? {
            Some(number) => number,
            None => {
                let added = async {
                    let number = self.work().add_column_copy(&call, &path).await?;
                    self.load_own_catalog().await?;
                    Ok::<_, ExecError>(number)
                }
                .await;
                self.finish_implicit(added.is_err()).await?;
                self.newest_catalog().await?;
                added?
            }
        };
        self.work().fill_column_copy(&call, number).await?;
        Ok(self.work().answer_bigint(&call, described, number, format))
    }

    async fn one_split(&mut self, call: &AdminCall) -> Result<exec::Split> {
        let path = self.search_path.clone();
        let split = async {
            let split = self.work().split_shard(call, &path).await?;
            self.load_own_catalog().await?;
            Ok(split)
        }
        .await;
        self.finish_implicit(split.is_err()).await?;
        split
    }

    async fn one_merge(&mut self, call: &AdminCall) -> Result<Merging> {
        let path = self.search_path.clone();
        let merging = async {
            let merging = self.work().merge_shards(call, &path).await?;
            if matches!(merging, Merging::Done(_)) {
                self.load_own_catalog().await?;
            }
            Ok(merging)
        }
        .await;
        self.finish_implicit(merging.is_err()).await?;
        merging
    }

    async fn one_move(&mut self, next: &AdminCall) -> Result<()> {
        let path = self.search_path.clone();
        let moved = async {
            self.work().move_shard(next, &path).await?;
            self.load_own_catalog().await
        }
        .await;
        self.finish_implicit(moved.is_err()).await?;
        moved
    }
}

/// The call that moves a shard of the table that another call is about.
fn move_of(call: &AdminCall, shard: i32, node: Option<String>) -> Result<AdminCall> {
    let args = [call.table()?, shard.to_string(), node.unwrap_or_default()];
    Ok(AdminCall::step(AdminFunction::MoveShard, "move_shard", args.map(Arg::Text)))
}
