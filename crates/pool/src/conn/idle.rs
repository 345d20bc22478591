//! A [`Conn`] between two users: whether it is fit for the next, whether it still stands, and how it ends.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;

use super::{CHUNK, Conn, OUT};

/// Buffers that grew past this are given up when the connection goes idle.
const BUFFER_KEPT_MAX: usize = 64 << 10;
/// How long after its last use a connection is taken to stand if the runtime knows nothing else.
const TRUSTED: Duration = Duration::from_millis(100);

impl Conn {
    /// Whether the connection can be lent to anybody: nothing owed, nothing open, nothing unread. Taints are not looked at.
    pub(crate) fn settle(&mut self) -> bool {
        if self.broken || !self.wbuf.is_empty() || !self.ledger.is_clean() {
            return false;
        }
        if !self.swallow_unasked() {
            return false;
        }
        // Meant for who listened here.
        self.forget_notifications(false);
        if self.buffer_peak > BUFFER_KEPT_MAX {
            (self.rbuf, self.wbuf) = (BytesMut::with_capacity(CHUNK), BytesMut::with_capacity(OUT));
            self.buffer_peak = 0;
        }
        true
    }

    /// Reads what a node says unasked: parameters, notices, notifications. False: there is more, which nobody will read.
    pub(super) fn swallow_unasked(&mut self) -> bool {
        loop {
            match self.buffered_frame() {
                Ok(Some(frame)) if matches!(frame.tag(), b'S' | b'N') => {}
                // The rest of it is on its way.
                Ok(None) => return matches!(self.rbuf.first(), None | Some(b'S' | b'N' | b'A')),
                _ => return false,
            }
        }
    }

    /// Whether an idle connection still stands, as far as can be told without asking the node.
    pub(crate) fn is_alive(&mut self) -> bool {
        // The runtime may not have looked at the socket for a while if it is busy, so what was idle for long is asked
        // directly. What was just in use is not worth a system call.
        let waits = match self.idle_since.elapsed() > TRUSTED {
            true => self.stream.waits(),
            false => Some(false),
        };
        let Some(waits) = waits else { return false };
        let mut nobody = Context::from_waker(Waker::noop());
        let mut read = false;
        // More than a few reads' worth of unasked messages is not an idle connection.
        for _ in 0..4 {
            match self.poll_fill(&mut nobody) {
                // If the runtime does not know yet of what waits to be read, neither do we: it may be a farewell.
                Poll::Pending => return (read || !waits) && self.settle(),
                Poll::Ready(Ok(())) => read = true,
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
