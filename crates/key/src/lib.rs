//! From key values to shards: PostgreSQL's partition hash, orders and partition bounds, reproduced outside the server.
//!
//! The path of a key value: text literal → [`parse_text`] (or a binary parameter → [`convert`]) → [`fit`] to the column's type
//! modifier, for rows that are written → [`locate`].
//!
//! Pure: takes bytes, returns values. It deliberately knows no SQL, no catalog, no placement (an index into the bounds is all it answers), no
//! type of a user (domains: pass the base type; enums and composites: [`KeyError::Unsupported`], their oids differ between servers), and no collation:
//! strings are equal and ordered by their bytes. Callers must refuse hash and list keys of a nondeterministic collation, and may
//! prune ranges of strings only where the key's collation is `C` (or `POSIX`, `C.UTF-8`, `pg_c_utf8`, `ucs_basic`).
//!
//! Values are in the type's binary send format, in the server's encoding, as a little-endian server holds them (PostgreSQL's hash of
//! the same value differs on big-endian servers).

mod bounds;
mod compare;
mod convert;
mod cursor;
mod datetime;
mod error;
mod fit;
mod hash;
mod integer;
mod jenkins;
mod jsonb;
mod nested;
mod network;
mod numeric;
mod prune;
mod text;
mod types;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_location;

pub use bounds::{Bound, Datum, Located, PartitionStrategy, locate};
pub use compare::compare;
pub use convert::{Converted, convert};
pub use error::KeyError;
pub use fit::fit;
pub use hash::{combine, hash};
pub use prune::{locate_prefix, overlapping};
pub use text::{parse_text, trim_space};
pub use types::{hashable, orderable, type_name};

/// A PostgreSQL object identifier; here always of a built-in type (`pg_type.dat`).
pub use wire::type_oid::Oid;
