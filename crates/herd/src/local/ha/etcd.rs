//! The three etcds of a local herd: start, stop, health. Two of them are enough to go on.
//!
//! It does not know what Patroni keeps in them.

use std::path::PathBuf;
use std::time::Duration;

use super::programs::Programs;
use crate::http;
use crate::local::account::{self, Account};
use crate::local::background;
use crate::local::error::Result;
use crate::local::files::Files;
use crate::local::state::State;

/// With three one may be lost.
pub const COUNT: u16 = 3;
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Milliseconds. etcd's own tenth of a second, and one, are too short for a machine that does everything at once.
const HEARTBEAT_MS: &str = "300";
const ELECTION_MS: &str = "3000";

/// One of the three, counted from 1.
#[derive(Debug, Clone)]
pub struct Etcd {
    /// `etcd1`
    pub name: String,
    /// In the herd's directory: its data, or a link to it.
    pub link: PathBuf,
    /// For clients.
    pub port: u16,
    peer_port: u16,
    /// Its data, links resolved where it exists.
    pub folder: PathBuf,
    pub log: PathBuf,
}

impl Etcd {
    /// All three; they need not be there yet.
    pub fn all(files: &Files, state: &State) -> Vec<Etcd> {
        let one = |number| {
            let [port, peer_port] = state.etcd_ports(number);
            let (link, log) = (files.etcd(number), files.etcd_log(number));
            let folder = link.canonicalize().unwrap_or_else(|_| link.clone());
            Etcd { name: format!("etcd{number}"), link, port, peer_port, folder, log }
        };
        (1..=COUNT).map(one).collect()
    }

    /// The running process.
    pub fn pid(&self) -> Option<u32> {
        let folder = self.folder.display().to_string();
        background::find(|arguments| {
            let follows = |pair: &[String]| pair[0] == "--data-dir" && pair[1] == folder;
            arguments.windows(2).any(follows)
        })
    }

    /// The ports it needs.
    pub fn ports(&self) -> [u16; 2] {
        [self.port, self.peer_port]
    }

    /// It answers, and so do enough of the others.
    pub fn is_healthy(&self) -> bool {
        let said = http::get(&format!("127.0.0.1:{}", self.port), "/health").unwrap_or_default();
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap_or_default();
        said["health"] == "true" || said["health"] == true
    }

    /// Starts it; `all` are the three.
    pub fn start(&self, all: &[Etcd], programs: &Programs, account: Option<&Account>) -> Result<()> {
        let peer_url = |one: &Etcd| format!("http://127.0.0.1:{}", one.peer_port);
        let (client, peer) = (format!("http://127.0.0.1:{}", self.port), peer_url(self));
        let cluster: Vec<String> = all.iter().map(|one| format!("{}={}", one.name, peer_url(one))).collect();
        let mut command = account::command(account, &programs.etcd, &self.folder);
        command.arg("--data-dir").arg(&self.folder).args(["--name", &self.name]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"]);
        command.args(["--heartbeat-interval", HEARTBEAT_MS, "--election-timeout", ELECTION_MS]);
        // Patroni writes every second; what was there an hour ago nobody asks for.
        command.args(["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h"]);
        background::start(command, &self.log).map(drop)
    }

    /// Ends it.
    pub fn stop(&self, pid: u32) -> Result<()> {
        background::stop(pid, STOP_LIMIT).map(drop)
    }
}

/// Where Patroni reaches all of them.
pub fn hosts(state: &State) -> String {
    let hosts: Vec<String> = (1..=COUNT).map(|number| format!("127.0.0.1:{}", state.etcd_ports(number)[0])).collect();
    hosts.join(",")
}
