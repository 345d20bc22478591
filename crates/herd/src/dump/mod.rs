//! `herd dump` and `herd restore`: all of a herd at one snapshot, for a plain PostgreSQL or for another herd.
//!
//! ```text
//! take.rs ─→ snapshot.rs     one transaction through the router that is one cut over all nodes, held open meanwhile
//!         ─→ program.rs      pg_dump on each node, in parallel, reading that very cut; pg_dumpall for roles
//!         ─→ schema.rs       home's schema, with distributed tables as plain ones
//!         ─→ manifest.rs     herd.json, written last: what was distributed, and how
//! restore.rs ─→ program.rs   psql for the schema, pg_restore for the rows
//!            ─→ schema.rs    and, for a herd, create_distributed_table behind each table
//! server.rs   where a router and its nodes are reached        session.rs    psql, kept open
//! progress.rs the bar
//! ```
//! PostgreSQL's own programs do the work, so a dump can be restored without pgherd, too: psql for `roles.sql` and
//! `pre-data.sql`, `pg_restore --data-only` for each folder in `data`, psql for `post-data.sql`. Nothing here knows how a cut
//! is taken or how rows are split.

mod error;
mod manifest;
pub mod program;
mod progress;
mod restore;
mod schema;
pub mod server;
pub mod session;
pub mod snapshot;
mod take;

pub use error::Error;
pub use restore::{Restore, restore};
pub use take::{Dump, take};
