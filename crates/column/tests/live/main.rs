//! The program against a real PostgreSQL.

mod faults;
mod fresh;
mod gap;
mod path;
mod server;
mod store;
mod types;
