//! What PostgreSQL prints of a query and does not read itself: the marks of CYCLE (`TO 'Y'::text DEFAULT 'N'::text`), where its grammar has a constant
//! and no cast. Two constants without types are text, too. Marks of other types are left as they are. What else is in a query is
//! not known here, but for where its strings and quoted names end.

/// The text as it can be read.
pub fn readable(text: String) -> String {
    if !text.contains("'::text DEFAULT '") {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(at) = rest.find(['\'', '"']) {
        if let Some((marks, behind)) = rest[..at].strip_suffix(" TO ").and_then(|_| cycle_marks(&rest[at..])) {
            out.push_str(&rest[..at]);
            out.push_str(&marks);
            rest = behind;
            continue;
        }
        let end = at + quoted(&rest[at..], has_escapes(&rest[..at])).unwrap_or(rest.len() - at);
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Both marks without their types, and what comes behind them.
fn cycle_marks(text: &str) -> Option<(String, &str)> {
    let (value, rest) = text.split_at(quoted(text, false)?);
    let rest = rest.strip_prefix("::text DEFAULT ").filter(|r| r.starts_with('\''))?;
    let (default, rest) = rest.split_at(quoted(rest, false)?);
    let rest = rest.strip_prefix("::text").filter(|r| r.starts_with(" USING "))?;
    Some((format!("{value} DEFAULT {default}"), rest))
}

/// A string behind this has escapes by backslashes.
fn has_escapes(before: &str) -> bool {
    before.strip_suffix('E').is_some_and(|b| !b.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$'))
}

/// The bytes of what begins with a quote, up to the one that ends it; two in a row are one within.
fn quoted(text: &str, escapes: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = *bytes.first()?;
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escapes => at += 2,
            b if b == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            b if b == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn marks_lose_their_types() {
        let is = |text: &str, wanted: &str| assert_eq!(readable(text.into()), wanted);
        is(
            "WITH RECURSIVE t AS (…) CYCLE a SET c TO 'Y'::text DEFAULT 'it''s'::text USING p SELECT 'ü'::text",
            "WITH RECURSIVE t AS (…) CYCLE a SET c TO 'Y' DEFAULT 'it''s' USING p SELECT 'ü'::text",
        );
        for same in [
            "SELECT ' TO ''Y''::text DEFAULT ''N''::text USING '::text, '::text DEFAULT '",
            "SELECT \" TO 'Y'::text DEFAULT 'N'::text USING \"",
            "SELECT E' \\\\'' TO ''Y'::text DEFAULT '",
            "CYCLE a SET c TO '2026-01-01'::date DEFAULT '2026-01-02'::date USING p",
        ] {
            is(same, same);
        }
    }
}
