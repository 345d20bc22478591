//! Binary format: header, tuples, trailer; joining several streams.

use bytes::BytesMut;

use super::{Cut, cut};
use crate::{
    BINARY_HEADER, BINARY_TRAILER, BinaryJoin, CopyError, CopyOptions, Format, RowEncoder, append_binary_fields,
};

type Values<'a> = [Option<&'a [u8]>];

fn tuple(values: &Values) -> Vec<u8> {
    let encoder = RowEncoder::new(&CopyOptions::new(Format::Binary), &vec!["c"; values.len()]).expect("no options");
    let mut out = BytesMut::new();
    encoder.row(values, &mut out);
    out.to_vec()
}

fn split(columns: &[&str], parts: &[&[u8]]) -> Result<Cut, CopyError> {
    cut(&CopyOptions::new(Format::Binary), columns, &parts.concat())
}

#[test]
fn tuples_and_their_values_are_found() {
    let rows: [&Values; 3] = [&[Some(b"\0\0\0\x01"), None], &[None, Some(b"")], &[Some(b"\xff\xff"), Some(&[7; 300])]];
    let tuples: Vec<Vec<u8>> = rows.iter().map(|row| tuple(row)).collect();
    let data = [&BINARY_HEADER[..], &tuples.concat(), &BINARY_TRAILER].concat();
    let found = split(&["a", "b"], &[&data]).expect("right");
    assert_eq!(found.preamble.as_deref(), Some(&BINARY_HEADER[..]));
    for (i, (bytes, keys)) in found.records.iter().enumerate() {
        assert_eq!(*bytes, tuples[i]);
        assert_eq!(keys.iter().map(Option::as_deref).collect::<Vec<_>>(), rows[i]);
    }
    // The trailer may be missing.
    let without = split(&["a", "b"], &[&data[..data.len() - 2]]).expect("right");
    assert_eq!((without.records.len(), found.records.len()), (3, 3));
}

#[test]
fn headers_are_checked() {
    let with = |flags: &[u8; 4], length: &[u8; 4]| [&BINARY_HEADER[..11], flags, length].concat();
    let cases: [(Vec<u8>, &str); 8] = [
        (b"".to_vec(), "COPY file signature not recognized"),
        (b"1\t2\n".to_vec(), "COPY file signature not recognized"),
        (BINARY_HEADER[..14].to_vec(), "invalid COPY file header (missing flags)"),
        (BINARY_HEADER[..18].to_vec(), "invalid COPY file header (missing length)"),
        (with(&[0, 1, 0, 0], &[0; 4]), "invalid COPY file header (WITH OIDS)"),
        (with(&[0, 2, 0, 0], &[0; 4]), "unrecognized critical flags in COPY file header"),
        (with(&[0; 4], &[0xff; 4]), "invalid COPY file header (missing length)"),
        (with(&[0; 4], &[0, 0, 0, 1]), "invalid COPY file header (wrong length)"),
    ];
    for (data, message) in cases {
        assert_eq!(split(&["a"], &[&data]).expect_err("wrong").to_string(), message);
    }
    let extended = [&with(&[0, 0, 1, 0], &[0, 0, 0, 2])[..], b"xy"].concat();
    let found = split(&["a"], &[&extended, &tuple(&[None])]).expect("flags and extensions may be ignored");
    assert_eq!((found.preamble, found.records.len()), (Some(extended), 1));
}

#[test]
fn broken_tuples_are_refused() {
    let row = tuple(&[Some(b"abc")]);
    let cases: [(&[u8], CopyError); 5] = [
        (&row[..8], CopyError::UnexpectedEof),
        (&row[..4], CopyError::UnexpectedEof),
        (b"\0\x01\xff\xff\xff\xfe", CopyError::FieldSize),
        (b"\0\x02", CopyError::FieldCount { found: 2, expected: 1 }),
        (b"\xff\xffx", CopyError::DataAfterEnd),
    ];
    for (data, expected) in cases {
        assert_eq!(split(&["a"], &[&BINARY_HEADER, data]), Err(expected));
    }
}

#[test]
fn fields_are_appended_to_tuples() {
    let mut out = Vec::new();
    append_binary_fields(&tuple(&[Some(b"a")]), &[None, Some(b"bc")], &mut out);
    assert_eq!(out, tuple(&[Some(b"a"), None, Some(b"bc")]));
}

#[test]
fn several_streams_become_one() {
    let (one, two) = (tuple(&[Some(b"1")]), tuple(&[Some(b"2")]));
    let mut join = BinaryJoin::new(3);
    let begin = [&BINARY_HEADER[..], &two].concat();
    let empty = [&BINARY_HEADER[..], &BINARY_TRAILER].concat();
    let mut client = Vec::new();
    for (node, message, has_header) in [
        (2, &empty, false),
        (1, &begin, true),
        (0, &begin, false),
        (1, &one, false),
        (0, &BINARY_TRAILER.to_vec(), false),
    ] {
        let joined = join.push(node, message).expect("right");
        assert_eq!(!joined.header.is_empty(), has_header);
        client.extend([joined.header, joined.rows].concat());
    }
    join.push(1, &BINARY_TRAILER).expect("right");
    client.extend(join.finish().expect("all have ended"));
    assert_eq!(client, [&BINARY_HEADER[..], &two, &two, &one, &BINARY_TRAILER].concat());
}

#[test]
fn joining_notices_what_is_wrong() {
    let mut join = BinaryJoin::new(1);
    assert_eq!(join.push(0, b"PGCOPX"), Err(CopyError::Signature));
    let mut join = BinaryJoin::new(1);
    join.push(0, &BINARY_HEADER).expect("right");
    assert_eq!(join.push(0, &tuple(&[None])[..3]), Err(CopyError::UnexpectedEof));
    let mut join = BinaryJoin::new(1);
    join.push(0, &BINARY_HEADER).expect("right");
    assert_eq!(join.finish(), Err(CopyError::UnexpectedEof), "without a trailer rows may be missing");
}

#[test]
fn a_join_of_nothing_is_an_empty_stream() {
    let empty = BinaryJoin::new(0).finish().expect("nobody is missing");
    assert_eq!(empty, [&BINARY_HEADER[..], &BINARY_TRAILER].concat());
}
