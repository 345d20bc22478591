//! A PL/pgSQL body's tokens, one after the other: words, names, and text up to the word that ends it. It does not know what statements are.

use crate::body::Unread;
use crate::lexer::{Lexer, Token, TokenKind};

pub const UNREAD: Unread = "can't be read";
pub type Read<T> = Result<T, Unread>;

/// Where reading is.
pub struct Tokens<'s> {
    source: &'s str,
    tokens: Vec<Token>,
    at: usize,
}

/// Words that are no names where they stand by themselves (pl_reserved_kwlist.h).
const RESERVED: [&str; 24] = [
    "all", "begin", "by", "case", "declare", "else", "end", "execute", "for", "foreach", "from", "if", "in", "into",
    "loop", "not", "null", "or", "strict", "then", "to", "using", "when", "while",
];

impl<'s> Tokens<'s> {
    /// A body's tokens, from the first on.
    pub fn of(source: &'s str) -> Read<Self> {
        let tokens = Lexer::new(source, true).collect::<Result<_, _>>().map_err(|_| UNREAD)?;
        Ok(Tokens { source, tokens, at: 0 })
    }

    fn text_at(&self, at: usize) -> &'s str {
        self.tokens.get(at).map_or("", |t| &self.source[t.start..t.end])
    }

    /// The token that comes, as it is written; nothing at the end.
    pub fn text(&self) -> &'s str {
        self.text_at(self.at)
    }

    /// What kind of token comes; none at the end.
    pub fn kind(&self) -> Option<TokenKind> {
        self.kind_at(self.at)
    }

    /// The same of any of them.
    pub fn kind_at(&self, at: usize) -> Option<TokenKind> {
        self.tokens.get(at).map(|t| t.kind)
    }

    /// Where reading is, to come back to.
    pub fn place(&self) -> usize {
        self.at
    }

    /// Reading goes on at a place where it was.
    pub fn back_to(&mut self, place: usize) {
        self.at = place;
    }

    /// Passes over a token.
    pub fn next(&mut self) {
        self.at += 1;
    }

    fn is_at(&self, at: usize, word: &str) -> bool {
        match word.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') {
            true => {
                self.tokens.get(at).is_some_and(|t| t.kind == TokenKind::Ident)
                    && self.text_at(at).eq_ignore_ascii_case(word)
            }
            false => self.text_at(at) == word,
        }
    }

    /// What comes is this word or sign.
    pub fn is(&self, word: &str) -> bool {
        self.is_at(self.at, word)
    }

    /// What comes is one of these.
    pub fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    /// The same of what comes behind it.
    pub fn is_behind(&self, word: &str) -> bool {
        self.is_at(self.at + 1, word)
    }

    /// Passes over it, if it is what comes.
    pub fn take(&mut self, word: &str) -> bool {
        let is = self.is(word);
        self.at += usize::from(is);
        is
    }

    /// Passes over what has to come.
    pub fn need(&mut self, word: &str) -> Read<()> {
        if self.take(word) { Ok(()) } else { Err(UNREAD) }
    }

    /// Nothing comes any more.
    pub fn is_over(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// What comes is no name, but one of PL/pgSQL's reserved words.
    pub fn is_reserved(&self) -> bool {
        self.is_any(&RESERVED)
    }

    /// A name, if one comes: an identifier as PostgreSQL reads it, or `$1`.
    pub fn name(&mut self) -> Option<String> {
        let text = self.text();
        let name = match self.kind()? {
            TokenKind::Ident if !self.is_reserved() => text.to_ascii_lowercase(),
            TokenKind::QuotedIdent => text[1..text.len() - 1].replace("\"\"", "\""),
            TokenKind::Param => text.to_string(),
            _ => return None,
        };
        // Longer ones are cut off.
        if name.len() > 63 {
            return None;
        }
        self.at += 1;
        Some(name)
    }

    /// `a`, `a.b` or `a.b.c`
    pub fn dotted(&mut self) -> Option<Vec<String>> {
        let mut names = vec![self.name()?];
        while names.len() < 3 && self.is(".") {
            let before = self.at;
            self.at += 1;
            // Behind a dot a word is a name, whatever it says.
            let word = (self.kind() == Some(TokenKind::Ident)).then(|| self.text().to_ascii_lowercase());
            match word {
                Some(word) => {
                    names.push(word);
                    self.at += 1;
                }
                None => match self.name() {
                    Some(name) => names.push(name),
                    None => {
                        self.at = before;
                        break;
                    }
                },
            }
        }
        Some(names)
    }

    /// The text up to the first of these words or signs outside of parentheses, which is left to come. It may not be empty.
    pub fn until(&mut self, ends: &[&str]) -> Read<&'s str> {
        let (from, mut depth) = (self.at, 0_usize);
        loop {
            if self.is_over() {
                return Err(UNREAD);
            }
            if depth == 0 && self.is_any(ends) {
                break;
            }
            match self.text() {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.checked_sub(1).ok_or(UNREAD)?,
                ";" => return Err(UNREAD),
                _ => {}
            }
            self.at += 1;
        }
        if self.at == from { Err(UNREAD) } else { Ok(self.between(from, self.at)) }
    }

    /// The text of the tokens from one place to another.
    pub fn between(&self, from: usize, to: usize) -> &'s str {
        match (self.tokens.get(from), to.checked_sub(1).and_then(|last| self.tokens.get(last))) {
            (Some(first), Some(last)) if from < to => &self.source[first.start..last.end],
            _ => "",
        }
    }

    /// A string's value.
    pub fn string(&mut self) -> Option<String> {
        use TokenKind::{DollarString, EString, String as Plain, UString};
        if !matches!(self.kind()?, Plain | EString | UString | DollarString) {
            return None;
        }
        let tree = crate::parse(&format!("SELECT {}", self.text()), true).ok()?.pop()?;
        let value = crate::search::find(&tree, |n| match n {
            crate::NodeEnum::AConst(c) => match c.val.as_ref()? {
                crate::ast::a_const::Val::Sval(s) => Some(s.sval.clone()),
                _ => None,
            },
            _ => None,
        })?;
        self.at += 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::Tokens;

    #[test]
    fn text_ends_outside_of_parentheses() {
        let mut t = Tokens::of("f(a, 'x;') /* , */ + b[1, 2], c; \"A b\".c := 'it''s'").unwrap();
        assert_eq!(t.until(&[",", ";"]), Ok("f(a, 'x;') /* , */ + b[1, 2]"));
        assert!(t.take(","));
        assert_eq!(t.until(&[";"]), Ok("c"));
        assert!(t.take(";"));
        assert_eq!(t.dotted(), Some(vec!["A b".to_string(), "c".to_string()]));
        assert!(t.take(":="));
        assert_eq!(t.string().as_deref(), Some("it's"));
        assert!(t.is_over());
    }
}
