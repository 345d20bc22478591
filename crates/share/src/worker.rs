//! Sends batches of a shared queue and hands out their replies. It does not decide who may share.

mod agree;
mod batch;
mod given_up;
mod waits;

use pool::{PoolError, PooledConn, Remembers, Wish};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::queue::SharedQueue;
use crate::{Job, Outcome, QueueKind};
use batch::Batch;

/// How often the others get their turn before a batch is taken. More than this did not make batches grow.
const TURNS: usize = 2;

/// Begins a worker; its right to run was counted already.
pub(super) fn begin(queue: Arc<SharedQueue>) {
    tokio::spawn(work(queue));
}

/// Gives the worker's right back, however it ends.
struct WorkerRight {
    queue: Arc<SharedQueue>,
    /// `take` has found nothing and ended it.
    ended: bool,
}

impl Drop for WorkerRight {
    fn drop(&mut self) {
        if !self.ended {
            self.queue.left();
        }
    }
}

async fn work(queue: Arc<SharedQueue>) {
    let mut place = WorkerRight { queue: queue.clone(), ended: false };
    let mut jobs = Vec::new();
    let mut conn = None;
    loop {
        // Those just answered, and who has written meanwhile, get their turn first: batches grow with the load.
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        let usable = match conn.take().filter(|c: &PooledConn| !c.is_broken()) {
            Some(c) => Some(c),
            None if queue.ends() => {
                place.ended = true;
                return;
            }
            None => {
                let wish = Wish { settings: Some(queue.settings.fingerprint()), ..Wish::default() };
                match queue.pools.try_get_for(&queue.target, &queue.login, wish) {
                    Some(c) => Some(c),
                    // Meanwhile all that wait can be withdrawn. Whoever runs alone will see the pool's error for himself.
                    None => queue.pools.get_for(&queue.target, &queue.login, wish).await.ok(),
                }
            }
        };
        queue.take(&mut jobs);
        if jobs.is_empty() {
            place.ended = true;
            return;
        }
        let Some(mut usable) = usable else {
            send_away(&queue, jobs.drain(..));
            continue;
        };
        if queue.kind == QueueKind::Write {
            usable.sequences = Remembers::Somebodys;
        }
        queue.count(jobs.len());
        {
            let (number, since) = (jobs.len(), Instant::now());
            // What runs with others waits for locks for a moment only.
            let given_up = match &jobs[..] {
                [one] => Some(one.given_up.clone()),
                _ => None,
            };
            let key = usable.cancel_key();
            let mut clean = true;
            {
                let batch = run(&queue, &mut usable, &mut jobs);
                tokio::pin!(batch);
                // Polled by a timer of its own only when it is late.
                if tokio::time::timeout(queue.patience(), &mut batch).await.is_err() {
                    queue.stuck_worker();
                    match given_up {
                        Some(given_up) => clean = given_up::run(batch, &given_up, &key).await,
                        None if queue.kind == QueueKind::Read => clean = waits::run(batch, &queue, &key).await,
                        None => batch.await,
                    }
                    queue.unstuck_worker();
                }
            }
            if !clean {
                usable.mark_broken();
            }
            queue.took(number, since.elapsed());
        }
        conn = Some(usable);
    }
}

fn send_away(queue: &SharedQueue, jobs: impl Iterator<Item = Job>) {
    for job in jobs {
        queue.counters.sent_away.fetch_add(1, Ordering::Relaxed);
        let _ = job.reply.send(Outcome::Rerun);
    }
}

/// Runs one batch to its end; every job gets its outcome.
async fn run(queue: &SharedQueue, conn: &mut PooledConn, jobs: &mut Vec<Job>) {
    // Nothing is sent before the connection has them: it would run under others, and be done where that is not known.
    if conn.take_on(&queue.settings).await.is_err() {
        return send_away(queue, jobs.drain(..));
    }
    match agree::others(queue, conn, jobs).await {
        Ok(others) => send_away(queue, others.into_iter()),
        // Nothing has run yet.
        Err(_) => {
            conn.mark_broken();
            return send_away(queue, jobs.drain(..));
        }
    }
    if jobs.is_empty() {
        return;
    }
    let mut batch = Batch::send(queue, conn, jobs);
    let received = batch.receive(queue, conn, jobs).await;
    match (received, queue.kind) {
        (Ok(true), _) if !batch.hold => {}
        (Ok(true), _) => {
            for (job, outcome) in jobs.drain(..).zip(batch.done.drain(..)) {
                if matches!(outcome, Outcome::Lost(_)) {
                    queue.refuse(&job.statement);
                }
                let _ = job.reply.send(outcome);
            }
        }
        (Ok(false), _) | (Err(_), QueueKind::Read) => {}
        (Err(error), QueueKind::Write) => {
            conn.mark_broken();
            let fields = error.to_fields();
            for job in jobs.drain(..) {
                let _ = job.reply.send(Outcome::Lost(PoolError::Server(Box::new(fields.clone()))));
            }
        }
    }
    send_away(queue, jobs.drain(..));
}
