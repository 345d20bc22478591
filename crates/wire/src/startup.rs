//! The first packet of a connection: startup, TLS, GSS or cancel. It does not know users or passwords.

use bytes::{BufMut, BytesMut};

use crate::error::{Result, WireError};
use crate::frame::Reader;

pub const PROTOCOL_3_0: u32 = 3 << 16;
pub const PROTOCOL_3_2: u32 = (3 << 16) | 2;
const CANCEL_REQUEST: u32 = 80877102;
const SSL_REQUEST: u32 = 80877103;
const GSSENC_REQUEST: u32 = 80877104;
/// As PostgreSQL's MAX_STARTUP_PACKET_LENGTH.
pub const STARTUP_MAX: usize = 10_000;

/// The first packet of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Startup {
    Ssl,
    GssEnc,
    Cancel { pid: i32, secret: Vec<u8> },
    Start { version: u32, parameters: Vec<(String, String)> },
}

/// The first packet, which has no type byte: `None` while it is incomplete, else it and its length in bytes.
pub fn parse(buf: &[u8]) -> Result<Option<(Startup, usize)>> {
    if buf.len() < 4 {
        return Ok(None);
    }
    let len = i32::from_be_bytes([buf[0], buf[1], buf[2], buf[3]]);
    if len < 8 {
        return Err(WireError::Length(len));
    }
    let len = len as usize;
    if len > STARTUP_MAX {
        return Err(WireError::TooLong { bytes: len, max: STARTUP_MAX });
    }
    if buf.len() < len {
        return Ok(None);
    }
    let mut r = Reader::new(&buf[4..len]);
    let code = r.u32()?;
    let startup = match code {
        SSL_REQUEST => Startup::Ssl,
        GSSENC_REQUEST => Startup::GssEnc,
        CANCEL_REQUEST => {
            let pid = r.i32()?;
            let secret = r.bytes(r.remaining())?.to_vec();
            if secret.is_empty() || secret.len() > 256 {
                return Err(WireError::Other("invalid length of cancel key"));
            }
            Startup::Cancel { pid, secret }
        }
        _ => {
            let (major, minor) = ((code >> 16) as u16, code as u16);
            if major != 3 {
                return Err(WireError::Version { major, minor });
            }
            let mut parameters = Vec::new();
            loop {
                let name = r.cstr()?;
                if name.is_empty() {
                    break;
                }
                parameters.push((name.to_string(), r.cstr()?.to_string()));
            }
            if r.remaining() != 0 {
                return Err(WireError::Other("invalid startup packet layout: expected terminator as last byte"));
            }
            Startup::Start { version: code, parameters }
        }
    };
    Ok(Some((startup, len)))
}

/// A StartupMessage of protocol 3.0.
pub fn put_start(buf: &mut BytesMut, parameters: &[(&str, &str)]) {
    let at = buf.len();
    buf.put_u32(0);
    buf.put_u32(PROTOCOL_3_0);
    for (name, value) in parameters {
        for s in [name, value] {
            buf.put_slice(s.as_bytes());
            buf.put_u8(0);
        }
    }
    buf.put_u8(0);
    let len = (buf.len() - at) as u32;
    buf[at..at + 4].copy_from_slice(&len.to_be_bytes());
}

/// Asks for TLS; the answer is one byte, `S` or `N`, outside of any message.
pub fn put_ssl_request(buf: &mut BytesMut) {
    buf.put_u32(8);
    buf.put_u32(SSL_REQUEST);
}

/// CancelRequest, on a connection of its own; the server closes it without an answer.
pub fn put_cancel(buf: &mut BytesMut, pid: i32, secret: &[u8]) {
    buf.put_u32(12 + secret.len() as u32);
    buf.put_u32(CANCEL_REQUEST);
    buf.put_i32(pid);
    buf.put_slice(secret);
}
