//! The thread that writes, as others see it: what it is given to do, in order, and a limit on what waits. It does not know what is done.

use tokio::sync::{mpsc, oneshot};
use wire::Frame;

use crate::apply::Writer;
use crate::error::{Error, Result};

/// What waits for the thread.
const JOBS: usize = 16;

type Call = Box<dyn FnOnce(&mut Writer) + Send>;

pub(crate) enum Job {
    /// CopyData of the stream of this number.
    Frames(u64, Vec<Frame>),
    /// Somebody waits for what is not committed yet.
    Nudge,
    Call(Call),
}

/// Hands work to the thread.
#[derive(Clone)]
pub struct Handle {
    jobs: mpsc::Sender<Job>,
}

impl Handle {
    /// Runs this on the thread, in its turn.
    pub async fn call<R: Send + 'static>(&self, f: impl FnOnce(&mut Writer) -> R + Send + 'static) -> Result<R> {
        let (answer, answered) = oneshot::channel();
        let call: Call = Box::new(move |writer| {
            let _ = answer.send(f(writer));
        });
        self.jobs.send(Job::Call(call)).await.map_err(|_| Error::Gone)?;
        answered.await.map_err(|_| Error::Gone)
    }

    /// Room for one more run of frames; waits for it.
    pub async fn room(&self) -> Result<Room<'_>> {
        self.jobs.reserve().await.map(Room).map_err(|_| Error::Gone)
    }

    /// What is whole is committed soon; who is busy looks by himself.
    pub fn nudge(&self) {
        let _ = self.jobs.try_send(Job::Nudge);
    }
}

/// See [`Handle::room`].
pub struct Room<'h>(mpsc::Permit<'h, Job>);

impl Room<'_> {
    /// Hands over messages of the stream of this number ([`Writer::begin_stream`]), in order.
    pub fn frames(self, stream: u64, frames: Vec<Frame>) {
        self.0.send(Job::Frames(stream, frames));
    }
}

impl Writer {
    /// Begins the thread; it ends with the last handle.
    pub fn spawn(mut self) -> std::io::Result<Handle> {
        let (jobs, mut coming) = mpsc::channel(JOBS);
        let runtime = tokio::runtime::Handle::current();
        let work = move || {
            loop {
                let job = match self.due() {
                    Some(due) => runtime.block_on(async { tokio::time::timeout_at(due, coming.recv()).await }),
                    None => Ok(coming.blocking_recv()),
                };
                match job {
                    Ok(None) => return,
                    Ok(Some(Job::Call(call))) => call(&mut self),
                    Ok(Some(Job::Frames(stream, frames))) => self.read(stream, &frames),
                    // It is time, or may be.
                    Ok(Some(Job::Nudge)) | Err(_) => {}
                }
                self.settle(coming.is_empty());
            }
        };
        std::thread::Builder::new().name("duckdb".into()).spawn(work)?;
        Ok(Handle { jobs })
    }
}
