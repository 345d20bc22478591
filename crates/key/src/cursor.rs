//! A reader over a value's binary format. It knows network byte order, no types.

use crate::Oid;
use crate::error::KeyError;
use crate::types::name_or_unknown;

/// Reads from the front of a value; every read fails with [`KeyError::InvalidBinary`] past the end.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    type_oid: Oid,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(type_oid: Oid, value: &'a [u8]) -> Self {
        Cursor { rest: value, type_oid }
    }

    pub(crate) fn error(&self) -> KeyError {
        KeyError::InvalidBinary { type_name: name_or_unknown(self.type_oid) }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], KeyError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.error())?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], KeyError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or_else(|| self.error())?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, KeyError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, KeyError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, KeyError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, KeyError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, KeyError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, KeyError> {
        self.array().map(i64::from_be_bytes)
    }

    /// A value with its length in front, as in arrays and ranges; length -1 is NULL.
    pub(crate) fn nullable(&mut self) -> Result<Option<&'a [u8]>, KeyError> {
        match self.i32()? {
            -1 => Ok(None),
            len => self.take(usize::try_from(len).map_err(|_| self.error())?).map(Some),
        }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The value must be read to its end.
    pub(crate) fn end(&self) -> Result<(), KeyError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error()) }
    }
}

/// The whole value as one fixed-size field.
pub(crate) fn fixed<const N: usize>(type_oid: Oid, value: &[u8]) -> Result<[u8; N], KeyError> {
    value.try_into().map_err(|_| KeyError::InvalidBinary { type_name: name_or_unknown(type_oid) })
}
