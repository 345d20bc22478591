//! Connection strings in libpq's keyword form, taken apart: `host=10.0.0.5 port=5432 dbname=app`. Which keywords there are is not known here.

/// What is wrong with the form of a connection string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeywordError {
    #[error("missing \"=\" after \"{0}\"")]
    Equals(String),
    #[error("the quoted value of \"{0}\" has no end")]
    Quote(String),
}

/// Splits `k=v k = 'v w'`: blanks may surround `=`, a backslash quotes the next character, as in libpq
/// (conninfo_parse in fe-connect.c).
pub fn keywords(text: &str) -> Result<Vec<(String, String)>, KeywordError> {
    let mut pairs = Vec::new();
    let mut chars = text.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.peek().is_none() {
            return Ok(pairs);
        }
        let mut keyword = String::new();
        while let Some(c) = chars.next_if(|c| *c != '=' && !c.is_whitespace()) {
            keyword.push(c);
        }
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        if chars.next_if_eq(&'=').is_none() {
            return Err(KeywordError::Equals(keyword));
        }
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        let quoted = chars.next_if_eq(&'\'').is_some();
        let mut value = String::new();
        loop {
            match chars.next() {
                Some('\'') if quoted => break,
                Some('\\') => value.extend(chars.next()),
                Some(c) if !quoted && c.is_whitespace() => break,
                Some(c) => value.push(c),
                None if quoted => return Err(KeywordError::Quote(keyword)),
                None => break,
            }
        }
        pairs.push((keyword, value));
    }
}
