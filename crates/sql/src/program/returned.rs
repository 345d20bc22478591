//! What RETURN gives, in parentheses: without them a tree of PL/pgSQL does not say which variable it is.

use crate::lexer::{Lexer, Token, TokenKind};

/// The body with `RETURN (…);` for `RETURN …;`. None: it can't be read.
pub fn in_parentheses(source: &str) -> Option<String> {
    let tokens: Vec<Token> = Lexer::new(source, true).collect::<Result<_, _>>().ok()?;
    let mut out = String::with_capacity(source.len() + 16);
    let mut copied = 0;
    for at in 0..tokens.len() {
        let Some(first) = value(source, &tokens, at) else { continue };
        let end = tokens[at + 1..].iter().find(|t| &source[t.start..t.end] == ";")?;
        out.push_str(&source[copied..first]);
        out.push('(');
        out.push_str(&source[first..end.start]);
        // A comment may end the line.
        out.push_str("\n)");
        copied = end.start;
    }
    out.push_str(&source[copied..]);
    Some(out)
}

/// There is a RETURN without a value.
pub fn gives_nothing(source: &str) -> bool {
    let tokens: Vec<Token> = Lexer::new(source, true).flatten().collect();
    tokens.windows(2).any(|t| is(source, &t[0], "return") && &source[t[1].start..t[1].end] == ";")
}

/// It has RETURN NEXT or RETURN QUERY.
pub fn gives_sets(source: &str) -> bool {
    let tokens: Vec<Token> = Lexer::new(source, true).flatten().collect();
    let sets = |t: &Token| ["next", "query"].iter().any(|word| is(source, t, word));
    tokens.windows(2).any(|t| is(source, &t[0], "return") && sets(&t[1]))
}

/// Where the value begins that a RETURN gives which stands there.
fn value(source: &str, tokens: &[Token], at: usize) -> Option<usize> {
    let (this, next) = (tokens.get(at)?, tokens.get(at + 1)?);
    // Behind what ends a statement, or begins a list of them.
    let begins = at == 0
        || &source[tokens[at - 1].start..tokens[at - 1].end] == ";"
        || ["begin", "then", "else", "loop"].iter().any(|word| is(source, &tokens[at - 1], word))
        || &source[tokens[at - 1].start..tokens[at - 1].end] == ">>";
    // What QUERY gives is a statement; NEXT's value stands behind it.
    let value = if is(source, next, "next") { tokens.get(at + 2)? } else { next };
    let none = is(source, next, "query") || &source[value.start..value.end] == ";";
    (is(source, this, "return") && begins && !none).then_some(value.start)
}

fn is(source: &str, t: &Token, word: &str) -> bool {
    t.kind == TokenKind::Ident && source[t.start..t.end].eq_ignore_ascii_case(word)
}

#[cfg(test)]
mod tests {
    use super::in_parentheses;

    #[test]
    fn what_is_returned_is_told_apart() {
        let body = "BEGIN IF a THEN RETURN b; -- x; y\nEND IF; RETURN; RETURN NEXT c; RETURN NEXT; RETURN QUERY SELECT 1; RETURN 'x;' || d; END";
        let put = "BEGIN IF a THEN RETURN (b\n); -- x; y\nEND IF; RETURN; RETURN NEXT (c\n); RETURN NEXT; RETURN QUERY SELECT 1; RETURN ('x;' || d\n); END";
        assert_eq!(in_parentheses(body).as_deref(), Some(put));
    }
}
