//! Tests of the formats by themselves; those against PostgreSQL are in `tests/formats.rs`.

mod binary;
mod csv;
mod options;
mod random;
mod text;

use super::{BINARY_HEADER, CopyError, CopyOptions, Format, Splitter};

/// A record and its wanted fields.
type Record = (Vec<u8>, Vec<Option<Vec<u8>>>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Cut {
    preamble: Option<Vec<u8>>,
    records: Vec<Record>,
}

/// Splits data that comes in the given chunks, wanting all fields.
fn cut_chunks<'a>(
    options: &CopyOptions,
    columns: &[&str],
    chunks: impl Iterator<Item = &'a [u8]>,
) -> Result<Cut, CopyError> {
    let mut splitter = Splitter::new(options, (0..columns.len()).collect(), columns);
    let mut records = Vec::new();
    let mut record = |bytes: &[u8], keys: &[Option<&[u8]>]| {
        records.push((bytes.to_vec(), keys.iter().map(|key| key.map(<[u8]>::to_vec)).collect()));
        Ok::<(), CopyError>(())
    };
    for chunk in chunks {
        splitter.push(chunk, &mut record)?;
    }
    splitter.finish(&mut record)?;
    assert_eq!(splitter.records(), records.len() as u64);
    Ok(Cut { preamble: splitter.preamble().map(<[u8]>::to_vec), records })
}

/// Splits data in one piece, and checks that byte by byte it comes out the same.
fn cut(options: &CopyOptions, columns: &[&str], data: &[u8]) -> Result<Cut, CopyError> {
    let whole = cut_chunks(options, columns, std::iter::once(data));
    assert_eq!(whole, cut_chunks(options, columns, data.chunks(1)));
    whole
}

/// A record of text fields, `None` for NULL.
fn record(bytes: &str, values: &[Option<&str>]) -> Record {
    (bytes.into(), values.iter().map(|value| value.map(|v| v.as_bytes().to_vec())).collect())
}

fn records(options: &CopyOptions, columns: &[&str], data: &str) -> Vec<Record> {
    cut(options, columns, data.as_bytes()).expect("the data is right").records
}

fn error(options: &CopyOptions, columns: &[&str], data: &str) -> CopyError {
    cut(options, columns, data.as_bytes()).expect_err("the data is wrong")
}

#[test]
fn records_have_a_greatest_length() {
    let binary = [&BINARY_HEADER[..], b"\0\x01\x7f\xff\xff\xff"].concat();
    for (format, begin) in [(Format::Text, b"x".to_vec()), (Format::Csv, b"\"".to_vec()), (Format::Binary, binary)] {
        let mut splitter = Splitter::new(&CopyOptions::new(format), vec![], &["a"]);
        splitter.record_bytes_max = 100;
        let mut sink = |_: &[u8], _: &[Option<&[u8]>]| Ok::<(), CopyError>(());
        splitter.push(&begin, &mut sink).expect("a length alone takes no memory");
        splitter.push(&[b'x'; 60], &mut sink).expect("there is room");
        let refused = splitter.push(&[b'x'; 60], &mut sink).expect_err("there is none");
        assert_eq!((refused.sqlstate(), refused), ("54000", CopyError::TooLarge(100)));
    }
}
