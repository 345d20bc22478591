//! The binary format: its header, and where its tuples and their fields are, over chunks cut anywhere
//! (`ReceiveCopyBinaryHeader` and `CopyFromBinaryOneRow` in copyfromparse.c).

use std::ops::Range;

use super::error::CopyError;

/// The first bytes of binary data.
pub const BINARY_SIGNATURE: [u8; 11] = *b"PGCOPY\n\xff\r\n\0";
/// The header as PostgreSQL writes it: no flags, no extension.
pub const BINARY_HEADER: [u8; 19] = *b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// A field count of -1 ends the data.
pub const BINARY_TRAILER: [u8; 2] = [0xff, 0xff];

/// The length of the header that `data` begins with, once that is known. Errors are found as early as possible.
pub(super) fn header_length(data: &[u8]) -> Result<Option<usize>, CopyError> {
    let signature = data.len().min(BINARY_SIGNATURE.len());
    if data[..signature] != BINARY_SIGNATURE[..signature] {
        return Err(CopyError::Signature);
    }
    if let Some(flags) = int32(data, 11) {
        if flags & (1 << 16) != 0 {
            return Err(CopyError::BinaryHeader("WITH OIDS"));
        }
        // The lower half is for flags that a reader may ignore.
        if flags >> 16 != 0 {
            return Err(CopyError::BinaryFlags);
        }
    }
    match int32(data, 15) {
        None => Ok(None),
        Some(extension) => match usize::try_from(extension) {
            Err(_) => Err(CopyError::BinaryHeader("missing length")),
            Ok(extension) => Ok(Some(BINARY_HEADER.len() + extension)),
        },
    }
}

/// What is wrong with data that ends within the header.
pub(super) fn header_cut_off(data: &[u8]) -> CopyError {
    match data.len() {
        0..11 => CopyError::Signature,
        11..15 => CopyError::BinaryHeader("missing flags"),
        15..19 => CopyError::BinaryHeader("missing length"),
        _ => CopyError::BinaryHeader("wrong length"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tuple {
    /// To read on, at least this many bytes of the tuple must be there.
    Needs(usize),
    Ends(usize),
    Trailer,
}

/// Reads one tuple after another.
pub(super) struct TupleScanner {
    /// Fields a tuple must have; None takes any number.
    columns: Option<usize>,
    /// Read up to here in the tuple at hand.
    at: usize,
    /// Fields of the tuple, once its count is read, and the number of those read.
    fields: Option<usize>,
    field: usize,
    /// Wanted fields: position and slot, by position.
    wanted: Vec<(usize, usize)>,
    values: Vec<Option<Range<usize>>>,
}

impl TupleScanner {
    /// `columns`: how many fields a tuple must have, if that is known; `wanted`: positions of those whose values are asked for, each a slot.
    pub fn new(columns: Option<usize>, wanted: &[usize]) -> Self {
        let mut by_position: Vec<(usize, usize)> = wanted.iter().enumerate().map(|(slot, &p)| (p, slot)).collect();
        by_position.sort_unstable();
        let values = vec![None; wanted.len()];
        TupleScanner { columns, at: 0, fields: None, field: 0, wanted: by_position, values }
    }

    /// Reads on, `tuple` being all bytes of the tuple at hand that are there, and perhaps some of the next.
    pub fn scan(&mut self, tuple: &[u8]) -> Result<Tuple, CopyError> {
        let fields = match self.fields {
            Some(fields) => fields,
            None => {
                let Some(count) = tuple.first_chunk().map(|bytes| i16::from_be_bytes(*bytes)) else {
                    return Ok(Tuple::Needs(2));
                };
                if count == -1 {
                    return Ok(Tuple::Trailer);
                }
                let expected = self.columns.unwrap_or(usize::try_from(count).unwrap_or(0));
                if usize::try_from(count) != Ok(expected) {
                    return Err(CopyError::FieldCount { found: count, expected });
                }
                (self.at, self.field, self.fields) = (2, 0, Some(expected));
                expected
            }
        };
        let mut wanted = self.wanted.partition_point(|&(position, _)| position < self.field);
        while self.field < fields {
            let Some(length) = int32(tuple, self.at) else { return Ok(Tuple::Needs(self.at + 4)) };
            let start = self.at + 4;
            let value = match usize::try_from(length) {
                Ok(length) => Some(start..start + length),
                Err(_) if length == -1 => None,
                Err(_) => return Err(CopyError::FieldSize),
            };
            let end = value.as_ref().map_or(start, |range| range.end);
            if end > tuple.len() {
                return Ok(Tuple::Needs(end));
            }
            while let Some(&(_, slot)) = self.wanted.get(wanted).filter(|(position, _)| *position == self.field) {
                self.values[slot].clone_from(&value);
                wanted += 1;
            }
            self.at = end;
            self.field += 1;
        }
        self.fields = None;
        Ok(Tuple::Ends(self.at))
    }

    /// A wanted value of the tuple last read.
    pub fn value_of<'a>(&self, slot: usize, tuple: &'a [u8]) -> Option<&'a [u8]> {
        self.values[slot].clone().map(|range| &tuple[range])
    }

    /// How many fields are wanted.
    pub fn count(&self) -> usize {
        self.values.len()
    }
}

fn int32(data: &[u8], at: usize) -> Option<i32> {
    data.get(at..)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}
