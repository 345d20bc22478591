//! What reading and planning a text takes of memory, by its tokens: a tree is a hundred and more times as long as its text. It does not
//! know who has how much.

use crate::lexer::{Lexer, TokenKind};

/// What a text's tree and plan take while they are made, for each name (measured: a column in ARRAY […] 5 400 bytes), each other token (a key in
/// IN (…) 3 300, a value of VALUES 2 000 to 3 900) and each bracket or comma; and the text itself, with its copies.
const NAME_BYTES: usize = 5_400;
const TOKEN_BYTES: usize = 3_300;
const PUNCT_BYTES: usize = 400;
const TIMES: usize = 4;
/// What of a tree stays, for each token.
const KEPT_BYTES: usize = 600;

/// Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// While it is read and planned.
    pub made: usize,
    /// Of what stays with its tree.
    pub kept: usize,
}

/// Of a text.
pub fn of(sql: &str, standard_conforming_strings: bool) -> Weight {
    let mut weight = Weight { made: sql.len() * TIMES, kept: sql.len() * TIMES };
    for token in Lexer::new(sql, standard_conforming_strings).flatten() {
        let (once, stays) = match token.kind {
            TokenKind::Punct(_) => (PUNCT_BYTES, 0),
            TokenKind::Ident | TokenKind::QuotedIdent | TokenKind::UIdent => (NAME_BYTES, KEPT_BYTES),
            _ => (TOKEN_BYTES, KEPT_BYTES),
        };
        (weight.made, weight.kept) = (weight.made + once, weight.kept + stays);
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_takes_is_counted_by_its_tokens() {
        let (short, long) = (of("SELECT 1", true), of(&format!("SELECT '{}'", "x".repeat(1000)), true));
        assert_eq!(short, Weight { made: 4 * 8 + NAME_BYTES + TOKEN_BYTES, kept: 4 * 8 + 2 * KEPT_BYTES });
        assert_eq!(long.made - short.made, 4 * 1001);
        assert_eq!(of("(,)", true).made, 12 + 3 * PUNCT_BYTES);
    }
}
