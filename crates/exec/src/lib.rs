//! Runs plans: finds the shards, talks to the nodes, merges and finishes, streams rows to the client.
//!
//! It knows neither the client's protocol state nor how a statement was planned; it holds no
//! more of a result than PostgreSQL is to finish, or than must be known whole before any of it is told, within limits.

// A session's future holds those of everything that a statement may come to: the compiler looks through all of them.

mod admin;

mod arrays;
mod binary_text;
mod budget;
mod bulk_settings;
mod carried;
mod client;
mod column_settings;
mod copy;
mod counters;
mod ddl;
mod error;
mod kept_rows;
mod moves;
mod now;
mod object_ids;
mod query;
mod read_from;
mod render;
mod request;
mod route;
mod router;
mod share;
mod spool;
mod statement;
mod work;
mod write;

pub use admin::automatic::Automatic;
pub use admin::background::{Outcome, Task};
pub use admin::function::ToDistribute;
pub use admin::job::undo_orphans;
pub use admin::move_shard::{Isolation, Merging, Next, Split};
pub use admin::{columns as admin_columns, with_parameters as admin_with_parameters};
pub use binary_text::text_of;
pub use budget::{Allowance, Budget, Purpose, Taken};
pub use bulk_settings::Bulk;
pub use client::{Answer, Client, CopyInput, PENDING_MAX, tell_parameter};
pub use column_settings::{ColumnUse, ColumnWay};
pub use ddl::{GIVES_WAY, Limits};
pub use error::{ClientError, ExecError};
pub use kept_rows::KeptRows;
pub use moves::{Choice, Moves};
pub use now::{Now, timestamp, timestamp_at};
pub use query::ColumnPlans;
pub use query::cursor::{ALL as ALL_ROWS, Cursor, Leftover, Opening, Scroll, Standing, To};
pub use query::ways::{OtherWay, nodes_of};
pub use read_from::{Need, ReadWay};
pub use request::{Bound, Limit, Literals, Request, bind_tail};
pub use route::{Forwarded, Ids, forward};
pub use router::column_stores::Store;
pub use router::compiled::{Compiled, Epoch};
pub use router::described::may_tell_ids;
pub use router::fitness::{Remark, can_join};
pub use router::herd::{Herd, HerdConfig, catalog_changed, catalog_error, load};
pub use router::likeness::Likeness;
pub use router::names::restore_error;
pub use router::pause::Begins;
pub use router::progress::Running;
pub use router::readers::Reading;
pub use router::roles::{Found, Roles, bring_verifier, is_trusted};
pub use router::standbys::follow as follow_standbys;
pub use router::store_states::{StoreAnswer, StoreSays, StoreState};
pub use share::rows::RowWay;
pub use spool::Disk;
pub use work::answered::{Answered, looking};
pub use work::copy_lane::copy_line;
pub use work::pin::Pin;
pub use work::sequences::Sequences;
pub use work::shards::has_moments;
pub use work::sharing::Sharing;
pub use work::standby::FromStandbys;
pub use write::bulk::BulkCopy;

pub use router::lease;
pub use router::unfinished::wait_for_changes;
pub use router::usage;
pub use work::code;
pub use work::own_catalog::load_own;
pub use work::place::{Placed, Stands};
pub use work::{FIXED_SETTING, Work};
