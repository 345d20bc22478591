//! The lexer against PostgreSQL's own scanner (libpg_query): random text, cut at the same places.

mod lexer_support;

use proptest::prelude::*;
use sql::lexer::{LexError, Lexer, TokenKind};

/// Tokens as PostgreSQL counts them, or why there are none.
fn ours(sql: &str) -> Result<Vec<(usize, usize)>, LexError> {
    let mut tokens = Vec::new();
    for token in Lexer::new(sql, true) {
        let token = token?;
        if token.kind == TokenKind::NString {
            // To PostgreSQL the N is a keyword and the rest a string.
            tokens.push((token.start, token.start + 1));
            tokens.push((token.start + 1, token.end));
        } else {
            tokens.push((token.start, token.end));
        }
    }
    Ok(tokens)
}

fn theirs(sql: &str) -> Result<Vec<(usize, usize)>, pg_query::Error> {
    // A first token spares libpg_query an empty list, which its Rust binding does not take.
    const FIRST: &str = "x ";
    let tokens = pg_query::scan_tokens(&format!("{FIRST}{sql}"))?;
    let is_comment = |token: i32| {
        token == pg_query::protobuf::Token::SqlComment as i32 || token == pg_query::protobuf::Token::CComment as i32
    };
    Ok(tokens
        .iter()
        .skip(1)
        .filter(|token| !is_comment(token.token))
        .map(|token| (token.start as usize - FIRST.len(), token.end as usize - FIRST.len()))
        .collect())
}

/// Errors that PostgreSQL's scanner reports and this lexer leaves to others, as they do not change where tokens end.
const LEFT_TO_OTHERS: [&str; 9] = [
    "invalid Unicode escape",
    "invalid Unicode surrogate pair",
    "invalid byte sequence",
    "zero-length delimited identifier",
    "operator too long",
    "parameter number too large",
    "Unicode escape value",
    "unsafe use of",
    "unicode_to_utf8",
];

fn check(sql: &str) -> Result<(), TestCaseError> {
    match (ours(sql), theirs(sql)) {
        (Ok(ours), Ok(theirs)) => prop_assert_eq!(&ours, &theirs, "{:?}", sql),
        (Err(_), Err(_)) => {}
        // PostgreSQL's scanner passes such characters on to its grammar, where nothing accepts them.
        (Err(LexError::UnexpectedCharacter { at }), Ok(theirs)) => {
            prop_assert!(theirs.contains(&(at, at + 1)), "{:?} {:?}", sql, theirs);
            prop_assert!(pg_query::parse(sql, pg_query::ParserOptions::DEFAULT).is_err(), "{:?}", sql);
        }
        // libpg_query lets words follow a parameter without space; PostgreSQL does not (numerology.sql).
        (Err(LexError::ParamJunk { .. }), Ok(_)) => {}
        (Err(error), Ok(_)) => prop_assert!(false, "only we reject {:?}: {}", sql, error),
        (Ok(_), Err(error)) => {
            let error = error.to_string();
            let known = LEFT_TO_OTHERS.iter().any(|known| error.contains(known));
            prop_assert!(known, "only PostgreSQL rejects {:?}: {}", sql, error);
        }
    }
    Ok(())
}

/// Pieces that matter to the lexer, valid and not.
fn fragment() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "select",
        "e",
        "N",
        "u",
        "U&",
        "b",
        "x",
        "_a$1",
        "é",
        "☃",
        "\"a\"",
        "\"a\"\"'b\"",
        "U&\"\\0061\"",
        "\"",
        "'a'",
        "'it''s'",
        "''",
        "'",
        "'\\'",
        "E'\\''",
        "e'\\\\'",
        "E'\\n\\x41\\u0061\\101'",
        "U&'\\0061'",
        "B'01'",
        "x'1F'",
        "N'n'",
        "E'",
        "'a'\n'b'",
        "'a' --c\n 'b'",
        "E'a'\n'\\'b'",
        "$$",
        "$$a$$",
        "$a$",
        "$a$ ' $$ $a$",
        "$b$",
        "$",
        "$1",
        "$12",
        "$1_0",
        "0",
        "42",
        "1_000",
        "1.5e10",
        "1e",
        "1.",
        ".5",
        "1..2",
        "0x1F",
        "0x",
        "0o17",
        "0b101",
        "0b2",
        "1e+5",
        "1e-",
        "_1",
        "1a",
        "-",
        "--",
        "-- c\n",
        "--\r",
        "/*",
        "*/",
        "/* c */",
        "/*/**/*/",
        "/* ' */",
        "+",
        "*",
        "/",
        "<",
        ">",
        "=",
        "!",
        "@",
        "#",
        "%",
        "^",
        "&",
        "|",
        "`",
        "~",
        "?",
        "=-",
        "@-",
        "<=",
        "->>",
        "::",
        ":=",
        ":",
        ".",
        "..",
        "(",
        ")",
        "[",
        "]",
        ",",
        ";",
        " ",
        "\n",
        "\r",
        "\t",
        "\u{b}",
        "\u{c}",
        "\\",
        "{",
        "}",
        "\u{7f}",
    ]);
    prop_oneof![
        12 => fixed.prop_map(str::to_owned),
        1 => "[-+*/<>=~!@#%^&|`?]{1,6}",
        1 => "[0-9._eExXoObBaF+$-]{1,8}",
        1 => "[a-zA-Z_$0-9é]{1,6}",
        1 => "'[^'\0]{0,5}'",
    ]
}

proptest! {
    #![proptest_config(lexer_support::config(5_000))]

    #[test]
    fn fragments_run_together(fragments in prop::collection::vec(fragment(), 1..8)) {
        check(&fragments.concat())?;
    }

    #[test]
    fn fragments_apart(fragments in prop::collection::vec(fragment(), 1..16)) {
        check(&fragments.join(" "))?;
    }

    #[test]
    fn anything(sql in "[^\0]{0,24}") {
        check(&sql)?;
    }

    #[test]
    fn characters_that_matter(sql in "['\"$\\\\*/\\-+=@.:eEuUxXbBnN&0-9_a \n]{0,16}") {
        check(&sql)?;
    }
}

/// Statements that clients send, and every text that is left when one of them is cut off anywhere.
#[test]
fn corpus() {
    let corpus = [
        include_str!("corpus/orm.sql"),
        include_str!("corpus/psql_describe.sql"),
        include_str!("corpus/routines.sql"),
        include_str!("corpus/workloads.sql"),
    ];
    for sql in corpus {
        assert!(ours(sql).unwrap().len() > 100);
        check(sql).unwrap();
        for range in sql::split::split_statements(sql, true).unwrap() {
            let statement = &sql[range];
            (0..statement.len())
                .filter(|end| statement.is_char_boundary(*end))
                .for_each(|end| check(&statement[..end]).unwrap());
        }
    }
}
