//! Rows of a statement held by the router, bounded: for row limits and cursors over several nodes.

use std::time::Instant;

use bytes::BytesMut;
use exec::{Allowance, Answer, Client, Compiled, CopyInput, ExecError, Forwarded, KeptRows, Request, Work};
use wire::frame;

use pool::CancelKey;

use crate::cancel::{CancelHandle, Settled};
use crate::session::{Result, Session};

/// A client that keeps DataRow messages as they are.
pub struct Held {
    out: BytesMut,
    pub rows: KeptRows,
    /// By which the session's client cancels.
    handle: Option<CancelHandle>,
}

impl Held {
    /// No rows yet, counted against `memory`; nobody cancels.
    pub fn new(memory: &Allowance) -> Self {
        Held { out: BytesMut::new(), rows: KeptRows::new(memory), handle: None }
    }
}

impl Client for Held {
    fn tell(&mut self, answer: Answer<'_>) {
        answer.put(&mut self.out);
    }

    fn waiting(&self) -> usize {
        self.out.len()
    }

    async fn flush(&mut self) -> Result<()> {
        while let Some(f) = frame::take(&mut self.out, frame::NODE_MAX)? {
            if f.tag() == b'D' {
                self.rows.push(f.raw)?;
            }
        }
        Ok(())
    }

    async fn copy_input(&mut self) -> Result<CopyInput> {
        Err(ExecError::internal("COPY FROM STDIN inside another statement"))
    }

    fn waits(&mut self) {
        if let Some(handle) = &self.handle {
            handle.goes_on();
        }
    }

    fn unlimited_since(&self) -> Option<Instant> {
        self.handle.as_ref()?.unlimited_since()
    }

    fn end_at(&mut self, end: Option<Instant>) {
        if let Some(handle) = &self.handle {
            handle.end_at(end);
        }
    }

    fn started(&mut self, key: CancelKey) {
        if let Some(handle) = &self.handle {
            handle.add_running(key);
        }
    }

    async fn given_back(&mut self, key: &CancelKey) -> bool {
        match &self.handle {
            Some(handle) => handle.give_back(key).await == Settled::Clean,
            None => true,
        }
    }

    async fn settled(&mut self) -> bool {
        match &self.handle {
            // Its rows are for a statement that goes on.
            Some(handle) => handle.release().await == Settled::Clean,
            None => true,
        }
    }

    fn cancelled(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let handle = self.handle.clone();
        async move {
            match handle {
                Some(handle) => handle.cancelled().await,
                None => std::future::pending().await,
            }
        }
    }
}

impl Session {
    /// Runs a statement inside the transaction with its rows held.
    pub async fn hold(&mut self, compiled: &Compiled, request: &Request<'_>, held: &mut Held) -> Result<Forwarded> {
        held.handle = Some(self.io.handle_to_run());
        let now = exec::Now::of(self.transaction.now.as_deref());
        let who = (&self.login, &self.settings);
        let (transaction, pin) = (&mut self.transaction, &mut self.pin);
        let mut work = Work {
            own_catalog: self.own_catalog.is_own(),
            taint: self.taint,
            sequences: Some(&mut self.sequences),
            reading: self.reading.as_deref(),
            now,
            bulk: self.bulk,
            columns: self.reads.as_ref().and_then(|reads| reads.columns).unwrap_or_default(),
            moves: self.moves,
            ..Work::plain(&self.router.herd, &self.epoch, who, transaction, held, pin, &self.memory)
        };
        let done = work.run(compiled, request).await;
        held.flush().await?;
        match done {
            Ok(d) => Ok(d),
            Err(e) => Err(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e).await),
        }
    }
}
