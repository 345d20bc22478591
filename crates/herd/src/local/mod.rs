//! The local herd: `herd up`, `down`, `status` and `psql`, on PostgreSQL servers of this machine.
//!
//! ```text
//! up.rs ─→ shape.rs           asked for against what was made   herd.json (state.rs)
//!       ─→ binaries.rs        which PostgreSQL                  reach.rs, account.rs: run by whom, reachable or not
//!       ─→ node_make.rs       initdb, settings, marker          node1/, node2/ …
//!       ─→ node.rs            start, stop, crashed or not
//!       ─→ router_process.rs  the router in the background      herd.toml, router.pid
//!       ─→ stores.rs          stores of column copies         column1/, column1.toml
//!       ─→ ha                  nodes with standbys: Patroni, etcd   node1a/, etcd1/ …
//! plain.rs                    a plain PostgreSQL beside the herd, to measure it against
//! ```
//! All of it is plain blocking code. It knows servers and files, and nothing of SQL, tables or shards.

mod account;
mod background;
mod binaries;
mod down;
mod error;
mod files;
mod ha;
mod node;
mod node_make;
mod plain;
mod probe;
mod process;
mod psql;
mod reach;
mod router_process;
mod shape;
mod state;
mod status;
mod stores;
mod up;

pub use binaries::program;
pub use down::down;
pub use error::Error;
pub use ha::watch;
pub use plain::{PlainPostgres, is_herd};
pub use psql::{Target, literal, psql, run_sql};
pub use shape::Options as UpOptions;
pub use state::NODES_MAX;
pub use status::{DOWN, MemberStatus, NodeStatus, RouterStatus, Status, StoreStatus, status};
pub use stores::program as store_program;
pub use up::up;
