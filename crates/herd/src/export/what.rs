//! What is exported: the name of a table, or a query. It does not know which names exist.

use sql::NodeEnum;
use sql::lexer::{Lexer, TokenKind};

use super::error::{Error, Result};

/// A table's name is as SQL has it, quotes included; a query is one that can stand in brackets.
#[derive(Debug, PartialEq, Eq)]
pub enum What {
    Table(String),
    Query(String),
}

impl What {
    /// Names and dots are a table, everything else is a query.
    pub fn read(text: &str) -> Result<What> {
        let wrong = |problem: String| Error::What { problem };
        let tokens: Vec<_> =
            Lexer::new(text, true).collect::<std::result::Result<_, _>>().map_err(|e| wrong(format!("{e}")))?;
        let is_name = |at: usize, kind: TokenKind| match at % 2 {
            0 => matches!(kind, TokenKind::Ident | TokenKind::QuotedIdent | TokenKind::UIdent),
            _ => kind == TokenKind::Punct(b'.'),
        };
        if tokens.len() % 2 == 1 && tokens.iter().enumerate().all(|(at, token)| is_name(at, token.kind)) {
            return Ok(What::Table(text.trim().to_owned()));
        }
        let statements = sql::parse(text, true).map_err(|e| wrong(e.to_string()))?;
        match statements.as_slice() {
            [NodeEnum::SelectStmt(select)] if select.into_clause.is_none() => {}
            [_] => return Err(wrong("this is another statement".into())),
            _ => return Err(wrong(format!("these are {} statements", statements.len()))),
        }
        let mut query = String::new();
        let mut from = 0;
        for token in &tokens {
            match token.kind {
                // The one behind it.
                TokenKind::Punct(b';') => {
                    query.push_str(&text[from..token.start]);
                    from = token.end;
                }
                // psql would put a variable of its own into a[1:n].
                TokenKind::Punct(b':') => {
                    query.push_str(&text[from..token.end]);
                    query.push(' ');
                    from = token.end;
                }
                _ => {}
            }
        }
        query.push_str(&text[from..]);
        Ok(What::Query(query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tables() {
        for name in ["t", "public.t", "\"My schema\".\"a.b \"\"c\"", "select", " t "] {
            assert_eq!(What::read(name).unwrap(), What::Table(name.trim().into()), "{name}");
        }
    }

    #[test]
    fn all_else_is_a_query() {
        let query = |text: &str| match What::read(text) {
            Ok(What::Query(query)) => query,
            other => panic!("{other:?}"),
        };
        for same in
            ["SELECT 1", "TABLE t", "VALUES (1), (2)", "WITH a AS (SELECT ':x') SELECT * FROM a -- ;", "(SELECT 1)"]
        {
            assert_eq!(query(same), same);
        }
        assert_eq!(query("SELECT a[1:USER] ;"), "SELECT a[1: USER] ");
        for wrong in ["", "DELETE FROM t", "SELECT 1; SELECT 2", "SELECT 1 INTO x", "t u", "SELECT '", "a.", "\\! ls"] {
            assert!(What::read(wrong).is_err(), "{wrong}");
        }
    }
}
