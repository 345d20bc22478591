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
use super::router_process;
use super::state::State;
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
}

#[derive(Debug, Serialize)]
pub struct RouterStatus {
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
    let nodes: Vec<NodeStatus> = state.numbers().map(|number| node(Node::of(&files, &state, number))).collect();
    Ok(Status {
        up: router.up && nodes.iter().all(|node| node.up),
        url: state.url(),
        dir: Some(files.dir().to_owned()),
        shards: Some(state.shards),
        router,
        nodes,
    })
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
    let (host, data) = ("127.0.0.1".to_owned(), Some(node.data));
    NodeStatus {
        name: node.name,
        up,
        pid,
        host,
        port: node.port,
        version,
        in_recovery: None,
        prepared: None,
        bytes: None,
        data,
    }
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
        }
        Ok(())
    }
}

impl NodeStatus {
    fn details(&self) -> String {
        let version = self.version.as_ref().map(|version| format!("PostgreSQL {version}"));
        let recovers = self.in_recovery.filter(|is| *is).map(|_| "in recovery".to_owned());
        let prepared = self.prepared.filter(|n| *n > 0).map(|n| format!("{n} prepared"));
        let size = self.bytes.map(|bytes| format!("{} MiB", bytes >> 20));
        let place = match &self.data {
            Some(data) => data.display().to_string(),
            None => format!("on {}", self.host),
        };
        [version, size, recovers, prepared, Some(place)].into_iter().flatten().collect::<Vec<_>>().join("  ")
    }
}
