//! Where quoted things end: strings with their continuations, identifiers, dollar quotes.

use memchr::{memchr, memchr2, memmem};

use super::class::is_ident_start;
use super::{LexError, Lexer, TokenKind};

impl Lexer<'_> {
    /// The end of the string whose opening quote is at `quote`. With `escapes`, a backslash takes the next byte with
    /// it.
    #[inline]
    pub(super) fn string_end(&self, start: usize, quote: usize, escapes: bool) -> Result<usize, LexError> {
        let mut at = quote + 1;
        loop {
            let close = if escapes { self.find_unescaped_quote(at) } else { self.find_quote(at) };
            let after = close.ok_or(LexError::UnterminatedString { at: start })? + 1;
            if self.byte(after) == b'\'' {
                at = after + 1;
            } else if let Some(reopen) = self.continuation(after) {
                at = reopen + 1;
            } else {
                return Ok(after);
            }
        }
    }

    /// As [`string_end`](Self::string_end), for `B''` and `X''`, in which a doubled quote is an end and a new string.
    pub(super) fn bit_string_end(&self, start: usize, quote: usize) -> Result<usize, LexError> {
        let mut at = quote + 1;
        loop {
            let after = self.find_quote(at).ok_or(LexError::UnterminatedString { at: start })? + 1;
            match self.continuation(after) {
                Some(reopen) => at = reopen + 1,
                None => return Ok(after),
            }
        }
    }

    #[inline]
    fn find_quote(&self, at: usize) -> Option<usize> {
        Some(at + memchr(b'\'', self.bytes.get(at..)?)?)
    }

    fn find_unescaped_quote(&self, mut at: usize) -> Option<usize> {
        loop {
            at += memchr2(b'\'', b'\\', self.bytes.get(at..)?)?;
            if self.bytes[at] == b'\'' {
                return Some(at);
            }
            at += 2;
        }
    }

    /// The quote that reopens a string after its closing quote, if only white space and `--` comments, with at least
    /// one newline, stand between.
    #[inline]
    pub(crate) fn continuation(&self, mut at: usize) -> Option<usize> {
        let mut newline = false;
        loop {
            match self.byte(at) {
                b'\n' | b'\r' => {
                    newline = true;
                    at += 1;
                }
                b' ' | b'\t' | 0x0B | 0x0C => at += 1,
                b'-' if self.byte(at + 1) == b'-' => at = self.line_comment_end(at),
                b'\'' if newline => return Some(at),
                _ => return None,
            }
        }
    }

    /// The end of the identifier whose opening double quote is at `quote`.
    pub(super) fn quoted_ident_end(&self, start: usize, quote: usize) -> Result<usize, LexError> {
        let mut at = quote + 1;
        while let Some(found) = self.bytes.get(at..).and_then(|rest| memchr(b'"', rest)) {
            at += found + 1;
            if self.byte(at) != b'"' {
                return Ok(at);
            }
            at += 1;
        }
        Err(LexError::UnterminatedIdent { at: start })
    }

    /// What begins with `$` outside of an identifier: a parameter or a dollar-quoted string.
    pub(super) fn dollar(&self, start: usize) -> Result<(TokenKind, usize), LexError> {
        if self.byte(start + 1).is_ascii_digit() {
            return self.param(start);
        }
        let mut end = start + 1;
        if is_ident_start(self.byte(end)) {
            while is_ident_start(self.byte(end)) || self.byte(end).is_ascii_digit() {
                end += 1;
            }
        }
        if self.byte(end) != b'$' {
            return Err(LexError::UnexpectedCharacter { at: start });
        }
        let body = end + 1;
        let delimiter = &self.bytes[start..body];
        let length = memmem::find(&self.bytes[body..], delimiter).ok_or(LexError::UnterminatedDollar { at: start })?;
        Ok((TokenKind::DollarString, body + length + delimiter.len()))
    }
}
