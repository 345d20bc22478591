//! Quoting of identifiers and literals for SQL text.
//!
//! Does not know any statement; only PostgreSQL's lexical rules.

use std::borrow::Cow;

/// Every keyword that is not `UNRESERVED_KEYWORD` in PostgreSQL 15 to 18 (`src/include/parser/kwlist.h`); sorted.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "all", "analyse", "analyze", "and", "any", "array", "as", "asc", "asymmetric", "authorization", "between",
    "bigint", "binary", "bit", "boolean", "both", "case", "cast", "char", "character", "check", "coalesce",
    "collate", "collation", "column", "concurrently", "constraint", "create", "cross", "current_catalog",
    "current_date", "current_role", "current_schema", "current_time", "current_timestamp", "current_user",
    "dec", "decimal", "default", "deferrable", "desc", "distinct", "do", "else", "end", "except", "exists",
    "extract", "false", "fetch", "float", "for", "foreign", "freeze", "from", "full", "grant", "greatest",
    "group", "grouping", "having", "ilike", "in", "initially", "inner", "inout", "int", "integer", "intersect",
    "interval", "into", "is", "isnull", "join", "json", "json_array", "json_arrayagg", "json_exists",
    "json_object", "json_objectagg", "json_query", "json_scalar", "json_serialize", "json_table", "json_value",
    "lateral", "leading", "least", "left", "like", "limit", "localtime", "localtimestamp", "merge_action",
    "national", "natural", "nchar", "none", "normalize", "not", "notnull", "null", "nullif", "numeric",
    "offset", "on", "only", "or", "order", "out", "outer", "overlaps", "overlay", "placing", "position",
    "precision", "primary", "real", "references", "returning", "right", "row", "select", "session_user",
    "setof", "similar", "smallint", "some", "substring", "symmetric", "system_user", "table", "tablesample",
    "then", "time", "timestamp", "to", "trailing", "treat", "trim", "true", "union", "unique", "user", "using",
    "values", "varchar", "variadic", "verbose", "when", "where", "window", "with", "xmlattributes", "xmlconcat",
    "xmlelement", "xmlexists", "xmlforest", "xmlnamespaces", "xmlparse", "xmlpi", "xmlroot", "xmlserialize",
    "xmltable",
];

/// Written without quotes it is this name, or a keyword.
pub(crate) fn is_lexical(name: &str) -> bool {
    let lexical = name.bytes().enumerate().all(|(i, b)| match b {
        b'a'..=b'z' | b'_' => true,
        b'0'..=b'9' => i > 0,
        _ => false,
    });
    lexical && !name.is_empty()
}

fn is_plain(name: &str) -> bool {
    is_lexical(name) && RESERVED.binary_search(&name).is_err()
}

/// `character varying(20)` → `character varying`: a type a value can be cast to without being cut to length; that is then
/// checked, with an error, when the value is assigned to its column.
pub fn without_modifier(type_name: &str) -> String {
    let base = match (type_name.find('('), type_name.rfind(')')) {
        (Some(a), Some(b)) if a < b => format!("{}{}", &type_name[..a], &type_name[b + 1..]),
        _ => return type_name.to_string(),
    };
    // These two without a length mean a length of one, unless they are quoted.
    match base.trim() {
        "character" => "pg_catalog.bpchar".to_string(),
        "character[]" => "pg_catalog.bpchar[]".to_string(),
        "bit" => "pg_catalog.\"bit\"".to_string(),
        "bit[]" => "pg_catalog.\"bit\"[]".to_string(),
        other => other.to_string(),
    }
}

/// Quotes an identifier when PostgreSQL would need it quoted, as its own `quote_ident()` does.
pub fn quote_ident(name: &str) -> String {
    if is_plain(name) { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Quotes a string as a literal that means the same under either setting of `standard_conforming_strings`.
pub fn quote_literal(text: &str) -> String {
    let doubled: Cow<'_, str> = if text.contains('\'') { text.replace('\'', "''").into() } else { text.into() };
    if doubled.contains('\\') { format!("E'{}'", doubled.replace('\\', "\\\\")) } else { format!("'{doubled}'") }
}

/// `schema.name`, each part quoted as needed.
pub fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_ident(schema), quote_ident(name))
}

/// `a, b, c`, each quoted as needed.
pub(crate) fn ident_list<S: AsRef<str>>(names: &[S]) -> String {
    names.iter().map(|n| quote_ident(n.as_ref())).collect::<Vec<_>>().join(", ")
}

/// The longest prefix of `name` that has at most `bytes` bytes and ends at a character.
pub(crate) fn truncate(name: &str, bytes: usize) -> &str {
    let mut end = name.len().min(bytes);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_words_are_sorted() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn quoting() {
        for (name, want) in [
            ("orders", "orders"),
            ("order", "\"order\""),
            ("between", "\"between\""),
            ("Orders", "\"Orders\""),
            ("1st", "\"1st\""),
            ("a\"b", "\"a\"\"b\""),
            ("", "\"\""),
            ("été", "\"été\""),
            ("zone", "zone"),
        ] {
            assert_eq!(quote_ident(name), want);
        }
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal("a\\'b"), "E'a\\\\''b'");
        assert_eq!(truncate("été", 4), "ét");
    }
}
