//! `herd.json`: the shape of a local herd, fixed when it is made.
//!
//! Ports are part of the shape because the catalog holds the nodes' addresses. Whether anything runs is not written
//! here but found out each time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::files::write_whole;
use super::ha;

/// The most nodes of a local herd. Keeps the metrics port (port + [`METRICS_OFFSET`]) clear of the nodes' ports.
pub const NODES_MAX: u16 = 64;
/// The most nodes of one with stores, for the same reason.
pub const STORES_MAX: u16 = 44;
/// Where the metrics page is, counted from the herd's port, when that port is free.
pub const METRICS_OFFSET: u16 = 90;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The version of pgherd that made the herd.
    pub pgherd: String,
    pub nodes: u16,
    /// The router's port; node n listens on port + n.
    pub port: u16,
    pub shards: u32,
    /// All nodes were made once: one that is missing now is a loss, and is not made anew.
    pub made: bool,
    /// PostgreSQL's settings, from `--set`.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Each node has a store of column copies beside it.
    #[serde(default)]
    pub columns: bool,
    /// Each node is a cluster of Patroni's, of two members.
    #[serde(default)]
    pub ha: bool,
}

impl State {
    /// `None` when there is no such file.
    pub fn load(path: &Path) -> Result<Option<State>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let problem = |problem: String| Error::Damaged { path: path.to_owned(), problem };
        let state: State = serde_json::from_str(&text).map_err(|error| {
            problem(format!("{error}. Move it away and run `herd up` again: it is made anew from the nodes"))
        })?;
        if state.nodes == 0 || state.nodes > NODES_MAX || state.port.checked_add(state.ports_after()).is_none() {
            return Err(problem(format!("{} nodes from port {} on cannot be", state.nodes, state.port)));
        }
        Ok(Some(state))
    }

    /// Replaces the file as a whole: after a crash it is the old one or the new one.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).unwrap_or_else(|error| unreachable!("plain data: {error}"));
        write_whole(path, &(text + "\n"))
    }

    /// Nodes count from 1.
    pub fn node_port(&self, number: u16) -> u16 {
        self.port + number
    }

    /// Stores' ports are behind the nodes'.
    pub fn store_port(&self, number: u16) -> u16 {
        self.port + self.nodes + number
    }

    /// How many ports after the router's are those of nodes and what they need.
    pub fn ports_after(&self) -> u16 {
        if self.ha { self.nodes * ha::PORTS_PER_NODE + ha::PORTS_OF_ETCD } else { self.nodes }
    }

    /// Of all nodes, from 1.
    pub fn numbers(&self) -> std::ops::RangeInclusive<u16> {
        1..=self.nodes
    }

    /// Of the router, for the superuser, over the loopback address.
    pub fn url(&self) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

/// `name=value` of `--set`.
pub fn parse_setting(text: &str) -> Result<(String, String)> {
    let bad = |reason: &str| Error::Setting { text: text.to_owned(), reason: reason.to_owned() };
    let (name, value) = text.split_once('=').ok_or_else(|| bad("write name=value"))?;
    let name = name.trim().to_ascii_lowercase();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        return Err(bad("that is not the name of a setting"));
    }
    if value.contains(['\n', '\r', '\0']) {
        return Err(bad("a value is one line"));
    }
    // What `herd up` relies on to find and reach the nodes it started.
    const FIXED: [&str; 5] =
        ["port", "listen_addresses", "data_directory", "external_pid_file", "unix_socket_directories"];
    if FIXED.contains(&name.as_str()) {
        return Err(bad("`herd up` decides this setting itself"));
    }
    Ok((name, value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_as_it_was_saved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("herd.json");
        assert_eq!(State::load(&path).unwrap(), None);
        let settings = BTreeMap::from([("synchronous_commit".to_owned(), "off".to_owned())]);
        let state = State {
            pgherd: "0.1.0".to_owned(),
            nodes: 3,
            port: 6500,
            shards: 8,
            made: true,
            settings,
            columns: true,
            ha: false,
        };
        state.save(&path).unwrap();
        assert_eq!(State::load(&path).unwrap().as_ref(), Some(&state));
        assert_eq!((state.node_port(3), state.store_port(3)), (6503, 6506));
        assert_eq!(state.url(), "postgresql://postgres@127.0.0.1:6500/postgres");
    }

    #[test]
    fn a_damaged_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("herd.json");
        for text in ["", "{\"nodes\":2", "{\"pgherd\":\"1\",\"nodes\":0,\"port\":6500,\"shards\":1,\"made\":true}"] {
            fs::write(&path, text).unwrap();
            let error = State::load(&path).unwrap_err().to_string();
            assert!(error.contains("herd.json is damaged"), "{error}");
        }
    }

    #[test]
    fn settings() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(parse_setting("Work_Mem=64MB").unwrap(), pair("work_mem", "64MB"));
        assert_eq!(parse_setting("a.b=x=y").unwrap(), pair("a.b", "x=y"));
        for bad in ["fsync", "=1", "a b=1", "a=1\nb=2", "port=1"] {
            assert!(parse_setting(bad).unwrap_err().to_string().starts_with("--set"), "{bad}");
        }
    }
}
