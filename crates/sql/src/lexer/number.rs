//! Numbers: decimal and radix integers, fractions, exponents, `_` between digits, and `1..2`.
//!
//! Rules of PostgreSQL 16 and later; 15 takes no `0x1F` or `1_000` and reports an error of its own.

use super::class::{is_ident_part, is_ident_start};
use super::{LexError, Lexer, TokenKind};

impl Lexer<'_> {
    /// The number at `start`, which is a digit, or a dot and a digit.
    #[inline]
    pub(super) fn number(&self, start: usize) -> Result<(TokenKind, usize), LexError> {
        if self.bytes[start] == b'0' {
            let radix = match self.byte(start + 1) | 0x20 {
                b'x' => 16,
                b'o' => 8,
                b'b' => 2,
                _ => 10,
            };
            if radix != 10 {
                return self.radix_integer(start, radix);
            }
        }
        let mut kind = TokenKind::Integer;
        let mut end = self.digits_end(start);
        // `1..2` is a range of integers (in PL/pgSQL's FOR), not the fractions `1.` and `.2`.
        if self.byte(end) == b'.' && self.byte(end + 1) != b'.' {
            kind = TokenKind::Float;
            end = self.digits_end(end + 1);
        }
        if self.byte(end) | 0x20 == b'e' {
            let sign = usize::from(matches!(self.byte(end + 1), b'+' | b'-'));
            let digits = end + 1 + sign;
            if !self.byte(digits).is_ascii_digit() {
                return Err(LexError::NumberJunk { at: start });
            }
            kind = TokenKind::Float;
            end = self.digits_end(digits);
        }
        let next = self.byte(end);
        if is_ident_start(next) || (next == b'$' && self.ends_like_a_word(start, end)) {
            return Err(LexError::NumberJunk { at: start });
        }
        Ok((kind, end))
    }

    /// Whether the number's last part, from a letter or `_` on, could be an identifier: `_000` in `1_000`, `e5` in
    /// `1e5`. If `$` follows, PostgreSQL takes it, by the longest match, for the end of an identifier that is out of
    /// place.
    #[cold]
    fn ends_like_a_word(&self, start: usize, end: usize) -> bool {
        let mut tail = self.bytes[start..end].iter().rev();
        tail.find(|byte| !byte.is_ascii_digit()).is_some_and(|byte| is_ident_start(*byte))
    }

    /// `0x…`, `0o…` or `0b…`, which `$` cannot follow either, as all after the 0 could be an identifier.
    fn radix_integer(&self, start: usize, radix: u32) -> Result<(TokenKind, usize), LexError> {
        let is_digit = |at: usize| char::from(self.byte(at)).is_digit(radix);
        let digits = start + 2;
        let mut end = digits;
        loop {
            let digit = end + usize::from(self.byte(end) == b'_');
            if !is_digit(digit) {
                break;
            }
            end = digit + 1;
        }
        if end == digits || is_ident_part(self.byte(end)) {
            return Err(LexError::NumberJunk { at: start });
        }
        Ok((TokenKind::Integer, end))
    }

    /// The end of the decimal digits at `at`, which may have single `_` between them. `at` itself if there are none.
    #[inline]
    fn digits_end(&self, mut at: usize) -> usize {
        if !self.byte(at).is_ascii_digit() {
            return at;
        }
        loop {
            at += 1;
            let next = at + usize::from(self.byte(at) == b'_');
            if !self.byte(next).is_ascii_digit() {
                return at;
            }
            at = next;
        }
    }

    /// The parameter whose `$` is at `start` and whose first digit follows.
    #[inline]
    pub(super) fn param(&self, start: usize) -> Result<(TokenKind, usize), LexError> {
        let mut end = start + 1;
        while self.byte(end).is_ascii_digit() {
            end += 1;
        }
        if is_ident_start(self.byte(end)) {
            return Err(LexError::ParamJunk { at: start });
        }
        Ok((TokenKind::Param, end))
    }
}
