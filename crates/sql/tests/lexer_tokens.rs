//! Every kind of token, by hand: what it looks like, where it ends, what is not one.

use sql::lexer::TokenKind::{self, *};
use sql::lexer::{LexError, Lexer};

/// The tokens of `sql`, as kind and text.
fn tokens(sql: &str) -> Vec<(TokenKind, &str)> {
    tokens_with(sql, true)
}

fn tokens_with(sql: &str, standard_conforming_strings: bool) -> Vec<(TokenKind, &str)> {
    Lexer::new(sql, standard_conforming_strings)
        .map(|token| token.unwrap_or_else(|error| panic!("{sql}: {error}")))
        .map(|token| (token.kind, &sql[token.start..token.end]))
        .collect()
}

/// `sql` is one token of `kind`, alone and with other tokens around it.
fn check(kind: TokenKind, sql: &str) {
    assert_eq!(tokens(sql), [(kind, sql)]);
    let among_others = format!("({sql})");
    assert_eq!(tokens(&among_others), [(Punct(b'('), "("), (kind, sql), (Punct(b')'), ")")]);
}

fn check_texts(sql: &str, expected: &[&str]) {
    let texts: Vec<_> = tokens(sql).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, expected, "{sql}");
}

fn check_error(sql: &str, expected: LexError) {
    let mut lexer = Lexer::new(sql, true);
    let error = lexer.find_map(Result::err);
    assert_eq!(error, Some(expected), "{sql}");
    assert_eq!(lexer.next(), None, "nothing follows an error");
}

#[test]
fn identifiers() {
    for sql in ["a", "_", "Select", "a1$b", "é", "表名", "e", "b1", "nation", "u", "xE"] {
        check(Ident, sql);
    }
    for sql in ["\"a\"", "\"a b\"", "\"say \"\"hi\"\"\"", "\"'\"", "\"--\"", "\"é\""] {
        check(QuotedIdent, sql);
    }
    check(UIdent, "U&\"d\\0061\"");
    check(UIdent, "u&\"a\"\"b\"");
    assert_eq!(tokens("u&x"), [(Ident, "u"), (Op, "&"), (Ident, "x")]);
}

#[test]
fn prefixes_end_with_the_identifier() {
    assert_eq!(tokens("be'x'"), [(Ident, "be"), (String, "'x'")]);
    assert_eq!(tokens("au&'x'"), [(Ident, "au"), (Op, "&"), (String, "'x'")]);
    assert_eq!(tokens("e 'x'"), [(Ident, "e"), (String, "'x'")]);
    assert_eq!(tokens("u'x'"), [(Ident, "u"), (String, "'x'")]);
}

#[test]
fn numbers() {
    for sql in ["0", "42", "1_000", "0x1F", "0X_1f", "0o17", "0b1_01", "123456789012345678901234567890"] {
        check(Integer, sql);
    }
    for sql in ["1.5", "1.", ".5", "1e10", "1.5e+10", ".5E-3", "1_0.0_1e1_0", "1.e5"] {
        check(Float, sql);
    }
    assert_eq!(tokens("1..2"), [(Integer, "1"), (DotDot, ".."), (Integer, "2")]);
    check_texts("1...5", &["1", "..", ".5"]);
    check_texts("1.5.3", &["1.5", ".3"]);
    check_texts("-5", &["-", "5"]);
    check_texts("0x1.5", &["0x1", ".5"]);
    check_texts("1$1", &["1", "$1"]);
    check_texts("1e+5$1", &["1e+5", "$1"]);
    check_texts("1_0.5$1", &["1_0.5", "$1"]);
    check_texts("a.1", &["a", ".1"]);
    for sql in [
        "1a", "1_", "1__0", "0x", "0xG", "0b12", "0x1$", "1_0$1", "1e5$1", "1.5_0$", "1e", "1e+", "1.5x", "1e5e",
        "08f", "1é",
    ] {
        check_error(sql, LexError::NumberJunk { at: 0 });
    }
}

#[test]
fn strings() {
    for sql in ["''", "'a'", "'it''s'", "'\\'", "'a\nb'", "'--'", "'/*'", "'$$'", "'é'", "''''"] {
        check(String, sql);
    }
    for sql in ["E'\\''", "e'\\\\'", "E''", "E'it''s\\n'", "E'\\é'"] {
        check(EString, sql);
    }
    check(BitString, "B'0101'");
    check(HexString, "x'1F'");
    check(NString, "N'it''s'");
    check(UString, "U&'d\\0061'");
    check_error("'a", LexError::UnterminatedString { at: 0 });
    check_error("x = 'it''", LexError::UnterminatedString { at: 4 });
    check_error("E'\\'", LexError::UnterminatedString { at: 0 });
    check_error("E'\\", LexError::UnterminatedString { at: 0 });
    check_error("\"a", LexError::UnterminatedIdent { at: 0 });
    check_error("\"a\"\"", LexError::UnterminatedIdent { at: 0 });
}

#[test]
fn strings_continue_on_the_next_line() {
    for sql in ["'a'\n'b'", "'a' \n\t 'b'", "'a'\r'b'", "'a' -- c\n'b'", "'a'\n-- c\n--d\n'b'", "'a'\n'b'\n'c''d'"] {
        check(String, sql);
    }
    check(EString, "E'a'\n'\\'b'");
    check(BitString, "B'1'\n'0'");
    check(UString, "U&'a'\n'b'");
    assert_eq!(tokens("'a' 'b'"), [(String, "'a'"), (String, "'b'")]);
    assert_eq!(tokens("'a' /*\n*/ 'b'"), [(String, "'a'"), (String, "'b'")]);
    assert_eq!(tokens("'a'\n/**/'b'"), [(String, "'a'"), (String, "'b'")]);
    assert_eq!(tokens("'a'\nE'b'"), [(String, "'a'"), (EString, "E'b'")]);
    assert_eq!(tokens("'a'\n-'b'"), [(String, "'a'"), (Op, "-"), (String, "'b'")]);
    // In these a doubled quote is not an escaped one.
    assert_eq!(tokens("B'1''0'"), [(BitString, "B'1'"), (String, "'0'")]);
}

#[test]
fn backslashes_without_standard_conforming_strings() {
    assert_eq!(tokens_with("'a\\''", false), [(String, "'a\\''")]);
    assert_eq!(tokens_with("'a\\\\'", false), [(String, "'a\\\\'")]);
    assert_eq!(tokens_with("'\\\\', '\\';'", false), [(String, "'\\\\'"), (Punct(b','), ","), (String, "'\\';'")]);
    assert_eq!(tokens_with("N'\\''", false), [(NString, "N'\\''")]);
    assert_eq!(tokens_with("E'\\''", false), [(EString, "E'\\''")]);
    assert_eq!(tokens_with("'a'\n'\\''", false), [(String, "'a'\n'\\''")]);
    // These never have backslash escapes.
    assert_eq!(tokens_with("B'\\' x'\\'", false), [(BitString, "B'\\'"), (HexString, "x'\\'")]);
    assert_eq!(tokens_with("\"a\\\" $$\\$$", false), [(QuotedIdent, "\"a\\\""), (DollarString, "$$\\$$")]);
    assert_eq!(tokens_with("U&\"\\0061\"", false), [(UIdent, "U&\"\\0061\"")]);
    let error = Lexer::new("1, U&'a'", false).find_map(Result::err);
    assert_eq!(error, Some(LexError::UnsafeUnicodeString { at: 3 }));
}

#[test]
fn dollars() {
    for sql in ["$$$$", "$$a$$", "$$it's $1 $ $a$ $$", "$a$ $$ $b$ $a$", "$é1$x$é1$", "$a$$b$a$"] {
        check(DollarString, sql);
    }
    check(Param, "$1");
    check(Param, "$65535");
    assert_eq!(tokens("a$$b$$"), [(Ident, "a$$b$$")]);
    assert_eq!(tokens("$1$$a$$"), [(Param, "$1"), (DollarString, "$$a$$")]);
    assert_eq!(tokens("$1::int"), [(Param, "$1"), (TypeCast, "::"), (Ident, "int")]);
    check_error("$a$ $A$", LexError::UnterminatedDollar { at: 0 });
    check_error("x $$ $", LexError::UnterminatedDollar { at: 2 });
    check_error("$1a", LexError::ParamJunk { at: 0 });
    check_error("$1_0", LexError::ParamJunk { at: 0 });
    check_error("$ $", LexError::UnexpectedCharacter { at: 0 });
    check_error("a, $b", LexError::UnexpectedCharacter { at: 3 });
}

#[test]
fn operators() {
    for sql in ["+", "-", "<=", "=>", "<>", "!=", "->>", "#>>", "@>", "?|", "||", "@-", "!+-", "*/"] {
        check(Op, sql);
    }
    check_texts("a=-1", &["a", "=", "-", "1"]);
    check_texts("a=+-+1", &["a", "=", "+", "-", "+", "1"]);
    check_texts("a<-1", &["a", "<", "-", "1"]);
    check_texts("a@-1", &["a", "@-", "1"]);
    check_texts("a*/*b*/c", &["a", "*", "c"]);
    check_texts("a=--b\nc", &["a", "=", "c"]);
    check_texts("a+/**/-b", &["a", "+", "-", "b"]);
    check_texts("@--b\n-/**/", &["@", "-"]);
    check_texts("a->-1", &["a", "->", "-", "1"]);
    check_texts("count(*)", &["count", "(", "*", ")"]);
}

#[test]
fn punctuation() {
    for byte in *b"()[],;.:" {
        let sql = char::from(byte).to_string();
        assert_eq!(tokens(&sql), [(Punct(byte), &*sql)]);
    }
    check(TypeCast, "::");
    check(ColonEquals, ":=");
    check_texts(":::=", &["::", ":="]);
    check_texts("a.b.*", &["a", ".", "b", ".", "*"]);
}

#[test]
fn comments_and_space() {
    assert_eq!(tokens(" \t\r\n\u{b}\u{c}"), []);
    assert_eq!(tokens("-- all"), []);
    assert_eq!(tokens("/* a /* b */ c */"), []);
    check_texts("a--b\rc", &["a", "c"]);
    check_texts("a/**/b", &["a", "b"]);
    check_texts("a/***/b", &["a", "b"]);
    check_texts("a/*/**/*/b", &["a", "b"]);
    check_texts("a/*'*/b", &["a", "b"]);
    check_texts("--'\nb", &["b"]);
    check_error("a /*/", LexError::UnterminatedComment { at: 2 });
    check_error("/* /* */", LexError::UnterminatedComment { at: 0 });
    check_error("/* *", LexError::UnterminatedComment { at: 0 });
}

#[test]
fn what_no_token_begins_with() {
    for sql in ["\\", "{", "}", "\u{1}", "\0", "\u{7f}"] {
        check_error(sql, LexError::UnexpectedCharacter { at: 0 });
    }
}

#[test]
fn starts_anywhere_between_tokens() {
    let sql = "a 'b' c";
    let token = Lexer::starting_at(sql, 5, true).next().map(Result::unwrap);
    assert_eq!(token.map(|token| (token.start, token.end)), Some((6, 7)));
    assert_eq!(Lexer::starting_at(sql, sql.len(), true).next(), None);
}
