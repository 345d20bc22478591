//! `herd.drain_node` and `herd.rebalance`: one move of a shard after another, each committed by itself, until nothing is left to move; and
//! `herd.split_shard`, behind which a half may be moved. Which comes next, and how a shard is moved, is not known here.

use exec::{ExecError, Forwarded};
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
        let mut done: i32 = 0;
        loop {
            let moved = match exec::next_move(&call, &self.epoch.snapshot) {
                Ok(None) => break,
                Ok(Some(next)) => Box::pin(self.one_move(&next)).await,
                Err(e) => Err(e),
            };
            match moved {
                Ok(()) => done += 1,
                Err(e) if done == 0 => return Err(e),
                Err(e) => {
                    let fields = e.to_fields().detail(format!("{done} shards were moved before."));
                    return Err(ExecError::Partial(Box::new(fields)));
                }
            }
            self.newest_epoch().await?;
        }
        Ok(self.work().answer_number(&call, described, done, format))
    }

    /// Answers with the number of the second half. That is moved, where it is to be on another node, when there is one.
    pub(super) async fn split(&mut self, call: AdminCall, described: bool, format: i16) -> Result<Forwarded> {
        let path = self.search_path.clone();
        let split: Result<exec::Split> = async {
            let split = self.work().split_shard(&call, &path).await?;
            self.load_own_catalog().await?;
            Ok(split)
        }
        .await;
        self.finish_implicit(split.is_err()).await?;
        let split = split?;
        if split.moves {
            self.newest_epoch().await?;
            let (_, node, _) = call.shard_node_and_bound()?;
            let args = [call.table()?, split.number.to_string(), node.unwrap_or_default()];
            let next = AdminCall {
                function: AdminFunction::MoveShard,
                name: "move_shard".into(),
                column: "move_shard".into(),
                args: args.into_iter().map(|arg| (None, Arg::Text(arg))).collect(),
            };
            if let Err(e) = Box::pin(self.one_move(&next)).await {
                let detail = format!("The shard was split before: shard {} is its second half.", split.number);
                return Err(ExecError::Partial(Box::new(e.to_fields().detail(detail))));
            }
        }
        Ok(self.work().answer_number(&call, described, split.number, format))
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
