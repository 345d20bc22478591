//! What literals mean: by hand, and against the constants in PostgreSQL's parse tree (libpg_query).

mod lexer_support;

use pg_query::ParserOptions;
use pg_query::protobuf::a_const::Val;
use pg_query::protobuf::{Node, node};
use proptest::prelude::*;
use sql::template::{LiteralError, LiteralKind, Template};

fn value_with(sql: &str, standard_conforming_strings: bool) -> Result<String, LiteralError> {
    let mut template = Template::new();
    template.scan(sql, standard_conforming_strings).unwrap();
    template.literal_value(sql, 0).map(|value| value.into_owned())
}

fn check(sql: &str, kind: LiteralKind, expected: &str) {
    let mut template = Template::new();
    template.scan(sql, true).unwrap();
    assert_eq!(template.literals().len(), 1, "{sql}");
    assert_eq!(template.literals()[0].kind, kind, "{sql}");
    assert_eq!(template.literal_value(sql, 0).unwrap(), expected, "{sql}");
}

#[test]
fn numbers() {
    use LiteralKind::*;
    check("0", Integer, "0");
    check("007", Integer, "7");
    check("1_000", Integer, "1000");
    check("0x1f", Integer, "31");
    check("0X_FF", Integer, "255");
    check("0o17", Integer, "15");
    check("0b1_01", Integer, "5");
    check("2147483647", Integer, "2147483647");
    check("0000000000001", Integer, "1");
    check("2147483649", BigInteger, "2147483649");
    check("0xFFFFFFFF", BigInteger, "4294967295");
    check("9223372036854775807", BigInteger, "9223372036854775807");
    check("9223372036854775809", Float, "9223372036854775809");
    check("1234567890123456789012345678901234567890123", Float, "1234567890123456789012345678901234567890123");
    check("1_0.5_0e1_0", Float, "10.50e10");
    check(".5", Float, ".5");
}

/// Their type depends on a sign, so they are no literals.
#[test]
fn limits_stay_in_the_template() {
    let mut template = Template::new();
    for number in ["2147483648", "0x80000000", "9223372036854775808", "9_223372036854775808"] {
        template.scan(number, true).unwrap();
        assert_eq!(template.text(), number.as_bytes());
        assert_eq!(template.literal_at(number, 0), None);
    }
}

#[test]
fn strings() {
    use LiteralKind::*;
    check("''", String, "");
    check("'it''s \\n'", String, "it's \\n");
    check("'a'\n'b' -- '\n\t'c'''", String, "abc'");
    check("''''''", String, "''");
    check("E'a\\n\\t\\\\\\'''\\q\\b\\f\\r\\v'", EString, "a\n\t\\''q\u{8}\u{c}\r\u{b}");
    check("e'\\101\\x41\\x4g\\u0041\\U00000041'", EString, "AA\u{4}gAA");
    check("E'\\303\\xa9 \\uD83D\\uDE00 \\U0000D83D\\uDE00'", EString, "é 😀 😀");
    check("E'\\1'\n'23\\x4'\n'1'", EString, "\u{1}23\u{4}1");
    check("E'\\xg\\é'", EString, "xgé");
    check("B'0101'", Bit, "0101");
    check("x'1F'\n'0'", Hex, "1F0");
    check("N'it''s'", National, "it's");
    check("$$it's$$", Dollar, "it's");
    check("$a$ $$ $a$", Dollar, " $$ ");
    check("$$$$", Dollar, "");
    check("U&'d\\0061t\\+000061 \\\\ '' \\D83D\\+00DE00'", Unicode, "data \\ ' 😀");
    check("U&'d!0061!!\\' UESCAPE '!'", Unicode, "da!\\");
    check("U&'d!0061' /* c */ uescape -- d\n '!'", Unicode, "da");
}

#[test]
fn strings_without_standard_conforming_strings() {
    assert_eq!(value_with("'a\\n\\''''", false).unwrap(), "a\n''");
    assert_eq!(value_with("N'\\x41'", false).unwrap(), "A");
    assert_eq!(value_with("'\\\\'", false).unwrap(), "\\");
    assert_eq!(value_with("$$\\n$$", false).unwrap(), "\\n");
}

#[test]
fn literals_without_a_value() {
    let at = 0;
    for sql in [
        "E'\\u12'",
        "E'\\u12g4'",
        "E'\\U0011FFFF'",
        "E'\\u0000'",
        "E'\\uD83D'",
        "E'\\uD83Dx'",
        "E'\\uDE00'",
        "E'\\uD83D'\n'\\uDE00'",
        "U&'\\12'",
        "U&'\\+12345'",
        "U&'\\D83D'",
        "U&'\\D83Dx'",
        "U&'\\0000'",
        "U&'\\'",
    ] {
        assert_eq!(value_with(sql, true), Err(LiteralError::UnicodeEscape { at }), "{sql}");
    }
    for sql in ["E'\\xff'", "E'\\303'", "E'\\0'", "E'a\\x00'"] {
        assert_eq!(value_with(sql, true), Err(LiteralError::Encoding { at }), "{sql}");
    }
    for sql in ["U&'' UESCAPE 'a'", "U&'' UESCAPE '+'", "U&'' UESCAPE ''''", "U&'' UESCAPE '!!'", "U&'' UESCAPE 1"] {
        assert_eq!(value_with(sql, true), Err(LiteralError::EscapeCharacter { at }), "{sql}");
    }
}

/// A constant of the parse tree: its location, and its value as this crate would say it.
fn constant(node: &Node) -> Option<(usize, Option<String>, bool)> {
    match node.node.as_ref()? {
        node::Node::ResTarget(target) => constant(target.val.as_ref()?),
        node::Node::TypeCast(cast) => constant(cast.arg.as_ref()?),
        node::Node::AConst(constant) => {
            let (text, is_number) = match constant.val.as_ref()? {
                Val::Ival(integer) => (integer.ival.to_string(), true),
                Val::Fval(float) => (float.fval.clone(), true),
                Val::Sval(string) => (string.sval.clone(), false),
                Val::Bsval(bits) => (bits.bsval[1..].to_owned(), false),
                Val::Boolval(_) => return None,
            };
            Some((constant.location as usize, Some(text), is_number))
        }
        _ => None,
    }
}

/// The constants that `sql`, a SELECT, selects; `None` if PostgreSQL rejects it.
fn constants(sql: &str, options: ParserOptions) -> Option<Vec<(usize, Option<String>, bool)>> {
    let parsed = pg_query::parse(sql, options).ok()?;
    let Some(node::Node::SelectStmt(select)) = parsed.protobuf.stmts[0].stmt.as_ref()?.node.as_ref() else {
        return None;
    };
    Some(select.target_list.iter().filter_map(constant).collect())
}

/// A number in plain decimal, however PostgreSQL spells it in its tree.
fn plain(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let mut template = Template::new();
    template.scan(digits, true).unwrap();
    if template.literals().is_empty() {
        return number.to_owned();
    }
    let value = template.literal_value(digits, 0).unwrap().into_owned();
    if value == "0" { value } else { format!("{sign}{value}") }
}

fn compare(sql: &str, standard_conforming_strings: bool) -> Result<(), TestCaseError> {
    let options = if standard_conforming_strings {
        ParserOptions::DEFAULT
    } else {
        ParserOptions::DISABLE_STANDARD_CONFORMING_STRINGS
    };
    let mut template = Template::new();
    let scanned = template.scan(sql, standard_conforming_strings);
    let Some(constants) = constants(sql, options) else {
        // PostgreSQL decodes while it scans; we do later, and must find fault then.
        let faults = (0..template.literals().len()).any(|index| template.literal_value(sql, index).is_err());
        prop_assert!(scanned.is_err() || faults, "only PostgreSQL rejects {:?}", sql);
        return Ok(());
    };
    prop_assert!(scanned.is_ok(), "only we reject {:?}: {:?}", sql, scanned);
    for (location, expected, is_number) in constants {
        let Some((index, negative)) = template.literal_at(sql, location) else {
            prop_assert!(sql.contains("2147483648") || sql.contains("9223372036854775808"), "{:?} {}", sql, location);
            continue;
        };
        let value = template.literal_value(sql, index);
        prop_assert!(value.is_ok(), "{:?}: {:?}", sql, value);
        let value = value.unwrap().into_owned();
        if is_number {
            let sign = if negative && value != "0" { "-" } else { "" };
            prop_assert_eq!(Some(format!("{sign}{value}")), expected.as_deref().map(plain), "{:?}", sql);
        } else {
            prop_assert!(!negative);
            prop_assert_eq!(Some(value), expected, "{:?}", sql);
        }
    }
    Ok(())
}

fn number() -> impl Strategy<Value = String> {
    let digits = prop_oneof![
        "[0-9]{1,3}",
        "[1-9][0-9]{8,20}",
        "[0-9]{1,2}_[0-9]{1,3}",
        "0x[0-9a-fA-F]{1,17}",
        "0o[0-7]{1,12}",
        "0b[01]{1,33}",
        "[0-9]{1,3}\\.[0-9]{0,3}",
        "\\.[0-9]{1,3}",
        "[0-9]{1,2}e-?[0-9]",
        Just("2147483648".to_owned()),
        Just("2147483647".to_owned()),
        Just("9223372036854775808".to_owned()),
    ];
    let signs =
        prop_oneof![3 => Just(""), 3 => Just("-"), 1 => Just("- /* - */ -"), 1 => Just("- "), 1 => Just("-\n--\n")];
    (signs, digits, 0..3_usize).prop_map(|(sign, digits, parentheses)| {
        let (open, close) = ("(".repeat(parentheses), ")".repeat(parentheses));
        format!("{sign}{open}{digits}{close}")
    })
}

fn string() -> impl Strategy<Value = String> {
    let escape = prop::sample::select(vec![
        "\\n",
        "\\\\",
        "\\'",
        "''",
        "\\1",
        "\\12",
        "\\101",
        "\\777",
        "\\x",
        "\\x4",
        "\\x41",
        "\\u00e9",
        "\\u12",
        "\\U0001F600",
        "\\uD83D",
        "\\uDE00",
        "\\0061",
        "\\+01F600",
        "\\D83D",
        "\\DE00",
        "!0061",
        "!!",
        "a",
        "é",
        "7",
        "'\n'",
        "' -- c\n  '",
        "\\xc3\\xa9",
        "\\q",
        " ",
        "$",
    ]);
    let contents = prop::collection::vec(escape, 0..6).prop_map(|escapes| escapes.concat());
    let quotes = prop::sample::select(vec![
        ("'", "'"),
        ("E'", "'"),
        ("e'", "'"),
        ("U&'", "'"),
        ("u&'", "' UESCAPE '!'"),
        ("N'", "'"),
    ]);
    prop_oneof![
        8 => (quotes, contents.clone()).prop_map(|((open, close), contents)| format!("{open}{contents}{close}")),
        1 => contents.clone().prop_map(|contents| format!("$${contents}$$")),
        1 => contents.prop_map(|contents| format!("$é1${contents}$é1$")),
        1 => "[bB]'[01]{0,8}'",
        1 => "[xX]'[0-9a-fA-F]{0,8}'",
    ]
}

proptest! {
    #![proptest_config(lexer_support::config(5_000))]

    #[test]
    fn numbers_as_postgresql_reads_them(numbers in prop::collection::vec(number(), 1..4)) {
        compare(&format!("SELECT {}", numbers.join(", ")), true)?;
    }

    #[test]
    fn strings_as_postgresql_reads_them(string in string(), standard_conforming_strings: bool) {
        compare(&format!("SELECT {string} AS s"), standard_conforming_strings)?;
    }
}
