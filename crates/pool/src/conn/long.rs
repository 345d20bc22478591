//! Messages of a node that are long: PostgreSQL's may be of 1 GiB, and whoever reads one whole holds it. Those on clients' connections are counted
//! from their header on, against limits for one and for all; of errors and notices only the beginning is kept. What is passed on in
//! pieces is not counted here. It does not know what messages are for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use wire::frame::{self, HEADER_LEN, LONG};
use wire::{ErrorFields, Frame};

use super::Conn;
use crate::error::{Long, PoolError, TooMuch};

/// How much of a router's memory long messages may take.
#[derive(Debug)]
pub struct LongMessages {
    each_max: usize,
    all_max: usize,
    held: AtomicUsize,
}

/// One of them, while it is here.
#[derive(Debug)]
pub(super) struct Held {
    of: Arc<LongMessages>,
    bytes: usize,
}

impl LongMessages {
    /// Limits in bytes: of one long message, and of all that are here at a time.
    pub fn new(each_max: usize, all_max: usize) -> Self {
        LongMessages { each_max, all_max, held: AtomicUsize::new(0) }
    }

    /// Bytes of those that are here, or are coming.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn hold(self: &Arc<Self>, bytes: usize) -> Result<Held, TooMuch> {
        let mut held = self.nothing();
        held.more(bytes).map(|()| held)
    }

    pub(super) fn nothing(self: &Arc<Self>) -> Held {
        Held { of: self.clone(), bytes: 0 }
    }
}

impl Held {
    /// It has become longer.
    pub(super) fn more(&mut self, bytes: usize) -> Result<(), TooMuch> {
        self.bytes += bytes;
        let all = self.of.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let over = |bytes, max, limit| Err(TooMuch { bytes, max, limit });
        match () {
            () if self.bytes > self.of.each_max => over(self.bytes, self.of.each_max, "row_bytes_per_session"),
            () if all > self.of.all_max => over(all, self.of.all_max, "row_bytes"),
            () => Ok(()),
        }
    }

    /// Some of it is gone.
    pub(super) fn less(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.of.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Default for LongMessages {
    fn default() -> Self {
        LongMessages::new(frame::NODE_MAX, usize::MAX)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Conn {
    /// From now on its long messages count among these.
    pub(crate) fn count_long(&mut self, room: Arc<LongMessages>) {
        self.room = Some(room);
    }

    /// The read buffer begins with a message that is not there whole: an error or notice that is long enough to be cut is returned.
    pub(super) fn long_begins(&mut self) -> Result<Option<Frame>, PoolError> {
        let Some((tag, total)) = frame::peek(&self.rbuf, frame::NODE_MAX)?.filter(|(_, total)| *total > LONG) else {
            return Ok(None);
        };
        if matches!(tag, b'E' | b'N') {
            return Ok(self.cut(tag, total));
        }
        if self.long.is_none()
            && let Some(room) = &self.room
        {
            self.long = Some(room.hold(total).map_err(|over| PoolError::TooLong { what: Long::Row, over })?);
        }
        Ok(None)
    }

    /// What comes behind its first part is thrown away as it comes; that stays in front, header and all, for whoever looks at the buffer.
    fn cut(&mut self, tag: u8, total: usize) -> Option<Frame> {
        let more = self.rbuf.len().checked_sub(LONG)?.min(total - LONG - self.thrown_away);
        self.thrown_away += more;
        let behind = self.rbuf.split_off(LONG + more);
        self.rbuf.truncate(LONG);
        if LONG + self.thrown_away < total {
            return None;
        }
        self.thrown_away = 0;
        let kept = std::mem::replace(&mut self.rbuf, behind);
        let mut message = BytesMut::new();
        ErrorFields::parse_beginning(&kept[HEADER_LEN..]).put(&mut message, tag);
        Some(Frame { raw: message.freeze() })
    }
}
