//! Statements that put a table into a publication, or take it out. They name it, and its owner may have given the name to another
//! table since it was looked up: then they fail, and change nothing. It does not send them.

use catalog::{qualified, quote_ident, quote_literal};

/// The table is in it.
pub fn with(publication: &str, relation: u32, schema: &str, name: &str) -> String {
    changed("ADD", "EXISTS", publication, relation, schema, name)
}

/// The table is not in it.
pub fn without(publication: &str, relation: u32, schema: &str, name: &str) -> String {
    changed("DROP", "NOT EXISTS", publication, relation, schema, name)
}

/// The table is in it as it was, but what servers know of that is looked up anew.
pub fn again(publication: &str, relation: u32, schema: &str, name: &str) -> String {
    let (publication_name, table) = (quote_ident(publication), qualified(schema, name));
    format!("ALTER PUBLICATION {publication_name} DROP TABLE {table}; {}", with(publication, relation, schema, name))
}

/// One string, so one transaction: an error in its second statement undoes the first.
fn changed(verb: &str, wanted: &str, publication: &str, relation: u32, schema: &str, name: &str) -> String {
    format!(
        "ALTER PUBLICATION {} {verb} TABLE {};
         SELECT (CASE WHEN {wanted} (SELECT FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
             WHERE p.pubname = {} AND r.prrelid = {relation}::oid) THEN 'true' ELSE 'the name means another table by now' END)::bool",
        quote_ident(publication),
        qualified(schema, name),
        quote_literal(publication),
    )
}
