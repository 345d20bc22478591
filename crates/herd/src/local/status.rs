//! `herd status`: what of a local herd is up, for people and as JSON.
//!
//! It only looks; it takes no lock and changes nothing. Up means that a login is answered, not that a process exists.

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
    pub dir: PathBuf,
    pub shards: u32,
    pub router: RouterStatus,
    pub nodes: Vec<NodeStatus>,
}

#[derive(Debug, Serialize)]
pub struct RouterStatus {
    pub up: bool,
    pub pid: Option<u32>,
    pub port: u16,
    /// Address of the metrics page.
    pub metrics: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct NodeStatus {
    pub name: String,
    pub up: bool,
    pub pid: Option<u32>,
    pub port: u16,
    /// PostgreSQL's version, when it is up.
    pub version: Option<String>,
    pub data: PathBuf,
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
        port: state.port,
        metrics: Config::load(&files.config())
            .ok()
            .and_then(|config| config.metrics)
            .map(|address| address.to_string()),
    };
    let nodes: Vec<NodeStatus> = state.numbers().map(|number| node(Node::of(&files, &state, number))).collect();
    Ok(Status {
        up: router.up && nodes.iter().all(|node| node.up),
        url: state.url(),
        dir: files.dir().to_owned(),
        shards: state.shards,
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
    NodeStatus { name: node.name, up, pid, port: node.port, version, data: node.data }
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
        writeln!(f, "{:<8} {:<5} {:>6} {:>8}  {}{metrics}", "router", word(r.up), r.port, pid(r.pid), self.url)?;
        for node in &self.nodes {
            let version = node.version.as_ref().map_or_else(String::new, |v| format!("PostgreSQL {v}  "));
            let (name, state, port, data) = (&node.name, word(node.up), node.port, node.data.display());
            writeln!(f, "{name:<8} {state:<5} {port:>6} {:>8}  {version}{data}", pid(node.pid))?;
        }
        Ok(())
    }
}
