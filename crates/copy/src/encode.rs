//! Writes rows as COPY data, byte for byte as PostgreSQL does (`CopyAttributeOutText` and `…CSV` in copyto.c).

use bytes::{BufMut, BytesMut};
use memchr::memchr2;
use wire::sqlstate;

use super::binary::{BINARY_HEADER, BINARY_TRAILER};
use super::error::CopyError;
use super::options::{CopyOptions, Format, Header};

/// Writes the rows of one COPY TO. Each `header`, `row` and `trailer` is what PostgreSQL puts into one CopyData
/// message, but that the binary header shares the message of what follows it.
pub struct RowEncoder {
    options: CopyOptions,
    names: Vec<String>,
    force_quote: Vec<bool>,
}

impl RowEncoder {
    /// `names` are those of the result's columns.
    pub fn new<S: AsRef<str>>(options: &CopyOptions, names: &[S]) -> Result<Self, CopyError> {
        let names: Vec<String> = names.iter().map(|name| name.as_ref().to_string()).collect();
        if let Some(unknown) = options.force_quote.names().iter().find(|column| !names.contains(column)) {
            let message = format!("FORCE_QUOTE column \"{unknown}\" not referenced by COPY");
            return Err(CopyError::Options { sqlstate: sqlstate::INVALID_COLUMN_REFERENCE, message });
        }
        let force_quote = names.iter().map(|name| options.force_quote.contains(name)).collect();
        Ok(RowEncoder { options: options.clone(), names, force_quote })
    }

    /// Writes nothing where the options ask for no header.
    pub fn header(&self, out: &mut BytesMut) {
        if self.options.format == Format::Binary {
            out.put_slice(&BINARY_HEADER);
        } else if self.options.header != Header::No {
            for (i, name) in self.names.iter().enumerate() {
                self.delimit(i, out);
                write_field(&self.options, Some(name.as_bytes()), self.quotes(name.as_bytes(), false), out);
            }
            out.put_u8(b'\n');
        }
    }

    /// `values` are texts, or in binary format what the types' send functions return.
    pub fn row(&self, values: &[Option<&[u8]>], out: &mut BytesMut) {
        debug_assert_eq!(values.len(), self.names.len());
        if self.options.format == Format::Binary {
            // At most 1664 columns, and no value beyond 1 GiB.
            out.put_i16(values.len() as i16);
            values.iter().for_each(|value| write_binary(*value, out));
            return;
        }
        for (i, value) in values.iter().enumerate() {
            self.delimit(i, out);
            let quotes = value.is_some_and(|bytes| self.quotes(bytes, self.force_quote[i]));
            write_field(&self.options, *value, quotes, out);
        }
        out.put_u8(b'\n');
    }

    /// Writes nothing but in binary format.
    pub fn trailer(&self, out: &mut BytesMut) {
        if self.options.format == Format::Binary {
            out.put_slice(&BINARY_TRAILER);
        }
    }

    fn delimit(&self, i: usize, out: &mut BytesMut) {
        if i > 0 {
            out.put_u8(self.options.delimiter);
        }
    }

    fn quotes(&self, value: &[u8], forced: bool) -> bool {
        // A lone `\.` would end the data for servers before 18.
        forced || needs_quotes(&self.options, value) || (self.names.len() == 1 && value == b"\\.")
    }
}

pub(super) fn write_binary(value: Option<&[u8]>, out: &mut impl BufMut) {
    out.put_i32(value.map_or(-1, |bytes| bytes.len() as i32));
    out.put_slice(value.unwrap_or_default());
}

/// Whether a CSV field must be quoted to be read as itself.
pub(super) fn needs_quotes(options: &CopyOptions, value: &[u8]) -> bool {
    value == options.null
        || memchr2(options.delimiter, options.quote, value).is_some()
        || memchr2(b'\n', b'\r', value).is_some()
}

pub(super) fn write_field(options: &CopyOptions, value: Option<&[u8]>, quotes: bool, out: &mut impl BufMut) {
    match value {
        None => out.put_slice(&options.null),
        Some(bytes) if options.format == Format::Text => write_text(options.delimiter, bytes, out),
        Some(bytes) if !quotes => out.put_slice(bytes),
        Some(bytes) => write_quoted(options, bytes, out),
    }
}

fn write_text(delimiter: u8, value: &[u8], out: &mut impl BufMut) {
    let mut from = 0;
    for (at, &byte) in value.iter().enumerate() {
        let escaped = match byte {
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0b => b'v',
            0x0c => b'f',
            b'\r' => b'r',
            b'\\' => b'\\',
            _ if byte == delimiter => byte,
            _ => continue,
        };
        out.put_slice(&value[from..at]);
        out.put_slice(&[b'\\', escaped]);
        from = at + 1;
    }
    out.put_slice(&value[from..]);
}

fn write_quoted(options: &CopyOptions, value: &[u8], out: &mut impl BufMut) {
    let mut rest = value;
    out.put_u8(options.quote);
    while let Some(n) = memchr2(options.quote, options.escape, rest) {
        out.put_slice(&rest[..n]);
        out.put_slice(&[options.escape, rest[n]]);
        rest = &rest[n + 1..];
    }
    out.put_slice(rest);
    out.put_u8(options.quote);
}
