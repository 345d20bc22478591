//! Options from statements, and PostgreSQL's refusals.

use sql::NodeEnum;

use crate::{CopyError, CopyOptions, ForcedColumns, Format, Header};

fn read(options: &str) -> Result<CopyOptions, CopyError> {
    let parsed = sql::parse(&format!("COPY t FROM STDIN {options}"), true).expect("it parses");
    let [NodeEnum::CopyStmt(copy)] = &parsed[..] else { panic!("it is a COPY") };
    CopyOptions::from_ast(&copy.options)
}

#[test]
fn defaults_depend_on_the_format() {
    assert_eq!(read(""), Ok(CopyOptions::new(Format::Text)));
    assert_eq!(read("(FORMAT CSV)"), Ok(CopyOptions::new(Format::Csv)));
    assert_eq!(read("(FORMAT binary, FREEZE)"), Ok(CopyOptions::new(Format::Binary)));
    assert_eq!(read("WITH BINARY"), Ok(CopyOptions::new(Format::Binary)));
    assert_eq!(read("(FORMAT csv, QUOTE '''')").map(|o| o.escape), Ok(b'\''));
}

#[test]
fn both_syntaxes_are_read() {
    let expected = CopyOptions {
        delimiter: b';',
        null: b"nil".into(),
        header: Header::Skip,
        quote: b'\'',
        escape: b'\\',
        force_null: ForcedColumns::Named(vec!["a".into(), "B".into()]),
        force_not_null: ForcedColumns::Named(vec!["c".into()]),
        encoding: Some("latin1".into()),
        ..CopyOptions::new(Format::Csv)
    };
    let new = r#"(FORMAT csv, DELIMITER ';', NULL 'nil', HEADER, QUOTE '''', ESCAPE '\', FORCE_NULL (a, "B"),
        FORCE_NOT_NULL (c), ENCODING 'latin1', ON_ERROR ignore, log_verbosity verbose, something 1)"#;
    assert_eq!(read(new), Ok(expected.clone()));
    let old = r#"DELIMITER ';' NULL 'nil' CSV HEADER QUOTE '''' ESCAPE '\' FORCE NULL a, "B" FORCE NOT NULL c
        ENCODING 'latin1'"#;
    assert_eq!(read(old), Ok(expected));
    for (written, header) in [("on", Header::Skip), ("0", Header::No), ("FALSE", Header::No), ("MATCH", Header::Match)]
    {
        assert_eq!(read(&format!("(HEADER {written})")).map(|o| o.header), Ok(header), "{written}");
    }
    assert_eq!(read("(FORMAT csv, FORCE_QUOTE *)").map(|o| o.force_quote), Ok(ForcedColumns::All));
    assert_eq!(read("(DEFAULT '\\D')").map(|o| o.default), Ok(Some(b"\\D".to_vec())));
}

#[test]
fn wrong_options_are_refused_as_postgresql_does() {
    let cases = [
        ("(FORMAT xml)", "22023", "COPY format \"xml\" not recognized"),
        ("(FORMAT csv, FORMAT csv)", "42601", "conflicting or redundant options"),
        ("(DELIMITER ';;')", "0A000", "COPY delimiter must be a single one-byte character"),
        ("(DELIMITER 'ä')", "0A000", "COPY delimiter must be a single one-byte character"),
        ("(DELIMITER E'\\n')", "22023", "COPY delimiter cannot be newline or carriage return"),
        ("(DELIMITER 'a')", "22023", "COPY delimiter cannot be \"a\""),
        ("(NULL E'\\r')", "22023", "COPY null representation cannot use newline or carriage return"),
        ("(NULL E'\\t')", "22023", "COPY delimiter character must not appear in the NULL specification"),
        ("(QUOTE '\"')", "0A000", "COPY QUOTE requires CSV mode"),
        ("(FORMAT csv, QUOTE ',')", "22023", "COPY delimiter and quote must be different"),
        ("(FORMAT csv, NULL 'a\"')", "22023", "CSV quote character must not appear in the NULL specification"),
        ("(FORMAT csv, ESCAPE '')", "0A000", "COPY escape must be a single one-byte character"),
        ("(FORMAT csv, FORCE_QUOTE 1)", "22023", "argument to option \"force_quote\" must be a list of column names"),
        ("(NULL 'x', DEFAULT 'x')", "0A000", "NULL specification and DEFAULT specification cannot be the same"),
        ("(FORMAT binary, DELIMITER ',')", "42601", "cannot specify DELIMITER in BINARY mode"),
        ("(FORMAT binary, HEADER)", "0A000", "cannot specify HEADER in BINARY mode"),
        ("(HEADER maybe)", "42601", "header requires a Boolean value or \"match\""),
        ("(NULL)", "42601", "null requires a parameter"),
    ];
    for (options, sqlstate, message) in cases {
        let refused = read(options).expect_err(options);
        assert_eq!((refused.sqlstate(), refused.to_string().as_str()), (sqlstate, message), "{options}");
    }
}

#[test]
fn encodings_that_cannot_be_cut_bytewise_are_refused() {
    let named = |name: &str| read(&format!("(ENCODING '{name}')")).expect("right");
    for name in ["SJIS", "shift_jis", "Windows-936", "GB18030"] {
        assert_eq!(named(name).check_encoding("UTF8").expect_err(name).sqlstate(), "0A000");
    }
    assert_eq!(named("EUC_JP").check_encoding("BIG5"), Ok(()));
    assert!(CopyOptions::new(Format::Csv).check_encoding("BIG5").is_err());
    assert_eq!(CopyOptions::new(Format::Binary).check_encoding("BIG5"), Ok(()));
}
