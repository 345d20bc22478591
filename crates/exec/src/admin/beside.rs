//! What may take long, with a job's row beside it: it is seen how far it has come, and it can be cancelled by its number.
//!
//! The job is entered once the work has gone on for a while with rows to work on, by a connection of its own: what is small pays
//! nothing. In the course of another job it is entered first, so that whoever has to begin again knows what was done. What the work
//! is, is not known here.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wire::sqlstate;

use super::job::{Entry, Job, NOTE_EVERY};
use crate::client::Client;
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::router::herd::Herd;
use crate::work::Work;

/// How long work that is over waits for its job to be entered.
const ENTER_MAX: Duration = Duration::from_secs(5);

/// Does the work. `parent`: in the course of which job; `cancels`: has the work end, for as long as it is polled.
///
/// With the job that is left, if there is one, for the caller to end.
pub(super) async fn with_job<T>(
    herd: &Herd,
    entry: &Entry,
    counters: &Arc<Counters>,
    parent: Option<i64>,
    cancels: impl Future<Output = Infallible>,
    work: impl Future<Output = Result<T>>,
) -> (Result<T>, Option<Job>) {
    if parent.is_some() {
        return match Job::begin(herd, entry, counters.clone(), parent).await {
            Ok(job) => watched(job, cancels, work).await,
            Err(e) => (Err(e), None),
        };
    }
    let entering = AtomicBool::new(false);
    let mut enter = pin!(async {
        loop {
            tokio::time::sleep(NOTE_EVERY).await;
            if counters.has_begun() {
                break;
            }
        }
        entering.store(true, Ordering::Relaxed);
        Job::begin(herd, entry, counters.clone(), None).await
    });
    let mut work = pin!(work);
    let job = tokio::select! {
        biased;
        done = &mut work => {
            // Its row would be nobody's.
            let job = match entering.load(Ordering::Relaxed) {
                true => tokio::time::timeout(ENTER_MAX, enter).await.ok().and_then(Result::ok),
                false => None,
            };
            return (done, job);
        }
        job = &mut enter => job,
    };
    match job {
        Ok(job) => watched(job, cancels, work).await,
        Err(error) => {
            tracing::warn!(%error, "what takes long is not shown in herd.jobs");
            (work.await, None)
        }
    }
}

async fn watched<T>(
    mut job: Job,
    cancels: impl Future<Output = Infallible>,
    work: impl Future<Output = Result<T>>,
) -> (Result<T>, Option<Job>) {
    let mut work = pin!(work);
    let why = tokio::select! {
        biased;
        done = &mut work => return (done, Some(job)),
        why = job.watch() => why,
    };
    let done = tokio::select! {
        biased;
        done = work => done,
        never = cancels => match never {},
    };
    let done = done.map_err(|e| if e.code() == sqlstate::QUERY_CANCELED { why } else { e });
    (done, Some(job))
}

impl<C: Client> Work<'_, C> {
    /// Work in a transaction is over, and this is its job: it is done if the transaction is committed.
    pub(super) async fn end_job(&mut self, done: Result<()>, job: Option<Job>) -> Result<()> {
        let Some(mut job) = job else { return done };
        let done = match done {
            Ok(()) => self.commits_job(&mut job).await,
            failed => failed,
        };
        if let Err(e) = &done {
            job.fail(self.herd, &self.epoch.snapshot, e).await;
        }
        done
    }

    async fn commits_job(&mut self, job: &mut Job) -> Result<()> {
        job.note_commit().await?;
        // The last, as it holds the row.
        match self.ask_home(&job.done_sql()).await?.first().and_then(|row| row.first()?.as_deref()) {
            Some("t") => Ok(()),
            _ => Err(ExecError::sql(sqlstate::QUERY_CANCELED, "it was cancelled")),
        }
    }
}
