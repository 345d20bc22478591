//! A local herd whose nodes have standbys (`herd up --ha`): each node is a cluster of Patroni's of two members, and one
//! etcd of three says who leads.
//!
//! ```text
//! up.rs ─→ programs.rs   etcd and patroni: which, and whether PostgreSQL's user can run them
//!       ─→ etcd.rs       the three of etcd: start, stop, health          etcd1/ …
//!       ─→ member.rs     one member: its Patroni, and PostgreSQL below   node1a/, node1b/ …
//!       ─→ config.rs     what Patroni is told                            node1a/patroni.yml
//!       ─→ wait.rs       until there are leaders, and standbys
//!       ─→ watcher.rs    the watch, a process of its own: watch.rs   watch.log
//! down.rs, status.rs     all of it ends; who is up, and in which role
//! ports.rs               who listens where
//! ```
//! Patroni makes, starts, stops and promotes PostgreSQL; nothing here does, as long as Patroni runs. What hangs is killed by the
//! watch, which starts Patronis again.

mod config;
mod down;
mod etcd;
mod member;
mod ports;
mod programs;
mod status;
mod up;
mod wait;
mod watch;
mod watcher;

pub use down::down;
pub use member::Member;
pub use ports::{NODES_MAX, PORTS_OF_ETCD, PORTS_PER_NODE};
pub use status::{etcd, node, watch as watch_status};
pub use up::{has_begun, start};
pub use wait::for_standbys as wait_for_standbys;
pub use watch::run as watch;
pub use watcher::stop as stop_watch;

use super::state::State;

/// A node's hosts as the catalog has them.
pub fn hosts(state: &State, number: u16) -> String {
    let hosts = ports::MEMBERS.map(|member| format!("127.0.0.1:{}", state.member_port(number, member)));
    let urls = ports::MEMBERS.map(|member| ports::rest_url(state, number, member));
    [hosts, urls].concat().join(",")
}

/// A node of `herd.toml`: both members, and the REST APIs that tell which of them leads.
pub fn address(state: &State, number: u16) -> String {
    let ports = ports::MEMBERS.map(|member| state.member_port(number, member).to_string()).join(",");
    let urls = ports::MEMBERS.map(|member| format!("\"{}\"", ports::rest_url(state, number, member))).join(", ");
    let attrs = "target_session_attrs=primary";
    let conninfo = format!("host=127.0.0.1,127.0.0.1 port={ports} dbname=postgres user=postgres {attrs}");
    format!("{{ conninfo = \"{conninfo}\", patroni = [{urls}] }}")
}
