//! What a node says besides its answer, kept until the client can be told: notices of the client's own statement, whole
//! messages. What waits has a limit: code may say more than anybody has memory for. It does not know who is told.

use bytes::BytesMut;
use wire::Frame;

/// How much may wait.
pub const WAITING_MAX: usize = 4 << 20;

/// Notices that wait to be told.
#[derive(Debug, Default)]
pub struct Said {
    messages: BytesMut,
    left_out: u64,
}

impl Said {
    /// Keeps a notice. One that is too much by itself is kept while nothing else waits: it has been read already.
    pub fn hear(&mut self, notice: &Frame) {
        match self.messages.is_empty() || self.messages.len() + notice.raw.len() <= WAITING_MAX {
            true => self.messages.extend_from_slice(&notice.raw),
            false => self.left_out += 1,
        }
    }

    /// No message waits; some may have been left out.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The messages, and how many were left out behind them.
    pub fn take(&mut self) -> (BytesMut, u64) {
        (std::mem::take(&mut self.messages), std::mem::take(&mut self.left_out))
    }

    /// Drops what waits, and the count of what was left out.
    pub fn forget(&mut self) {
        *self = Said::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(bytes: usize) -> Frame {
        let mut buffer = BytesMut::new();
        wire::ErrorFields::with_severity("NOTICE", wire::sqlstate::WARNING, "x".repeat(bytes)).put(&mut buffer, b'N');
        wire::frame::take(&mut buffer, 1 << 30).expect("a message").expect("a whole one")
    }

    #[test]
    fn what_waits_has_a_limit_and_what_is_left_out_is_counted() {
        let mut said = Said::default();
        for _ in 0..10 {
            said.hear(&notice(1 << 20));
        }
        let (messages, left_out) = said.take();
        assert!(messages.len() <= WAITING_MAX, "{}", messages.len());
        assert_eq!(left_out, 7);
        assert!(said.is_empty());
        said.hear(&notice(WAITING_MAX + 1));
        assert!(said.take().0.len() > WAITING_MAX, "one by itself is told");
    }
}
