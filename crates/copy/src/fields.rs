//! Reads the wanted fields of a text or CSV record (`CopyReadAttributesText` and `…CSV` in copyfromparse.c).
//!
//! Fields that nobody wants are skipped, those behind the last wanted one not even looked at; fields are only copied
//! where something in them is escaped.

use std::ops::Range;

use memchr::memchr2;

use super::error::CopyError;
use super::options::{CopyOptions, Format};

/// Where a field's value is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Null,
    /// As it is in the record.
    Record(Range<usize>),
    /// Decoded, in `decoded`.
    Decoded(Range<usize>),
}

struct Wanted {
    /// Of the field in the record.
    position: usize,
    /// Of the value among the caller's.
    slot: usize,
    name: String,
    force_null: bool,
    force_not_null: bool,
}

pub(super) struct FieldReader {
    csv: bool,
    delimiter: u8,
    quote: u8,
    escape: u8,
    null: Vec<u8>,
    default: Option<Vec<u8>>,
    /// By position.
    wanted: Vec<Wanted>,
    values: Vec<Value>,
    decoded: Vec<u8>,
    /// The last wanted field must be the record's last.
    pub(super) whole: bool,
}

/// A field's extent and what was seen on the way.
struct Extent {
    end: usize,
    /// Text: has backslashes. CSV: has quotes.
    special: bool,
}

impl FieldReader {
    /// `wanted`: positions among `columns` of the fields whose values are asked for, each a slot. Panics if one is beyond `columns`.
    pub fn new<S: AsRef<str>>(options: &CopyOptions, wanted: &[usize], columns: &[S]) -> Self {
        let describe = |(slot, &position): (usize, &usize)| {
            let name = columns[position].as_ref();
            Wanted {
                position,
                slot,
                name: name.to_string(),
                force_null: options.force_null.contains(name),
                force_not_null: options.force_not_null.contains(name),
            }
        };
        let mut wanted: Vec<Wanted> = wanted.iter().enumerate().map(describe).collect();
        wanted.sort_by_key(|w| w.position);
        FieldReader {
            csv: options.format == Format::Csv,
            delimiter: options.delimiter,
            quote: options.quote,
            escape: options.escape,
            null: options.null.clone(),
            default: options.default.clone(),
            values: vec![Value::Null; wanted.len()],
            wanted,
            decoded: Vec::new(),
            whole: false,
        }
    }

    /// Reads the wanted fields of a line without its end.
    pub fn read(&mut self, line: &[u8]) -> Result<(), CopyError> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        self.decoded.clear();
        let (mut start, mut position) = (0, 0);
        let mut extent = self.extent(line, start);
        for i in 0..self.wanted.len() {
            while position < self.wanted[i].position {
                if extent.end == line.len() {
                    return Err(CopyError::MissingData(self.wanted[i].name.clone()));
                }
                start = extent.end + 1;
                position += 1;
                extent = self.extent(line, start);
            }
            let value = self.value(line, start, &extent, i)?;
            let slot = self.wanted[i].slot;
            self.values[slot] = value;
        }
        if self.whole && extent.end < line.len() {
            return Err(CopyError::ExtraData);
        }
        Ok(())
    }

    /// The values last read, `record` being what they were read from.
    pub fn value_of<'a>(&'a self, slot: usize, record: &'a [u8]) -> Option<&'a [u8]> {
        match &self.values[slot] {
            Value::Null => None,
            Value::Record(range) => Some(&record[range.clone()]),
            Value::Decoded(range) => Some(&self.decoded[range.clone()]),
        }
    }

    /// How many values were asked for.
    pub fn count(&self) -> usize {
        self.values.len()
    }

    fn extent(&self, line: &[u8], start: usize) -> Extent {
        if self.csv { self.csv_extent(line, start) } else { self.text_extent(line, start) }
    }

    fn text_extent(&self, line: &[u8], start: usize) -> Extent {
        let (mut at, mut special) = (start, false);
        while let Some(n) = line.get(at..).and_then(|rest| memchr2(self.delimiter, b'\\', rest)) {
            at += n;
            if line[at] == self.delimiter {
                return Extent { end: at, special };
            }
            special = true;
            at += 2;
        }
        Extent { end: line.len(), special }
    }

    fn csv_extent(&self, line: &[u8], start: usize) -> Extent {
        let (mut at, mut special) = (start, false);
        while let Some(n) = memchr2(self.delimiter, self.quote, &line[at..]) {
            at += n;
            if line[at] == self.delimiter {
                return Extent { end: at, special };
            }
            special = true;
            at = self.after_quotes(line, at + 1);
        }
        Extent { end: line.len(), special }
    }

    /// Behind the quote that closes a part opened just before `at`. The line scanner saw to it that there is one.
    fn after_quotes(&self, line: &[u8], mut at: usize) -> usize {
        while let Some(n) = memchr2(self.quote, self.escape, &line[at..]) {
            at += n;
            if self.is_escape(line, at) {
                at += 2;
            } else if line[at] == self.quote {
                return at + 1;
            } else {
                at += 1;
            }
        }
        line.len()
    }

    /// Whether, within quotes, line[at] escapes its successor.
    fn is_escape(&self, line: &[u8], at: usize) -> bool {
        line[at] == self.escape && line.get(at + 1).is_some_and(|&next| next == self.escape || next == self.quote)
    }

    fn value(&mut self, line: &[u8], start: usize, extent: &Extent, i: usize) -> Result<Value, CopyError> {
        let (raw, unquoted) = (&line[start..extent.end], !(self.csv && extent.special));
        let wanted = &self.wanted[i];
        if unquoted && raw == self.null {
            return Ok(if wanted.force_not_null { Value::Record(start..extent.end) } else { Value::Null });
        }
        if self.default.as_deref() == Some(raw) {
            return Err(CopyError::DefaultInKey(wanted.name.clone()));
        }
        if !extent.special {
            return Ok(Value::Record(start..extent.end));
        }
        let from = self.decoded.len();
        if !self.csv {
            decode_text(raw, &mut self.decoded);
            return Ok(Value::Decoded(from..self.decoded.len()));
        }
        let force_null = wanted.force_null;
        let value = match self.single_quoted(raw) {
            Some(inner) => Value::Record(start + inner.start..start + inner.end),
            None => {
                self.decode_csv(raw);
                Value::Decoded(from..self.decoded.len())
            }
        };
        let bytes = match &value {
            Value::Record(range) => &line[range.clone()],
            _ => &self.decoded[from..],
        };
        Ok(if force_null && bytes == self.null { Value::Null } else { value })
    }

    /// What a field holds that is quoted as a whole, with nothing escaped in it: the usual case.
    fn single_quoted(&self, raw: &[u8]) -> Option<Range<usize>> {
        let last = raw.len() - 1;
        let whole = last > 0 && raw[0] == self.quote && raw[last] == self.quote;
        (whole && memchr2(self.quote, self.escape, &raw[1..last]).is_none()).then_some(1..last)
    }

    fn decode_csv(&mut self, raw: &[u8]) {
        let (mut at, mut quoted) = (0, false);
        while at < raw.len() {
            if quoted && self.is_escape(raw, at) {
                self.decoded.push(raw[at + 1]);
                at += 2;
                continue;
            }
            if raw[at] == self.quote {
                quoted = !quoted;
            } else {
                self.decoded.push(raw[at]);
            }
            at += 1;
        }
    }
}

/// Resolves text format's backslash sequences. A backslash at the very end stands for nothing.
pub(super) fn decode_text(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(n) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..n]);
        let Some(&byte) = rest.get(n + 1) else { return };
        rest = &rest[n + 2..];
        out.push(match byte {
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'0'..=b'7' => number(&mut rest, u32::from(byte - b'0'), 8, 2),
            b'x' if digit(rest, 16).is_some() => number(&mut rest, 0, 16, 2),
            other => other,
        });
    }
    out.extend_from_slice(rest);
}

/// Takes up to `more` further digits; what overflows a byte is cut off.
fn number(rest: &mut &[u8], first: u32, radix: u32, more: usize) -> u8 {
    let mut value = first;
    for _ in 0..more {
        let Some(next) = digit(rest, radix) else { break };
        value = value * radix + next;
        *rest = &rest[1..];
    }
    (value & 0xff) as u8
}

fn digit(rest: &[u8], radix: u32) -> Option<u32> {
    rest.first().and_then(|&byte| char::from(byte).to_digit(radix))
}
