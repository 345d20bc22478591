//! Cuts a COPY stream into records and hands out each with the fields it is placed by.
//!
//! Records leave exactly as they came, line ends included. Only an incomplete record is kept; the others are handed
//! out where they lie in the caller's buffer.

use super::binary::{self, Tuple, TupleScanner};
use super::error::CopyError;
use super::fields::FieldReader;
use super::lines::{Found, LineScanner};
use super::options::{CopyOptions, Format, Header};

/// PostgreSQL's `MaxAllocSize`: a line, as a value, can't be longer.
const RECORD_BYTES_MAX: usize = 0x3fff_ffff;
/// A buffer that grew beyond this for one record is given back after it.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Keys of up to this many columns are handed out without an allocation.
const KEYS_INLINE: usize = 8;

/// A COPY stream that is being cut, piece by piece as it comes.
pub struct Splitter {
    format: RecordFormat,
    /// The beginning of an incomplete record.
    pending: Vec<u8>,
    /// Binary: bytes that must be pending before anything more can be said.
    needs: usize,
    preamble: Option<Vec<u8>>,
    /// What comes next is the preamble.
    expects_preamble: bool,
    /// The end-of-copy marker was seen.
    ended: bool,
    records: u64,
    /// Smaller in tests.
    pub(super) record_bytes_max: usize,
}

enum RecordFormat {
    Lines { scanner: LineScanner, fields: FieldReader, csv_end_marker: bool },
    Tuples(TupleScanner),
}

impl Splitter {
    /// `columns` are the names of all the record's fields, `wanted` the positions of those to hand out.
    pub fn new<S: AsRef<str>>(options: &CopyOptions, wanted: Vec<usize>, columns: &[S]) -> Self {
        let format = match options.format {
            Format::Binary => RecordFormat::Tuples(TupleScanner::new(Some(columns.len()), &wanted)),
            Format::Text | Format::Csv => RecordFormat::Lines {
                scanner: LineScanner::new(options),
                fields: FieldReader::new(options, &wanted, columns),
                csv_end_marker: options.csv_end_marker && options.format == Format::Csv,
            },
        };
        Splitter {
            format,
            pending: Vec::new(),
            needs: binary::BINARY_HEADER.len(),
            preamble: None,
            expects_preamble: options.format == Format::Binary || options.header != Header::No,
            ended: false,
            records: 0,
            record_bytes_max: RECORD_BYTES_MAX,
        }
    }

    /// Nobody else looks at the records: fields behind the last wanted one are an error.
    pub fn whole(mut self) -> Self {
        if let RecordFormat::Lines { fields, .. } = &mut self.format {
            fields.whole = true;
        }
        self
    }

    /// The header line, or the binary format's header, as it came. It belongs before the records of the `push` or
    /// `finish` that found it, on every node.
    pub fn preamble(&self) -> Option<&[u8]> {
        self.preamble.as_deref()
    }

    /// Bytes kept of a record that is not complete.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Records handed out so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Takes the next bytes of the stream, cut anywhere, and calls `record` with each record that is now complete and
    /// its wanted fields, decoded (None for NULL). After an error the splitter is of no more use.
    pub fn push<E: From<CopyError>>(
        &mut self,
        data: &[u8],
        record: &mut impl FnMut(&[u8], &[Option<&[u8]>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = data;
        while !rest.is_empty() && !self.ended {
            let taken = match self.format {
                RecordFormat::Lines { .. } => self.next_line(rest, record)?,
                RecordFormat::Tuples(_) => self.next_tuple(rest, record)?,
            };
            rest = &rest[taken..];
        }
        // Behind the marker text may say anything.
        if !rest.is_empty() && matches!(self.format, RecordFormat::Tuples(_)) {
            return Err(CopyError::DataAfterEnd.into());
        }
        Ok(())
    }

    /// The stream has ended: hands out a last line without line end.
    pub fn finish<E: From<CopyError>>(
        &mut self,
        record: &mut impl FnMut(&[u8], &[Option<&[u8]>]) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.ended {
            return Ok(());
        }
        match &mut self.format {
            RecordFormat::Lines { scanner, .. } => {
                if let Some(line_end) = scanner.finish()? {
                    let line = std::mem::take(&mut self.pending);
                    self.line(&line, line_end, record)?;
                }
            }
            RecordFormat::Tuples(_) if self.expects_preamble => {
                return Err(binary::header_cut_off(&self.pending).into());
            }
            // A missing trailer is nothing to PostgreSQL; half a field count is to it as if there was none.
            RecordFormat::Tuples(_) if self.pending.len() >= 2 => return Err(CopyError::UnexpectedEof.into()),
            RecordFormat::Tuples(_) => {}
        }
        self.ended = true;
        Ok(())
    }

    /// Reads to the end of a line, or of the chunk. Returns the bytes taken.
    fn next_line<E: From<CopyError>>(
        &mut self,
        chunk: &[u8],
        record: &mut impl FnMut(&[u8], &[Option<&[u8]>]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let RecordFormat::Lines { scanner, .. } = &mut self.format else { return Ok(chunk.len()) };
        match scanner.scan(chunk)? {
            Found::More => {
                self.keep(chunk)?;
                Ok(chunk.len())
            }
            Found::EndOfData => {
                self.ended = true;
                Ok(chunk.len())
            }
            Found::Record { end, line_end } if self.pending.is_empty() => {
                self.line(&chunk[..end], line_end, record)?;
                Ok(end)
            }
            Found::Record { end, line_end } => {
                self.keep(&chunk[..end])?;
                let line = std::mem::take(&mut self.pending);
                self.line(&line, line_end, record)?;
                self.reuse(line);
                Ok(end)
            }
        }
    }

    fn line<E: From<CopyError>>(
        &mut self,
        line: &[u8],
        line_end: usize,
        record: &mut impl FnMut(&[u8], &[Option<&[u8]>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let RecordFormat::Lines { fields, csv_end_marker, .. } = &mut self.format else { return Ok(()) };
        let content = &line[..line.len() - line_end];
        if *csv_end_marker && line_end > 0 && content == b"\\." {
            self.ended = true;
            return Ok(());
        }
        if self.expects_preamble {
            self.expects_preamble = false;
            self.preamble = Some(line.to_vec());
            return Ok(());
        }
        fields.read(content)?;
        self.records += 1;
        with_keys(fields.count(), |slot| fields.value_of(slot, content), |keys| record(line, keys))
    }

    /// Reads to the end of the header or of a tuple, or of the chunk. Returns the bytes taken.
    fn next_tuple<E: From<CopyError>>(
        &mut self,
        chunk: &[u8],
        record: &mut impl FnMut(&[u8], &[Option<&[u8]>]) -> Result<(), E>,
    ) -> Result<usize, E> {
        let RecordFormat::Tuples(scanner) = &mut self.format else { return Ok(chunk.len()) };
        if self.pending.is_empty() && !self.expects_preamble {
            match scanner.scan(chunk)? {
                Tuple::Needs(needs) => self.needs = needs,
                Tuple::Trailer => {
                    self.ended = true;
                    return Ok(binary::BINARY_TRAILER.len());
                }
                Tuple::Ends(end) => {
                    self.records += 1;
                    let tuple = &chunk[..end];
                    with_keys(scanner.count(), |slot| scanner.value_of(slot, tuple), |keys| record(tuple, keys))?;
                    return Ok(end);
                }
            }
            self.keep(chunk)?;
            return Ok(chunk.len());
        }
        // Not a byte more than surely belongs to it, so that nothing ever has to be put back.
        let taken = chunk.len().min(self.needs - self.pending.len());
        self.keep(&chunk[..taken])?;
        if self.pending.len() == self.needs {
            self.pending_part(record)?;
        }
        Ok(taken)
    }

    /// The bytes needed for the next step are pending.
    fn pending_part<E: From<CopyError>>(
        &mut self,
        record: &mut impl FnMut(&[u8], &[Option<&[u8]>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let RecordFormat::Tuples(scanner) = &mut self.format else { return Ok(()) };
        if self.expects_preamble {
            match binary::header_length(&self.pending)? {
                Some(length) if length > self.pending.len() => self.needs = length,
                _ => {
                    self.preamble = Some(std::mem::take(&mut self.pending));
                    self.expects_preamble = false;
                }
            }
            return Ok(());
        }
        match scanner.scan(&self.pending)? {
            Tuple::Needs(needs) => self.needs = needs,
            Tuple::Trailer => self.ended = true,
            Tuple::Ends(_) => {
                self.records += 1;
                let tuple = std::mem::take(&mut self.pending);
                with_keys(scanner.count(), |slot| scanner.value_of(slot, &tuple), |keys| record(&tuple, keys))?;
                self.reuse(tuple);
            }
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        if bytes.len() > self.record_bytes_max.saturating_sub(self.pending.len()) {
            return Err(CopyError::TooLarge(self.record_bytes_max));
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    fn reuse(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= KEPT_BYTES_MAX {
            buffer.clear();
            self.pending = buffer;
        }
    }
}

/// Collects the values of all slots for `call`.
fn with_keys<'a, T>(
    count: usize,
    value_of: impl Fn(usize) -> Option<&'a [u8]>,
    call: impl FnOnce(&[Option<&[u8]>]) -> T,
) -> T {
    if count <= KEYS_INLINE {
        let mut keys = [None; KEYS_INLINE];
        keys[..count].iter_mut().enumerate().for_each(|(slot, key)| *key = value_of(slot));
        return call(&keys[..count]);
    }
    call(&(0..count).map(value_of).collect::<Vec<_>>())
}
