//! What may take long, with a job's row beside it: it is seen how far it has come, and it can be cancelled by its number.
//!
//! The job is entered once the work has gone on for a while with rows to work on, by a connection of its own: what is small pays
//! nothing. In the course of another job it is entered first, so that whoever has to begin again knows what was done. What the work
//! is, is not known here.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::oneshot;
use wire::sqlstate;

use super::job::{Entry, Job, NOTE_EVERY};
use crate::client::Client;
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::router::herd::Herd;
use crate::work::Work;

/// Does the work. `parent`: in the course of which job; `cancels`: has the work end, for as long as it is polled.
///
/// With the job that is left, if there is one, for the caller to end.
pub(super) async fn with_job<T>(
    herd: &Arc<Herd>,
    entry: &Entry,
    counters: &Arc<Counters>,
    parent: Option<i64>,
    cancels: impl Future<Output = Infallible>,
    work: impl Future<Output = Result<T>>,
) -> (Result<T>, Option<Job>) {
    if parent.is_some() {
        return match Job::begin(herd, entry, counters.clone(), parent).await {
            Ok(job) => watched(job, true, cancels, work).await,
            Err(e) => (Err(e), None),
        };
    }
    let mut entered = enter(herd.clone(), entry.clone(), counters.clone());
    let mut work = pin!(work);
    let job = tokio::select! {
        biased;
        done = &mut work => {
            entered.close();
            return (done, entered.try_recv().ok().and_then(Result::ok));
        }
        job = &mut entered => job.unwrap_or_else(|_| Err(ExecError::internal("a job was not entered"))),
    };
    match job {
        Ok(job) => watched(job, false, cancels, work).await,
        Err(error) => {
            tracing::warn!(%error, "what takes long is not shown in herd.jobs");
            (work.await, None)
        }
    }
}

/// Enters the job in a while, once there is something to work on. It is not waited for by whoever is done before, and holds locks: one that nobody
/// hears of is taken away again.
fn enter(herd: Arc<Herd>, entry: Entry, counters: Arc<Counters>) -> oneshot::Receiver<Result<Job>> {
    let (mut tell, hear) = oneshot::channel();
    tokio::spawn(async move {
        let begun = async {
            loop {
                tokio::time::sleep(NOTE_EVERY).await;
                if counters.has_begun() {
                    break;
                }
            }
        };
        tokio::select! {
            biased;
            () = tell.closed() => return,
            () = begun => {}
        }
        let job = Job::begin(&herd, &entry, counters, None).await;
        if let Err(Ok(job)) = tell.send(job)
            && let Err(error) = job.forget().await
        {
            tracing::debug!(%error, "a job that was over before it was entered is shown as one without a router");
        }
    });
    hear
}

/// `needed`: without the job's row the work is to end, too, as another router would begin with it again.
async fn watched<T>(
    mut job: Job,
    needed: bool,
    cancels: impl Future<Output = Infallible>,
    work: impl Future<Output = Result<T>>,
) -> (Result<T>, Option<Job>) {
    let mut work = pin!(work);
    let why = tokio::select! {
        biased;
        done = &mut work => return (done, Some(job)),
        why = job.watch() => why,
    };
    if !needed && why.code() != sqlstate::QUERY_CANCELED {
        tracing::warn!(job = job.id, error = %why, "herd.jobs does not show any more how far work has come that goes on");
        return (work.await, Some(job));
    }
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
        let needed = self.client.job().is_some();
        match job.note_commit().await {
            Ok(()) => {}
            Err(e) if needed || e.code() == sqlstate::QUERY_CANCELED => return Err(e),
            // It has been said that its row is lost, or is now.
            Err(error) => tracing::debug!(job = job.id, %error, "work is done whose job is not the router's any more"),
        }
        // The last, as it holds the row.
        let is_true = |rows: &[catalog::Row]| rows.first().and_then(|row| row.first()?.as_deref()) == Some("t");
        if is_true(&self.ask_home(&job.done_sql()).await?) {
            return Ok(());
        }
        if !needed && !is_true(&self.ask_home(&job.cancelled_sql()).await?) {
            return Ok(());
        }
        Err(ExecError::sql(sqlstate::QUERY_CANCELED, "it was cancelled"))
    }
}
