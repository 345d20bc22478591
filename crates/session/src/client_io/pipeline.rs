//! Whether a statement of the extended protocol is a pipeline by itself: what comes behind its Execute. It does not know what follows from that.

use std::time::Duration;

use pool::awake;
use tokio::io::AsyncReadExt;

use super::{ClientIo, READ_BYTES};

/// How long what a client sends behind an Execute is waited for.
const REST_MAX: Duration = Duration::from_millis(10);

impl ClientIo {
    /// Whether Sync comes next; messages that close something don't count. Who sends neither that nor Flush gets no answer from PostgreSQL either, so
    /// that it is waited for, for a moment.
    pub async fn ends_pipeline(&mut self) -> bool {
        match syncs(&self.rbuf) {
            Some(ends) => ends,
            None => tokio::time::timeout(REST_MAX, self.rest_ends()).await.unwrap_or(false),
        }
    }

    async fn rest_ends(&mut self) -> bool {
        loop {
            // What has been answered is not held up.
            let sent = self.out.is_empty() || self.send().await.is_ok();
            let Some(stream) = self.stream.as_mut().filter(|_| sent) else { return false };
            self.rbuf.reserve(READ_BYTES);
            match stream.read_buf(&mut self.rbuf).await {
                Ok(1..) => awake::came(awake::From::Client),
                // Whoever reads next finds out.
                Ok(0) | Err(_) => return false,
            }
            if let Some(ends) = syncs(&self.rbuf) {
                return ends;
            }
        }
    }
}

/// Whether the first message is Sync, but for those that close something; `None`: it is not here yet.
fn syncs(messages: &[u8]) -> Option<bool> {
    let mut at = 0;
    loop {
        match *messages.get(at)? {
            b'S' => return Some(true),
            b'C' => {
                let len: [u8; 4] = messages.get(at + 1..at + 5)?.try_into().ok()?;
                let len = u32::from_be_bytes(len) as usize;
                // It counts itself.
                if len < 4 {
                    return Some(false);
                }
                at += 1 + len;
            }
            _ => return Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_closes_is_passed_over() {
        let (close, sync) = (b"C\0\0\0\x06P\0", b"S\0\0\0\x04");
        assert_eq!(syncs(sync), Some(true));
        assert_eq!(syncs(&[&close[..], close, sync].concat()), Some(true));
        assert_eq!(syncs(b"P\0\0\0\x08"), Some(false));
        assert_eq!(syncs(&[&close[..], b"E\0"].concat()), Some(false));
        // There is no such message; whoever reads it says so.
        assert_eq!(syncs(b"C\0\0\0\0S"), Some(false));
        for part in 0..close.len() {
            assert_eq!(syncs(&close[..part]), None, "{part}");
        }
        assert_eq!(syncs(close), None);
    }
}
