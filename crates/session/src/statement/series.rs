//! `herd.drain_node` and `herd.rebalance`: one move of a shard after another, each committed by itself, until nothing is left to move.
//! Which comes next, and how a shard is moved, is not known here.

use exec::{ExecError, Forwarded};
use plan::admin::AdminCall;
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
