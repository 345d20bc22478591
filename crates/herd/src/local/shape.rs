//! The shape of a local herd: what was asked for, held against what was made.
//!
//! Shape is the number of nodes, the ports and the shards; it never changes once nodes are made. It does not look at
//! what runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::error::{Error, Result};
use super::files::Files;
use super::ha;
use super::node::{self, MARKER};
use super::node_make::Marker;
use super::state::State;

const NODES: u16 = 2;
const PORT: u16 = 6500;
const SHARDS: u32 = 32;

/// What `herd up` was asked for; `None` is "as it is", or the default for a new herd.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub dir: PathBuf,
    pub nodes: Option<u16>,
    pub port: Option<u16>,
    pub shards: Option<u32>,
    /// `name=value`
    pub settings: Vec<String>,
    /// Stores of column copies, from now on.
    pub columns: bool,
    /// Nodes of a new herd have a standby each.
    pub ha: bool,
}

/// The shape the herd has, or will have.
pub fn shape(files: &Files, options: &Options) -> Result<State> {
    let numbers = node::numbers_in(files.dir());
    let has_complete = numbers.iter().any(|number| files.node(*number).join(MARKER).exists());
    let state = match State::load(&files.state())? {
        Some(state) if state.made || has_complete || state.ha && ha::has_begun(files) => state,
        None if ha::has_begun(files) => return Err(lost(files)),
        None if has_complete => from_markers(files, &numbers, options)?,
        // Nothing was made yet: what an interrupted `herd up` was asked for binds nobody.
        _ => return new_shape(options),
    };
    let check = |setting, is: u64, wanted: Option<u64>, hint| match wanted {
        Some(wanted) if wanted != is => Err(Error::Shape { path: files.dir().to_owned(), setting, is, wanted, hint }),
        _ => Ok(()),
    };
    if options.ha && !state.ha {
        return Err(Error::NoStandbys { path: files.dir().to_owned() });
    }
    check("nodes", state.nodes.into(), options.nodes.map(u64::from), " (`herd node add` adds a node)")?;
    check("port", state.port.into(), options.port.map(u64::from), "")?;
    check("shards", state.shards.into(), options.shards.map(u64::from), " (each table can have its own number)")?;
    Ok(state)
}

fn new_shape(options: &Options) -> Result<State> {
    let state = State {
        pgherd: env!("CARGO_PKG_VERSION").to_owned(),
        nodes: options.nodes.unwrap_or(NODES),
        port: options.port.unwrap_or(PORT),
        shards: options.shards.unwrap_or(SHARDS),
        made: false,
        settings: BTreeMap::new(),
        columns: false,
        ha: options.ha,
    };
    if state.ha && state.nodes > ha::NODES_MAX {
        return Err(Error::TooManyNodes { what: "standbys", nodes: state.nodes, max: ha::NODES_MAX });
    }
    // The command line's own limits; the sum is checked here.
    let (port, ports) = (state.port, state.ports_after());
    match port.checked_add(ports) {
        Some(_) => Ok(state),
        None => Err(Error::PortRange { port, ports, max: u16::MAX - ports }),
    }
}

/// A lost herd.json, from what the nodes themselves tell.
fn from_markers(files: &Files, numbers: &[u16], options: &Options) -> Result<State> {
    let markers: Vec<Marker> = numbers.iter().filter_map(|number| Marker::read(&files.node(*number))).collect();
    let complete = markers.len() == numbers.len() && numbers.iter().copied().eq(1..=numbers.len() as u16);
    let first = markers.first().filter(|_| complete).ok_or_else(|| lost(files))?;
    eprintln!("herd.json is missing: writing it anew, as the nodes tell");
    Ok(State {
        pgherd: env!("CARGO_PKG_VERSION").to_owned(),
        nodes: markers.len() as u16,
        port: first.port - first.number,
        shards: options.shards.unwrap_or(SHARDS),
        made: true,
        settings: BTreeMap::new(),
        columns: false,
        ha: false,
    })
}

fn lost(files: &Files) -> Error {
    let problem = "it is missing, and the nodes do not tell the herd's shape: put it back, or choose another --dir";
    Error::Damaged { path: files.state(), problem: problem.to_owned() }
}
