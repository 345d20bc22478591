//! What can go wrong with a dump, each with what to do about it. A dump that misses anything is an error.

use std::path::PathBuf;

use crate::local;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Local(#[from] local::Error),

    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },

    #[error("cannot run {program}: {source}. It comes with PostgreSQL; HERD_PG_BIN names the folder to look in")]
    Spawn { program: &'static str, source: std::io::Error },

    #[error("{program} failed on {server}:\n{said}")]
    Program { program: &'static str, server: String, said: String },

    #[error("{path} is not empty: a dump needs a folder of its own", path = .path.display())]
    NotEmpty { path: PathBuf },

    #[error("{path} holds no complete dump: {problem}", path = .path.display())]
    NoDump { path: PathBuf, problem: String },

    #[error("{server} is not a router of a herd: use pg_dump for a single PostgreSQL")]
    NotAHerd { server: String },

    #[error("{server} did not say what was asked; it said: {said}")]
    Unreadable { server: String, said: String },

    #[error("INCOMPLETE: the dump of node {node} misses {missing}; nothing in this folder is to be relied on")]
    Missing { node: String, missing: String },

    #[error("the schema that pg_dump wrote could not be read: {problem}")]
    Schema { problem: String },

    #[error("--node {text}: write NAME=URL, such as node2=postgresql://postgres@10.0.0.5:5432/app")]
    Node { text: String },
}
