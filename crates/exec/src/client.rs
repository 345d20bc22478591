//! The client's side as the executor sees it: somewhere to write, and a source of COPY data.

use bytes::BytesMut;
use pool::CancelKey;
use wire::Frame;

use crate::error::Result;

/// How much may wait for a client before the executor stops reading from nodes.
pub const PENDING_MAX: usize = 64 << 10;

pub trait Client: Send {
    /// Messages for the client; sent by `relieve` and `flush`.
    fn out(&mut self) -> &mut BytesMut;

    /// Sends everything and waits until the client's socket has taken it.
    fn flush(&mut self) -> impl Future<Output = Result<()>> + Send;

    /// The next message of a COPY from the client: data, done or fail. Flush and Sync are passed over.
    fn copy_frame(&mut self) -> impl Future<Output = Result<Frame>> + Send;

    /// A node reported a parameter's value.
    fn parameter(&mut self, report: &Frame) {
        self.out().extend_from_slice(&report.raw);
    }

    /// The statement waits in the router from now on: [`cancelled`](Self::cancelled) will be looked at.
    fn waits(&mut self) {}

    /// Waits until the client cancels the statement.
    fn cancelled(&mut self) -> impl Future<Output = ()> + Send + use<Self> {
        std::future::pending()
    }

    /// The statement runs on this connection from now on: a cancel must reach it.
    fn started(&mut self, _key: CancelKey) {}

    /// Connections are about to be given back: waits for cancels on their way to them. False: one may still arrive.
    fn settled(&mut self) -> impl Future<Output = bool> + Send {
        async { true }
    }

    /// Backpressure: sends once enough has gathered.
    fn relieve(&mut self) -> impl Future<Output = Result<()>> + Send {
        async { if self.out().len() > PENDING_MAX { self.flush().await } else { Ok(()) } }
    }
}
