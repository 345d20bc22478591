//! Adds fields at the end of records, for columns that the router fills in itself.

use bytes::BufMut;

use super::encode::{needs_quotes, write_binary, write_field};
use super::options::{CopyOptions, Format};

/// Writes `record`, as a `Splitter` handed it out, with further fields at its end, keeping its line end.
pub fn append_fields(options: &CopyOptions, record: &[u8], values: &[Option<&str>], out: &mut Vec<u8>) {
    debug_assert_ne!(options.format, Format::Binary, "append_binary_fields is for tuples");
    let (content, line_end) = cut(options.format, record);
    out.put_slice(content);
    for value in values {
        out.put_u8(options.delimiter);
        let start = out.len();
        let value = value.map(str::as_bytes);
        let is_default = value.is_some() && value == options.default.as_deref();
        let quotes = is_default || value.is_some_and(|bytes| needs_quotes(options, bytes));
        write_field(options, value, quotes, out);
        if options.format == Format::Text && value.is_some() {
            hide_marker(options, out, start);
        }
    }
    out.put_slice(line_end);
}

/// The same for a tuple of the binary format; `values` are what the types' send functions return.
pub fn append_binary_fields(tuple: &[u8], values: &[Option<&[u8]>], out: &mut Vec<u8>) {
    let Some((count, fields)) = tuple.split_first_chunk() else { return };
    out.put_i16(i16::from_be_bytes(*count) + values.len() as i16);
    out.put_slice(fields);
    values.iter().for_each(|value| write_binary(*value, out));
}

/// Writes a header line with further names at its end.
pub fn append_header_fields(options: &CopyOptions, header: &[u8], names: &[&str], out: &mut Vec<u8>) {
    let values: Vec<Option<&str>> = names.iter().map(|name| Some(*name)).collect();
    append_fields(options, header, &values, out);
}

/// A text value that happens to look like a marker gets its first character written in octal: markers are compared
/// before un-escaping. (An empty value under an empty marker can't be told from it, in PostgreSQL neither.)
fn hide_marker(options: &CopyOptions, out: &mut Vec<u8>, start: usize) {
    let written = &out[start..];
    let is_marker = written == options.null || Some(written) == options.default.as_deref();
    if let Some(&first) = written.first().filter(|&&first| is_marker && first != b'\\') {
        let octal = format!("\\{first:03o}");
        out.splice(start..=start, octal.into_bytes());
    }
}

/// A record's content and its line end.
fn cut(format: Format, record: &[u8]) -> (&[u8], &[u8]) {
    let mut end = record.len();
    if ends_with(format, &record[..end], b'\n') {
        end -= 1;
    }
    if ends_with(format, &record[..end], b'\r') {
        end -= 1;
    }
    let mut content = end;
    // A backslash that ends a last line without line end means nothing, but would escape the delimiter.
    if end == record.len() && ends_with(format, record, b'\\') && format == Format::Text {
        content -= 1;
    }
    (&record[..content], &record[end..])
}

/// Whether `byte` is last, and not escaped.
fn ends_with(format: Format, record: &[u8], byte: u8) -> bool {
    let Some((&last, before)) = record.split_last() else { return false };
    let backslashes = before.iter().rev().take_while(|&&b| b == b'\\').count();
    last == byte && (format == Format::Csv || backslashes % 2 == 0)
}
