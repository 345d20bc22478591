//! One member of a node: a Patroni, and the PostgreSQL that it makes, starts and stops.
//!
//! It does not know the other members, nor which of them leads: Patroni does.

use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use super::ports::{MEMBERS, rest_url};
use super::programs::Programs;
use crate::local::account::{self, Account};
use crate::local::binaries::Binaries;
use crate::local::error::Result;
use crate::local::files::Files;
use crate::local::node::Node;
use crate::local::state::State;
use crate::local::{background, process};

/// Patroni ends when its PostgreSQL has, which writes a checkpoint first.
const STOP_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Member {
    /// Its PostgreSQL: name, port, data directory, log.
    pub node: Node,
    /// In the herd's directory: its folder, or a link to it.
    pub link: PathBuf,
    /// Patroni's and PostgreSQL's own folder, links resolved where it exists.
    pub folder: PathBuf,
    /// What Patroni is told.
    pub config: PathBuf,
    /// Its REST API.
    pub rest_port: u16,
    pub rest_url: String,
}

impl Member {
    /// All members of all nodes; they need not be there yet.
    pub fn all(files: &Files, state: &State) -> Vec<Member> {
        state.numbers().flat_map(|number| Member::of(files, state, number)).collect()
    }

    /// Those of one node, counted from 1.
    pub fn of(files: &Files, state: &State, number: u16) -> [Member; MEMBERS.len()] {
        MEMBERS.map(|member| {
            let name = format!("node{number}{}", if member == 0 { 'a' } else { 'b' });
            let link = files.member(&name);
            let folder = link.canonicalize().unwrap_or_else(|_| link.clone());
            let data = folder.join("data");
            let node = Node {
                number,
                port: state.member_port(number, member),
                data: data.canonicalize().unwrap_or(data),
                log: files.member_log(&name),
                name,
            };
            let rest_port = state.rest_port(number, member);
            Member {
                node,
                config: folder.join("patroni.yml"),
                link,
                folder,
                rest_port,
                rest_url: rest_url(state, number, member),
            }
        })
    }

    /// `node1a`
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// The running Patroni.
    pub fn pid(&self) -> Option<u32> {
        background::find(|arguments| self.are_patronis(arguments))
    }

    /// Whether this process is its Patroni.
    pub fn is_patroni(&self, pid: u32) -> bool {
        process::is_alive(pid) && process::arguments(pid).is_some_and(|arguments| self.are_patronis(&arguments))
    }

    /// `[python, …/patroni, config]`, and not an editor's `[vi, config]`.
    fn are_patronis(&self, arguments: &[String]) -> bool {
        let config = self.config.display().to_string();
        let others = arguments.split_last().filter(|(last, _)| **last == config).map(|(_, others)| others);
        others.is_some_and(|others| others.iter().any(|argument| argument.contains("patroni")))
    }

    /// Whether PostgreSQL was made here.
    pub fn has_data(&self) -> bool {
        self.node.data.join("PG_VERSION").exists()
    }

    /// It was a standby when it ran last, or is one.
    pub fn is_standby(&self) -> bool {
        self.node.data.join("standby.signal").exists()
    }

    /// The ports it needs and does not hold.
    pub fn ports_needed(&self) -> Vec<u16> {
        let patroni = self.pid().is_none().then_some(self.rest_port);
        let postgres = (patroni.is_some() && self.node.pid().is_none()).then_some(self.node.port);
        patroni.into_iter().chain(postgres).collect()
    }

    /// Starts its Patroni, which does the rest. A PostgreSQL that outlived its Patroni goes on.
    pub fn start(&self, programs: &Programs, account: Option<&Account>) -> Result<Child> {
        if self.has_data() {
            self.node.clear_crash()?;
        }
        let mut command = account::command(account, &programs.patroni, &self.folder);
        command.arg(&self.config);
        background::start(command, &self.node.log)
    }

    /// Ends its Patroni, and PostgreSQL with it. True: something ran.
    pub fn stop(&self, binaries: &Binaries) -> Result<bool> {
        let patroni = self.pid();
        // Patroni would wait for it.
        self.node.kill_if_hung();
        if let Some(pid) = patroni
            && background::stop(pid, STOP_LIMIT)?
        {
            eprintln!("{}: its Patroni did not end within {} s and was killed", self.name(), STOP_LIMIT.as_secs());
        }
        // Left alone by a Patroni that was killed, or that is paused.
        let alone = self.node.pid().is_some();
        if alone {
            self.node.stop(binaries)?;
        }
        Ok(alone || patroni.is_some())
    }

    /// Something of it runs.
    pub fn runs(&self) -> bool {
        self.pid().is_some() || self.node.pid().is_some()
    }
}
