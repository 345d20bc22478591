//! What all sessions of a router share: connections, the snapshot and its plans, who clients are, what is agreed with other
//! routers (epochs, leases, gates, pauses). It knows no single statement.

pub mod barrier;
pub mod bodies;
pub mod column_copies;
pub mod column_stores;
pub mod compiled;
pub mod described;
mod desk;
pub mod fitness;
pub mod gates;
pub mod herd;
pub mod lease;
pub mod likeness;
pub mod looks;
pub mod names;
pub mod pause;
pub mod plan_cache;
pub mod progress;
pub mod readers;
pub mod roles;
pub mod row_queue;
pub mod servers;
pub mod shared_literals;
pub mod sizes;
pub mod standbys;
pub mod store_states;
pub mod unfinished;
pub mod usage;
pub mod ways;
