//! `herd down`: ends the router, then the nodes. The data stays.

use std::path::Path;

use super::error::{Error, Result};
use super::files::Files;
use super::node::Node;
use super::plain::PlainPostgres;
use super::state::State;
use super::up::in_parallel;
use super::{account, binaries, ha, reach, router_process, stores};

/// Stops what runs; that nothing runs is not an error.
pub fn down(dir: &Path) -> Result<()> {
    let files = Files::new(dir)?;
    let no_herd = || Error::NoHerd { path: files.dir().to_owned() };
    if !files.state().exists() {
        return Err(no_herd());
    }
    let _lock = files.lock()?;
    let state = State::load(&files.state())?.ok_or_else(no_herd)?;

    if state.ha {
        ha::stop_watch(&files)?;
    }
    let router = router_process::pid(&files);
    if let Some(pid) = router {
        router_process::stop(&files, pid)?;
        eprintln!("router: stopped");
    }
    if state.columns {
        stores::stop(&files, &state)?;
    }
    let stopped = if state.ha { ha::down(&files, &state)? } else { stop_nodes(&files, &state)? };
    if let Some(left) = PlainPostgres::left_over(files.dir())? {
        left.stop()?;
    }
    if router.is_none() && !stopped {
        eprintln!("nothing of this herd is running");
    }
    Ok(())
}

/// True: at least one ran.
fn stop_nodes(files: &Files, state: &State) -> Result<bool> {
    let nodes = state.numbers().map(|number| Node::of(files, state, number));
    let running: Vec<Node> = nodes.filter(|node| node.pid().is_some()).collect();
    if let Some(first) = running.first() {
        let owner = account::owner_of(&first.data)?;
        let binaries = reach::binaries(owner.as_ref(), binaries::find(Some(first.major()?))?)?;
        in_parallel(&running, |node| {
            node.stop(&binaries)?;
            eprintln!("{}: stopped", node.name);
            Ok(())
        })?;
    }
    Ok(!running.is_empty())
}
