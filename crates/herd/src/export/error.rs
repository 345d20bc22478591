//! What can go wrong with an export, each with what to do about it. An export that misses anything is an error.

use std::path::PathBuf;

use crate::{dump, local};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Server(#[from] dump::Error),

    #[error(transparent)]
    Local(#[from] local::Error),

    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },

    #[error("cannot write {path}: {source}", path = .path.display())]
    Parquet { path: PathBuf, source: Box<parquet::errors::ParquetError> },

    #[error("{path} is not empty: an export needs a folder of its own", path = .path.display())]
    NotEmpty { path: PathBuf },

    #[error("{server} is not a router of a herd: use psql's \\copy for a single PostgreSQL")]
    NotAHerd { server: String },

    #[error("an export is of a table, by its name, or of one query, SELECT, VALUES or WITH: {problem}")]
    What { problem: String },

    #[error("there is no table or view {name}")]
    NoTable { name: String },

    #[error("{table} was locked by others for {seconds} s: try again when its schema is not being changed")]
    Locked { table: String, seconds: u64 },

    #[error("{table} was changed into another kind of table just now: try again")]
    Changed { table: String },

    #[error("shards of {table} came to a node that joined just now: try again")]
    Moved { table: String },

    #[error("--as-text is for Parquet: CSV has all columns as text")]
    AsTextOfCsv,

    #[error(
        "node {node} does not have just those shards of {table} that the herd's catalog says: {shards}. herd.verify shows what is wrong"
    )]
    Shards { node: String, table: String, shards: String },

    #[error("there is no column {column} for --as-text")]
    NoColumn { column: String },

    #[error("two columns are called {column}, which Parquet can't have: give them names of their own with AS")]
    Twice { column: String },

    #[error("Parquet needs a column")]
    NoColumns,

    #[error(
        "column {column} has the value {value}, which Parquet's {kind} can't hold: --as-text {column} has the column as text"
    )]
    Value { column: String, value: String, kind: String },

    #[error("column {column} has text that is not UTF-8")]
    NotUtf8 { column: String },

    #[error("what came for {path} is no row", path = .path.display())]
    Row { path: PathBuf },

    #[error("it was given up")]
    Stopped,
}
