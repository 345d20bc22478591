//! The value of a literal: quotes off, escapes resolved, numbers in plain decimal.
//!
//! Only for literals a plan looks at (keys, mostly), so it may allocate. The value is what PostgreSQL's scanner
//! passes on: text that the input function of some type still has to accept.

use std::borrow::Cow;

use super::{Literal, LiteralKind};
use crate::lexer::{Lexer, TokenKind};

/// Why a literal has no value. PostgreSQL rejects such a literal as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LiteralError {
    /// 22025 or 42601: `\u12`, `U&'\12'`, half of a surrogate pair, a code point beyond Unicode, or zero.
    #[error("invalid Unicode escape in the literal at byte {at}")]
    UnicodeEscape { at: usize },
    /// 42601: `UESCAPE` with anything but one character that is no hexadecimal digit, `+`, quote or space.
    #[error("invalid UESCAPE character for the literal at byte {at}")]
    EscapeCharacter { at: usize },
    /// 22021: byte escapes that do not add up to UTF-8, or a zero byte.
    #[error("invalid byte sequence for encoding UTF8 in the literal at byte {at}")]
    Encoding { at: usize },
}

/// The value of `literal` of `sql`:
/// - strings of all kinds: their contents;
/// - `B''` and `X''`: their digits, as written;
/// - numbers: decimal, without `_`; whole ones without leading zeros or radix. (Of 2^128 or more, with their radix.)
///
/// # Panics
/// If `literal` is not one of `sql`.
pub fn literal_value(
    sql: &str,
    literal: Literal,
    standard_conforming_strings: bool,
) -> Result<Cow<'_, str>, LiteralError> {
    let at = literal.start as usize;
    let text = &sql[at..literal.end as usize];
    match literal.kind {
        LiteralKind::Integer | LiteralKind::BigInteger | LiteralKind::Float => Ok(number(text)),
        LiteralKind::Dollar => {
            let delimiter = text[1..].find('$').map_or(1, |second| second + 2);
            Ok(Cow::Borrowed(&text[delimiter..text.len() - delimiter]))
        }
        LiteralKind::Bit | LiteralKind::Hex => Ok(joined(segments(text, false))),
        LiteralKind::EString => unescape(text, at),
        LiteralKind::String | LiteralKind::National if !standard_conforming_strings => unescape(text, at),
        LiteralKind::String | LiteralKind::National => Ok(match plain(text) {
            Some(contents) => Cow::Borrowed(contents),
            None => undouble(joined(segments(text, false))),
        }),
        LiteralKind::Unicode => {
            let escape = uescape(sql, literal.end as usize, standard_conforming_strings)
                .ok_or(LiteralError::EscapeCharacter { at })?;
            unescape_unicode(undouble(joined(segments(text, false))), escape, at)
        }
    }
}

/// The value of a whole number in any radix, if it is below 2^128.
pub(super) fn integer(text: &str) -> Option<u128> {
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', b'o' | b'O', ..] => (8, &text[2..]),
        [b'0', b'b' | b'B', ..] => (2, &text[2..]),
        _ => (10, text),
    };
    digits
        .chars()
        .filter(|digit| *digit != '_')
        .try_fold(0_u128, |value, digit| value.checked_mul(radix.into())?.checked_add(digit.to_digit(radix)?.into()))
}

fn number(text: &str) -> Cow<'_, str> {
    if text == "0" || (text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0')) {
        return Cow::Borrowed(text);
    }
    // `integer` declines fractions and exponents.
    match integer(text) {
        Some(value) => Cow::Owned(value.to_string()),
        None if text.contains('_') => Cow::Owned(text.replace('_', "")),
        None => Cow::Borrowed(text),
    }
}

/// A string of which only the ends are quotes, as almost all are.
fn plain(text: &str) -> Option<&str> {
    let contents = text.strip_prefix('\'')?.strip_suffix('\'')?;
    memchr::memchr(b'\'', contents.as_bytes()).is_none().then_some(contents)
}

/// What is between the quotes of a string: one segment, or several where it continues on following lines. Doubled
/// quotes and escapes are as written.
fn segments(text: &str, escapes: bool) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let mut next = text.find('\'').map(|quote| quote + 1);
    std::iter::from_fn(move || {
        let start = next?;
        let mut at = start;
        loop {
            match bytes.get(at)? {
                b'\\' if escapes => at += 2,
                b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
                b'\'' => break,
                _ => at += 1,
            }
        }
        next = Lexer::new(text, true).continuation(at + 1).map(|reopen| reopen + 1);
        Some(&text[start..at])
    })
}

fn joined<'s>(mut segments: impl Iterator<Item = &'s str>) -> Cow<'s, str> {
    let first = segments.next().unwrap_or_default();
    segments.fold(Cow::Borrowed(first), |whole, segment| whole + segment)
}

fn undouble(contents: Cow<'_, str>) -> Cow<'_, str> {
    if contents.contains('\'') { Cow::Owned(contents.replace("''", "'")) } else { contents }
}

/// The value of a string in which backslashes are escapes. They are resolved segment by segment: none reaches into
/// the next.
fn unescape(text: &str, at: usize) -> Result<Cow<'_, str>, LiteralError> {
    let mut segments = segments(text, true).peekable();
    let first = segments.next().unwrap_or_default();
    if segments.peek().is_none() && !first.contains(['\\', '\'']) {
        return Ok(Cow::Borrowed(first));
    }
    let mut value = Vec::with_capacity(text.len());
    for segment in std::iter::once(first).chain(segments) {
        unescape_segment(segment, &mut value).ok_or(LiteralError::UnicodeEscape { at })?;
    }
    finish(value, at)
}

fn unescape_segment(segment: &str, value: &mut Vec<u8>) -> Option<()> {
    let mut bytes = segment.bytes().peekable();
    let mut surrogate = Surrogate::default();
    while let Some(byte) = bytes.next() {
        let escape = if byte == b'\\' { bytes.next() } else { None };
        if let Some(letter @ (b'u' | b'U')) = escape {
            let code = hex_number(&mut bytes, if letter == b'u' { 4 } else { 8 })?;
            surrogate.push(code, value)?;
            continue;
        }
        surrogate.none_pending()?;
        value.push(match escape {
            None => {
                // A quote is the first of two.
                bytes.next_if(|next| (byte, *next) == (b'\'', b'\''));
                byte
            }
            Some(b'b') => 0x08,
            Some(b'f') => 0x0C,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'v') => 0x0B,
            Some(digit @ b'0'..=b'7') => {
                let digits = std::iter::from_fn(|| bytes.next_if(|byte| matches!(byte, b'0'..=b'7')));
                // Three digits can exceed a byte; PostgreSQL drops the ninth bit.
                digits.take(2).fold(digit - b'0', |code, digit| (code << 3) | (digit - b'0'))
            }
            Some(b'x') => {
                let digits = std::iter::from_fn(|| hex(bytes.next_if(u8::is_ascii_hexdigit)?));
                let code = digits.take(2).fold(None, |code, digit| Some((code.unwrap_or(0) << 4) | digit as u8));
                code.unwrap_or(b'x')
            }
            Some(other) => other,
        });
    }
    surrogate.none_pending()
}

/// Resolves the escapes of `U&''` (`str_udeescape` in PostgreSQL's parser.c).
fn unescape_unicode(contents: Cow<'_, str>, escape: u8, at: usize) -> Result<Cow<'_, str>, LiteralError> {
    if !contents.as_bytes().contains(&escape) {
        return Ok(contents);
    }
    let mut value = Vec::with_capacity(contents.len());
    unescape_unicode_into(&contents, escape, &mut value).ok_or(LiteralError::UnicodeEscape { at })?;
    finish(value, at)
}

fn unescape_unicode_into(contents: &str, escape: u8, value: &mut Vec<u8>) -> Option<()> {
    let mut bytes = contents.bytes().peekable();
    let mut surrogate = Surrogate::default();
    while let Some(byte) = bytes.next() {
        if byte == escape && bytes.next_if_eq(&escape).is_none() {
            let digits = if bytes.next_if_eq(&b'+').is_some() { 6 } else { 4 };
            surrogate.push(hex_number(&mut bytes, digits)?, value)?;
        } else {
            surrogate.none_pending()?;
            value.push(byte);
        }
    }
    surrogate.none_pending()
}

/// The character of a `UESCAPE 'c'` after the literal that ends at `end`; a backslash if there is none.
fn uescape(sql: &str, end: usize, standard_conforming_strings: bool) -> Option<u8> {
    let mut tokens = Lexer::starting_at(sql, end, standard_conforming_strings).map_while(Result::ok);
    let keyword = tokens.next().is_some_and(|token| super::is_uescape(sql, token));
    if !keyword {
        return Some(b'\\');
    }
    let token = tokens.next().filter(|token| token.kind == TokenKind::String)?;
    match *undouble(joined(segments(&sql[token.start..token.end], false))).as_bytes() {
        [byte] if !matches!(byte, b'+' | b'\'' | b'"' | b' ' | b'\t' | b'\n' | b'\r' | 0x0B | 0x0C) => {
            (!byte.is_ascii_hexdigit()).then_some(byte)
        }
        _ => None,
    }
}

fn hex(digit: u8) -> Option<u32> {
    char::from(digit).to_digit(16)
}

/// The next `count` (at most eight) bytes as a number.
fn hex_number(bytes: &mut impl Iterator<Item = u8>, count: usize) -> Option<u32> {
    (0..count).try_fold(0, |value, _| Some((value << 4) | hex(bytes.next()?)?))
}

/// The first half of a surrogate pair, which the second half must follow at once.
#[derive(Default)]
struct Surrogate(Option<u32>);

impl Surrogate {
    /// Appends an escaped code point to `value`, or keeps it if it is a first half.
    fn push(&mut self, code: u32, value: &mut Vec<u8>) -> Option<()> {
        let code = match (self.0.take(), code) {
            (None, 0xD800..=0xDBFF) => {
                self.0 = Some(code);
                return Some(());
            }
            (Some(high), 0xDC00..=0xDFFF) => 0x10000 + ((high & 0x3FF) << 10) + (code & 0x3FF),
            (Some(_), _) => return None,
            (None, code) => code,
        };
        let character = char::from_u32(code).filter(|character| *character != '\0')?;
        value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Some(())
    }

    fn none_pending(&self) -> Option<()> {
        self.0.is_none().then_some(())
    }
}

fn finish<'s>(value: Vec<u8>, at: usize) -> Result<Cow<'s, str>, LiteralError> {
    match String::from_utf8(value) {
        Ok(text) if !text.contains('\0') => Ok(Cow::Owned(text)),
        _ => Err(LiteralError::Encoding { at }),
    }
}
