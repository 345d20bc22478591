//! `statement_timeout` of a statement that takes several steps: nodes keep it for each of theirs, and the router for all of
//! them together. What is over in a moment is not asked about. It does not know what the steps are.

use std::time::{Duration, Instant};

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::work::Work;

/// What took less is not worth asking how long it may take.
const MOMENT: Duration = Duration::from_millis(200);
/// How long home may be asked for it.
const ASKED_MAX: Duration = Duration::from_secs(1);

impl<C: Client> Work<'_, C> {
    /// Between steps: from the first that finds that the statement takes long, it is cancelled when its time is over.
    pub async fn keep_time(&mut self) -> Result<()> {
        match self.client.unlimited_since() {
            Some(begun) if begun.elapsed() >= MOMENT => Box::pin(self.limit(begun)).await,
            _ => Ok(()),
        }
    }

    /// The statement was cancelled and goes on: a time limit that is over ends it once, whoever kept it.
    pub async fn has_kept_time(&mut self) {
        if let Some(begun) = self.client.unlimited_since() {
            let manner = tokio::time::timeout(ASKED_MAX, self.manner()).await.ok().and_then(Result::ok);
            if manner.and_then(|manner| manner.statement_timeout).is_some_and(|limit| begun.elapsed() >= limit) {
                self.client.end_at(None);
            }
        }
    }

    async fn limit(&mut self, begun: Instant) -> Result<()> {
        // Whoever has a connection to home already, and waits for another, could be waiting for others who do the same: then
        // nodes alone keep the time.
        let manner = tokio::time::timeout(ASKED_MAX, self.manner()).await.ok().and_then(Result::ok);
        let end = manner.and_then(|manner| begun.checked_add(manner.statement_timeout?));
        if end.is_some_and(|end| end <= Instant::now()) {
            return Err(ExecError::late());
        }
        self.client.end_at(end);
        Ok(())
    }
}
