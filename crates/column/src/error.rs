//! What can go wrong in a store, what a client is told of it, and whether the copy is to be thrown away.

use pool::PoolError;
use wire::{ErrorFields, WireError, sqlstate};

/// The copy is not as fresh as was asked.
pub const NOT_FRESH: &str = "HC001";
/// The table is not what the copy was made of, or there is no copy (any more, or yet).
pub const CHANGED: &str = "HC002";
/// More rows or bytes than was asked to be sent at most.
pub const TOO_MUCH: &str = "HC003";
/// DuckDB could not run it, or its answer can't be told in the types that were asked for.
pub const FAILED: &str = "HC004";

/// Anything that a store's work may end with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Node(#[from] PoolError),
    #[error("DuckDB: {0}")]
    Duck(#[from] duckdb::Error),
    #[error("the node's stream can't be read: {0}")]
    Wire(#[from] WireError),
    /// This copy can't go on; the others can.
    #[error("copy {id}: {why}")]
    Copy { id: i64, why: String },
    /// What the node said does not fit what is known of it.
    #[error("{0}")]
    Surprise(String),
    /// The node's `synchronous_standby_names`.
    #[error(
        "synchronous_standby_names is '{0}': commits would wait for column stores in place of standbys. Name the standbys there, without '*'"
    )]
    Standby(String),
    /// The copy's thread is gone: the process ends.
    #[error("the thread that writes is gone")]
    Gone,
    #[error("not fresh: {0}")]
    NotFresh(String),
    #[error("changed: {0}")]
    Changed(String),
    #[error("more than {max} {what}")]
    TooMuch { max: u64, what: &'static str },
    /// Of the answer: a value or a type that can't be told as was asked.
    #[error("{0}")]
    Answer(String),
    /// Of the question: it is not passed on.
    #[error("{0}")]
    Question(String),
    #[error("{0} is not supported here")]
    Unsupported(&'static str),
    #[error("canceling statement due to user request")]
    Cancelled,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Its SQLSTATE, for whoever asks.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Error::NotFresh(_) | Error::Node(_) | Error::Standby(_) => NOT_FRESH,
            Error::Changed(_) | Error::Copy { .. } => CHANGED,
            Error::TooMuch { .. } => TOO_MUCH,
            Error::Duck(_) | Error::Answer(_) => FAILED,
            Error::Question(_) => sqlstate::SYNTAX_ERROR,
            Error::Unsupported(_) => sqlstate::FEATURE_NOT_SUPPORTED,
            Error::Cancelled => sqlstate::QUERY_CANCELED,
            Error::Wire(_) => sqlstate::PROTOCOL_VIOLATION,
            Error::Surprise(_) | Error::Gone => sqlstate::INTERNAL_ERROR,
        }
    }

    /// As an ErrorResponse.
    pub fn to_fields(&self) -> ErrorFields {
        ErrorFields::error(self.sqlstate(), self.to_string())
    }

    /// What the node told does not fit.
    pub fn surprise(what: impl Into<String>) -> Self {
        Error::Surprise(what.into())
    }
}
