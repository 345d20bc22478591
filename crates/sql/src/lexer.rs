//! PostgreSQL's lexical rules: SQL text → tokens, as byte ranges of the text.
//!
//! The first thing that happens to a statement, so it neither copies nor allocates. It cuts text exactly where
//! PostgreSQL 18's own scanner does (`src/backend/parser/scan.l`), which the tests check against libpg_query.
//!
//! It deliberately does not know keywords, what tokens mean, or whether the inside of a literal is well formed
//! (a bad `\u` escape is found when the literal is decoded, see [`crate::template`]). Where it fails, PostgreSQL
//! fails too, with a syntax error of its own; a caller that wants PostgreSQL's words can forward the text as it is.
//!
//! Text must be UTF-8 (or ASCII): in client encodings such as SJIS a quote or backslash can be half of a character.

mod class;
mod number;
mod quoted;

use class::{Class, class_of, is_ident_part, is_operator};
use memchr::memchr2;

/// What a token is. The text of a token is `&sql[token.start..token.end]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// An unquoted identifier or a keyword, in the client's own case.
    Ident,
    /// `"x"`.
    QuotedIdent,
    /// `U&"x"`. A `UESCAPE 'c'` after it is separate tokens.
    UIdent,
    /// `42`, `1_000`, `0x1F`, `0o17`, `0b101`, of any size; never with a sign.
    Integer,
    /// `1.5`, `1.`, `.5`, `1e10`.
    Float,
    /// `'x'`, with its continuations on following lines. Backslashes are plain if `standard_conforming_strings` is
    /// on.
    String,
    /// `E'x'`.
    EString,
    /// `B'101'`.
    BitString,
    /// `X'1F'`.
    HexString,
    /// `N'x'`. PostgreSQL's scanner yields the keyword `NCHAR` and a string instead.
    NString,
    /// `U&'x'`. A `UESCAPE 'c'` after it is separate tokens.
    UString,
    /// `$$x$$` or `$tag$x$tag$`.
    DollarString,
    /// `$1`.
    Param,
    /// An operator: `+`, `<=`, `->>`, `=>` and so on.
    Op,
    /// One of `( ) [ ] , ; . :`.
    Punct(u8),
    /// `::`.
    TypeCast,
    /// `:=`.
    ColonEquals,
    /// `..`.
    DotDot,
}

/// A token and its place in the text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

/// Why text is not SQL. `at` is the byte where the offending token begins. All but
/// [`UnsafeUnicodeString`](LexError::UnsafeUnicodeString) (0A000) are syntax errors (42601) in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LexError {
    #[error("unterminated quoted string at byte {at}")]
    UnterminatedString { at: usize },
    #[error("unterminated /* comment at byte {at}")]
    UnterminatedComment { at: usize },
    #[error("unterminated quoted identifier at byte {at}")]
    UnterminatedIdent { at: usize },
    #[error("unterminated dollar-quoted string at byte {at}")]
    UnterminatedDollar { at: usize },
    #[error("trailing junk after numeric literal at byte {at}")]
    NumberJunk { at: usize },
    #[error("trailing junk after parameter at byte {at}")]
    ParamJunk { at: usize },
    #[error("string constant with Unicode escapes at byte {at} cannot be used when standard_conforming_strings is off")]
    UnsafeUnicodeString { at: usize },
    /// A character that is part of no token: `\`, `{`, a lone `$`, a control character.
    #[error("unexpected character at byte {at}")]
    UnexpectedCharacter { at: usize },
    /// Only of [`crate::split::values_rows`]: no `VALUES (` at the offset given.
    #[error("expected VALUES and a row at byte {at}")]
    ExpectedValues { at: usize },
    /// Only of [`crate::template::Template::scan`]: offsets are kept in 32 bits.
    #[error("statement is longer than 4 GiB")]
    TooLong,
}

/// Iterates over the tokens of a text, skipping white space and comments. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Lexer<'a> {
    bytes: &'a [u8],
    pos: usize,
    standard_conforming_strings: bool,
    /// Up to here, from `pos` on, there is nothing but plus and minus.
    signs_until: usize,
}

impl<'a> Lexer<'a> {
    /// From the beginning of a text; with the setting off, `\` escapes in plain strings, too.
    pub fn new(sql: &'a str, standard_conforming_strings: bool) -> Self {
        Self::starting_at(sql, 0, standard_conforming_strings)
    }

    /// Starts in the middle of a text. `start` must lie between tokens; offsets still count from the text's
    /// beginning.
    pub fn starting_at(sql: &'a str, start: usize, standard_conforming_strings: bool) -> Self {
        Self { bytes: sql.as_bytes(), pos: start, standard_conforming_strings, signs_until: 0 }
    }

    /// The byte at `at`, or 0 (which is part of no token) past the end.
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Moves past white space and comments.
    #[inline]
    fn skip_blank(&mut self) -> Result<(), LexError> {
        loop {
            match self.byte(self.pos) {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C => self.pos += 1,
                b'-' if self.byte(self.pos + 1) == b'-' => self.pos = self.line_comment_end(self.pos),
                b'/' if self.byte(self.pos + 1) == b'*' => self.pos = self.block_comment_end(self.pos)?,
                _ => return Ok(()),
            }
        }
    }

    /// The newline that ends the `--` comment at `start` (not part of it), or the end of the text.
    fn line_comment_end(&self, start: usize) -> usize {
        memchr2(b'\n', b'\r', &self.bytes[start..]).map_or(self.bytes.len(), |length| start + length)
    }

    /// The byte after the `/* … */` at `start`; such comments nest.
    fn block_comment_end(&self, start: usize) -> Result<usize, LexError> {
        let mut depth = 1_usize;
        let mut at = start + 2;
        while let Some(found) = self.bytes.get(at..).and_then(|rest| memchr2(b'*', b'/', rest)) {
            at += found;
            match (self.bytes[at], self.byte(at + 1)) {
                (b'/', b'*') => {
                    depth += 1;
                    at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    at += 2;
                    if depth == 0 {
                        return Ok(at);
                    }
                }
                _ => at += 1,
            }
        }
        Err(LexError::UnterminatedComment { at: start })
    }

    #[inline]
    fn ident_end(&self, mut at: usize) -> usize {
        while is_ident_part(self.byte(at)) {
            at += 1;
        }
        at
    }

    /// One token, whose first byte is at `start`.
    #[inline]
    fn token(&mut self, start: usize) -> Result<(TokenKind, usize), LexError> {
        let first = self.byte(start);
        match class_of(first) {
            Class::Ident => Ok((TokenKind::Ident, self.ident_end(start + 1))),
            Class::Prefix => self.prefixed(start),
            Class::Digit => self.number(start),
            Class::Quote => Ok((TokenKind::String, self.string_end(start, start, !self.standard_conforming_strings)?)),
            Class::DoubleQuote => Ok((TokenKind::QuotedIdent, self.quoted_ident_end(start, start)?)),
            Class::Punct => Ok((TokenKind::Punct(first), start + 1)),
            Class::Dot => match self.byte(start + 1) {
                b'0'..=b'9' => self.number(start),
                b'.' => Ok((TokenKind::DotDot, start + 2)),
                _ => Ok((TokenKind::Punct(b'.'), start + 1)),
            },
            Class::Colon => Ok(match self.byte(start + 1) {
                b':' => (TokenKind::TypeCast, start + 2),
                b'=' => (TokenKind::ColonEquals, start + 2),
                _ => (TokenKind::Punct(b':'), start + 1),
            }),
            Class::Operator => Ok((TokenKind::Op, self.operator_end(start))),
            Class::Dollar => self.dollar(start),
            Class::Other => Err(LexError::UnexpectedCharacter { at: start }),
        }
    }

    /// A letter that begins a literal if a quote follows at once, else an identifier.
    #[inline]
    fn prefixed(&self, start: usize) -> Result<(TokenKind, usize), LexError> {
        let quote = start + 1;
        let next = self.byte(quote);
        if next == b'\'' {
            return match self.bytes[start] | 0x20 {
                b'e' => Ok((TokenKind::EString, self.string_end(start, quote, true)?)),
                b'n' => Ok((TokenKind::NString, self.string_end(start, quote, !self.standard_conforming_strings)?)),
                b'b' => Ok((TokenKind::BitString, self.bit_string_end(start, quote)?)),
                b'x' => Ok((TokenKind::HexString, self.bit_string_end(start, quote)?)),
                _ => Ok((TokenKind::Ident, quote)),
            };
        }
        if next == b'&' && self.bytes[start] | 0x20 == b'u' {
            let quote = quote + 1;
            match self.byte(quote) {
                b'\'' if !self.standard_conforming_strings => {
                    return Err(LexError::UnsafeUnicodeString { at: start });
                }
                b'\'' => return Ok((TokenKind::UString, self.string_end(start, quote, false)?)),
                b'"' => return Ok((TokenKind::UIdent, self.quoted_ident_end(start, quote)?)),
                _ => {}
            }
        }
        Ok((TokenKind::Ident, self.ident_end(quote)))
    }

    /// The end of the operator at `start`: the longest run of operator characters, cut before a comment, and without
    /// trailing `+` and `-` unless it has a character that no operator of the SQL standard has (so `=-1` is `=` and
    /// `-1`).
    #[inline]
    fn operator_end(&mut self, start: usize) -> usize {
        if start < self.signs_until {
            return start + 1;
        }
        let mut end = start + 1;
        let mut previous = self.bytes[start];
        let mut beyond_standard = is_beyond_standard(previous);
        while is_operator(self.byte(end)) {
            let byte = self.bytes[end];
            if matches!((previous, byte), (b'-', b'-') | (b'/', b'*')) {
                end -= 1;
                break;
            }
            beyond_standard |= is_beyond_standard(byte);
            previous = byte;
            end += 1;
        }
        if !beyond_standard {
            // What is cut off are signs, each a token by itself: known, so that a long row of them is not read again for each.
            self.signs_until = end;
            while end - start > 1 && matches!(self.bytes[end - 1], b'+' | b'-') {
                end -= 1;
            }
        }
        end
    }
}

fn is_beyond_standard(byte: u8) -> bool {
    matches!(byte, b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%')
}

impl Iterator for Lexer<'_> {
    type Item = Result<Token, LexError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let result = self.skip_blank().and_then(|()| {
            let start = self.pos;
            if start >= self.bytes.len() {
                return Ok(None);
            }
            let (kind, end) = self.token(start)?;
            self.pos = end;
            Ok(Some(Token { kind, start, end }))
        });
        if result.is_err() {
            self.pos = self.bytes.len();
        }
        result.transpose()
    }
}
