//! The program against a real PostgreSQL.

mod path;
mod server;
mod store;
