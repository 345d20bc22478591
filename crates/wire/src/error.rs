//! What can be wrong with bytes on the wire. Every variant is a protocol violation by the peer.

/// A message that breaks the protocol. The SQLSTATE is always 08P01 (`protocol_violation`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("invalid message length {0}")]
    Length(i32),
    #[error("message of {bytes} bytes is longer than the {max} allowed")]
    TooLong { bytes: usize, max: usize },
    #[error("invalid string in message")]
    String,
    #[error("insufficient data left in message")]
    Truncated,
    #[error("invalid message format")]
    Trailing,
    #[error("invalid frontend message type {0}")]
    UnknownType(u8),
    #[error("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2")]
    Version { major: u16, minor: u16 },
    #[error("{0}")]
    Other(&'static str),
}

pub type Result<T> = std::result::Result<T, WireError>;
