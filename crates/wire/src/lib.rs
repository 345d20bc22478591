//! PostgreSQL's frontend/backend protocol, versions 3.0 to 3.2: frames, messages and SCRAM, and the texts of values.
//!
//! Bytes in, values out. This crate does not know sockets, clocks, sessions or what a statement means; randomness
//! (nonces, salts) is passed in.

pub mod backend;
pub mod error;
pub mod error_fields;
pub mod frame;
pub mod frontend;
pub mod hex;
pub mod put;
mod recognise;
pub mod scram;
pub mod sqlstate;
pub mod startup;
pub mod type_oid;
pub mod values;
pub mod walsender;

pub use error::WireError;
pub use error_fields::ErrorFields;
pub use frame::Frame;
