//! The herd's catalog: what a snapshot is, how it is loaded and how it is changed.
//!
//! This crate does not know the wire protocol or how to reach a node: whoever calls hands in a [`Query`].
//! Changes are planned here as lists of SQL statements for each node; running them, and making them atomic
//! across nodes, is up to the caller.
//!
//! - [`snapshot`]: what a router knows of the herd; [`load()`] reads it from home
//! - [`schema`]: the tables, views and functions the herd keeps on its nodes
//! - [`definition`]: one table's definition, read from home and printed as DDL
//! - [`distribute`]: plans that turn tables into distributed, reference or local ones

mod bound_text;
mod cells;
pub mod code;
pub mod definition;
pub mod distribute;
pub mod error;
pub mod first_bytes;
pub mod ident;
pub mod load;
mod printed;
pub mod schema;
mod session_code;
pub mod snapshot;
mod temporary;

pub use code::Code;
pub use definition::{Definition, ViewOver, read_definition, read_view_elsewhere, read_views};
pub use distribute::*;
pub use error::{CatalogError, Refusal, RefusalKind};
pub use ident::{qualified, quote_ident, quote_literal, without_modifier};
pub use load::{KeptColumns, load, load_in_transaction, load_with};
pub use schema::{HerdKey, SEAL_NODE, bootstrap_home, bootstrap_home_sql, bootstrap_node_sql};
pub use session_code::{Left, SessionCode};
pub use snapshot::*;
pub use temporary::{TemporaryDefinition, TemporaryRelation, TemporaryView, read_temporary_views};

/// A row of a text-format result; `None` is SQL NULL.
pub type Row = Vec<Option<String>>;

/// Runs SQL on one node and returns text rows. Implemented by whoever owns a connection.
///
/// All calls on one `Query` run in one session. A call may hold several statements separated by semicolons
/// (the simple query protocol); what is returned then is not looked at.
pub trait Query: Send {
    type Error: std::error::Error + Send + Sync + 'static;
    fn query(&mut self, sql: &str) -> impl Future<Output = Result<Vec<Row>, Self::Error>> + Send;

    /// Each by itself, in this order, in as few round trips as can be. Where the session is lost, the answers end with its error.
    fn query_all(&mut self, sqls: &[String]) -> impl Future<Output = Vec<Result<Vec<Row>, Self::Error>>> + Send {
        async move {
            let mut answers = Vec::with_capacity(sqls.len());
            for sql in sqls {
                answers.push(self.query(sql).await);
            }
            answers
        }
    }
}
