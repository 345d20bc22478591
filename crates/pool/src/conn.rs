//! One connection to a node: its buffers, its stream, and what is known of the session on it. It does not know pools,
//! and what the messages it carries mean only as far as it must (ReadyForQuery, ParameterStatus, FATAL).

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::{ErrorFields, Frame, backend, frame};

use crate::cancel::CancelKey;
use crate::error::PoolError;
use crate::ledger::Ledger;
use crate::settings::Settings;
use crate::statements::StatementCache;
use crate::stream::{Stream, dial};
use crate::target::{Login, NodeTarget};

/// What one read asks for.
const CHUNK: usize = 16 << 10;
/// Buffers that grew past this are given up when the connection goes idle.
const BUFFER_KEPT_MAX: usize = 64 << 10;
/// PostgreSQL's own limit (PQ_LARGE_MESSAGE_LIMIT, MaxAllocSize): no message is longer than 1 GiB.
const FRAME_MAX: usize = 1 << 30;
/// Prepared statements kept on a connection that belongs to no pool.
const STATEMENTS_MAX: usize = 256;

/// A connection to a node, logged in.
///
/// Write messages into [`out`](Self::out), say [`sent_sync`](Self::sent_sync) for each Sync or Query among them,
/// [`flush`](Self::flush), and read with [`frame`](Self::frame). All waiting is cancel-safe.
pub struct Conn {
    pub(crate) target: Arc<NodeTarget>,
    pub(crate) stream: Stream,
    rbuf: BytesMut,
    wbuf: BytesMut,
    /// The largest capacity a buffer had since the connection was last idle.
    buffer_peak: usize,
    ledger: Ledger,
    pub(crate) pid: i32,
    pub(crate) cancel_secret: Vec<u8>,
    parameters: HashMap<String, String>,
    /// Nothing more can come or go.
    broken: bool,
    /// The FATAL error the node ended the connection with.
    farewell: Option<String>,
    pub(crate) idle_since: Instant,
    /// Prepared statements on the node; the owner keeps it true.
    pub statements: StatementCache,
    /// Session settings applied on the node; the owner keeps it true.
    pub settings: Settings,
    /// There may be session state that is not in `settings` or `statements` (temporary tables, advisory locks, LISTEN, …):
    /// the connection is reset before anybody else gets it.
    pub tainted: bool,
}

/// What [`Conn::flush_or_fill`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything is written.
    Flushed,
    /// There is more in the read buffer.
    Filled,
}

impl Conn {
    /// Connects and logs in. `startup` are further startup parameters, such as `client_encoding`.
    pub async fn connect(
        target: &NodeTarget,
        login: &Login,
        startup: &[(&str, &str)],
        timeout: Duration,
    ) -> Result<Conn, PoolError> {
        Self::connect_to(Arc::new(target.clone()), login, startup, timeout).await
    }

    pub(crate) async fn connect_to(
        target: Arc<NodeTarget>,
        login: &Login,
        startup: &[(&str, &str)],
        timeout: Duration,
    ) -> Result<Conn, PoolError> {
        let node = target.to_string();
        let logged_in = async {
            let mut stream = dial(&target).await?;
            let hello = crate::login::startup_packet(&target, login, startup)?;
            stream
                .write_all(&hello)
                .await
                .map_err(|source| PoolError::Connect { node: target.to_string(), source })?;
            stream.flush().await.map_err(|source| PoolError::Connect { node: target.to_string(), source })?;
            let mut conn = Conn::over(stream, target.clone());
            conn.log_in(login).await?;
            Ok(conn)
        };
        match tokio::time::timeout(timeout, logged_in).await {
            Ok(result) => result,
            Err(_) => {
                let source = std::io::Error::new(std::io::ErrorKind::TimedOut, format!("no login within {timeout:?}"));
                Err(PoolError::Connect { node, source })
            }
        }
    }

    fn over(stream: Stream, target: Arc<NodeTarget>) -> Conn {
        let mut ledger = Ledger::new();
        ledger.expect_login();
        Conn {
            target,
            stream,
            rbuf: BytesMut::with_capacity(CHUNK),
            wbuf: BytesMut::with_capacity(4 << 10),
            buffer_peak: 0,
            ledger,
            pid: 0,
            cancel_secret: Vec::new(),
            parameters: HashMap::new(),
            broken: false,
            farewell: None,
            idle_since: Instant::now(),
            statements: StatementCache::new(STATEMENTS_MAX),
            settings: Settings::default(),
            tainted: false,
        }
    }

    /// The write buffer; fill it with `wire::put`.
    pub fn out(&mut self) -> &mut BytesMut {
        &mut self.wbuf
    }

    /// Writes all of [`out`](Self::out). What was written is gone from it even if this is cancelled.
    ///
    /// A node that is itself blocked on writing does not read: for more than a few statements at once use
    /// [`flush_or_fill`](Self::flush_or_fill).
    pub async fn flush(&mut self) -> Result<(), PoolError> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Writes until everything is written or something can be read, which then is in [`rbuf`](Self::rbuf).
    pub async fn flush_or_fill(&mut self) -> Result<Progress, PoolError> {
        poll_fn(|cx| match self.poll_flush(cx) {
            Poll::Ready(done) => Poll::Ready(done.map(|()| Progress::Flushed)),
            Poll::Pending => self.poll_fill(cx).map_ok(|()| Progress::Filled),
        })
        .await
    }

    /// The next message. Waits for it, and for nothing behind it.
    pub async fn frame(&mut self) -> Result<Frame, PoolError> {
        loop {
            if let Some(frame) = self.buffered_frame()? {
                return Ok(frame);
            }
            self.fill().await?;
        }
    }

    /// The next message if it is in the read buffer.
    pub fn buffered_frame(&mut self) -> Result<Option<Frame>, PoolError> {
        self.take_frame().inspect_err(|_| self.broken = true)
    }

    fn take_frame(&mut self) -> Result<Option<Frame>, PoolError> {
        let taken = frame::take(&mut self.rbuf, FRAME_MAX)?;
        if let Some(frame) = &taken {
            match frame.tag() {
                b'Z' => self.note_ready(frame.body().first().copied().unwrap_or(backend::FAILED)),
                b'S' => {
                    let (name, value) = backend::parse_parameter_status(frame.body())?;
                    self.note_parameter(name, value);
                }
                b'E' => self.note_error(&ErrorFields::parse(frame.body())?),
                _ => {}
            }
        }
        Ok(taken)
    }

    /// One read into the read buffer: at least a byte, at most what fits.
    pub async fn fill(&mut self) -> Result<(), PoolError> {
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    /// The read buffer, to forward runs of messages as they are. Whoever takes messages out of it by himself must call
    /// `note_ready`, `note_parameter` and `note_error` for those there are.
    pub fn rbuf(&mut self) -> &mut BytesMut {
        &mut self.rbuf
    }

    /// A Sync, Query or FunctionCall was put into `out`: one more ReadyForQuery will come.
    pub fn sent_sync(&mut self) {
        self.ledger.expect(1);
    }

    /// As `n` times [`sent_sync`](Self::sent_sync).
    pub fn expect_ready(&mut self, n: u32) {
        self.ledger.expect(n);
    }

    /// A Sync was put into `out` that the node won't answer, because it came while the node read COPY data.
    pub fn sync_swallowed(&mut self) {
        self.ledger.forget_swallowed();
    }

    /// How many ReadyForQuery are still to come.
    pub fn outstanding(&self) -> u32 {
        self.ledger.owed()
    }

    /// The transaction status of the last ReadyForQuery: `I`, `T` or `E`.
    pub fn status(&self) -> u8 {
        self.ledger.status()
    }

    /// A ReadyForQuery was taken out of `rbuf`.
    pub fn note_ready(&mut self, status: u8) {
        self.ledger.ready(status);
    }

    /// A ParameterStatus was taken out of `rbuf`.
    pub fn note_parameter(&mut self, name: &str, value: &str) {
        match self.parameters.get_mut(name) {
            Some(old) if old == value => {}
            Some(old) => *old = value.into(),
            None => {
                self.parameters.insert(name.into(), value.into());
            }
        }
    }

    /// An ErrorResponse was taken out of `rbuf`.
    pub fn note_error(&mut self, error: &ErrorFields) {
        if error.is_fatal() {
            self.broken = true;
            self.farewell = Some(error.message().into());
        }
    }

    /// Never lend this connection again.
    pub fn mark_broken(&mut self) {
        self.broken = true;
    }

    pub fn is_broken(&self) -> bool {
        self.broken
    }

    pub fn target(&self) -> &NodeTarget {
        &self.target
    }

    /// Process id of the node's backend.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What [`crate::cancel`] needs to cancel what runs on this connection.
    pub fn cancel_key(&self) -> CancelKey {
        CancelKey { target: self.target.clone(), pid: self.pid, secret: self.cancel_secret.clone() }
    }

    /// Server parameters, as the node reported them last.
    pub fn parameters(&self) -> &HashMap<String, String> {
        &self.parameters
    }

    pub fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PoolError>> {
        self.ledger.scan(&self.wbuf);
        self.buffer_peak = self.buffer_peak.max(self.wbuf.capacity());
        while !self.wbuf.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, &self.wbuf)) {
                Ok(n) if n > 0 => {
                    self.wbuf.advance(n);
                    self.ledger.written(n);
                }
                Ok(_) => return Poll::Ready(Err(self.lost("nothing more can be written"))),
                Err(e) => {
                    // Why the node closed is often still to be read.
                    let _ = self.poll_fill(cx);
                    return Poll::Ready(Err(self.lost(&e.to_string())));
                }
            }
        }
        match self.stream.is_tls() {
            true => Pin::new(&mut self.stream).poll_flush(cx).map_err(|e| self.lost(&e.to_string())),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PoolError>> {
        if self.rbuf.capacity() - self.rbuf.len() < CHUNK / 4 {
            self.rbuf.reserve(CHUNK);
        }
        self.buffer_peak = self.buffer_peak.max(self.rbuf.capacity());
        // This future keeps nothing between polls, so a new one each time will do.
        let read = ready!(pin!(self.stream.read_buf(&mut self.rbuf)).poll(cx));
        match read {
            Ok(0) => Poll::Ready(Err(self.lost("server closed the connection unexpectedly"))),
            Ok(_) => Poll::Ready(Ok(())),
            Err(e) => Poll::Ready(Err(self.lost(&e.to_string()))),
        }
    }

    fn lost(&mut self, reason: &str) -> PoolError {
        self.broken = true;
        // A FATAL error may lie unread behind other messages.
        let mut rest = &self.rbuf[..];
        while let Ok(Some((tag, len))) = frame::peek(rest, FRAME_MAX) {
            let Some(message) = rest.get(..len) else { break };
            if tag == b'E'
                && let Ok(error) = ErrorFields::parse(&message[frame::HEADER_LEN..])
                && error.is_fatal()
            {
                self.farewell = Some(error.message().into());
            }
            rest = &rest[len..];
        }
        let reason = self.farewell.as_deref().unwrap_or(reason).into();
        PoolError::Closed { node: self.target.to_string(), reason }
    }

    /// Whether the connection can be lent to anybody: nothing owed, nothing open, nothing unread. Taints are not looked at.
    pub(crate) fn settle(&mut self) -> bool {
        if self.broken || !self.wbuf.is_empty() || !self.ledger.is_clean() {
            return false;
        }
        // The node may report parameters, notices and notifications at any time.
        while !self.rbuf.is_empty() {
            match self.buffered_frame() {
                Ok(Some(frame)) if matches!(frame.tag(), b'S' | b'N' | b'A') => {}
                _ => return false,
            }
        }
        if self.buffer_peak > BUFFER_KEPT_MAX {
            (self.rbuf, self.wbuf) = (BytesMut::with_capacity(CHUNK), BytesMut::with_capacity(4 << 10));
            self.buffer_peak = 0;
        }
        true
    }

    /// Whether an idle connection still stands, as far as can be told without asking the node.
    pub(crate) fn is_alive(&mut self) -> bool {
        let mut nobody = Context::from_waker(Waker::noop());
        // More than a few reads' worth of unasked messages is not an idle connection.
        for _ in 0..4 {
            match self.poll_fill(&mut nobody) {
                Poll::Pending => return self.settle(),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return false,
            }
        }
        false
    }

    pub(crate) fn is_undeclared(&self) -> bool {
        self.ledger.is_undeclared()
    }
}

impl Drop for Conn {
    /// Says goodbye if that takes no waiting, so that the node does not log a lost connection.
    fn drop(&mut self) {
        if self.broken || !self.wbuf.is_empty() {
            return;
        }
        wire::put::terminate(&mut self.wbuf);
        let _ = self.poll_flush(&mut Context::from_waker(Waker::noop()));
    }
}
