//! CSV: quotes, escapes, forced columns, the end marker of old servers.

use super::{cut, error, record, records};
use crate::{CopyError, CopyOptions, ForcedColumns, Format, Header, append_fields};

fn csv() -> CopyOptions {
    CopyOptions::new(Format::Csv)
}

#[test]
fn quotes_hide_line_ends_and_delimiters() {
    let data = "1,\"a,\r\nb\"\r\n2,\"\"\r\n,x";
    assert_eq!(
        records(&csv(), &["a", "b"], data),
        [
            record("1,\"a,\r\nb\"\r\n", &[Some("1"), Some("a,\r\nb")]),
            record("2,\"\"\r\n", &[Some("2"), Some("")]),
            record(",x", &[None, Some("x")]),
        ]
    );
}

#[test]
fn quotes_may_stand_anywhere_and_escape_themselves() {
    let data = "a\"b,c\"d,\"\"\"\",\"x\"\"y\"\"\",\"a\"\"\"b\n";
    assert_eq!(
        records(&csv(), &["a", "b", "c", "d"], data),
        [record(data, &[Some("ab,cd"), Some("\""), Some("x\"y\""), Some("a\"b")])]
    );
}

#[test]
fn another_escape_works_within_quotes_only() {
    let options = CopyOptions { quote: b'\'', escape: b'\\', delimiter: b';', ..csv() };
    let data = "'a\\'b';\\;'\\\\';'\\x';'a\\\\\\''\n";
    assert_eq!(
        records(&options, &["a", "b", "c", "d", "e"], data),
        [record(data, &[Some("a'b"), Some("\\"), Some("\\"), Some("\\x"), Some("a\\'")])]
    );
}

#[test]
fn data_that_breaks_off_within_quotes_is_refused() {
    assert_eq!(error(&csv(), &["a"], "1\n\"2\n"), CopyError::UnterminatedQuote);
    assert_eq!(error(&csv(), &["a"], "1\n2\r\n"), CopyError::CarriageReturn { csv: true });
    assert_eq!(error(&csv(), &["a"], "1\r2\n").to_string(), "unquoted newline found in data");
    assert_eq!(error(&csv(), &["a", "b"], "\"1,2\"\n"), CopyError::MissingData("b".into()));
}

#[test]
fn nulls_are_unquoted_unless_forced() {
    let options = CopyOptions {
        null: b"nil".into(),
        force_null: ForcedColumns::Named(vec!["b".into()]),
        force_not_null: ForcedColumns::Named(vec!["c".into()]),
        ..csv()
    };
    let columns = ["a", "b", "c", "d"];
    let quoted = "\"nil\",\"nil\",\"nil\",n\"i\"l\n";
    assert_eq!(records(&options, &columns, quoted), [record(quoted, &[Some("nil"), None, Some("nil"), Some("nil")])]);
    let plain = "nil,nil,nil,nil\n";
    assert_eq!(records(&options, &columns, plain), [record(plain, &[None, None, Some("nil"), None])]);
    let all = CopyOptions { force_null: ForcedColumns::All, ..csv() };
    assert_eq!(records(&all, &["a"], "\"\"\n"), [record("\"\"\n", &[None])]);
    let default = CopyOptions { default: Some(b"def".into()), ..csv() };
    assert_eq!(records(&default, &["a"], "\"def\"\n"), [record("\"def\"\n", &[Some("def")])]);
    assert_eq!(error(&default, &["a"], "def\n"), CopyError::DefaultInKey("a".into()));
}

#[test]
fn the_end_marker_is_data_but_for_old_servers() {
    let data = "1\n\\.\n2\n";
    let one = record("1\n", &[Some("1")]);
    assert_eq!(
        records(&csv(), &["a"], data),
        [one.clone(), record("\\.\n", &[Some("\\.")]), record("2\n", &[Some("2")])]
    );
    let old = CopyOptions { csv_end_marker: true, ..csv() };
    assert_eq!(records(&old, &["a"], data), [one]);
    for data in ["\\.", "\"\\.\"\n", "\\.x\n"] {
        assert_eq!(records(&old, &["a"], data).len(), 1, "{data:?}");
    }
}

#[test]
fn a_header_may_hold_line_ends() {
    let options = CopyOptions { header: Header::Skip, ..csv() };
    let found = cut(&options, &["a"], b"\"a\nb\"\n1\n").expect("right");
    assert_eq!((found.preamble, found.records), (Some(b"\"a\nb\"\n".to_vec()), vec![record("1\n", &[Some("1")])]));
}

#[test]
fn appended_fields_are_quoted_where_they_must() {
    let options = CopyOptions { default: Some(b"8".into()), null: b"7".into(), ..csv() };
    let mut out = Vec::new();
    append_fields(&options, b"\"a\n\"\r\n", &[None, Some("7"), Some("8"), Some("9"), Some("a\"b")], &mut out);
    assert_eq!(out, b"\"a\n\",7,\"7\",\"8\",9,\"a\"\"b\"\r\n");
    out.clear();
    append_fields(&csv(), b"a\\", &[Some("1")], &mut out);
    assert_eq!(out, b"a\\,1");
}
