//! The values of one execution put into a plan's texts: `%now%`, `%eN%`, and the rows of parts.

/// Replaces `%now%`, which stands inside a string literal.
pub fn with_now(sql: &str, now: &str) -> String {
    if sql.contains(plan::rewrite::NOW) { sql.replace(plan::rewrite::NOW, now) } else { sql.to_string() }
}

/// Replaces the literals `'%eN%'` by evaluated values, in one pass.
pub fn with_evaluated(sql: &str, values: &[Option<String>]) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find("'%e") {
        let number =
            rest[at + 3..].split_once("%'").and_then(|(n, _)| Some((n, values.get(n.parse::<usize>().ok()?)?)));
        match number {
            Some((digits, value)) => {
                out.push_str(&rest[..at]);
                match value {
                    Some(v) => out.push_str(&catalog::quote_literal(v)),
                    None => out.push_str("NULL"),
                }
                rest = &rest[at + digits.len() + 5..];
            }
            None => {
                out.push_str(&rest[..at + 3]);
                rest = &rest[at + 3..];
            }
        }
    }
    out + rest
}

/// Puts what stands for part `n`'s rows in place of `"%rN"`, and its column types in place of `"%tN_M"`.
pub fn with_part(sql: &str, n: usize, source: &str, types: &[String]) -> String {
    let mut out = sql.replace(&format!("\"%r{n}\""), source);
    for (m, ty) in types.iter().enumerate() {
        out = out.replace(&format!("\"%t{n}_{m}\""), ty);
    }
    out
}

/// Rows of text arrays, from parameter `first` on, as a subquery with columns `c0`, `c1`, ….
pub fn unnest(first: usize, types: &[String]) -> String {
    let columns: Vec<String> = types.iter().enumerate().map(|(i, t)| format!("x.v{i}::{t} AS c{i}")).collect();
    let params: Vec<String> =
        (0..types.len()).map(|i| format!("pg_catalog.unnest(${}::pg_catalog.text[])", first + i)).collect();
    let names: Vec<String> = (0..types.len()).map(|i| format!("v{i}")).collect();
    format!("(SELECT {} FROM ROWS FROM ({}) AS x({}))", columns.join(", "), params.join(", "), names.join(", "))
}
