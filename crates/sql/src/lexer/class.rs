//! Which token a byte can begin or continue: one table look-up a byte.

/// What a byte begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Ident,
    /// `b e n u x`: an identifier, or the prefix of a literal.
    Prefix,
    Digit,
    Quote,
    DoubleQuote,
    Dollar,
    Dot,
    Colon,
    Punct,
    Operator,
    /// White space (which the caller has skipped) and what no token begins with.
    Other,
}

static CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'b' | b'B' | b'e' | b'E' | b'n' | b'N' | b'u' | b'U' | b'x' | b'X' => Class::Prefix,
            // Every byte of a character beyond ASCII counts as a letter, as in scan.l.
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80..=0xFF => Class::Ident,
            b'0'..=b'9' => Class::Digit,
            b'\'' => Class::Quote,
            b'"' => Class::DoubleQuote,
            b'$' => Class::Dollar,
            b'.' => Class::Dot,
            b':' => Class::Colon,
            b'(' | b')' | b'[' | b']' | b',' | b';' => Class::Punct,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<'
            | b'>' | b'=' => Class::Operator,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

#[inline]
pub(super) fn class_of(byte: u8) -> Class {
    CLASSES[byte as usize]
}

/// Whether an identifier can begin with `byte`.
#[inline]
pub(super) fn is_ident_start(byte: u8) -> bool {
    matches!(class_of(byte), Class::Ident | Class::Prefix)
}

/// Whether an identifier can go on with `byte`.
#[inline]
pub(super) fn is_ident_part(byte: u8) -> bool {
    matches!(class_of(byte), Class::Ident | Class::Prefix | Class::Digit | Class::Dollar)
}

#[inline]
pub(super) fn is_operator(byte: u8) -> bool {
    class_of(byte) == Class::Operator
}
