//! SQL as text and as a tree: lexer, templates, and the only use of libpg_query in the workspace.
//!
//! This crate does not know the catalog: it can tell which names a statement uses, never what they are.

pub mod body;
pub mod build;
pub mod clauses;
mod comments;
pub mod depth;
pub mod lexer;
pub mod materialized;
pub mod moments;
pub mod names;
mod null_ties;
pub mod one_row;
pub mod own;
pub mod parse;
pub mod program;
pub mod read_whole;
pub mod relations;
pub mod search;
pub mod split;
pub mod stack;
mod syntax_error;
pub mod template;
pub mod walk;
pub mod weight;

pub use parse::{deparse, deparse_expr, parse};
pub use pg_query::NodeEnum;
/// libpg_query's syntax tree.
pub use pg_query::protobuf as ast;
pub use syntax_error::SyntaxError;

// Named for its feature alone: libpg_query bounds how deep a tree is, so its decoder need not.
extern crate prost;
