//! Who works on messages. All that a statement may come to is in a worker's state, which is large: a session has a worker while
//! it has a message, and while it waits for its client it has none. Workers do not end; what they work on is handed to them, and
//! handed back, while they are polled.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use wire::Frame;

use crate::session::{Result, Session};
use crate::spare::Spare;

type Worker = Pin<Box<dyn Future<Output = Infallible> + Send>>;
/// A message for a session that has no other.
type Job = (Box<Session>, Frame);
/// What came of it, and the message that somebody else is to look at.
type Done = (Box<Session>, Result<Option<Frame>>);

thread_local! {
    static WORKERS: Spare<Worker> = const { Spare::new() };
    /// Full only between a poll's beginning and the worker's first look.
    static JOB: Cell<Option<Job>> = const { Cell::new(None) };
    /// Full only between the worker's last word and the poll's end.
    static DONE: Cell<Option<Done>> = const { Cell::new(None) };
}

/// Works on a message and on those behind it that are here: see [`Session::work_on`].
pub async fn work(session: Box<Session>, frame: Frame) -> Done {
    let mut worker = WORKERS.with(Spare::take).unwrap_or_else(worker);
    let mut job = Some((session, frame));
    let done = poll_fn(|cx| {
        if let Some(job) = job.take() {
            JOB.set(Some(job));
        }
        let _ = worker.as_mut().poll(cx);
        DONE.take().map_or(Poll::Pending, Poll::Ready)
    });
    let done = done.await;
    WORKERS.with(|workers| workers.put(worker));
    done
}

fn worker() -> Worker {
    Box::pin(async {
        loop {
            let (mut session, frame) = poll_fn(|_| JOB.take().map_or(Poll::Pending, Poll::Ready)).await;
            let result = session.work_on(frame).await;
            DONE.set(Some((session, result)));
        }
    })
}
