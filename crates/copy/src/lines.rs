//! Finds where records of text and CSV end, over chunks cut anywhere (`CopyReadLineText` in copyfromparse.c).
//!
//! It does not look at fields: all it must know is what hides a line end, a backslash in text and quotes in CSV.

use memchr::{memchr, memchr2, memchr3};

use super::error::CopyError;
use super::options::{CopyOptions, Format};

/// What the scanner found in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The chunk is read, the record goes on.
    More,
    /// The record ends before chunk[end]; its last `line_end` bytes, some perhaps of an earlier chunk, end the line.
    Record { end: usize, line_end: usize },
    /// The end-of-copy marker `\.`.
    EndOfData,
}

/// The first line's end binds all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnd {
    Unknown,
    Newline,
    CarriageReturn,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    /// Text: after a backslash.
    Backslash,
    /// After a carriage return that may belong to a newline.
    CarriageReturn,
    /// CSV: within quotes.
    Quoted,
    /// CSV: within quotes, after an escape that is not the quote.
    QuotedEscape,
    /// Text: the line is `\.` so far.
    Marker,
    /// Text: the line is `\.` and a carriage return so far.
    MarkerCarriageReturn,
}

pub(super) struct LineScanner {
    csv: bool,
    quote: u8,
    /// None where it is the quote: then quotes simply toggle.
    escape: Option<u8>,
    line_end: LineEnd,
    state: State,
    /// Bytes of the record in earlier chunks.
    before: usize,
}

impl LineScanner {
    /// At the beginning of the first record.
    pub fn new(options: &CopyOptions) -> Self {
        LineScanner {
            csv: options.format == Format::Csv,
            quote: options.quote,
            escape: Some(options.escape).filter(|&escape| escape != options.quote),
            line_end: LineEnd::Unknown,
            state: State::Plain,
            before: 0,
        }
    }

    /// Reads on in the record at hand. After a record the next chunk is what follows it.
    pub fn scan(&mut self, chunk: &[u8]) -> Result<Found, CopyError> {
        let mut at = 0;
        while at < chunk.len() {
            match self.state {
                State::Plain if self.csv => match memchr3(self.quote, b'\n', b'\r', &chunk[at..]) {
                    None => break,
                    Some(n) => {
                        at += n + 1;
                        if chunk[at - 1] == self.quote {
                            self.state = State::Quoted;
                        } else if let Some(found) = self.at_line_end(chunk, at)? {
                            return Ok(found);
                        }
                    }
                },
                State::Plain => match memchr3(b'\\', b'\n', b'\r', &chunk[at..]) {
                    None => break,
                    Some(n) => {
                        at += n + 1;
                        if chunk[at - 1] == b'\\' {
                            self.state = State::Backslash;
                        } else if let Some(found) = self.at_line_end(chunk, at)? {
                            return Ok(found);
                        }
                    }
                },
                State::Backslash => {
                    at += 1;
                    self.state = State::Plain;
                    if chunk[at - 1] == b'.' {
                        if self.before + at != 2 {
                            return Err(CopyError::MarkerNotAlone);
                        }
                        self.state = State::Marker;
                    }
                }
                State::CarriageReturn => return self.after_carriage_return(chunk, at),
                State::Quoted => {
                    let next = match self.escape {
                        None => memchr(self.quote, &chunk[at..]),
                        Some(escape) => memchr2(self.quote, escape, &chunk[at..]),
                    };
                    let Some(n) = next else { break };
                    at += n + 1;
                    let quote = chunk[at - 1] == self.quote;
                    self.state = if quote { State::Plain } else { State::QuotedEscape };
                }
                State::QuotedEscape => {
                    at += 1;
                    self.state = State::Quoted;
                }
                State::Marker | State::MarkerCarriageReturn => {
                    at += 1;
                    if self.after_marker(chunk[at - 1])? {
                        return Ok(Found::EndOfData);
                    }
                }
            }
        }
        self.before += chunk.len();
        Ok(Found::More)
    }

    /// The stream's end: Some(bytes of line end) if it completes a record, of which there is none if nothing was read.
    pub fn finish(&mut self) -> Result<Option<usize>, CopyError> {
        match self.state {
            State::Quoted | State::QuotedEscape => Err(CopyError::UnterminatedQuote),
            State::Marker | State::MarkerCarriageReturn => Err(CopyError::MarkerNotAlone),
            State::CarriageReturn => match self.after_carriage_return(b"", 0)? {
                Found::Record { line_end, .. } => Ok(Some(line_end)),
                _ => Ok(None),
            },
            State::Plain | State::Backslash => Ok((self.before > 0).then_some(0)),
        }
    }

    /// After an unhidden line end character, chunk[at - 1].
    fn at_line_end(&mut self, chunk: &[u8], at: usize) -> Result<Option<Found>, CopyError> {
        if chunk[at - 1] == b'\n' {
            if matches!(self.line_end, LineEnd::CarriageReturn | LineEnd::Both) {
                return Err(CopyError::Newline { csv: self.csv });
            }
            self.line_end = LineEnd::Newline;
            return Ok(Some(self.record(at, 1)));
        }
        match self.line_end {
            LineEnd::Newline => Err(CopyError::CarriageReturn { csv: self.csv }),
            LineEnd::CarriageReturn => Ok(Some(self.record(at, 1))),
            LineEnd::Unknown | LineEnd::Both => {
                self.state = State::CarriageReturn;
                Ok(None)
            }
        }
    }

    /// Whether a carriage return before chunk[at] is the line end or half of it.
    fn after_carriage_return(&mut self, chunk: &[u8], at: usize) -> Result<Found, CopyError> {
        if chunk.get(at) == Some(&b'\n') {
            self.line_end = LineEnd::Both;
            return Ok(self.record(at + 1, 2));
        }
        if self.line_end == LineEnd::Both {
            return Err(CopyError::CarriageReturn { csv: self.csv });
        }
        self.line_end = LineEnd::CarriageReturn;
        Ok(self.record(at, 1))
    }

    /// Whether the byte completes a line of `\.`.
    fn after_marker(&mut self, byte: u8) -> Result<bool, CopyError> {
        match (self.state, self.line_end, byte) {
            (State::MarkerCarriageReturn, _, b'\n') => Ok(true),
            (State::MarkerCarriageReturn, _, b'\r') => Err(CopyError::MarkerNewlineStyle),
            (State::Marker, LineEnd::Both, b'\r') => {
                self.state = State::MarkerCarriageReturn;
                Ok(false)
            }
            (State::Marker, LineEnd::Unknown | LineEnd::Newline, b'\n') => Ok(true),
            (State::Marker, LineEnd::Unknown | LineEnd::CarriageReturn, b'\r') => Ok(true),
            (State::Marker, _, b'\r' | b'\n') => Err(CopyError::MarkerNewlineStyle),
            _ => Err(CopyError::MarkerNotAlone),
        }
    }

    fn record(&mut self, end: usize, line_end: usize) -> Found {
        self.state = State::Plain;
        self.before = 0;
        Found::Record { end, line_end }
    }
}
