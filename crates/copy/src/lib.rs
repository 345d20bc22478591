//! PostgreSQL's COPY formats (text, CSV, binary): options, cutting a stream into records, writing records.
//!
//! Pure: bytes in, bytes out. It knows neither tables nor nodes, and checks only what it must understand to cut and to
//! route; whatever else can be wrong with a record is left to the PostgreSQL that stores it. The formats' rules are
//! those of `copy.c`, `copyfromparse.c` and `copyto.c` in PostgreSQL 18's `src/backend/commands`.

mod append;
mod ast;
mod binary;
mod encode;
mod error;
mod fields;
mod join;
mod lines;
mod options;
mod splitter;
#[cfg(test)]
mod tests;

pub use append::{append_binary_fields, append_fields, append_header_fields};
pub use binary::{BINARY_HEADER, BINARY_SIGNATURE, BINARY_TRAILER};
pub use encode::RowEncoder;
pub use error::CopyError;
pub use join::{BinaryJoin, Joined};
pub use options::{CopyOptions, ForcedColumns, Format, Header};
pub use splitter::Splitter;
