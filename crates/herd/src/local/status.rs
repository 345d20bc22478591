//! What of a local herd is up, for people and as JSON.
//!
//! It only looks; it takes no lock and changes nothing. Up means that a login is answered, not that a process exists. What nodes
//! say of themselves, and which there are besides those of this directory, `status.rs` beside this folder asks.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::{Error, Result};
use super::files::Files;
use super::node::Node;
use super::probe::{Answer, probe};
use super::state::State;
use super::{ha, router_process, stores};
use crate::config::Config;

#[derive(Debug, Serialize)]
pub struct Status {
    /// Everything is up.
    pub up: bool,
    pub url: String,
    /// Of a local herd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,
    pub router: RouterStatus,
    pub nodes: Vec<NodeStatus>,
    /// The stores of column copies: those that the router knows, and a local herd's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreStatus>,
    /// Of a local herd whose nodes have standbys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub etcd: Vec<EtcdStatus>,
    /// Of such a herd, too: who ends what hangs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<WatchStatus>,
}

#[derive(Debug, Serialize)]
pub struct RouterStatus {
    /// It logs clients in, and answers.
    pub up: bool,
    pub pid: Option<u32>,
    /// Not known of a router that was reached by its URL.
    pub port: Option<u16>,
    /// Address of the metrics page.
    pub metrics: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct NodeStatus {
    pub name: String,
    pub up: bool,
    pub pid: Option<u32>,
    pub host: String,
    pub port: u16,
    /// PostgreSQL's version, when it is up.
    pub version: Option<String>,
    /// It is a standby, or recovers. This and what follows: if it was asked and has said so.
    pub in_recovery: Option<bool>,
    /// The herd's transactions that stand prepared on it.
    pub prepared: Option<u64>,
    /// The size of its database.
    pub bytes: Option<u64>,
    /// Of a node of a local herd.
    pub data: Option<PathBuf>,
    /// Its hosts, if it has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberStatus>,
}

/// One of the hosts of a node.
#[derive(Debug, Serialize)]
pub struct MemberStatus {
    /// As Patroni calls it, or its address.
    pub name: String,
    pub up: bool,
    /// `leader`, `sync standby`, `standby` (so Patroni says; else `primary` and `standby`), `down`.
    pub role: String,
    /// Of PostgreSQL.
    pub pid: Option<u32>,
    /// Of its Patroni, in a local herd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patroni_pid: Option<u32>,
    pub host: String,
    pub port: u16,
    /// Of a local herd.
    pub data: Option<PathBuf>,
}

/// The store of column copies beside a node.
#[derive(Debug, Default, Serialize)]
pub struct StoreStatus {
    pub node: String,
    pub up: bool,
    /// Of a local herd's own.
    pub pid: Option<u32>,
    pub host: String,
    pub port: u16,
    /// Why it is not up, or of no use.
    pub why: Option<String>,
    /// How many copies it has been told to keep, and how many of them can be read. This and what follows: if it has said so.
    pub copies: Option<u64>,
    pub ready: Option<u64>,
    /// Bytes of its node's log that it has not applied.
    pub lag_bytes: Option<u64>,
    /// How old the state that it can show is at most.
    pub lag_ms: Option<u64>,
    /// The size of its file.
    pub bytes: Option<u64>,
}

/// The role of a member that is not up.
pub const DOWN: &str = "down";

/// One of the three etcds of a local herd.
#[derive(Debug, Serialize)]
pub struct EtcdStatus {
    pub name: String,
    pub up: bool,
    pub pid: Option<u32>,
    pub port: u16,
}

/// The watch over a local herd's members.
#[derive(Debug, Serialize)]
pub struct WatchStatus {
    pub up: bool,
    pub pid: Option<u32>,
}

/// Looks at the herd in `dir`.
pub fn status(dir: &Path) -> Result<Status> {
    let files = Files::new(dir)?;
    let state = State::load(&files.state())?.ok_or_else(|| Error::NoHerd { path: files.dir().to_owned() })?;
    let router_pid = router_process::pid(&files);
    let router = RouterStatus {
        // Another program on the router's port may answer as well.
        up: router_pid.is_some() && probe(state.port).is_ready(),
        pid: router_pid,
        port: Some(state.port),
        metrics: Config::load(&files.config())
            .ok()
            .and_then(|config| config.metrics)
            .map(|address| address.to_string()),
    };
    let one = |number| match state.ha {
        true => ha::node(&files, &state, number),
        false => node(Node::of(&files, &state, number)),
    };
    let mut status = Status {
        up: true,
        url: state.url(),
        dir: Some(files.dir().to_owned()),
        shards: Some(state.shards),
        router,
        nodes: state.numbers().map(one).collect(),
        stores: if state.columns { stores::status(&files, &state) } else { Vec::new() },
        etcd: if state.ha { ha::etcd(&files, &state) } else { Vec::new() },
        watch: state.ha.then(|| ha::watch_status(&files)),
    };
    status.sum_up();
    Ok(status)
}

impl Status {
    /// All of it is up if each part is.
    pub fn sum_up(&mut self) {
        let node_is_up = |node: &NodeStatus| node.up && node.members.iter().all(|member| member.up);
        let stores_are_up = self.stores.iter().all(|store| store.up);
        self.up = self.router.up
            && self.nodes.iter().all(node_is_up)
            && stores_are_up
            && self.etcd.iter().all(|etcd| etcd.up)
            && self.watch.iter().all(|watch| watch.up);
    }
}

fn node(node: Node) -> NodeStatus {
    let pid = node.pid();
    // Users other than its owner cannot look into a data directory; then the port alone has to tell.
    let may_look = std::fs::read_dir(&node.data).is_ok();
    let answer = if pid.is_some() || !may_look { probe(node.port) } else { Answer::Nothing };
    let up = answer.is_ready();
    let version = match answer {
        Answer::Ready { version } => version,
        _ => None,
    };
    let new = NodeStatus::new(node.name, "127.0.0.1".to_owned(), node.port);
    NodeStatus { up, pid, version, data: Some(node.data), ..new }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = |up| if up { "up" } else { "down" };
        let pid = |pid: Option<u32>| pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        writeln!(f, "{:<8} {:<5} {:>6} {:>8}  details", "", "state", "port", "pid")?;
        let metrics = self
            .router
            .metrics
            .as_ref()
            .map_or_else(String::new, |address| format!("  metrics http://{address}/metrics"));
        let r = &self.router;
        let port = r.port.map_or_else(|| "-".to_owned(), |port| port.to_string());
        writeln!(f, "{:<8} {:<5} {port:>6} {:>8}  {}{metrics}", "router", word(r.up), pid(r.pid), self.url)?;
        for node in &self.nodes {
            let (name, state, port) = (&node.name, word(node.up), node.port);
            writeln!(f, "{name:<8} {state:<5} {port:>6} {:>8}  {}", pid(node.pid), node.details())?;
            for member in &node.members {
                let (name, state, port) = (format!("  {}", member.name), word(member.up), member.port);
                writeln!(f, "{name:<8} {state:<5} {port:>6} {:>8}  {}", pid(member.pid), member.details())?;
            }
            for store in self.stores.iter().filter(|store| store.node == node.name) {
                let (state, port) = (word(store.up), store.port);
                writeln!(f, "{:<8} {state:<5} {port:>6} {:>8}  {}", "  store", pid(store.pid), store.details())?;
            }
        }
        for store in self.stores.iter().filter(|store| self.nodes.iter().all(|node| node.name != store.node)) {
            let (name, state, port) = (format!("store of {}", store.node), word(store.up), store.port);
            writeln!(f, "{name:<8} {state:<5} {port:>6} {:>8}  {}", pid(store.pid), store.details())?;
        }
        for etcd in &self.etcd {
            writeln!(f, "{:<8} {:<5} {:>6} {:>8}", etcd.name, word(etcd.up), etcd.port, pid(etcd.pid))?;
        }
        if let Some(watch) = &self.watch {
            writeln!(f, "{:<8} {:<5} {:>6} {:>8}", "watch", word(watch.up), "-", pid(watch.pid))?;
        }
        Ok(())
    }
}

impl NodeStatus {
    /// One that nothing else is known of.
    pub fn new(name: String, host: String, port: u16) -> NodeStatus {
        NodeStatus {
            name,
            up: false,
            pid: None,
            host,
            port,
            version: None,
            in_recovery: None,
            prepared: None,
            bytes: None,
            data: None,
            members: Vec::new(),
        }
    }

    fn details(&self) -> String {
        let version = self.version.as_ref().map(|version| format!("PostgreSQL {version}"));
        let recovers = self.in_recovery.filter(|is| *is).map(|_| "in recovery".to_owned());
        let prepared = self.prepared.filter(|n| *n > 0).map(|n| format!("{n} prepared"));
        let size = self.bytes.map(|bytes| format!("{} MiB", bytes >> 20));
        let place = match &self.data {
            Some(data) => Some(data.display().to_string()),
            // Members say where they are.
            None if self.members.is_empty() => Some(format!("on {}", self.host)),
            None => None,
        };
        [version, size, recovers, prepared, place].into_iter().flatten().collect::<Vec<_>>().join("  ")
    }
}

impl StoreStatus {
    fn details(&self) -> String {
        let count = |(ready, copies)| match (ready == copies, copies) {
            (_, 0) => "no copies".to_owned(),
            (true, 1) => "1 copy, ready".to_owned(),
            (true, _) => format!("{copies} copies, ready"),
            (false, _) => format!("{ready} of {copies} copies ready"),
        };
        let copies = self.ready.zip(self.copies).map(count);
        let size = self.bytes.map(|bytes| format!("{} MiB", bytes >> 20));
        let lag = self.lag_ms.map(|ms| format!("{ms} ms behind at most"));
        let log = self.lag_bytes.filter(|bytes| *bytes > 0).map(|bytes| format!("{bytes} bytes of log to apply"));
        let place = Some(format!("on {}", self.host));
        [copies, size, lag, log, self.why.clone(), place].into_iter().flatten().collect::<Vec<_>>().join("  ")
    }
}

impl MemberStatus {
    fn details(&self) -> String {
        let place = match &self.data {
            Some(data) => data.display().to_string(),
            None => format!("on {}", self.host),
        };
        format!("{}  {place}", self.role)
    }
}
