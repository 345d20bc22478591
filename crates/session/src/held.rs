//! Rows of a statement held by the router, bounded: for row limits and cursors over several nodes.

use std::collections::VecDeque;
use wire::sqlstate;

use bytes::{Bytes, BytesMut};
use exec::{Answer, Client, Compiled, CopyInput, ExecError, Forwarded, Request, Work};
use wire::frame;

use crate::cancel::CancelHandle;
use crate::session::{Result, Session};

/// Bytes of rows one statement may have the router hold.
const HELD_BYTES_MAX: usize = 256 << 20;

/// A client that keeps DataRow messages as they are.
#[derive(Default)]
pub struct Held {
    out: BytesMut,
    pub rows: VecDeque<Bytes>,
    bytes: usize,
    /// By which the session's client cancels.
    handle: Option<CancelHandle>,
}

impl Client for Held {
    fn tell(&mut self, answer: Answer<'_>) {
        answer.put(&mut self.out);
    }

    fn waiting(&self) -> usize {
        self.out.len()
    }

    async fn flush(&mut self) -> Result<()> {
        while let Some(f) = frame::take(&mut self.out, 1 << 30)? {
            if f.tag() == b'D' {
                self.bytes += f.raw.len();
                self.rows.push_back(f.raw);
            }
        }
        if self.bytes > HELD_BYTES_MAX {
            return Err(ExecError::sql(
                sqlstate::PROGRAM_LIMIT_EXCEEDED,
                "the result is too large for a cursor or row limit over several nodes",
            )
            .hint("Fetch it without a row limit, or narrow the query."));
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
        held.handle = Some(self.io.handle());
        let now = exec::Now::of(self.now.clone());
        let mut work = Work {
            herd: &self.router.herd,
            epoch: &self.epoch,
            login: &self.login,
            settings: &self.settings,
            transaction: &mut self.transaction,
            client: held,
            pin: &mut self.pin,
            own_schema: self.own_schema,
            taint: self.taint,
            sharing: None,
            sequences: Some(&mut self.sequences),
            uses: Default::default(),
            patience: 0,
            now,
            bulk: self.bulk,
            looks: Default::default(),
        };
        let done = work.run(compiled, request).await;
        held.flush().await?;
        match done {
            Ok(d) => Ok(d),
            Err(e) => Err(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e).await),
        }
    }
}
