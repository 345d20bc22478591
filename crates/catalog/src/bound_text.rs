//! A shard's bound as text: what PostgreSQL writes after `FOR VALUES`, restricted to literals.
//!
//! Does not know how values are compared; turning literals into binary values needs the key's types (see
//! `load/bounds.rs`).

use std::fmt;

use crate::{Refusal, RefusalKind, quote_literal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BoundText {
    Hash { modulus: u32, remainder: u32 },
    Range { from: Vec<Edge>, to: Vec<Edge> },
    List { values: Vec<Option<String>> },
    Default,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    MinValue,
    Value(String),
    MaxValue,
}

impl BoundText {
    /// Reads `FROM (…) TO (…)`, `IN (…)`, `WITH (MODULUS m, REMAINDER r)` or `DEFAULT`, with or without `FOR VALUES`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = || {
            Refusal::new(
                RefusalKind::InvalidParameter,
                format!("\"{text}\" is not a partition bound"),
                "Write FROM (…) TO (…), IN (…) or DEFAULT, with literals only.",
            )
        };
        let mut tokens = tokens(text).ok_or_else(bad)?.into_iter().peekable();
        if tokens.next_if_eq(&Token::Word("for".into())).is_some() {
            tokens.next_if_eq(&Token::Word("values".into())).ok_or_else(bad)?;
        }
        let mut rest = Tokens(tokens.collect::<Vec<_>>().into_iter());
        rest.bound().filter(|_| rest.0.next().is_none()).ok_or_else(bad)
    }

    /// The bound as a partition's definition has it: `FOR VALUES …` or `DEFAULT`.
    pub fn clause(&self) -> String {
        match self {
            BoundText::Default => "DEFAULT".to_string(),
            bound => format!("FOR VALUES {bound}"),
        }
    }
}

impl fmt::Display for BoundText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges = |edges: &[Edge]| {
            let text = edges.iter().map(|edge| match edge {
                Edge::MinValue => "MINVALUE".to_string(),
                Edge::Value(v) => quote_literal(v),
                Edge::MaxValue => "MAXVALUE".to_string(),
            });
            text.collect::<Vec<_>>().join(", ")
        };
        match self {
            BoundText::Hash { modulus, remainder } => write!(f, "WITH (MODULUS {modulus}, REMAINDER {remainder})"),
            BoundText::Range { from, to } => write!(f, "FROM ({}) TO ({})", edges(from), edges(to)),
            BoundText::List { values } => {
                let text = values.iter().map(|v| v.as_deref().map_or("NULL".to_string(), quote_literal));
                write!(f, "IN ({})", text.collect::<Vec<_>>().join(", "))
            }
            BoundText::Default => f.write_str("DEFAULT"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Lower case.
    Word(String),
    Literal(String),
    Symbol(char),
}

struct Tokens(std::vec::IntoIter<Token>);

impl Tokens {
    fn word(&mut self, word: &str) -> Option<()> {
        (self.0.next()? == Token::Word(word.into())).then_some(())
    }

    fn symbol(&mut self, symbol: char) -> Option<()> {
        (self.0.next()? == Token::Symbol(symbol)).then_some(())
    }

    fn number(&mut self) -> Option<u32> {
        match self.0.next()? {
            Token::Literal(text) => text.parse().ok(),
            _ => None,
        }
    }

    fn bound(&mut self) -> Option<BoundText> {
        let Token::Word(word) = self.0.next()? else { return None };
        match word.as_str() {
            "default" => Some(BoundText::Default),
            "from" => {
                let from = self.list(edge)?;
                self.word("to")?;
                let to = self.list(edge)?;
                (from.len() == to.len()).then_some(BoundText::Range { from, to })
            }
            "in" => Some(BoundText::List { values: self.list(item)? }),
            "with" => {
                self.symbol('(')?;
                self.word("modulus")?;
                let modulus = self.number()?;
                self.symbol(',')?;
                self.word("remainder")?;
                let remainder = self.number()?;
                self.symbol(')')?;
                Some(BoundText::Hash { modulus, remainder })
            }
            _ => None,
        }
    }

    fn list<T>(&mut self, one: impl Fn(Token) -> Option<T>) -> Option<Vec<T>> {
        self.symbol('(')?;
        let mut items = Vec::new();
        loop {
            items.push(one(self.0.next()?)?);
            match self.0.next()? {
                Token::Symbol(',') => {}
                Token::Symbol(')') => return Some(items),
                _ => return None,
            }
        }
    }
}

fn edge(token: Token) -> Option<Edge> {
    match token {
        Token::Word(w) if w == "minvalue" => Some(Edge::MinValue),
        Token::Word(w) if w == "maxvalue" => Some(Edge::MaxValue),
        // PostgreSQL refuses NULL in a range bound.
        token => item(token)?.map(Edge::Value),
    }
}

fn item(token: Token) -> Option<Option<String>> {
    match token {
        Token::Literal(text) => Some(Some(text)),
        Token::Word(w) if w == "null" => Some(None),
        Token::Word(w) if w == "true" || w == "false" => Some(Some(w)),
        _ => None,
    }
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if c.is_whitespace() => {}
            '(' | ')' | ',' => tokens.push(Token::Symbol(c)),
            '\'' => tokens.push(Token::Literal(quoted(&mut chars, false)?)),
            'E' | 'e' if chars.next_if_eq(&'\'').is_some() => tokens.push(Token::Literal(quoted(&mut chars, true)?)),
            '0'..='9' | '-' | '+' | '.' => {
                let mut number = String::from(c);
                while let Some(c) = chars.next_if(|c| matches!(c, '0'..='9' | '.' | 'e' | 'E' | '-' | '+')) {
                    number.push(c);
                }
                tokens.push(Token::Literal(number));
            }
            c if c.is_ascii_alphabetic() => {
                let mut word = String::from(c.to_ascii_lowercase());
                while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    word.push(c.to_ascii_lowercase());
                }
                tokens.push(Token::Word(word));
            }
            _ => return None,
        }
    }
    Some(tokens)
}

/// The rest of a quoted literal. Of the escapes of `E'…'` only `\\` and `\'` occur in what PostgreSQL prints.
fn quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, escapes: bool) -> Option<String> {
    let mut text = String::new();
    loop {
        match chars.next()? {
            '\'' => match chars.next_if_eq(&'\'') {
                Some(_) => text.push('\''),
                None => return Some(text),
            },
            '\\' if escapes => match chars.next()? {
                c @ ('\\' | '\'') => text.push(c),
                _ => return None,
            },
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_form() {
        for (text, want) in [
            ("FOR VALUES WITH (modulus 4, remainder 0)", "FOR VALUES WITH (MODULUS 4, REMAINDER 0)"),
            ("from (1, minvalue) to ('10', MAXVALUE)", "FOR VALUES FROM ('1', MINVALUE) TO ('10', MAXVALUE)"),
            (
                "FOR VALUES IN ('it''s', NULL, -3, true, E'a\\\\b')",
                "FOR VALUES IN ('it''s', NULL, '-3', 'true', E'a\\\\b')",
            ),
            ("DEFAULT", "DEFAULT"),
            ("FROM (1.5e3) TO ('2024-01-01')", "FOR VALUES FROM ('1.5e3') TO ('2024-01-01')"),
        ] {
            let bound = BoundText::parse(text).unwrap();
            assert_eq!(bound.clause(), want);
            assert_eq!(BoundText::parse(want).unwrap(), bound);
        }
    }

    #[test]
    fn what_is_not_a_literal_is_refused() {
        for text in [
            "",
            "FROM (1)",
            "FROM (1) TO (1, 2)",
            "IN ()",
            "IN (now())",
            "IN ('a'); DROP TABLE t",
            "IN ('a",
            "FROM (NULL) TO (1)",
        ] {
            let refusal = BoundText::parse(text).unwrap_err();
            assert_eq!(refusal.sqlstate(), "22023", "{text}");
        }
    }
}
