//! Statements that are kept for nodes that join later, and looked at for the names in them: in plain words, whatever way they were said in.
//! It does not know what they do.

use std::borrow::Cow;

use sql::NodeEnum;

use crate::session::Result;

/// What is longer is kept without its comments.
const LONG: usize = 1 << 10;

/// The text, or one that means the same without comments and characters that are written by their numbers.
///
/// # Errors
/// 54001 for a tree that is too deep to be written.
pub fn plainly<'s>(sql: &'s str, tree: impl FnOnce() -> NodeEnum) -> Result<Cow<'s, str>> {
    let by_numbers = |pair: &[u8]| pair[0].eq_ignore_ascii_case(&b'u') && pair[1] == b'&';
    let comment = |pair: &[u8]| matches!(pair, b"/*" | b"--");
    let spaced = |pair: &[u8]| pair[1].is_ascii_whitespace() && (pair[0].is_ascii_whitespace() || pair[1] != b' ');
    let plain = sql.len() < LONG
        && !sql.contains('\\')
        && !sql.as_bytes().windows(2).any(|pair| by_numbers(pair) || comment(pair) || spaced(pair));
    match plain {
        true => Ok(Cow::Borrowed(sql)),
        false => Ok(Cow::Owned(sql::deparse(&tree())?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_whatever_way_they_are_written_in() {
        let said = |sql: &str| plainly(sql, || sql::parse(sql, true).unwrap().pop().unwrap()).unwrap().into_owned();
        for (sql, want) in [
            ("set local DateStyle = 'SQL'", "set local DateStyle = 'SQL'"),
            (r#"set local u&"date\0073tyle" = 'SQL'"#, r#"SET LOCAL datestyle TO "SQL""#),
            (
                r#"set U&"transaction!005fisolation" uescape '!' = E'repeat\x61ble read'"#,
                r#"SET transaction_isolation TO "repeatable read""#,
            ),
            ("set transaction /* all */ read only -- so", "SET TRANSACTION READ ONLY"),
            ("set  transaction\tread only", "SET TRANSACTION READ ONLY"),
            ("begin /* now */ isolation level serializable", "BEGIN ISOLATION LEVEL SERIALIZABLE"),
        ] {
            assert_eq!(said(sql), want);
        }
        let long = format!("begin{}read only", " ".repeat(LONG));
        assert_eq!(said(&long), "BEGIN READ ONLY");
    }
}
