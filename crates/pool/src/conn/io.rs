//! Moving bytes and messages of a [`Conn`]. All of it can be cancelled at any point without losing a byte.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::Buf;
use tokio::io::{AsyncReadExt, AsyncWrite};
use wire::{ErrorFields, Frame, backend, frame};

use super::{CHUNK, Conn};
use crate::awake;
use crate::error::PoolError;

/// What [`Conn::flush_or_fill`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything is written.
    Flushed,
    /// There is more in the read buffer.
    Filled,
}

impl Conn {
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
        if self.long_taken {
            // Whoever has taken it is done with it, and reads on.
            (self.long, self.long_taken) = (None, false);
        }
        let taken = loop {
            match frame::take(&mut self.rbuf, frame::NODE_MAX)? {
                Some(frame) if frame.tag() == b'A' => self.note(&frame.raw)?,
                None => break self.long_begins()?,
                taken => break taken,
            }
        };
        self.long_taken = self.long.is_some() && taken.is_some();
        if let Some(frame) = &taken {
            match frame.tag() {
                b'Z' => self.note_ready(frame.body().first().copied().unwrap_or(backend::FAILED)),
                b'S' => {
                    let (name, value) = backend::parse_parameter_status(frame.body())?;
                    if (name, value) == ("in_hot_standby", "off") && self.target.standby_of.is_some() {
                        return Err(self.is_promoted());
                    }
                    self.note_parameter(name, value);
                }
                b'E' => {
                    self.statements.settled(self.ledger.settled(true));
                    self.note_error(&ErrorFields::parse(frame.body())?);
                }
                b'1' => self.statements.parsed(self.ledger.parsed()),
                _ => {}
            }
        }
        Ok(taken)
    }

    /// One read into the read buffer: at least a byte, at most what fits. Nothing more is asked of one that is given up, so whoever waited for its
    /// answer would do so for ever.
    pub async fn fill(&mut self) -> Result<(), PoolError> {
        if self.broken {
            return Err(self.gone());
        }
        poll_fn(|cx| self.poll_fill(cx)).await
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PoolError>> {
        if self.broken {
            return Poll::Ready(Err(self.gone()));
        }
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

    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), PoolError>> {
        if self.rbuf.capacity() - self.rbuf.len() < CHUNK / 4 {
            self.rbuf.reserve(CHUNK);
        }
        self.buffer_peak = self.buffer_peak.max(self.rbuf.capacity());
        // This future keeps nothing between polls, so a new one each time will do.
        let read = ready!(pin!(self.stream.read_buf(&mut self.rbuf)).poll(cx));
        match read {
            Ok(0) => Poll::Ready(Err(self.lost("server closed the connection unexpectedly"))),
            Ok(_) => {
                awake::came(awake::From::Node);
                Poll::Ready(Ok(()))
            }
            Err(e) => Poll::Ready(Err(self.lost(&e.to_string()))),
        }
    }

    fn lost(&mut self, reason: &str) -> PoolError {
        self.broken = true;
        // A FATAL error may lie unread behind other messages.
        let mut rest = &self.rbuf[..];
        while let Ok(Some((tag, len))) = frame::peek(rest, frame::NODE_MAX) {
            let Some(message) = rest.get(..len) else { break };
            if tag == b'E'
                && let Ok(error) = ErrorFields::parse(&message[frame::HEADER_LEN..])
                && error.is_fatal()
            {
                self.farewell = Some(Box::new(error));
            }
            rest = &rest[len..];
        }
        let reason = self.farewell.as_ref().map_or(reason, |f| f.message()).into();
        PoolError::Closed { node: self.target.to_string(), reason }
    }
}
