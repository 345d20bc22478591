//! What is asked: a line that says how, and one SELECT; or several, which are answered from one moment. Whatever else DuckDB could be told is refused before it hears of it. It does not
//! know whether there are such copies.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::print::As;

/// Longer ones are refused.
pub const TEXT_MAX: usize = 1 << 20;
/// No answer is larger, whatever is asked.
const BYTES_MAX: u64 = 1 << 28;
const ROWS_MAX: u64 = 10_000_000;

/// A question.
#[derive(Debug)]
pub struct Query {
    /// Of all SELECTs.
    pub tables: Vec<Table>,
    /// Which server its node is to the asker: its system identifier and timeline, between them `/`.
    pub server: Option<String>,
    /// In the order of their answers.
    pub selects: Vec<Select>,
    pub wait_ms: u64,
    /// How old what is read may be; `None`: everything that is committed now must be in it.
    pub stale_ms: Option<u64>,
    pub rows_max: u64,
    pub bytes_max: u64,
    /// Not its rows are wanted, but DuckDB's plan for them.
    pub explain: bool,
}

/// One SELECT of a question.
#[derive(Debug)]
pub struct Select {
    pub types: Vec<As>,
    pub sql: String,
    /// The same, asked of copies that have the first bytes of long texts in columns of their own.
    pub by_first_bytes: Option<String>,
    /// Its rows may come in pieces, each of other rows of the one copy that it reads: the asker adds them up.
    pub in_pieces: bool,
}

/// One of the copies it reads, and what the asker takes its table for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub copy: i64,
    pub schema: String,
    pub name: String,
    /// See [`crate::fingerprint::Facts::shards`].
    pub shards: String,
    /// What the SELECT was made for: names of columns, their types' object ids where these are PostgreSQL's own (or 0), and modifiers.
    #[serde(default)]
    pub columns: Vec<(String, u32, i32)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    tables: Vec<Table>,
    types: Vec<String>,
    #[serde(default = "wait")]
    wait_ms: u64,
    #[serde(default)]
    stale_ms: Option<u64>,
    #[serde(default = "rows")]
    rows_max: u64,
    #[serde(default = "bytes")]
    bytes_max: u64,
    #[serde(default)]
    by_first_bytes: Option<String>,
    #[serde(default)]
    in_pieces: bool,
    #[serde(default)]
    explain: bool,
    #[serde(default)]
    server: Option<String>,
    /// More SELECTs, to be answered from the same moment.
    #[serde(default)]
    more: Vec<More>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct More {
    tables: Vec<Table>,
    types: Vec<String>,
    #[serde(default)]
    by_first_bytes: Option<String>,
    sql: String,
}

fn wait() -> u64 {
    1_500
}

fn rows() -> u64 {
    100_000
}

fn bytes() -> u64 {
    1 << 26
}

impl Query {
    /// Reads a question.
    pub fn parse(text: &str) -> Result<Query> {
        if text.len() > TEXT_MAX {
            return Err(Error::Question(format!("a question has {TEXT_MAX} bytes at most")));
        }
        let (header, sql) =
            text.split_once('\n').ok_or_else(|| Error::Question("the line with the question is missing".into()))?;
        let header: Header =
            serde_json::from_str(header).map_err(|e| Error::Question(format!("the first line: {e}")))?;
        let Header { mut tables, types, by_first_bytes, more, .. } = header;
        let mut selects = vec![Select::checked(&types, sql.to_string(), by_first_bytes)?];
        selects[0].in_pieces = header.in_pieces && more.is_empty();
        for More { tables: of, types, by_first_bytes, sql } in more {
            tables.extend(of);
            selects.push(Select::checked(&types, sql, by_first_bytes)?);
        }
        if header.explain && selects.len() > 1 {
            return Err(Error::Question("one SELECT is explained at a time".into()));
        }
        Ok(Query {
            tables,
            server: header.server,
            selects,
            wait_ms: header.wait_ms.min(60_000),
            stale_ms: header.stale_ms,
            rows_max: header.rows_max.min(ROWS_MAX),
            bytes_max: header.bytes_max.min(BYTES_MAX),
            explain: header.explain,
        })
    }
}

impl Select {
    fn checked(types: &[String], sql: String, by_first_bytes: Option<String>) -> Result<Select> {
        check(&sql)?;
        by_first_bytes.as_deref().map(check).transpose()?;
        let types = types.iter().map(|name| As::parse(name)).collect::<Result<_>>()?;
        Ok(Select { types, sql, by_first_bytes, in_pieces: false })
    }
}

/// Functions that a SELECT may call in DuckDB and that do something, or look elsewhere.
const REFUSED: [&str; 17] = [
    "checkpoint",
    "force_checkpoint",
    "query",
    "query_table",
    "glob",
    "sniff_csv",
    "nextval",
    "currval",
    "set_config",
    "getvariable",
    "current_setting",
    "which_secret",
    "parquet_scan",
    "parquet_metadata",
    "write_log",
    "parse_duckdb_log_message",
    "in_search_path",
];
const REFUSED_PREFIXES: [&str; 6] = ["read_", "duckdb_", "pragma_", "enable_", "disable_", "add_"];

/// One SELECT in plain words: no comments, no dollar quotes, no escapes, so that what is a text and what is not can be seen here
/// as DuckDB does.
fn check(sql: &str) -> Result<()> {
    let refused = |what: &str| Err(Error::Question(format!("{what} is not passed on")));
    let bytes = sql.as_bytes();
    let first = sql.trim_start().split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or("");
    if !first.eq_ignore_ascii_case("select") && !first.eq_ignore_ascii_case("with") {
        return Err(Error::Unsupported("anything but SELECT, SHOW copies, SHOW sizes, SHOW kept and SHOW version"));
    }
    let mut at = 0;
    while at < bytes.len() {
        let two = bytes.get(at..at + 2).unwrap_or(b"");
        match bytes[at] {
            quote @ (b'\'' | b'"') => {
                // A doubled quote ends one text and begins the next: it comes to the same.
                let Some(len) = bytes[at + 1..].iter().position(|b| *b == quote) else {
                    return refused("a text without an end");
                };
                at += len + 2;
                // Names of functions can be quoted, too.
                if quote == b'"' && next_is_call(&bytes[at..]) {
                    return refused("a quoted name of a function");
                }
                continue;
            }
            b';' | b'$' | b'?' | 0 => return refused("a second statement or a parameter"),
            _ if two == b"--" || two == b"/*" => return refused("a comment"),
            byte if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 => {
                let len =
                    bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_' || **b >= 0x80).count();
                let word = sql[at..at + len].to_ascii_lowercase();
                at += len;
                if word.len() == 1 && "ebxunr".contains(&*word) && bytes.get(at) == Some(&b'\'')
                    || word == "u" && bytes.get(at) == Some(&b'&')
                {
                    return refused("a text with escapes");
                }
                if next_is_call(&bytes[at..])
                    && (REFUSED.contains(&&*word) || REFUSED_PREFIXES.iter().any(|prefix| word.starts_with(prefix)))
                {
                    return refused("a function that does more than to compute");
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

fn next_is_call(rest: &[u8]) -> bool {
    rest.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'(')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"tables":[{"copy":3,"schema":"public","name":"t","shards":"x"}],"types":["int8"]}"#;

    #[test]
    fn questions() {
        let ask = |sql: &str| Query::parse(&format!("{HEADER}\n{sql}"));
        let query = ask("SELECT count(*) FROM copy_3 WHERE a = 'it''s; -- no' AND \"b;\" > 1").unwrap();
        assert_eq!((query.tables[0].copy, query.wait_ms, query.stale_ms), (3, 1_500, None));
        assert!(ask("WITH x AS (SELECT 1) SELECT * FROM x").is_ok());
        assert!(!query.explain);
        let explained = HEADER.replace("{\"tables", "{\"explain\":true,\"tables");
        assert!(Query::parse(&format!("{explained}\nSELECT 1")).unwrap().explain);
        // What is explained is what would be answered: ANALYZE is no word that a question begins with, nor EXPLAIN.
        assert!(Query::parse(&format!("{explained}\nANALYZE SELECT 1")).is_err());
        assert!(ask("EXPLAIN SELECT 1").is_err());
        let two = |more: &str| {
            let more = format!("{{\"more\":[{{\"tables\":[],\"types\":[\"int4\"],\"sql\":\"{more}\"}}],\"tables");
            Query::parse(&format!("{}\nSELECT 1", HEADER.replace("{\"tables", &more)))
        };
        assert_eq!(two("SELECT 2").unwrap().selects.len(), 2);
        assert!(two("DROP TABLE copy_3").is_err());
        for wrong in [
            "SELECT 1; DROP TABLE copy_3",
            "SELECT 1 -- x",
            "SELECT 1 /* x */",
            "SELECT $$x$$",
            "SELECT $1",
            "SELECT ?",
            "SELECT e'\\''",
            "SELECT 'x",
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT * FROM read_text ('/etc/passwd')",
            "SELECT * FROM \"read_text\"('/etc/passwd')",
            "SELECT * FROM \"read_text\" ('/etc/passwd')",
            "SELECT * FROM force_checkpoint()",
            "SELECT * FROM duckdb_settings()",
            "ATTACH 'x'",
            "COPY copy_3 TO '/tmp/x'",
            "PRAGMA database_list",
            "SET threads = 1",
            "INSERT INTO copy_3 VALUES (1)",
            "",
        ] {
            assert!(ask(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "SELECT 1", "{}\nSELECT 1", "{\"tables\":[],\"types\":[\"money\"]}\nSELECT 1"] {
            assert!(Query::parse(wrong).is_err(), "{wrong}");
        }
    }
}
