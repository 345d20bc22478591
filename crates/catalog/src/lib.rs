//! The herd's catalog: what a snapshot is, how it is loaded and how it is changed.
//!
//! This crate does not know the wire protocol or how to reach a node: whoever calls hands in a [`Query`].

pub mod snapshot;

pub use snapshot::*;

/// Quotes an identifier when PostgreSQL would need it quoted (reserved words are always quoted to be safe).
pub fn quote_ident(name: &str) -> String {
    let plain = name.bytes().enumerate().all(|(i, b)| match b {
        b'a'..=b'z' | b'_' => true,
        b'0'..=b'9' => i > 0,
        _ => false,
    }) && !name.is_empty();
    if plain { format!("{name}") } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A row of a text-format result; `None` is SQL NULL.
pub type Row = Vec<Option<String>>;

/// Runs SQL on one node and returns text rows. Implemented by whoever owns a connection.
pub trait Query {
    type Error: std::error::Error + Send + Sync + 'static;
    fn query(&mut self, sql: &str) -> impl Future<Output = Result<Vec<Row>, Self::Error>> + Send;
}
