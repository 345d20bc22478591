//! What a walsender and its reader say inside CopyData while a log is streamed (PostgreSQL, "Streaming Replication Protocol"). It does not know what the log tells.

use bytes::{BufMut, BytesMut};

use crate::error::WireError;
use crate::frame::Reader;
use crate::put;

/// What a walsender's CopyData holds. Positions are bytes of the log from its beginning.
#[derive(Debug, PartialEq)]
pub enum Streamed<'a> {
    /// XLogData: a piece of the stream, where it is in the log, and where that ended when it was sent.
    Data { start: u64, end: u64, data: &'a [u8] },
    /// The server has read its log up to here, and has sent all that came of it.
    Keepalive { end: u64, reply: bool },
}

/// Of CopyData's body; `Err`: something else.
pub fn streamed(body: &[u8]) -> Result<Streamed<'_>, WireError> {
    let mut r = Reader::new(body);
    match r.u8()? {
        b'w' => {
            let (start, end) = (r.u64()?, r.u64()?);
            r.bytes(8)?;
            Ok(Streamed::Data { start, end, data: r.bytes(r.remaining())? })
        }
        b'k' => {
            let end = r.u64()?;
            r.bytes(8)?;
            Ok(Streamed::Keepalive { end, reply: r.u8()? != 0 })
        }
        _ => Err(WireError::Other("an unknown message of replication")),
    }
}

/// Standby status update: all before `stored` need not be sent again. `reply`: the server is to answer at once.
pub fn put_status(out: &mut BytesMut, received: u64, stored: u64, reply: bool) {
    let mut body = BytesMut::with_capacity(34);
    body.put_u8(b'r');
    body.put_u64(received);
    body.put_u64(stored);
    body.put_u64(stored);
    // The reader's clock, which nobody looks at.
    body.put_u64(0);
    body.put_u8(reply.into());
    put::copy_data(out, &body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_streamed() {
        let numbers = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
        let data = [b"w", &numbers(&[1 << 40, (1 << 40) + 9, 5])[..], b"what"].concat();
        assert_eq!(streamed(&data), Ok(Streamed::Data { start: 1 << 40, end: (1 << 40) + 9, data: b"what" }));
        let keepalive = [b"k", &numbers(&[7, 5])[..], &[1]].concat();
        assert_eq!(streamed(&keepalive), Ok(Streamed::Keepalive { end: 7, reply: true }));
        for wrong in [&b""[..], b"x", &data[..20], &keepalive[..17]] {
            assert!(streamed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_status() {
        let mut out = BytesMut::new();
        put_status(&mut out, 3, 2, true);
        assert_eq!(
            &out[..],
            &b"d\0\0\0\x26r\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x01"[..]
        );
    }
}
