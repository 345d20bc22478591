//! What the blocks of a body declare: a tree of PL/pgSQL has all variables in one list, and does not say whose they are.

use crate::body::Unread;
use crate::lexer::{Lexer, Token, TokenKind};

/// Words of types that have a length without saying one, and of intervals' fields.
const LENGTHS: [&str; 11] =
    ["char", "character", "nchar", "national", "bit", "year", "month", "day", "hour", "minute", "second"];

/// The names that each block's DECLARE makes, in the order of the blocks' BEGINs. Without modifiers of types: the tree has none.
pub fn declarations(source: &str) -> Result<Vec<Vec<String>>, Unread> {
    const UNREAD: Unread = "can't be read";
    let tokens: Vec<_> = Lexer::new(source, true).collect::<Result<_, _>>().map_err(|_| UNREAD)?;
    let text = |t: &Token| source[t.start..t.end].to_ascii_lowercase();
    let (mut blocks, mut names) = (vec![], vec![]);
    // A type ends where a value begins.
    let (mut inside, mut in_type, mut at_start) = (false, false, false);
    for t in &tokens {
        let word = text(t);
        let is_name = at_start;
        if std::mem::take(&mut at_start)
            && inside
            && !(t.kind == TokenKind::Ident && matches!(word.as_str(), "begin" | "declare"))
        {
            names.push(match t.kind {
                TokenKind::Ident => word.clone(),
                TokenKind::QuotedIdent => source[t.start + 1..t.end - 1].replace("\"\"", "\""),
                _ => return Err(UNREAD),
            });
        }
        match (t.kind, word.as_str()) {
            (TokenKind::Ident, "declare") => (inside, in_type, at_start) = (true, true, true),
            (TokenKind::Ident, "begin") => {
                blocks.push(std::mem::take(&mut names));
                inside = false;
            }
            (_, ";") if inside => (in_type, at_start) = (true, true),
            (_, ":=" | "=" | "default") if inside => in_type = false,
            (_, "(") if inside && in_type => {
                return Err("has variables of types with modifiers, or cursors with arguments");
            }
            (TokenKind::Ident, word) if inside && in_type && !is_name && LENGTHS.contains(&word) => {
                return Err("has variables of types with modifiers, or cursors with arguments");
            }
            (TokenKind::Ident, "cursor" | "alias" | "collate") if inside => {
                return Err("has cursors, ALIAS or COLLATE");
            }
            (TokenKind::Op, "#") => return Err("has compiler options"),
            _ => {}
        }
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::declarations;

    #[test]
    fn each_blocks_own() {
        let body =
            "DECLARE a int; \"B\" text := 'x;'; BEGIN BEGIN NULL; END; DECLARE c int; DECLARE d int; BEGIN END; END";
        assert_eq!(declarations(body).unwrap(), [vec!["a", "B"], vec![], vec!["c", "d"]]);
        assert!(declarations("DECLARE a varchar(3); BEGIN END").is_err());
        assert!(declarations("DECLARE a char; BEGIN END").is_err());
        assert!(declarations("DECLARE a interval day to second; BEGIN END").is_err());
        assert!(declarations("DECLARE day int := (1 + 2); BEGIN END").is_ok());
    }
}
