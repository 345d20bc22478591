//! Runs utility statements: home first, whose error is the client's; then the other nodes; then the epoch.
//!
//! What each node runs is decided in `plan::ddl`; what is locked for it, and renamed, here. It does not know how a transaction is committed.

mod alone;
mod constraints;
mod create_table_as;
mod elsewhere;
mod lent;
mod limits;
mod lock;
mod materialize;
mod password;
mod readers;
mod renew;
mod rest;
mod rights;
mod run;
mod spread;

pub use limits::Limits;
pub use lock::GIVES_WAY;
pub(crate) use lock::Locks;
