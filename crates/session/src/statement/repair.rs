//! `herd.repair`, and `herd.verify` of a table, which only looks: one piece after another, each committed by itself; what has failed of one is told as a finding, and the others go on. What is looked
//! for, and how it is mended, the executor knows (`exec/src/admin/repair.rs`).

use exec::{ExecError, Forwarded};
use plan::admin::AdminCall;
use wire::sqlstate;

use crate::session::{Result, Session};

impl Session {
    /// Answers with what was found.
    pub(super) async fn repair(
        &mut self,
        call: AdminCall,
        described: bool,
        format: impl Fn(usize) -> i16,
    ) -> Result<Forwarded> {
        let path = self.search_path.clone();
        let repair = self.work().begin_repair(&call, &path).await;
        self.finish_implicit(repair.is_err()).await?;
        let repair = repair?;
        let mut found = Vec::new();
        for piece in &repair.pieces {
            let done = self.work().repair_piece(&repair, piece).await;
            let ended = self.finish_implicit(done.is_err()).await;
            match done.and_then(|done| ended.map(|()| done)) {
                Ok(more) => found.extend(more),
                Err(e) if ends_it(&e) => return Err(e),
                Err(e) => found.push(self.work().not_repaired(piece, &e)),
            }
            self.newest_epoch().await?;
        }
        Ok(self.work().answer_findings(&call, &found, described, format))
    }
}

/// Nothing more is to be tried.
fn ends_it(error: &ExecError) -> bool {
    !matches!(error, ExecError::Sql(_) | ExecError::Partial(_) | ExecError::Pool(_) | ExecError::Refused(_))
        || error.code() == sqlstate::QUERY_CANCELED
}
