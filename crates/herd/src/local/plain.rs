//! A plain PostgreSQL beside a local herd, to compare it with: made and set up as the herd's nodes are.
//!
//! It stands in the folder `plain` of the herd's directory, as the only node of a herd without a router. It runs only
//! while somebody measures, on any free port.

use std::path::Path;

use super::binaries::{self, Binaries};
use super::error::{Error, Result};
use super::files::Files;
use super::node::{Condition, Node};
use super::state::{METRICS_OFFSET, State};
use super::{account, ha, node_make, process, reach};

const NAME: &str = "plain PostgreSQL";

/// A running server.
pub struct PlainPostgres {
    node: Node,
    binaries: Binaries,
}

impl PlainPostgres {
    /// Makes it where it is missing, and starts it with the settings of the herd in `dir`.
    pub fn start(dir: &Path) -> Result<PlainPostgres> {
        // It listens where the run that left it chose.
        if let Some(left) = PlainPostgres::left_over(dir)? {
            left.stop()?;
        }
        let herd = Files::new(dir)?;
        let state = State::load(&herd.state())?.ok_or_else(|| Error::NoHerd { path: herd.dir().to_owned() })?;
        let files = Files::new(&herd.dir().join("plain"))?;
        files.create()?;
        let settings = state.settings.clone();
        let port = free_port(&state)?;
        // Node 1 listens on the port after its herd's.
        let state = State { nodes: 1, port: port - 1, made: false, ha: false, ..state };
        let mut node = Node { name: NAME.to_owned(), ..Node::of(&files, &state, 1) };

        let major = match node.condition()? {
            Condition::Complete => node.major()?,
            _ => herd_major(&herd)?,
        };
        let account = match node.condition()? {
            Condition::Complete => account::owner_of(&node.data)?,
            _ => account::for_new_data()?,
        };
        let binaries = reach::binaries(account.as_ref(), binaries::find(Some(major))?)?;
        match node.condition()? {
            Condition::Complete => {}
            Condition::Absent | Condition::HalfMade => node = node_make::make(&node, &files, &binaries, &settings)?,
            Condition::Unmarked | Condition::Foreign => return Err(Error::NotANode { path: node.data }),
        }
        node_make::write_settings(&node, &settings)?;
        node.start(&binaries)?;
        eprintln!("{}: ready on port {}", node.name, node.port);
        Ok(PlainPostgres { node, binaries })
    }

    /// What an interrupted run left running.
    pub fn left_over(dir: &Path) -> Result<Option<PlainPostgres>> {
        let herd = Files::new(dir)?;
        let Some(state) = State::load(&herd.state())? else {
            return Ok(None);
        };
        let files = Files::new(&herd.dir().join("plain"))?;
        let node = Node { name: NAME.to_owned(), ..Node::of(&files, &state, 1) };
        if node.pid().is_none() {
            return Ok(None);
        }
        let account = account::owner_of(&node.data)?;
        let binaries = reach::binaries(account.as_ref(), binaries::find(Some(node.major()?))?)?;
        Ok(Some(PlainPostgres { node, binaries }))
    }

    /// Of its superuser, over the loopback address.
    pub fn url(&self) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/postgres", self.node.port)
    }

    /// Comes back when it has ended, and says so on stderr.
    pub fn stop(&self) -> Result<()> {
        self.node.stop(&self.binaries)?;
        eprintln!("{}: stopped", self.node.name);
        Ok(())
    }
}

/// PostgreSQL's major version that made the herd.
fn herd_major(files: &Files) -> Result<u32> {
    let state = State::load(&files.state())?.ok_or_else(|| Error::NoHerd { path: files.dir().to_owned() })?;
    match ha::Member::all(files, &state).into_iter().find(|member| state.ha && member.has_data()) {
        Some(member) => member.node.major(),
        None => Node::of(files, &state, 1).major(),
    }
}

/// The first free port after those of the herd and its metrics page.
fn free_port(state: &State) -> Result<u16> {
    let first = state.port.saturating_add(METRICS_OFFSET + 1);
    let found = (first..=u16::MAX).chain(1024..state.port).find(|port| process::port_is_free(*port));
    found.ok_or_else(|| Error::PortInUse {
        port: first,
        owner: "others, like all after it".to_owned(),
        user: "the plain PostgreSQL".to_owned(),
        remedy: "end some of them".to_owned(),
    })
}

/// Whether a herd was made in a directory.
pub fn is_herd(dir: &Path) -> Result<bool> {
    Ok(State::load(&Files::new(dir)?.state())?.is_some_and(|state| state.made))
}
