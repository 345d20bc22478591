//! Why a client was not let in, and which part of that he is told. It does not send anything.

use std::io;
use wire::sqlstate;

use pool::PoolError;
use wire::scram::ScramError;
use wire::{ErrorFields, WireError};

/// Why a client was not let in.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The client went away where clients may. Never leaves this module's `open`.
    #[error("the client closed the connection")]
    Left,
    #[error("the client closed the connection in the middle of a message")]
    Cut,
    #[error("connection to the client was lost: {0}")]
    Io(#[from] io::Error),
    #[error("client broke the protocol: {0}")]
    Wire(#[from] WireError),
    #[error("TLS with the client failed: {0}")]
    Tls(io::Error),
    #[error("direct TLS without ALPN protocol \"postgresql\"")]
    NoAlpn,
    #[error("client asks for direct TLS, but TLS is not configured")]
    NoTls,
    #[error("received unencrypted data after {0} request")]
    Injected(&'static str),
    #[error("connection without TLS")]
    TlsRequired,
    #[error("canceling authentication due to timeout")]
    Timeout,
    /// What the startup packet asks for can't be had.
    #[error("{:?}", .0.message())]
    Startup(Box<ErrorFields>),
    #[error("expected SASL response, got message type {0}")]
    NotSasl(u8),
    #[error("client selected an invalid SASL authentication mechanism")]
    Mechanism,
    /// A wrong password, no password or no such user: which of them only the log tells.
    #[error("password authentication failed for user {user:?}: {why}")]
    Password { user: String, why: &'static str },
    /// Anything but a wrong proof.
    #[error("SCRAM exchange with user {user:?} failed: {source}")]
    Scram { user: String, source: ScramError },
    #[error("could not read the verifier of user {user:?}: {source}")]
    Verifier { user: String, source: PoolError },
}

impl LoginError {
    /// What the client is told; `None` if he is gone or would not understand. It says nothing of nodes, and nothing by
    /// which an existing user can be told from another.
    pub fn to_fields(&self) -> Option<ErrorFields> {
        use LoginError::*;
        Some(match self {
            Left | Cut | Io(_) | Tls(_) | NoAlpn | NoTls => return None,
            // PostgreSQL's code for it, where every other breach of the protocol is 08P01.
            Wire(e @ WireError::Version { .. }) => ErrorFields::fatal(sqlstate::FEATURE_NOT_SUPPORTED, e.to_string()),
            Wire(e) => ErrorFields::fatal(sqlstate::PROTOCOL_VIOLATION, e.to_string()),
            Injected(_) => ErrorFields::fatal(sqlstate::PROTOCOL_VIOLATION, self.to_string())
                .detail("Either the client does not wait for an answer, or somebody in between tampers with the data."),
            TlsRequired => ErrorFields::fatal(
                sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
                "connections without TLS are not accepted",
            )
            .hint("Connect with sslmode=require or stricter."),
            Timeout => ErrorFields::fatal(sqlstate::QUERY_CANCELED, self.to_string()),
            Startup(fields) => (**fields).clone(),
            NotSasl(_) | Mechanism => ErrorFields::fatal(sqlstate::PROTOCOL_VIOLATION, self.to_string()),
            Password { user, .. } => ErrorFields::fatal(
                sqlstate::INVALID_PASSWORD,
                format!("password authentication failed for user \"{user}\""),
            ),
            Scram { source: e @ ScramError::ChannelBinding, .. } => {
                ErrorFields::fatal(sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, e.to_string())
            }
            Scram { source, .. } => {
                ErrorFields::fatal(sqlstate::PROTOCOL_VIOLATION, "malformed SCRAM message").detail(format!("{source}."))
            }
            Verifier { .. } => ErrorFields::fatal(sqlstate::CANNOT_CONNECT_NOW, "passwords can't be checked now")
                .hint("Try again; if it lasts, look at the router's log and at the herd's home node."),
        })
    }

    /// What a client does wrong is no trouble of ours; that home can't be asked is.
    pub(super) fn log(&self, peer: &str) {
        match self {
            LoginError::Verifier { .. } => tracing::warn!(peer, "login failed: {self}"),
            _ => tracing::info!(peer, "login failed: {self}"),
        }
    }
}
