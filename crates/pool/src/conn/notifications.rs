//! Notifications that came while somebody read for something else, until whoever listens can be told. Of a session in a transaction that
//! listens, PostgreSQL keeps gigabytes, and sends them at once behind it: they count among what is held whole. It does not know what they say.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;

use super::Conn;
use super::long::{Held, LongMessages};
use crate::error::{Long, PoolError};

/// So many bytes are handed over at a time, or one message.
const CHUNK: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Notifications {
    /// Whole messages, in order.
    chunks: VecDeque<BytesMut>,
    held: Option<Held>,
    /// Nobody listens any more: what still comes is for nobody.
    deaf: bool,
}

impl Notifications {
    fn push(&mut self, raw: &[u8], room: Option<&Arc<LongMessages>>) -> Result<(), PoolError> {
        if let Some(room) = room {
            let held = self.held.get_or_insert_with(|| room.nothing());
            held.more(raw.len()).map_err(|over| PoolError::TooLong { what: Long::Notifications, over })?;
        }
        match self.chunks.back_mut().filter(|last| last.len() + raw.len() <= CHUNK) {
            Some(last) => last.extend_from_slice(raw),
            None => self.chunks.push_back(BytesMut::from(raw)),
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<BytesMut> {
        let first = self.chunks.pop_front()?;
        match &mut self.held {
            _ if self.chunks.is_empty() => self.held = None,
            Some(held) => held.less(first.len()),
            None => {}
        }
        Some(first)
    }
}

impl Conn {
    /// One that came, whoever read it.
    pub(super) fn note(&mut self, raw: &[u8]) -> Result<(), PoolError> {
        match self.notifications.deaf {
            true => Ok(()),
            false => self.notifications.push(raw, self.room.as_ref()),
        }
    }

    /// Some of the notifications that have come, whole messages, in order; `None`: there are no more.
    pub fn take_notifications(&mut self) -> Option<BytesMut> {
        self.notifications.pop()
    }

    /// There are some that nobody has taken.
    pub fn has_notifications(&self) -> bool {
        !self.notifications.chunks.is_empty()
    }

    /// Those that have come were for who listened here; `deaf`: so is what still comes.
    pub(crate) fn forget_notifications(&mut self, deaf: bool) {
        self.notifications = Notifications { deaf, ..Notifications::default() };
    }
}
