//! What can go wrong between the router and a node, which SQLSTATE it is, and whether trying again can help.

use std::io;
use std::time::Duration;
use wire::sqlstate;

use wire::{ErrorFields, WireError};

/// What went wrong with a connection, or on it.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The node answered a statement with an error. The connection is fine, unless the error is FATAL.
    #[error("{}", .0.message())]
    Server(Box<ErrorFields>),
    #[error("could not connect to node {node}: {source}")]
    Connect { node: String, source: io::Error },
    /// The connection broke. What was sent may or may not have been done.
    #[error("connection to node {node} was lost: {reason}")]
    Closed { node: String, reason: String },
    #[error("node broke the protocol: {0}")]
    Wire(#[from] WireError),
    #[error("TLS with node {node} failed: {reason}")]
    Tls { node: String, reason: String },
    /// The node refused the login, or asked for a secret we have not.
    #[error("could not log in to node {node}: {}", .error.message())]
    Auth { node: String, error: Box<ErrorFields> },
    #[error(
        "no free connection to node {node} for user \"{user}\" within {} ms: all {max} are in use, and {waiting} more wait",
        .waited.as_millis()
    )]
    Exhausted { node: String, user: String, max: usize, waiting: usize, waited: Duration },
    /// What would have to be held whole: the connection is not read any further.
    #[error("out of memory for {}", what.words().0)]
    TooLong { what: Long, over: TooMuch },
    #[error("node {node} did not answer in time while {doing}")]
    Timeout { node: String, doing: &'static str },
}

/// What may become too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    Row,
    /// Of a session that could not be told of them yet.
    Notifications,
}

impl Long {
    /// What it is, and what to do.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Long::Row => ("a long row", "Fetch it in parts (substr(), lo_get() with an offset)"),
            Long::Notifications => ("notifications", "Listen in a session that is in no transaction for long"),
        }
    }
}

/// The limit that would be passed, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch {
    pub bytes: usize,
    pub max: usize,
    pub limit: &'static str,
}

impl PoolError {
    /// The SQLSTATE a client should see.
    pub fn sqlstate(&self) -> &str {
        match self {
            PoolError::Server(error) | PoolError::Auth { error, .. } => error.code(),
            PoolError::Connect { .. } | PoolError::Tls { .. } => sqlstate::SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
            PoolError::Closed { .. } | PoolError::Timeout { .. } => sqlstate::CONNECTION_FAILURE,
            PoolError::Wire(_) => sqlstate::PROTOCOL_VIOLATION,
            PoolError::Exhausted { .. } => sqlstate::TOO_MANY_CONNECTIONS,
            PoolError::TooLong { .. } => sqlstate::OUT_OF_MEMORY,
        }
    }

    /// As an ErrorResponse. A node's own error stays as it is.
    pub fn to_fields(&self) -> ErrorFields {
        let error = match self {
            PoolError::Server(error) => return (**error).clone(),
            _ => ErrorFields::error(self.sqlstate(), self.to_string()),
        };
        match self {
            PoolError::Connect { .. } => error.hint("Check that the node runs and that its host and port are right."),
            PoolError::Tls { .. } => error.hint("Check sslmode and sslrootcert, and for which name the node's certificate is."),
            PoolError::Closed { .. } => error.hint("If the statement changed data, check whether it was done."),
            PoolError::TooLong { what, over: TooMuch { bytes, max, limit } } => error
                .detail(format!("{bytes} bytes would be in use, {max} are the limit."))
                .hint(format!("{}, or raise limits.{limit} in herd.toml.", what.words().1)),
            PoolError::Exhausted { .. } => error.hint(
                "Raise the pool's size (and the node's max_connections), or shorten transactions that keep connections.",
            ),
            PoolError::Auth { error: theirs, .. } => match theirs.get(b'H') {
                Some(hint) => error.hint(hint),
                None => error,
            },
            _ => error,
        }
    }

    /// The server, by its address, if it is known which one is meant.
    pub fn node(&self) -> Option<&str> {
        match self {
            PoolError::Connect { node, .. }
            | PoolError::Tls { node, .. }
            | PoolError::Closed { node, .. }
            | PoolError::Auth { node, .. }
            | PoolError::Exhausted { node, .. }
            | PoolError::Timeout { node, .. } => Some(node),
            PoolError::Server(_) | PoolError::Wire(_) | PoolError::TooLong { .. } => None,
        }
    }

    /// Whether no statement has reached the node, so that the same may be tried again, there or elsewhere.
    pub fn is_before_statement(&self) -> bool {
        matches!(
            self,
            PoolError::Connect { .. } | PoolError::Tls { .. } | PoolError::Auth { .. } | PoolError::Exhausted { .. }
        )
    }

    /// Whether the node, not the statement, is the trouble: down, starting, stopping, out of connections.
    pub fn is_node_trouble(&self) -> bool {
        match self {
            PoolError::Server(e) | PoolError::Auth { error: e, .. } => {
                matches!(
                    e.code(),
                    sqlstate::ADMIN_SHUTDOWN
                        | sqlstate::CRASH_SHUTDOWN
                        | sqlstate::CANNOT_CONNECT_NOW
                        | sqlstate::TOO_MANY_CONNECTIONS
                ) || e.code().starts_with("08")
            }
            PoolError::Connect { .. } | PoolError::Closed { .. } | PoolError::Timeout { .. } => true,
            PoolError::Wire(_) | PoolError::Tls { .. } | PoolError::Exhausted { .. } | PoolError::TooLong { .. } => {
                false
            }
        }
    }
}
