//! Runs plans: finds the shards, talks to the nodes, merges and finishes, streams rows to the client.
//!
//! It knows neither the client's protocol state nor how a statement was planned; it never holds a whole result.

mod admin;
mod arrays;
mod barrier;
mod bulk;
mod capture;
mod client;
mod cluster;
mod combine;
mod compiled;
mod copy;
pub mod copy_format;
mod copy_lane;
mod copy_upsert;
mod ddl;
mod describe;
mod distribute;
mod error;
mod finish;
mod gather;
mod herd;
mod insert;
mod insert_select;
mod merge;
mod modify;
mod move_rows;
mod names;
mod now;
mod portal;
mod progress;
mod reference;
mod render;
mod request;
mod route;
mod rows;
mod shards;
mod share;
mod sink;
mod statement;
mod stream;
mod work;

pub use admin::{AdminCall, AdminDone, recognise};
pub use bulk::{Bulk, BulkCopy};
pub use client::Client;
pub use compiled::{Compiled, Epoch};
pub use copy::bind_tail;
pub use copy_lane::copy_line;
pub use ddl::{Check, Ddl, Facts, Mode, NodeSteps, Rights, Spread, Step, changes_catalog, classify};
pub use describe::Described;
pub use error::ExecError;
pub use herd::{ADMIN_STARTUP, Herd, HerdConfig, catalog_changed, load, load_own};
pub use names::restore_error;
pub use now::{Now, timestamp};
pub use progress::{Progress, Running};
pub use request::{Bound, Literals, Request};
pub use route::Forwarded;
pub use route::forward;
pub use shards::Targets;
pub use share::Sharing;

pub use statement::Placed;
pub use work::Work;
