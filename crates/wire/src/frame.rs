//! Frames: one type byte, a 32-bit length that counts itself, a body. It does not know what bodies mean.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{Result, WireError};

/// Bytes before a body: type and length.
pub const HEADER_LEN: usize = 5;

/// PostgreSQL's own limit (MaxAllocSize): no message of a node is longer than 1 GiB.
pub const NODE_MAX: usize = 1 << 30;

/// Bytes of a message that are long: it is not for everybody to hold it whole.
pub const LONG: usize = 1 << 20;

/// One whole message, header included, so that it can be forwarded as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub raw: Bytes,
}

impl Frame {
    /// The message's type.
    pub fn tag(&self) -> u8 {
        self.raw[0]
    }

    /// What is behind type and length.
    pub fn body(&self) -> &[u8] {
        &self.raw[HEADER_LEN..]
    }
}

/// Looks at the first message in `buf`: its type and whole length in bytes, or `None` while the header is incomplete.
/// The message itself need not have arrived.
pub fn peek(buf: &[u8], max: usize) -> Result<Option<(u8, usize)>> {
    if buf.len() < HEADER_LEN {
        return Ok(None);
    }
    let len = i32::from_be_bytes([buf[1], buf[2], buf[3], buf[4]]);
    if len < 4 {
        return Err(WireError::Length(len));
    }
    let total = len as usize + 1;
    if total > max {
        return Err(WireError::TooLong { bytes: total, max });
    }
    Ok(Some((buf[0], total)))
}

/// How many bytes of whole rows `buf` begins with: they go on in one piece.
pub fn run_of_rows(buf: &[u8]) -> usize {
    let mut at = 0;
    while buf.len() - at >= HEADER_LEN && buf[at] == b'D' {
        match peek(&buf[at..], NODE_MAX) {
            Ok(Some((_, len))) if buf.len() - at >= len => at += len,
            _ => break,
        }
    }
    at
}

/// The length of a long row, or piece of COPY data, of which the beginning is in `buf`, and not all of it.
pub fn long_row(buf: &[u8]) -> Option<usize> {
    match buf.first() {
        Some(b'D' | b'd') => {
            peek(buf, NODE_MAX).ok()?.map(|(_, total)| total).filter(|total| *total > LONG && buf.len() < *total)
        }
        _ => None,
    }
}

/// Takes the first message out of `buf` once it is there whole.
pub fn take(buf: &mut BytesMut, max: usize) -> Result<Option<Frame>> {
    match peek(buf, max)? {
        Some((_, total)) if buf.len() >= total => Ok(Some(Frame { raw: buf.split_to(total).freeze() })),
        Some((_, total)) => {
            // One reservation instead of many small ones for a long message, bounded so that a lying
            // length can't make us allocate what never arrives.
            buf.reserve((total - buf.len()).min(1 << 20));
            Ok(None)
        }
        None => Ok(None),
    }
}

/// Reads fields off a message body, checking every length.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Begins at the first byte of a body, behind type and length.
    pub fn new(body: &'a [u8]) -> Self {
        Reader { rest: body }
    }

    /// Bytes that were not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// `Err`: nothing is left.
    pub fn u8(&mut self) -> Result<u8> {
        self.need(1)?;
        Ok(self.rest.get_u8())
    }

    /// Of two bytes, big-endian; `Err`: fewer are left.
    pub fn i16(&mut self) -> Result<i16> {
        self.need(2)?;
        Ok(self.rest.get_i16())
    }

    /// Of four bytes, big-endian; `Err`: fewer are left.
    pub fn i32(&mut self) -> Result<i32> {
        self.need(4)?;
        Ok(self.rest.get_i32())
    }

    /// Of four bytes, big-endian; `Err`: fewer are left.
    pub fn u32(&mut self) -> Result<u32> {
        self.need(4)?;
        Ok(self.rest.get_u32())
    }

    /// Of eight bytes, big-endian; `Err`: fewer are left.
    pub fn u64(&mut self) -> Result<u64> {
        self.need(8)?;
        Ok(self.rest.get_u64())
    }

    /// The next `len` bytes; `Err`: fewer are left, and none is taken.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        self.need(len)?;
        let (head, tail) = self.rest.split_at(len);
        self.rest = tail;
        Ok(head)
    }

    /// A value of a row or a parameter: a length, −1 for NULL, and that many bytes.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            len if len < 0 => Err(WireError::Length(len)),
            len => self.bytes(len as usize).map(Some),
        }
    }

    /// A zero-terminated string.
    pub fn cstr(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.cstr_bytes()?).map_err(|_| WireError::String)
    }

    /// A zero-terminated string in an encoding we don't know.
    pub fn cstr_bytes(&mut self) -> Result<&'a [u8]> {
        let end = memchr::memchr(0, self.rest).ok_or(WireError::String)?;
        let text = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    /// A count that must leave room for `each` bytes an element, so that a lying count allocates nothing.
    pub fn count(&mut self, each: usize) -> Result<usize> {
        let n = self.i16()? as u16 as usize;
        if n * each > self.rest.len() { Err(WireError::Truncated) } else { Ok(n) }
    }

    /// # Errors
    /// [`WireError::Trailing`] if anything is left.
    pub fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(WireError::Trailing) }
    }

    fn need(&self, n: usize) -> Result<()> {
        if self.rest.len() < n { Err(WireError::Truncated) } else { Ok(()) }
    }
}
