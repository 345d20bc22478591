//! Templates: what differs, what does not, and that places in one statement are found in another of its template.

mod lexer_support;

use proptest::prelude::*;
use sql::lexer::{LexError, Lexer};
use sql::template::{Literal, LiteralKind, Position, Template};

fn scan(sql: &str) -> Template {
    let mut template = Template::new();
    template.scan(sql, true).unwrap_or_else(|error| panic!("{sql}: {error}"));
    template
}

/// `a` and `b` share a template.
fn check_same(a: &str, b: &str) {
    assert_eq!(scan(a).text(), scan(b).text(), "{a} {b}");
    assert_eq!(scan(a).hash(), scan(b).hash(), "{a} {b}");
}

fn check_different(a: &str, b: &str) {
    assert_ne!(scan(a).text(), scan(b).text(), "{a} {b}");
    assert_ne!(scan(a).hash(), scan(b).hash(), "{a} {b}");
}

#[test]
fn literals_do_not_tell_templates_apart() {
    check_same("SELECT 1", "SELECT 4711");
    check_same("INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (-1, '')".replace('-', "").as_str());
    check_same("SELECT 'a'", "SELECT E'a\\n'");
    check_same("SELECT 'a'", "SELECT $x$a$x$");
    check_same("SELECT 1.5", "SELECT 1e3");
    check_same("SELECT 10", "SELECT 0xFF");
    check_same("select date '2026-01-01'", "select date '2026-12-31'");
}

#[test]
fn all_else_does() {
    check_different("SELECT 1", "SELECT -1");
    check_different("SELECT 1", "SELECT  1");
    check_different("SELECT 1", "select 1");
    check_different("SELECT 1", "SELECT '1'");
    check_different("SELECT $1", "SELECT $2");
    check_different("SELECT '1'", "SELECT B'1'");
    check_different("SELECT X'1'", "SELECT B'1'");
    check_different("SELECT 'a'", "SELECT N'a'");
    check_different("SELECT 1", "/* hint */ SELECT 1");
    check_different("/* a */ SELECT 1", "/* b */ SELECT 1");
    check_different("SELECT a1", "SELECT a2");
    check_different("SELECT \"1\"", "SELECT \"2\"");
    check_different("SELECT /* 1 */ 1", "SELECT /* 2 */ 1");
}

/// A plan may hold types (of partial results, say), so the type of a number is part of the template.
#[test]
fn types_of_numbers_tell_templates_apart() {
    check_different("SELECT 1", "SELECT 1.0");
    check_different("SELECT 1", "SELECT 3000000000");
    check_different("SELECT 3000000000", "SELECT 10000000000000000000");
    check_same("SELECT 1.0", "SELECT 10000000000000000000");
    check_different("SELECT -2147483648", "SELECT -2147483649");
}

#[test]
fn escape_characters_stay() {
    check_different("SELECT U&'a' UESCAPE '!'", "SELECT U&'a' UESCAPE '?'");
    check_different("SELECT U&\"a\" UESCAPE '!'", "SELECT U&\"a\" UESCAPE '?'");
    check_same("SELECT U&'a' UESCAPE '!', 'b'", "SELECT U&'b' UESCAPE '!', 'c'");
}

/// Outside of quotes and comments a placeholder is no SQL, so it cannot pass for a literal.
#[test]
fn placeholders_cannot_be_written() {
    let mut template = Template::new();
    for byte in 1..=8_u8 {
        let sql = format!("SELECT {}", char::from(byte));
        assert_eq!(template.scan(&sql, true), Err(LexError::UnexpectedCharacter { at: 7 }));
    }
    assert!(scan("SELECT '\u{4}'").literals().len() == 1);
    assert!(scan("SELECT \"\u{4}\"").literals().is_empty());
}

#[test]
fn errors_leave_nothing_behind() {
    let mut template = scan("SELECT 1, 'a'");
    assert_eq!(template.scan("SELECT 2, '", true), Err(LexError::UnterminatedString { at: 10 }));
    assert!(template.text().is_empty() && template.literals().is_empty());
    assert_eq!(template.hash(), scan("").hash());
    assert_eq!(template.position(0), Some(Position { piece: 0, offset: 0 }));
    assert_eq!(template.position(1), None);
}

#[test]
fn literals_know_their_places() {
    let sql = "SELECT 'it''s', -12 FROM t";
    let template = scan(sql);
    assert_eq!(template.text(), b"SELECT \x04, -\x01 FROM t");
    assert_eq!(template.literal_text(sql, 0), "'it''s'");
    assert_eq!(template.literal_text(sql, 1), "12");
    assert_eq!(template.literals()[1].kind, LiteralKind::Integer);
    assert_eq!(template.literals()[1].template_at, 11);
}

#[test]
fn constants_are_found_by_location() {
    let sql = "SELECT 1, -2, - -(3), 'a', -'b', +4, N'c', a - 5, - /* - */ (-(6.5))";
    let template = scan(sql);
    let at = |text: &str| template.literal_at(sql, sql.find(text).unwrap());
    assert_eq!(at("1,"), Some((0, false)));
    assert_eq!(at("-2"), Some((1, true)));
    assert_eq!(at("2,"), Some((1, false)));
    assert_eq!(at("- -(3"), Some((2, false)));
    assert_eq!(at("-(3"), Some((2, true)));
    assert_eq!(at("'a'"), Some((3, false)));
    assert_eq!(at("-'b'"), None, "PostgreSQL folds signs into numbers only");
    assert_eq!(at("+4"), Some((5, false)));
    assert_eq!(at("N'c'"), Some((6, false)));
    assert_eq!(at("'c'"), Some((6, false)));
    assert_eq!(at("- /* -"), Some((8, false)));
    assert_eq!(at("SELECT"), None);
    assert_eq!(at("a'"), None);
    assert_eq!(template.literal_at(sql, sql.len()), None);
    assert_eq!(template.literal_at(sql, sql.len() + 9), None);
}

#[test]
fn positions_carry_over() {
    let (short, long) = ("SELECT 'a' FROM t WHERE id = 1 AND x", "SELECT 'abc' FROM t WHERE id = 4711 AND x");
    let (from, to) = (scan(short), scan(long));
    assert_eq!(from.text(), to.text());
    for word in ["SELECT", " FROM", "t WHERE", "AND", "x"] {
        let position = from.position(short.find(word).unwrap()).unwrap();
        assert_eq!(to.offset(position), long.find(word).unwrap(), "{word}");
    }
    assert_eq!(from.position(7), Some(Position { piece: 0, offset: 7 }), "the first byte of 'a'");
    assert_eq!(from.position(8), None, "inside of 'a'");
    assert_eq!(from.position(10), Some(Position { piece: 1, offset: 0 }), "after 'a'");
    assert_eq!(from.position(short.len()), Some(Position { piece: 2, offset: 6 }));
    assert_eq!(from.position(short.len() + 1), None);
}

/// Statement-like text with literals of all kinds, and things that look like literals.
fn statement() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "SELECT",
        "t",
        "\"a'1\"",
        "/* '1 */",
        "-- 2\n",
        "$1",
        "a1",
        "=",
        "-",
        "- ",
        "@-",
        "(",
        ")",
        ",",
        "::",
        "[",
        "]",
        "..",
        ".",
        "UESCAPE",
        "LIMIT",
        "numeric(10,2)",
        "interval",
        "\n",
        "\"\u{4}\"",
        "/*\u{1}*/",
        "E",
        "u",
    ]);
    let part = prop_oneof![
        3 => word.prop_map(str::to_owned),
        2 => (0..LITERALS.len(), 0..3_usize).prop_map(|(kind, index)| LITERALS[kind].1[index].to_owned()),
    ];
    prop::collection::vec((part, prop::sample::select(vec!["", " ", " "])), 0..12)
        .prop_map(|parts| parts.into_iter().flat_map(|(part, space)| [part, space.to_owned()]).collect())
}

/// Literals by kind, three of each, to take one another's place. None begins or ends so that its neighbours would
/// read differently (a number that ends in a dot before another dot, say).
const LITERALS: [(LiteralKind, [&str; 3]); 10] = [
    (LiteralKind::Integer, ["0", "42", "0x1F"]),
    (LiteralKind::BigInteger, ["3000000000", "0xFFFFFFFFFF", "9223372036854775807"]),
    (LiteralKind::Float, ["1.5", "10.25", "10000000000000000000"]),
    (LiteralKind::String, ["''", "'it''s 1'", "'a\\'"]),
    (LiteralKind::EString, ["E''", "E'\\''", "e'--'"]),
    (LiteralKind::Bit, ["B''", "b'01'", "B'111'"]),
    (LiteralKind::Hex, ["X''", "x'1F'", "X'0'"]),
    (LiteralKind::Unicode, ["U&''", "u&'\\0061'", "U&'a'"]),
    (LiteralKind::Dollar, ["$$$$", "$$'$$", "$a$1$a$"]),
    (LiteralKind::National, ["N''", "n'''1'", "N'a'"]),
];

/// Whether another literal can stand in place of this one without growing together with its neighbours, as in `a1.5`
/// (which is `a1` and `.5`) or `1.5.` and `0x1F$1`.
fn stands_alone(sql: &str, literal: &Literal) -> bool {
    let before = sql[..literal.start as usize].bytes().next_back().unwrap_or(b' ');
    let after = &sql[literal.end as usize..];
    let grows = before.is_ascii_alphanumeric() || before == b'$';
    let is_range = after.starts_with("..") && literal.kind != LiteralKind::Float;
    let ends_otherwise = literal.kind.is_number() && after.starts_with(['.', '$']) && !is_range;
    !grows && !ends_otherwise
}

/// The texts of the tokens of `sql` that are no literals, and their offsets.
fn plain_tokens<'s>(sql: &'s str, template: &Template) -> Vec<(usize, &'s str)> {
    let is_literal = |start: usize| template.literals().iter().any(|literal| literal.start as usize == start);
    Lexer::new(sql, true)
        .map(Result::unwrap)
        .filter(|token| !is_literal(token.start))
        .map(|token| (token.start, &sql[token.start..token.end]))
        .collect()
}

proptest! {
    #![proptest_config(lexer_support::config(5_000))]

    /// Pieces and literals make up the statement.
    #[test]
    fn nothing_is_lost(sql in statement()) {
        let mut template = Template::new();
        prop_assume!(template.scan(&sql, true).is_ok());
        let mut rebuilt = Vec::new();
        let mut from = 0;
        for (index, literal) in template.literals().iter().enumerate() {
            let at = literal.template_at as usize;
            prop_assert_eq!(template.text()[at], literal.kind.placeholder());
            rebuilt.extend_from_slice(&template.text()[from..at]);
            rebuilt.extend_from_slice(template.literal_text(&sql, index).as_bytes());
            from = at + 1;
        }
        rebuilt.extend_from_slice(&template.text()[from..]);
        prop_assert_eq!(rebuilt, sql.as_bytes());
        for offset in 0..=sql.len() + 1 {
            let inside = |literal: &Literal| (literal.start as usize) < offset && offset < literal.end as usize;
            let expected = offset <= sql.len() && !template.literals().iter().any(inside);
            let position = template.position(offset);
            prop_assert_eq!(position.is_some(), expected, "{:?} {}", sql, offset);
            if let Some(position) = position {
                prop_assert_eq!(template.offset(position), offset);
            }
        }
    }

    /// Other literals of the same kinds make a statement of the same template, with the same tokens in the same
    /// places.
    #[test]
    fn literals_take_one_anothers_place(sql in statement(), choices in prop::collection::vec(0..3_usize, 12)) {
        let mut template = Template::new();
        prop_assume!(template.scan(&sql, true).is_ok());
        let mut other = String::new();
        let mut from = 0;
        for (literal, choice) in template.literals().iter().zip(&choices) {
            other.push_str(&sql[from..literal.start as usize]);
            let (_, texts) = LITERALS.iter().find(|(kind, _)| *kind == literal.kind).unwrap();
            other.push_str(texts[*choice]);
            from = literal.end as usize;
        }
        prop_assume!(template.literals().iter().all(|literal| stands_alone(&sql, literal)));
        other.push_str(&sql[from..]);
        let mut other_template = Template::new();
        prop_assert_eq!(other_template.scan(&other, true), Ok(()), "{:?} {:?}", sql, other);
        prop_assert_eq!(template.text(), other_template.text(), "{:?} {:?}", sql, other);
        prop_assert_eq!(template.hash(), other_template.hash());
        let tokens = plain_tokens(&sql, &template);
        let other_tokens = plain_tokens(&other, &other_template);
        prop_assert_eq!(tokens.len(), other_tokens.len());
        for ((start, text), (other_start, other_text)) in tokens.into_iter().zip(other_tokens) {
            prop_assert_eq!(text, other_text);
            prop_assert_eq!(other_template.offset(template.position(start).unwrap()), other_start);
        }
    }

    #[test]
    fn no_text_is_too_strange(sql in any::<String>(), standard_conforming_strings: bool) {
        let mut template = Template::new();
        if template.scan(&sql, standard_conforming_strings).is_ok() {
            for index in 0..template.literals().len() {
                // Either way is fine; a panic is not.
                let _ = template.literal_value(&sql, index);
            }
        }
    }
}
