//! The one error type of this crate. It knows SQLSTATEs, not how they reach a client.

use crate::Oid;
use wire::sqlstate;

/// Why a key value could not be read, hashed or placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No hash or order of this type is known outside the server.
    #[error("type with OID {type_oid} is not supported as a distribution key")]
    Unsupported { type_oid: Oid },
    /// PostgreSQL's input function would refuse the text.
    #[error("invalid input syntax for type {type_name}: \"{input}\"")]
    Invalid { type_name: &'static str, input: String },
    /// The text or value is well formed, but outside of the type. The message is PostgreSQL's; `sqlstate` 22003 or 22008.
    #[error("{message}")]
    OutOfRange { message: String, sqlstate: &'static str },
    /// A string longer than its column's or type's limit.
    #[error("value too long for type {type_name}({limit})")]
    TooLong { type_name: &'static str, limit: usize },
    /// The bytes are not this type's binary format.
    #[error("incorrect binary data format for type {type_name}")]
    InvalidBinary { type_name: &'static str },
    /// The key has another number of columns than there are values or bound datums.
    #[error("the key has {expected} columns, but {got} values were given")]
    ColumnCount { expected: usize, got: usize },
    /// Only PostgreSQL itself can tell (the answer hangs on settings, time zones, platform or version). Ask the server for the value's
    /// binary form, or send the statement where the server routes it.
    #[error("only PostgreSQL can read this value")]
    NeedsServer,
}

impl KeyError {
    /// The SQLSTATE a client should see.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            KeyError::Unsupported { .. } | KeyError::NeedsServer => sqlstate::FEATURE_NOT_SUPPORTED,
            KeyError::Invalid { .. } => sqlstate::INVALID_TEXT_REPRESENTATION,
            KeyError::OutOfRange { sqlstate, .. } => sqlstate,
            KeyError::TooLong { .. } => sqlstate::STRING_DATA_RIGHT_TRUNCATION,
            KeyError::InvalidBinary { .. } => sqlstate::INVALID_BINARY_REPRESENTATION,
            KeyError::ColumnCount { .. } => sqlstate::INTERNAL_ERROR,
        }
    }

    pub(crate) fn invalid(type_name: &'static str, input: &str) -> Self {
        KeyError::Invalid { type_name, input: input.to_owned() }
    }

    pub(crate) fn numeric_out_of_range(message: impl Into<String>) -> Self {
        KeyError::OutOfRange { message: message.into(), sqlstate: sqlstate::NUMERIC_VALUE_OUT_OF_RANGE }
    }
}
