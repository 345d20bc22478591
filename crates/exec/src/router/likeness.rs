//! Whether a server reads and orders text as home does. Rows of one table lie on all nodes, and copies of reference tables
//! are changed on each: what `lower`, `LIKE`, ORDER BY or a text search make of a value must not hang on where it lies. It does
//! not know how a server becomes a node.

use pool::{Conn, PoolError};
use wire::sqlstate;

use crate::error::{ExecError, Result};

/// A database's own, and settings that code reads without a word of them. PostgreSQL 17 renamed daticulocale.
const QUESTION: &str = "SELECT v.name, v.value FROM pg_catalog.pg_database d, LATERAL pg_catalog.to_jsonb(d) j, LATERAL (VALUES \
     ('encoding', pg_catalog.pg_encoding_to_char(d.encoding)::pg_catalog.text), \
     ('locale provider', CASE WHEN d.datlocprovider OPERATOR(pg_catalog.=) 'i' THEN 'icu' ELSE 'libc or builtin' END), \
     ('collation', d.datcollate::pg_catalog.text), ('character classification', d.datctype::pg_catalog.text), \
     ('locale', coalesce(pg_catalog.jsonb_extract_path_text(j, 'datlocale'), pg_catalog.jsonb_extract_path_text(j, 'daticulocale'), d.datcollate::pg_catalog.text)), \
     ('setting lc_monetary', pg_catalog.current_setting('lc_monetary')), \
     ('setting lc_numeric', pg_catalog.current_setting('lc_numeric')), \
     ('setting lc_time', pg_catalog.current_setting('lc_time')), \
     ('setting default_text_search_config', pg_catalog.current_setting('default_text_search_config')), \
     ('version', d.datcollversion)) v (name, value) WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()";

/// What of home a server does not have, as words; its collations' version, which may go on, apart.
#[derive(Debug, Default)]
pub struct Unlike {
    pub differences: Vec<String>,
    pub version: Option<String>,
}

type Answer = Vec<(String, Option<String>)>;

async fn ask(conn: &mut Conn) -> std::result::Result<Answer, PoolError> {
    let rows = conn.simple(QUESTION).await?;
    let pair = |row: catalog::Row| {
        let mut values = row.into_iter();
        Some((values.next()??, values.next()?))
    };
    Ok(rows.into_iter().filter_map(pair).collect())
}

/// How a server reads text, and what it is.
pub struct Likeness(Answer);

impl Likeness {
    /// As the server says now.
    pub async fn ask(conn: &mut Conn) -> std::result::Result<Likeness, PoolError> {
        Ok(Likeness(ask(conn).await?))
    }

    /// Compares a server with this one, home.
    pub fn unlike(&self, node: &Likeness) -> Unlike {
        compare(&self.0, &node.0)
    }
}

fn compare(home: &Answer, node: &Answer) -> Unlike {
    let mut unlike = Unlike::default();
    for ((name, on_home), (_, on_node)) in home.iter().zip(node) {
        let (on_home, on_node) = (on_home.as_deref().unwrap_or("none"), on_node.as_deref().unwrap_or("none"));
        if plain(on_home) == plain(on_node) {
            continue;
        }
        match name.as_str() {
            "version" => unlike.version = Some(format!("{on_node}, on home {on_home}")),
            _ => unlike.differences.push(format!("{name} is {on_node}, on home {on_home}")),
        }
    }
    unlike
}

/// `C.UTF-8` and `C.utf8` are one locale.
fn plain(locale: &str) -> String {
    match locale.split_once('.') {
        Some((language, charset)) => format!("{language}.{}", charset.replace('-', "").to_lowercase()),
        None => locale.to_string(),
    }
}

/// Refuses a server that is to become a node and is unlike home. The versions of its and home's collations, if they differ.
pub async fn is_like_home(home: &mut Conn, node: &mut Conn) -> Result<Option<String>> {
    let target = node.target().to_string();
    let unlike = compare(&ask(home).await?, &ask(node).await?);
    if unlike.differences.is_empty() {
        return Ok(unlike.version);
    }
    let message = format!("server {target} reads text in another way than home: {}", unlike.differences.join("; "));
    Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(
        "Make the node's database with home's encoding and locale (initdb --locale, --encoding, --locale-provider, or CREATE DATABASE … TEMPLATE template0), \
         and give it home's settings (ALTER SYSTEM SET).",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(values: &[(&str, Option<&str>)]) -> Answer {
        values.iter().map(|(n, v)| (n.to_string(), v.map(str::to_string))).collect()
    }

    #[test]
    fn names_of_one_locale_are_one_and_versions_are_apart() {
        let home = answer(&[("encoding", Some("UTF8")), ("locale", Some("C.UTF-8")), ("version", Some("1"))]);
        let same = answer(&[("encoding", Some("UTF8")), ("locale", Some("C.utf8")), ("version", None)]);
        let found = compare(&home, &same);
        assert_eq!((found.differences.len(), found.version.as_deref()), (0, Some("none, on home 1")));
        let other = answer(&[("encoding", Some("SQL_ASCII")), ("locale", Some("C")), ("version", Some("1"))]);
        let found = compare(&home, &other);
        assert_eq!(found.differences, ["encoding is SQL_ASCII, on home UTF8", "locale is C, on home C.UTF-8"]);
        assert!(found.version.is_none());
    }
}
