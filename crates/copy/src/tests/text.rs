//! Text format: line ends, escapes, markers.

use super::{cut, error, record, records};
use crate::{CopyError, CopyOptions, Format, Header, append_fields, append_header_fields};

fn text() -> CopyOptions {
    CopyOptions::new(Format::Text)
}

#[test]
fn line_ends_of_all_kinds_stay_with_their_records() {
    for end in ["\n", "\r", "\r\n"] {
        let data = format!("1\ta{end}2\tb{end}\tc");
        let expected = [
            record(&format!("1\ta{end}"), &[Some("1"), Some("a")]),
            record(&format!("2\tb{end}"), &[Some("2"), Some("b")]),
            record("\tc", &[Some(""), Some("c")]),
        ];
        assert_eq!(records(&text(), &["a", "b"], &data), expected, "{end:?}");
    }
    assert_eq!(records(&text(), &["a"], "1\r"), [record("1\r", &[Some("1")])]);
    assert_eq!(records(&text(), &["a"], "\n\n"), [record("\n", &[Some("")]), record("\n", &[Some("")])]);
    assert_eq!(records(&text(), &["a"], ""), []);
}

#[test]
fn a_backslash_hides_a_line_end() {
    assert_eq!(
        records(&text(), &["a"], "x\\\ny\nz\n"),
        [record("x\\\ny\n", &[Some("x\ny")]), record("z\n", &[Some("z")])]
    );
    // It hides the carriage return only.
    assert_eq!(records(&text(), &["a"], "x\\\r\n"), [record("x\\\r\n", &[Some("x\r")])]);
    assert_eq!(records(&text(), &["a"], "x\\\\\n"), [record("x\\\\\n", &[Some("x\\")])]);
    assert_eq!(records(&text(), &["a"], "x\\"), [record("x\\", &[Some("x")])]);
}

#[test]
fn mixed_line_ends_are_refused() {
    let (newline, carriage_return) = (CopyError::Newline { csv: false }, CopyError::CarriageReturn { csv: false });
    assert_eq!(error(&text(), &["a"], "1\n2\r\n"), carriage_return);
    assert_eq!(error(&text(), &["a"], "1\r\n2\n"), newline);
    assert_eq!(error(&text(), &["a"], "1\r2\n"), newline);
    assert_eq!(error(&text(), &["a"], "1\r\n2\r3"), carriage_return);
    assert_eq!(error(&text(), &["a"], "1\r\n2\r"), carriage_return);
    assert_eq!(newline.to_string(), "literal newline found in data");
    assert_eq!((newline.sqlstate(), newline.hint()), ("22P04", Some("Use \"\\n\" to represent newline.")));
}

#[test]
fn escapes_are_resolved_and_the_null_marker_is_compared_before() {
    let data = "\\b\\f\\n\\r\\t\\v\t\\101\\7x\\x4a\\x4\\xg\t\\N\t\\\\N\t\\\tq\t\\1234\n";
    let values = [Some("\u{8}\u{c}\n\r\t\u{b}"), Some("A\u{7}xJ\u{4}xg"), None, Some("\\N"), Some("\tq"), Some("S4")];
    assert_eq!(records(&text(), &["a", "b", "c", "d", "e", "f"], data), [record(data, &values)]);
}

#[test]
fn options_change_delimiter_and_markers() {
    let options = CopyOptions { delimiter: b'|', null: b"nil".into(), default: Some(b"def".into()), ..text() };
    assert_eq!(
        records(&options, &["a", "b", "c"], "nil|\\nil|\\|x\n"),
        [record("nil|\\nil|\\|x\n", &[None, Some("\nil"), Some("|x")])]
    );
    let refused = error(&options, &["a"], "def\n");
    assert_eq!((&refused, refused.sqlstate()), (&CopyError::DefaultInKey("a".into()), "0A000"));
}

#[test]
fn the_end_marker_ends_the_data_and_must_be_alone() {
    assert_eq!(records(&text(), &["a"], "1\n\\.\nanything\\.\r\\.x"), [record("1\n", &[Some("1")])]);
    assert_eq!(records(&text(), &["a"], "1\r\n\\.\r\n"), [record("1\r\n", &[Some("1")])]);
    assert_eq!(records(&text(), &["a"], "\\.\r"), []);
    assert_eq!(records(&text(), &["a"], "\\\\.\n"), [record("\\\\.\n", &[Some("\\.")])]);
    for data in ["x\\.\n", "\\.x\n", "\\.", "1\n\\.", "1\r\n\\.\rx"] {
        assert_eq!(error(&text(), &["a"], data), CopyError::MarkerNotAlone, "{data:?}");
    }
    for data in ["1\n\\.\r\n", "1\r\n\\.\n", "1\r\\.\n"] {
        assert_eq!(error(&text(), &["a"], data), CopyError::MarkerNewlineStyle, "{data:?}");
    }
}

#[test]
fn only_wanted_fields_need_to_be_there() {
    assert_eq!(error(&text(), &["a", "b"], "1\t2\n3\n"), CopyError::MissingData("b".into()));
    let mut splitter = super::Splitter::new(&text(), vec![2, 0, 2], &["a", "b", "c", "d"]);
    let mut seen = Vec::new();
    let mut sink = |_: &[u8], keys: &[Option<&[u8]>]| {
        seen.extend(keys.iter().map(|key| key.map(<[u8]>::to_vec)));
        Ok::<(), CopyError>(())
    };
    splitter.push(b"1\t2\\\t\t\\x33\n", &mut sink).expect("d is not wanted");
    assert_eq!(seen, [Some(b"3".to_vec()), Some(b"1".to_vec()), Some(b"3".to_vec())]);
}

#[test]
fn the_header_is_the_preamble() {
    let options = CopyOptions { header: Header::Match, ..text() };
    let found = cut(&options, &["a"], b"a\r\n1\r\n").expect("right");
    assert_eq!((found.preamble, found.records), (Some(b"a\r\n".to_vec()), vec![record("1\r\n", &[Some("1")])]));
    let only = cut(&options, &["a"], b"a").expect("right");
    assert_eq!((only.preamble, only.records), (Some(b"a".to_vec()), vec![]));
    let mut out = Vec::new();
    append_header_fields(&options, b"a\r\n", &["x\ty"], &mut out);
    assert_eq!(out, b"a\tx\\ty\r\n");
}

#[test]
fn fields_are_appended_before_the_line_end() {
    let append = |options: &CopyOptions, record: &str, values: &[Option<&str>]| {
        let mut out = Vec::new();
        append_fields(options, record.as_bytes(), values, &mut out);
        String::from_utf8(out).expect("text")
    };
    assert_eq!(append(&text(), "1\n", &[Some("7"), None, Some("a\tb")]), "1\t7\t\\N\ta\\tb\n");
    assert_eq!(append(&text(), "1\r\n", &[Some("7")]), "1\t7\r\n");
    assert_eq!(append(&text(), "1\r", &[Some("7")]), "1\t7\r");
    assert_eq!(append(&text(), "1", &[Some("7")]), "1\t7");
    // Escaped line ends are data, and a last backslash is nothing.
    assert_eq!(append(&text(), "1\\\r\n", &[Some("7")]), "1\\\r\t7\n");
    assert_eq!(append(&text(), "1\\\n", &[Some("7")]), "1\\\n\t7");
    assert_eq!(append(&text(), "1\\\\\n", &[Some("7")]), "1\\\\\t7\n");
    assert_eq!(append(&text(), "1\\", &[Some("7")]), "1\t7");
    let marker = CopyOptions { null: b"7".into(), default: Some(b"8".into()), ..text() };
    assert_eq!(append(&marker, "1\n", &[Some("7"), None, Some("8")]), "1\t\\067\t7\t\\070\n");
    assert_eq!(
        records(&marker, &["a", "b", "c"], "1\t\\067\t\\070\n"),
        [record("1\t\\067\t\\070\n", &[Some("1"), Some("7"), Some("8")])]
    );
}
