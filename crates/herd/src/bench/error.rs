//! What can go wrong while measuring. A wrong count or a differing answer is an error, never a line in a table.

use std::path::PathBuf;

use super::workload::Protocol;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("--vs {text}: write NAME=URL, such as plain=postgresql://postgres@127.0.0.1:5432/postgres")]
    Versus { text: String },

    #[error("two servers are called \"{name}\": give each --vs a name of its own")]
    SameName { name: String },

    #[error("{workload} runs through psql, which speaks the simple protocol: leave out --protocol {protocol}")]
    Protocol { workload: &'static str, protocol: Protocol },

    #[error("cannot run {program}: {source}. It comes with PostgreSQL; HERD_PG_BIN names the folder to look in")]
    Spawn { program: String, source: std::io::Error },

    #[error("{program} failed on {server}:\n{said}")]
    Program { program: String, server: String, said: String },

    #[error("{program} did not say its {figure}; it said:\n{said}")]
    Unreadable { program: &'static str, figure: &'static str, said: String },

    #[error(
        "table \"{table}\" of {server} was not made by `herd bench`, which would drop it: \
         rename it, or give the URL of an empty database"
    )]
    NotOurs { table: String, server: String },

    #[error("WRONG on {server}: {what} is {is}, but {expected} was acknowledged to the client")]
    Count { server: String, what: String, is: i64, expected: i64 },

    #[error("WRONG on {server}: TPC-C's condition {what}: {is}")]
    Inconsistent { server: String, what: String, is: i64 },

    #[error("WRONG: {what} differs: {first} answers\n{first_answer}\nand {second}\n{second_answer}")]
    Answer { what: String, first: String, first_answer: String, second: String, second_answer: String },

    #[error("--columns makes column copies on a herd: none of the servers is a herd's router")]
    NoHerd,

    #[error("{workload} knows no {option}")]
    Unknown { workload: &'static str, option: &'static str },

    #[error("on {server} columns would not answer {query}: {said}")]
    NotByColumns { server: String, query: String, said: String },

    #[error("on {server} column copies of {table} could not be read in the end, so that rows answered: {states}")]
    CopyLost { server: String, table: String, states: String },

    #[error("{path} is there already: DuckDB's file is made anew, and dropped afterwards", path = .path.display())]
    FileThere { path: PathBuf },

    #[error("{workload} is nothing that DuckDB itself is asked by `herd bench`: w2 is")]
    NotOfDuckDb { workload: &'static str },

    #[error("cannot write {path}: {source}", path = .path.display())]
    Write { path: PathBuf, source: std::io::Error },

    #[error(transparent)]
    Local(#[from] crate::local::Error),
}
