//! What a literal is: its kind, which is as much of its type as the spelling tells, and its place.

use super::decode;
use crate::lexer::{Token, TokenKind};

/// The type of a literal, as far as its spelling tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LiteralKind {
    /// A whole number that fits `int4`.
    Integer,
    /// A whole number that does not fit `int4`, but `int8`.
    BigInteger,
    /// A `numeric`: a fraction, an exponent, or too large for `int8`.
    Float,
    /// `'x'`.
    String,
    /// `E'x'`.
    EString,
    /// `B'101'`.
    Bit,
    /// `X'1F'`.
    Hex,
    /// `U&'x'`.
    Unicode,
    /// `$tag$x$tag$`.
    Dollar,
    /// `N'x'`.
    National,
}

impl LiteralKind {
    /// The byte that stands for such a literal in a template. Kinds share one if PostgreSQL treats them alike (one
    /// driver may write `'a'` and `E'a\\b'` in turn). All are control characters, which outside of quotes and
    /// comments are no SQL, so a placeholder cannot be confused with text.
    pub fn placeholder(self) -> u8 {
        match self {
            Self::Integer => 0x01,
            Self::BigInteger => 0x02,
            Self::Float => 0x03,
            Self::String | Self::EString | Self::Dollar => 0x04,
            Self::Bit => 0x05,
            Self::Hex => 0x06,
            Self::Unicode => 0x07,
            Self::National => 0x08,
        }
    }

    /// The kind of literal `token` is, if it is one whose value may differ between statements of a template.
    #[inline]
    pub(super) fn of(sql: &str, token: Token) -> Option<Self> {
        Some(match token.kind {
            TokenKind::Integer => return integer_kind(&sql[token.start..token.end]),
            TokenKind::Float => LiteralKind::Float,
            TokenKind::String => LiteralKind::String,
            TokenKind::EString => LiteralKind::EString,
            TokenKind::BitString => LiteralKind::Bit,
            TokenKind::HexString => LiteralKind::Hex,
            TokenKind::UString => LiteralKind::Unicode,
            TokenKind::DollarString => LiteralKind::Dollar,
            TokenKind::NString => LiteralKind::National,
            _ => return None,
        })
    }

    /// It is written without quotes, and is no bit string.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Integer | Self::BigInteger | Self::Float)
    }
}

/// One literal: its place in the statement (prefix and quotes included, sign not) and in the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Literal {
    pub start: u32,
    pub end: u32,
    /// Byte offset of the placeholder in [`Template::text`].
    pub template_at: u32,
    pub kind: LiteralKind,
}

/// The kind of a whole number, which is its type (`make_const` in parse_node.c). 2^31 and 2^63 stay in the template:
/// their type depends on the sign before them (`-2147483648` is an `int4`, `2147483648` an `int8`).
#[inline]
fn integer_kind(text: &str) -> Option<LiteralKind> {
    // Nine characters cannot exceed int4, whatever the radix but 16, and hexadecimal ones spend two on the prefix.
    if text.len() <= 9 {
        return Some(LiteralKind::Integer);
    }
    const INT4_LIMIT: u128 = 1 << 31;
    const INT8_LIMIT: u128 = 1 << 63;
    match decode::integer(text) {
        Some(INT4_LIMIT | INT8_LIMIT) => None,
        Some(0..INT4_LIMIT) => Some(LiteralKind::Integer),
        Some(0..INT8_LIMIT) => Some(LiteralKind::BigInteger),
        _ => Some(LiteralKind::Float),
    }
}
