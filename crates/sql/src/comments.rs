//! Comments within comments, taken out of a text before PostgreSQL's scanner sees it: that reads all that follows again for
//! each `/*` in a row of them (its rule for them takes in a whole row of operator characters and gives it back), 20 s for
//! 160 KB. It does not know what a statement means.

use std::borrow::Cow;

use memchr::memmem;

use crate::lexer::{LexError, Lexer};

/// `sql` with blanks in place of every `/` and `*` inside its comments, so that places in the text stay what they are.
///
/// # Errors
/// The text is no SQL, so PostgreSQL would not read it either.
pub fn flat(sql: &str, standard_conforming_strings: bool) -> Result<Cow<'_, str>, LexError> {
    let finder = memmem::Finder::new("/*");
    if finder.find_iter(sql.as_bytes()).nth(1).is_none() {
        return Ok(Cow::Borrowed(sql));
    }
    let mut bytes = Cow::Borrowed(sql.as_bytes());
    let mut at = 0;
    let mut lexer = Lexer::new(sql, standard_conforming_strings);
    loop {
        let token = lexer.next().transpose()?;
        let end = token.map_or(sql.len(), |t| t.start);
        blank(&mut bytes, at, end);
        match token {
            Some(token) => at = token.end,
            None => break,
        }
    }
    Ok(match bytes {
        Cow::Borrowed(_) => Cow::Borrowed(sql),
        // Only ASCII was put in place of ASCII.
        Cow::Owned(bytes) => String::from_utf8(bytes).map_or(Cow::Borrowed(sql), Cow::Owned),
    })
}

/// Between two tokens: blanks and comments.
fn blank(bytes: &mut Cow<'_, [u8]>, start: usize, end: usize) {
    let mut at = start;
    while at + 1 < end {
        match (bytes[at], bytes[at + 1]) {
            (b'-', b'-') => {
                let line = bytes[at..end].iter().position(|b| matches!(b, b'\n' | b'\r'));
                at = line.map_or(end, |length| at + length);
            }
            (b'/', b'*') => at = blank_one(bytes, at, end),
            _ => at += 1,
        }
    }
}

/// The comment at `start`; where it ends.
fn blank_one(bytes: &mut Cow<'_, [u8]>, start: usize, end: usize) -> usize {
    let (mut depth, mut at, mut nested) = (1, start + 2, false);
    while at + 1 < end && depth > 0 {
        match (bytes[at], bytes[at + 1]) {
            (b'/', b'*') => (depth, nested, at) = (depth + 1, true, at + 2),
            (b'*', b'/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    if nested {
        for byte in &mut bytes.to_mut()[start + 2..at - 2] {
            if matches!(byte, b'/' | b'*') {
                *byte = b' ';
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_comments_within_comments_go() {
        for (sql, expected) in [
            ("select 1 /* a */ + /* b */ 2", "select 1 /* a */ + /* b */ 2"),
            ("select /* a /* b */ c */ 1", "select /* a    b    c */ 1"),
            ("select '/* /* */' /*/*é*/*/", "select '/* /* */' /*  é  */"),
            ("select 1 -- /* /*\n /*/**/*/", "select 1 -- /* /*\n /*    */"),
            ("/*/*/**/*/*/select 1", "/*        */select 1"),
        ] {
            let flat = flat(sql, true).unwrap();
            assert_eq!((&*flat, flat.len()), (expected, sql.len()));
        }
        assert!(flat("select 1 /* /* */", true).is_err());
    }

    #[test]
    fn many_are_read_as_quickly_as_few() {
        let deep = format!("select 1 {}{}", "/*".repeat(80_000), "*/".repeat(80_000));
        let tree = crate::parse(&deep, true).unwrap();
        assert_eq!(tree.len(), 1);
        assert!(crate::parse(&deep[..100_000], true).is_err());
    }
}
