//! What can be wrong with COPY options or data, in PostgreSQL's words. It does not know how a client is told.

use wire::sqlstate;

/// Why data can't be cut into records, in PostgreSQL's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// The statement's options, as `ProcessCopyOptions` would refuse them.
    #[error("{message}")]
    Options { sqlstate: &'static str, message: String },
    #[error("missing data for column \"{0}\"")]
    MissingData(String),
    #[error("extra data after last expected column")]
    ExtraData,
    #[error("unterminated CSV quoted field")]
    UnterminatedQuote,
    #[error("{} carriage return found in data", if *.csv { "unquoted" } else { "literal" })]
    CarriageReturn { csv: bool },
    #[error("{} newline found in data", if *.csv { "unquoted" } else { "literal" })]
    Newline { csv: bool },
    #[error("end-of-copy marker is not alone on its line")]
    MarkerNotAlone,
    #[error("end-of-copy marker does not match previous newline style")]
    MarkerNewlineStyle,
    #[error("COPY file signature not recognized")]
    Signature,
    #[error("invalid COPY file header ({0})")]
    BinaryHeader(&'static str),
    #[error("unrecognized critical flags in COPY file header")]
    BinaryFlags,
    #[error("row field count is {found}, expected {expected}")]
    FieldCount { found: i16, expected: usize },
    #[error("unexpected EOF in COPY data")]
    UnexpectedEof,
    #[error("invalid field size")]
    FieldSize,
    #[error("received copy data after EOF marker")]
    DataAfterEnd,
    /// A record of more than PostgreSQL's largest allocation.
    #[error("string buffer exceeds maximum allowed size ({0} bytes)")]
    TooLarge(usize),
    /// The record's place can't be known before its node has computed the default.
    #[error("the DEFAULT marker is not supported for column \"{0}\", by which rows are placed")]
    DefaultInKey(String),
    /// In these encodings a byte that looks like a delimiter may be half of a character.
    #[error("COPY FROM of distributed tables is not supported in encoding \"{0}\"")]
    Encoding(String),
}

impl CopyError {
    /// The SQLSTATE that PostgreSQL has for it.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            CopyError::Options { sqlstate, .. } => sqlstate,
            CopyError::TooLarge(_) => sqlstate::PROGRAM_LIMIT_EXCEEDED,
            CopyError::DefaultInKey(_) | CopyError::Encoding(_) => sqlstate::FEATURE_NOT_SUPPORTED,
            _ => sqlstate::BAD_COPY_FILE_FORMAT,
        }
    }

    /// What to do about it, where PostgreSQL says so.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            CopyError::CarriageReturn { csv: false } => "Use \"\\r\" to represent carriage return.",
            CopyError::CarriageReturn { csv: true } => "Use quoted CSV field to represent carriage return.",
            CopyError::Newline { csv: false } => "Use \"\\n\" to represent newline.",
            CopyError::Newline { csv: true } => "Use quoted CSV field to represent newline.",
            CopyError::DefaultInKey(_) => "Write the column's value into the data.",
            CopyError::Encoding(_) => "Convert the data to UTF8 and set client_encoding accordingly.",
            _ => return None,
        })
    }
}
