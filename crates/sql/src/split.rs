//! Cuts a text at its commas and semicolons: a query string into statements, `VALUES` into rows, a row into fields.
//!
//! It deliberately does not parse. It knows tokens, brackets, and the one place where a statement holds semicolons
//! outside of brackets: the `BEGIN ATOMIC … END` body of an SQL routine.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2, memchr3, memchr3_iter};

use crate::lexer::{LexError, Lexer, Token, TokenKind};

/// The statements of a query string, without their semicolons, without white space around them and without comments
/// after them; comments before a statement belong to it (they may be hints). Empty statements are left out, so an
/// empty result is what PostgreSQL answers with `EmptyQueryResponse`.
///
/// What is wrong with the tokens of a text that is one statement anyhow is left for whoever reads that.
pub fn split_statements(sql: &str, standard_conforming_strings: bool) -> Result<Vec<Range<usize>>, LexError> {
    if is_one_statement(sql) {
        return Ok(std::iter::once(0..sql.len()).collect());
    }
    match sql.strip_suffix(';').filter(|before| is_one_statement(before) && ends_what_it_begins(before)) {
        Some(before) => Ok(std::iter::once(0..before.len()).collect()),
        None => by_tokens(sql, standard_conforming_strings),
    }
}

/// Made once: to make a searcher takes longer than a statement's text takes to search.
static COMMENTS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| ["--", "/*"].map(Finder::new));

/// Seen without a look at its tokens: a text that begins with a word and has no semicolon, no comment, and no white space at its end.
fn is_one_statement(sql: &str) -> bool {
    let ends = matches!(sql.as_bytes(), [first, .., last] if first.is_ascii_alphabetic() && *last > b' ');
    let comment = || COMMENTS.iter().any(|begins| begins.find(sql.as_bytes()).is_some());
    ends && memchr(b';', sql.as_bytes()).is_none() && !comment()
}

/// Seen in the same way: a semicolon behind it is outside of strings, brackets and routines' bodies. Where that takes more to see: no.
fn ends_what_it_begins(sql: &str) -> bool {
    let text = sql.as_bytes();
    let takes_more = memchr3(b'"', b'\\', b'$', text).or_else(|| memchr2(b'[', b']', text));
    if takes_more.is_some() || sql.starts_with(['c', 'C']) {
        return false;
    }
    let (mut inside, mut depth) = (false, 0usize);
    for at in memchr3_iter(b'\'', b'(', b')', text) {
        match text[at] {
            b'\'' => inside = !inside,
            b'(' if !inside => depth += 1,
            b')' if !inside && depth == 0 => return false,
            b')' if !inside => depth -= 1,
            _ => {}
        }
    }
    !inside && depth == 0
}

fn by_tokens(sql: &str, standard_conforming_strings: bool) -> Result<Vec<Range<usize>>, LexError> {
    let mut statements = Vec::new();
    let mut statement = Statement::starting_at(0);
    for token in Lexer::new(sql, standard_conforming_strings) {
        let token = token?;
        if token.kind == TokenKind::Punct(b';') && statement.ends_at_semicolon() {
            statements.extend(statement.range(sql));
            statement = Statement::starting_at(token.end);
        } else {
            statement.push(token, &sql[token.start..token.end]);
        }
    }
    statements.extend(statement.range(sql));
    Ok(statements)
}

/// One statement while its tokens go by.
struct Statement {
    start: usize,
    /// End of its last token, if it has any.
    end: Option<usize>,
    depth: Depth,
    routine: RoutineHead,
    /// `BEGIN ATOMIC`s without their `END`.
    bodies: usize,
    previous: Previous,
}

/// How much of `CREATE [OR REPLACE] {FUNCTION | PROCEDURE}` has been seen at the beginning of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RoutineHead {
    Start,
    Create,
    Or,
    Replace,
    Routine,
    SomethingElse,
}

/// The token before, as far as it matters for `BEGIN ATOMIC … END`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    Begin,
    /// `ATOMIC` after `BEGIN`, or a semicolon in a body: what an `END` that closes the body follows (any other `END`
    /// is of a `CASE`, or a name).
    StatementBoundary,
    Other,
}

impl Statement {
    fn starting_at(start: usize) -> Self {
        Self {
            start,
            end: None,
            depth: Depth::default(),
            routine: RoutineHead::Start,
            bodies: 0,
            previous: Previous::Other,
        }
    }

    fn ends_at_semicolon(&self) -> bool {
        self.depth.is_zero() && self.bodies == 0
    }

    fn push(&mut self, token: Token, text: &str) {
        self.end = Some(token.end);
        self.depth.pass(token.kind);
        let word = if token.kind == TokenKind::Ident { text } else { "" };
        if self.routine != RoutineHead::Routine {
            self.routine = self.routine.after(word);
            return;
        }
        if !self.depth.is_zero() {
            self.previous = Previous::Other;
            return;
        }
        self.previous = match self.previous {
            Previous::Begin if word.eq_ignore_ascii_case("atomic") => {
                self.bodies += 1;
                Previous::StatementBoundary
            }
            Previous::StatementBoundary if self.bodies > 0 && word.eq_ignore_ascii_case("end") => {
                self.bodies -= 1;
                Previous::Other
            }
            _ if word.eq_ignore_ascii_case("begin") => Previous::Begin,
            _ if token.kind == TokenKind::Punct(b';') => Previous::StatementBoundary,
            _ => Previous::Other,
        };
    }

    fn range(&self, sql: &str) -> Option<Range<usize>> {
        let end = self.end?;
        let blank = |character: char| character.is_ascii_whitespace() || character == '\x0B';
        let skipped = sql[self.start..end].len() - sql[self.start..end].trim_start_matches(blank).len();
        Some(self.start + skipped..end)
    }
}

impl RoutineHead {
    fn after(self, word: &str) -> Self {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        match self {
            Self::Start if is("create") => Self::Create,
            Self::Create if is("or") => Self::Or,
            Self::Or if is("replace") => Self::Replace,
            Self::Create | Self::Replace if is("function") || is("procedure") => Self::Routine,
            _ => Self::SomethingElse,
        }
    }
}

/// How many brackets are open. A closing one too many is an error that PostgreSQL reports.
#[derive(Default)]
struct Depth(usize);

impl Depth {
    fn pass(&mut self, kind: TokenKind) {
        match kind {
            TokenKind::Punct(b'(' | b'[') => self.0 += 1,
            TokenKind::Punct(b')' | b']') => self.0 = self.0.saturating_sub(1),
            _ => {}
        }
    }

    fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

/// The first word of a statement, in the client's own case, past comments and opening parentheses (`(SELECT …) UNION
/// …`). Empty if it begins with no word.
pub fn first_keyword(sql: &str) -> &str {
    Lexer::new(sql, true)
        .map_while(Result::ok)
        .find(|token| token.kind != TokenKind::Punct(b'('))
        .filter(|token| token.kind == TokenKind::Ident)
        .map_or("", |token| &sql[token.start..token.end])
}

/// The rows of `VALUES (…), (…), …`, each with its parentheses, where `values_at` is the offset of `VALUES`. What
/// follows the last row (`ON CONFLICT`, `RETURNING`, …) is not looked at.
pub fn values_rows(
    sql: &str,
    standard_conforming_strings: bool,
    values_at: usize,
) -> Result<Vec<Range<usize>>, LexError> {
    let expected = LexError::ExpectedValues { at: values_at };
    let mut tokens = Lexer::starting_at(sql, values_at, standard_conforming_strings);
    let keyword = tokens.next().transpose()?.ok_or(expected)?;
    if !sql[keyword.start..keyword.end].eq_ignore_ascii_case("values") {
        return Err(expected);
    }
    let mut rows = Vec::new();
    loop {
        let open = tokens.next().transpose()?.ok_or(expected)?;
        if open.kind != TokenKind::Punct(b'(') {
            return Err(expected);
        }
        let end = row_end(&mut tokens)?.ok_or(expected)?;
        rows.push(open.start..end);
        match tokens.next().transpose() {
            Ok(Some(Token { kind: TokenKind::Punct(b','), .. })) => {}
            _ => return Ok(rows),
        }
    }
}

/// The end of the row whose opening parenthesis has been taken from `tokens`; `None` if it is not closed.
fn row_end(tokens: &mut Lexer<'_>) -> Result<Option<usize>, LexError> {
    let mut depth = Depth(1);
    for token in tokens {
        let token = token?;
        depth.pass(token.kind);
        if depth.is_zero() {
            return Ok(Some(token.end));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is taken for one statement unseen has one by its tokens, too, and all of it.
        #[test]
        fn one_statement_is_one_by_its_tokens(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "select", "x", "1", " ", "\n", "'", "''", "a - b", "-", "/", "*", "\"", "$$", "$a$", "(", ")", "E'\\'", "é", ";", "begin",
                    "atomic", "end", "create function", "U&'", "\\", ",",
                ]),
                1..12,
            ),
        ) {
            let sql = pieces.concat();
            if is_one_statement(&sql) && let Ok(ranges) = by_tokens(&sql, true) {
                prop_assert_eq!(ranges.len(), 1);
                prop_assert_eq!(&ranges[0], &(0..sql.len()));
            }
        }
    }
}
