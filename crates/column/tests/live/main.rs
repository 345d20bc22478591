//! The program against a real PostgreSQL.

mod doubt;
mod faults;
mod fresh;
mod gap;
mod path;
mod resort;
mod server;
mod speed;
mod standby;
mod store;
mod types;
