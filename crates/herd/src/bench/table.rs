//! The workloads' tables: made anew on a server, distributed where it can, dropped afterwards.
//!
//! A comment tells them from the user's own of the same name, which are never dropped.

use super::error::{Error, Result};
use super::server::Server;

const COMMENT: &str = "made by herd bench";

/// A table of a workload.
pub struct Table {
    pub name: &'static str,
    /// What stands between the parentheses of CREATE TABLE.
    pub columns: &'static str,
    /// A whole statement, or nothing.
    pub index: &'static str,
    /// The column it is distributed by; none: every node has all of it.
    pub key: &'static str,
}

/// W1's and W2's table, as sysbench makes it.
pub const SBTEST1: Table = Table {
    name: "sbtest1",
    columns: "id integer NOT NULL, k integer NOT NULL DEFAULT 0, c character(120) NOT NULL DEFAULT '', \
              pad character(60) NOT NULL DEFAULT '', PRIMARY KEY (id)",
    index: "CREATE INDEX k_1 ON sbtest1 (k)",
    key: "id",
};

impl Table {
    /// Makes it empty and distributed.
    pub fn make(&self, server: &Server) -> Result<()> {
        let Table { name, key, .. } = self;
        self.make_and(
            server,
            &match key.is_empty() {
                true => format!("SELECT create_reference_table('{name}');\n"),
                false => format!("SELECT create_distributed_table('{name}', '{key}');\n"),
            },
        )
    }

    /// Makes it empty, and distributed by a statement where that can be.
    fn make_and(&self, server: &Server, distribute: &str) -> Result<()> {
        self.drop(server)?;
        let Table { name, columns, index, .. } = self;
        // Together, so that an interrupted run leaves no table that looks like somebody else's.
        let mut script =
            format!("BEGIN;\nCREATE TABLE {name} ({columns});\nCOMMENT ON TABLE {name} IS '{COMMENT}';\nCOMMIT;\n");
        if !index.is_empty() {
            script += &format!("{index};\n");
        }
        if server.can_distribute() {
            script += distribute;
        }
        server.psql(&script).map(drop)
    }

    /// Drops it if `herd bench` made it; refuses to drop one that somebody else made.
    pub fn drop(&self, server: &Server) -> Result<()> {
        let name = self.name;
        let sql = format!(
            "SELECT CASE WHEN to_regclass('{name}') IS NULL THEN 'none' \
             ELSE coalesce(obj_description(to_regclass('{name}'), 'pg_class'), '') END"
        );
        match server.value(&sql)?.as_str() {
            "none" => Ok(()),
            COMMENT => server.psql(&format!("DROP TABLE {name};\n")).map(drop),
            _ => Err(Error::NotOurs { table: name.to_owned(), server: server.name.clone() }),
        }
    }
}

/// The rows of [`SBTEST1`], the same on every server. `c` begins with a digit and holds digits and lower-case letters
/// only, so that every collation sorts it alike; no two are the same, so that ORDER BY c has one answer.
pub fn sbtest1_rows(rows: u64) -> String {
    sbtest1_rows_from(rows, &format!("generate_series(1, {rows}::bigint) AS i"))
}

/// The same with another FROM that gives the numbers `i`.
fn sbtest1_rows_from(rows: u64, numbers: &str) -> String {
    format!(
        "INSERT INTO sbtest1 SELECT i, (i * 7919) % {rows}, \
         lpad((i * 2654435761 % 100000000000)::text, 11, '0') || md5(i::text) || md5((i * 3)::text) || md5((i * 7)::text), \
         md5((i * 5)::text) || left(md5((i * 11)::text), 27) FROM {numbers}"
    )
}

/// The same table with the same rows in a file of DuckDB's, where texts have no blanks at their ends, as stores have them.
pub fn fill_duckdb(server: &Server, rows: u64) -> Result<()> {
    let create = "CREATE TABLE sbtest1 (id integer, k integer, c varchar, pad varchar);";
    let rows = sbtest1_rows_from(rows, &format!("range(1, {rows} + 1) AS r(i)"));
    server.timed(&format!("{create}\n{rows};\nCHECKPOINT;\n")).map(drop)
}

/// Makes and fills [`SBTEST1`]; a herd splits it by so many `ranges` of its key, or by hash.
pub fn fill_sbtest1(server: &Server, rows: u64, ranges: Option<u64>) -> Result<()> {
    match ranges.filter(|_| server.is_herd()) {
        None => SBTEST1.make(server)?,
        Some(ranges) => {
            let at = |i: u64| (1 + i * rows / ranges).to_string();
            let bound = |i: u64| {
                let from = if i == 0 { "MINVALUE".to_owned() } else { at(i) };
                let to = if i + 1 == ranges { "MAXVALUE".to_owned() } else { at(i + 1) };
                format!("'FROM ({from}) TO ({to})'")
            };
            let bounds: Vec<String> = (0..ranges).map(bound).collect();
            let distribute = format!(
                "SELECT create_distributed_table('sbtest1', 'id', strategy => 'range', bounds => ARRAY[{}]);\n",
                bounds.join(", ")
            );
            SBTEST1.make_and(server, &distribute)?;
        }
    }
    server.psql(&format!("{};\nVACUUM ANALYZE sbtest1;\n", sbtest1_rows(rows)))?;
    server.check_count("sbtest1", rows)
}
