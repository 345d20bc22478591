//! Rows as PostgreSQL prints them (`record_out` in rowtypes.c), taken apart and put together. It does not know which types their columns have.

use bytes::Bytes;

use super::Text;

/// `(a,,"b c")`
pub fn together(values: &[Text]) -> Bytes {
    let mut out = vec![b'('];
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let Some(value) = value else { continue };
        let is_special = |b: &u8| matches!(b, b'"' | b'\\' | b'(' | b')' | b',') || is_space(*b);
        match value.is_empty() || value.iter().any(is_special) {
            true => quoted(&mut out, value),
            false => out.extend_from_slice(value),
        }
    }
    out.push(b')');
    out.into()
}

/// A value in quotes, in which they and backslashes are doubled.
fn quoted(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'"');
    for b in value {
        if matches!(b, b'"' | b'\\') {
            out.push(*b);
        }
        out.push(*b);
    }
    out.push(b'"');
}

/// As C's isspace.
fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t'..=b'\r')
}

/// The values of a row's columns; none: it is no row.
pub fn apart(row: &[u8]) -> Option<Vec<Text>> {
    let inside = row.strip_prefix(b"(")?.strip_suffix(b")")?;
    let mut values = vec![];
    // The value that is read, and whether there is one: nothing at all is NULL.
    let (mut value, mut some, mut in_quotes) = (vec![], false, false);
    let mut bytes = inside.iter().copied().peekable();
    while let Some(b) = bytes.next() {
        match b {
            b'"' if in_quotes && bytes.peek() == Some(&b'"') => {
                bytes.next();
                value.push(b'"');
            }
            b'"' => (in_quotes, some) = (!in_quotes, true),
            b'\\' => value.push(bytes.next()?),
            b',' if !in_quotes => {
                values.push(some.then(|| Bytes::from(std::mem::take(&mut value))));
                some = false;
            }
            _ => {
                some = true;
                value.push(b);
            }
        }
    }
    values.push(some.then(|| Bytes::from(value)));
    (!in_quotes).then_some(values)
}

/// An array of these elements: of more than one dimension, if several lengths are given, with the lower bounds before them.
pub fn array(elements: &[Text], bounds: &[(i64, i64)], delimiter: u8) -> Bytes {
    if elements.is_empty() {
        return Bytes::from_static(b"{}");
    }
    let mut out = vec![];
    for (lower, length) in bounds {
        out.extend_from_slice(format!("[{lower}:{}]", lower + length - 1).as_bytes());
    }
    out.push(b'=');
    let lengths: Vec<usize> = bounds.iter().map(|(_, length)| *length as usize).collect();
    nested(&mut out, elements, &lengths, delimiter);
    out.into()
}

/// An array of text.
pub fn list(values: &[Text]) -> Bytes {
    let mut out = vec![];
    match values {
        [] => out.extend_from_slice(b"{}"),
        _ => nested(&mut out, values, &[values.len()], b','),
    }
    out.into()
}

fn nested(out: &mut Vec<u8>, elements: &[Text], lengths: &[usize], delimiter: u8) {
    let [length, inner @ ..] = lengths else {
        match elements.first() {
            Some(Some(value)) => quoted_by_backslash(out, value),
            _ => out.extend_from_slice(b"NULL"),
        }
        return;
    };
    out.push(b'{');
    let each = elements.len() / (*length).max(1);
    for (i, some) in elements.chunks(each.max(1)).enumerate() {
        if i > 0 {
            out.push(delimiter);
        }
        nested(out, some, inner, delimiter);
    }
    out.push(b'}');
}

fn quoted_by_backslash(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'"');
    for b in value {
        if matches!(b, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*b);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::{Text, apart, array, together};
    use bytes::Bytes;

    fn some(text: &'static str) -> Text {
        Some(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn there_and_back() {
        let values = vec![some("a"), None, some(""), some("b, \"c\" \\ (d)"), some("é")];
        let row = together(&values);
        assert_eq!(&row[..], "(a,,\"\",\"b, \"\"c\"\" \\\\ (d)\",é)".as_bytes());
        assert_eq!(apart(&row), Some(values));
        assert_eq!(apart(b"()"), Some(vec![None]));
        assert_eq!(apart(b"(1,\"x"), None);
    }

    #[test]
    fn arrays() {
        assert_eq!(&super::list(&[])[..], b"{}");
        assert_eq!(&super::list(&[some("a"), None, some("b\"c"), some("")])[..], br#"{"a",NULL,"b\"c",""}"#);
        let values = [some("a"), None, some("b\"c"), some("")];
        assert_eq!(&array(&values, &[(1, 4)], b',')[..], br#"[1:4]={"a",NULL,"b\"c",""}"#);
        assert_eq!(&array(&values, &[(0, 2), (1, 2)], b',')[..], br#"[0:1][1:2]={{"a",NULL},{"b\"c",""}}"#);
    }
}
