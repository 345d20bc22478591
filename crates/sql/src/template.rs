//! Statement → template and literals, without parsing: the key of the plan cache and what a cached plan is applied
//! to.
//!
//! A statement is *pieces* with literals between: piece 0, literal 0, piece 1, literal 1, …, last piece. Its template
//! is the pieces, byte for byte as the client wrote them, with one placeholder byte for each literal. So two
//! statements of one template differ in their literals only, have the same tokens (PostgreSQL would build the same
//! parse tree from them), and a [`Position`] found in one is the same place in the other. White space and comments
//! are part of the template: drivers repeat themselves to the byte, and a leading comment may carry a hint.
//!
//! It deliberately does not know what a literal stands for: `LIMIT 10`, `numeric(10,2)`, `ORDER BY 1` and `date '…'`
//! all hold literals here. Whether a plan may depend on the value of one is for the planner to say. A literal that no
//! constant of the parse tree stems from ([`Template::literal_at`]) is one the grammar has consumed, as in
//! `float(24)`, which is another type than `float(53)`: such a plan holds for this value of it only.

mod decode;
mod hash;
mod literal;

pub use decode::{LiteralError, literal_value};
pub use literal::{Literal, LiteralKind};

use crate::lexer::{LexError, Lexer, Token, TokenKind};

/// A place outside of literals that is the same in every statement of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// 0 is the piece before the first literal.
    pub piece: u32,
    /// Bytes from the beginning of the piece.
    pub offset: u32,
}

/// The template and literals of the statement scanned last. Made once a session, its buffers serve every statement.
#[derive(Debug, Default, Clone)]
pub struct Template {
    text: Vec<u8>,
    literals: Vec<Literal>,
    hash: u64,
    standard_conforming_strings: bool,
}

/// Buffers larger than this, in elements, are given back before the next statement.
const KEPT_CAPACITY_MAX: usize = 64 * 1024;

impl Template {
    /// Empty: nothing has been scanned.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes `sql` apart. After an error the template is empty.
    pub fn scan(&mut self, sql: &str, standard_conforming_strings: bool) -> Result<(), LexError> {
        self.clear();
        self.standard_conforming_strings = standard_conforming_strings;
        let result = self.fill(sql);
        if result.is_err() {
            self.clear();
        }
        self.hash = hash::hash(&self.text);
        result
    }

    fn clear(&mut self) {
        self.text.clear();
        self.literals.clear();
        self.text.shrink_to(KEPT_CAPACITY_MAX);
        self.literals.shrink_to(KEPT_CAPACITY_MAX);
    }

    fn fill(&mut self, sql: &str) -> Result<(), LexError> {
        if u32::try_from(sql.len()).is_err() {
            return Err(LexError::TooLong);
        }
        let mut piece_start = 0;
        let mut after_uescape = false;
        for token in Lexer::new(sql, self.standard_conforming_strings) {
            let token = token?;
            // The character after UESCAPE is part of how the literal or identifier before it reads, not a value.
            let kept = std::mem::replace(&mut after_uescape, is_uescape(sql, token));
            let Some(kind) = LiteralKind::of(sql, token) else {
                continue;
            };
            if kept {
                continue;
            }
            self.text.extend_from_slice(&sql.as_bytes()[piece_start..token.start]);
            self.literals.push(Literal {
                start: token.start as u32,
                end: token.end as u32,
                template_at: self.text.len() as u32,
                kind,
            });
            self.text.push(kind.placeholder());
            piece_start = token.end;
        }
        self.text.extend_from_slice(&sql.as_bytes()[piece_start..]);
        Ok(())
    }

    /// The pieces, with a [placeholder](LiteralKind::placeholder) for each literal.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// 64 bits of [`text`](Self::text), the same in every process. Clients choose the text, so they can make two
    /// templates of one hash: compare texts as well.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// In the order of the text.
    pub fn literals(&self) -> &[Literal] {
        &self.literals
    }

    /// The setting by which the statement was scanned.
    pub fn standard_conforming_strings(&self) -> bool {
        self.standard_conforming_strings
    }

    /// Literal `index` as the client wrote it.
    ///
    /// # Panics
    /// If there is no such literal, or `sql` is not the statement scanned last.
    pub fn literal_text<'s>(&self, sql: &'s str, index: usize) -> &'s str {
        let literal = self.literals[index];
        &sql[literal.start as usize..literal.end as usize]
    }

    /// What literal `index` means, see [`literal_value`].
    ///
    /// # Panics
    /// As [`literal_text`](Self::literal_text).
    pub fn literal_value<'s>(&self, sql: &'s str, index: usize) -> Result<std::borrow::Cow<'s, str>, LiteralError> {
        literal_value(sql, self.literals[index], self.standard_conforming_strings)
    }

    /// The literal that a constant is made of, where `offset` is the constant's location in PostgreSQL's parse tree,
    /// and whether its value is negated. PostgreSQL folds minus signs, even around parentheses, into a numeric
    /// constant and then reports the place of the first sign (`doNegate` in gram.y).
    ///
    /// `None` if the constant is not a literal of this template, so its value is the same in every statement of it.
    pub fn literal_at(&self, sql: &str, offset: usize) -> Option<(usize, bool)> {
        let index = self.literals.partition_point(|literal| (literal.start as usize) < offset);
        let starts_here = |literal: &Literal| literal.start as usize == offset;
        if self.literals.get(index).is_some_and(starts_here) {
            return Some((index, false));
        }
        // The string of N'x' is, to PostgreSQL, a constant of its own after the keyword N.
        if let Some(before) = index.checked_sub(1) {
            let literal = self.literals[before];
            if literal.kind == LiteralKind::National && literal.start as usize + 1 == offset {
                return Some((before, false));
            }
        }
        self.signed_literal(sql, offset, index)
    }

    fn signed_literal(&self, sql: &str, offset: usize, index: usize) -> Option<(usize, bool)> {
        let literal = self.literals.get(index).filter(|literal| literal.kind.is_number())?;
        if !matches!(sql.as_bytes().get(offset), Some(b'-' | b'+')) {
            return None;
        }
        let mut negative = false;
        for token in Lexer::starting_at(sql, offset, self.standard_conforming_strings) {
            let token = token.ok()?;
            if token.start == literal.start as usize {
                return Some((index, negative));
            }
            match &sql[token.start..token.end] {
                "-" => negative = !negative,
                // Folded where the grammar takes a bare number only, as in SET x = +5.
                "+" if token.start == offset => {}
                "(" => {}
                _ => return None,
            }
        }
        None
    }

    /// Where `offset` of the statement scanned last lies between its literals; `None` if inside of one or past the
    /// end. The first byte of a literal counts as the end of the piece before it.
    pub fn position(&self, offset: usize) -> Option<Position> {
        let offset = u32::try_from(offset).ok()?;
        let piece = self.literals.partition_point(|literal| literal.end <= offset);
        let within = offset - self.piece_start(piece);
        (within <= self.piece_len(piece)).then_some(Position { piece: piece as u32, offset: within })
    }

    /// The place of `position` (found in any statement of this template) in the statement scanned last.
    ///
    /// # Panics
    /// If there is no such piece, so the position is one of another template.
    pub fn offset(&self, position: Position) -> usize {
        (self.piece_start(position.piece as usize) + position.offset) as usize
    }

    fn piece_start(&self, piece: usize) -> u32 {
        piece.checked_sub(1).map_or(0, |before| self.literals[before].end)
    }

    fn piece_len(&self, piece: usize) -> u32 {
        let start = piece.checked_sub(1).map_or(0, |before| self.literals[before].template_at + 1);
        let end = self.literals.get(piece).map_or(self.text.len() as u32, |literal| literal.template_at);
        end - start
    }
}

fn is_uescape(sql: &str, token: Token) -> bool {
    token.kind == TokenKind::Ident && sql[token.start..token.end].eq_ignore_ascii_case("uescape")
}
