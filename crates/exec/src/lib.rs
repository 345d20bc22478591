//! Runs plans: finds the shards, talks to the nodes, merges and finishes, streams rows to the client.
//!
//! It knows neither the client's protocol state nor how a statement was planned; it holds no
//! more of a result than PostgreSQL is to finish, or than must be known whole before any of it is told, within limits.

mod admin;
mod arrays;
mod binary_text;
mod budget;
mod bulk_settings;
mod client;
mod copy;
mod ddl;
mod error;
mod kept_rows;
mod now;
mod query;
mod render;
mod request;
mod route;
mod router;
mod share;
mod statement;
mod work;
mod write;

pub use admin::{AdminCall, AdminDone, recognise};
pub use budget::{Allowance, Budget, Purpose, Taken};
pub use bulk_settings::Bulk;
pub use client::{Answer, Client, CopyInput, tell_parameter};
pub use ddl::Limits;
pub use error::ExecError;
pub use kept_rows::{KeptRows, for_rows};
pub use now::{Now, timestamp, timestamp_at};
pub use request::{Bound, Literals, Request, bind_tail};
pub use route::{Forwarded, Ids, forward};
pub use router::compiled::{Compiled, Epoch};
pub use router::described::{Described, has_user_types};
pub use router::herd::{Herd, HerdConfig, catalog_changed, load};
pub use router::names::restore_error;
pub use router::pause::Pauses;
pub use router::progress::{Progress, Running};
pub use router::roles::{Found, Roles, bring_verifier, is_trusted};
pub use router::row_queue::Turn;
pub use share::rows::RowWay;
pub use work::copy_lane::copy_line;
pub use work::pin::Pin;
pub use work::sequences::Sequences;
pub use work::shards::Targets;
pub use work::sharing::Sharing;
pub use write::bulk::BulkCopy;

pub use router::lease;
pub use router::unfinished::changes_finished;
pub use router::usage;
pub use work::Work;
pub use work::code;
pub use work::made::Made;
pub use work::own_schema::load_own;
pub use work::place::Placed;
