//! One client's session: login, the protocol's two dialects, transactions, settings, prepared statements, cursors.
//!
//! The path of a statement starts in `serve.rs`, goes through `simple.rs` or `extended.rs` to `statement.rs`, and from
//! there into `exec`. Plans come from crate `plan`; how several nodes are asked is not known here. Errors become messages to the
//! client in one place: `Session::report`.

// A session's future holds those of everything that a statement may come to: the compiler looks through all of them.

pub mod activity;
mod anew;
mod apart;
mod arguments;
mod backends;
mod background;
pub mod budget;
pub mod cancel;
mod cancel_forward;
mod client_io;
pub mod client_stream;
mod column_use;
mod constraints;
mod cursor;
mod doors;
mod encoding;
mod explain;
mod extended;
mod fair;
mod function_call;
mod held;
mod herd_views;
mod hint;
mod idle;
mod left_behind;
mod lock;
mod locked;
pub mod login;
pub mod metrics;
mod named_roles;
mod path;
mod pg_temp;
mod planning;
mod portals;
mod prepared;
mod program;
mod read_from;
mod reading;
mod reports;
mod router;
mod router_settings;
mod said;
mod sequences;
mod serve;
mod session;
mod set;
mod settings_room;
pub mod shared_tcp;
mod shares;
mod simple;
mod spare;
mod sql_prepare;
mod statement;
mod transaction;
mod values;
mod viewer;

pub use apart::Apart;
pub use background::work_on_jobs;
pub use doors::Doors;
pub use encoding::Encodings;
pub use router::{Limits, Router, RouterDefaults};
pub use serve::serve;
