//! `herd up`: makes, repairs and starts a local herd.
//!
//! ```text
//! 1. shape     what herd.json says, or what was asked for; a contradiction ends here  (shape.rs)
//! 2. look      which nodes are complete, half made, running; is the router running
//! 3. ports     those of what does not run must be free, before anything is made
//! 4. make      missing nodes, in parallel                                       (node_make.rs)
//! 5. start     nodes that do not run, in parallel, then the router
//! ```
//! Where nodes have standbys, Patroni does what 2, 4 and 5 say of nodes (ha/up.rs).
//! Run again, it does what is left to do. It never removes a data directory that may hold data.

use std::collections::BTreeMap;

use super::account::{self, Account};
use super::binaries::{self, Binaries};
use super::error::{Error, Result};
use super::files::Files;
use super::node::{Condition, MARKER, Node};
use super::shape::{Options, shape};
use super::state::{STORES_MAX, State, parse_setting};
use super::{ha, node_make, process, reach, router_process, stores};

/// Makes, repairs and starts; returns the URL when the herd serves.
pub fn up(options: &Options) -> Result<String> {
    let given = options.settings.iter().map(|text| parse_setting(text)).collect::<Result<BTreeMap<_, _>>>()?;
    let files = Files::new(&options.dir)?;
    files.create()?;
    let files = Files::new(files.dir())?;
    let _lock = files.lock()?;

    let mut state = shape(&files, options)?;
    state.settings.extend(given);
    state.columns |= options.columns;
    if state.columns && state.nodes > STORES_MAX {
        return Err(Error::TooManyNodes { what: "stores of column copies", nodes: state.nodes, max: STORES_MAX });
    }
    if state.columns && state.ha {
        return Err(Error::StoresWithStandbys);
    }
    let mut router = router_process::pid(&files);
    let started = match state.ha {
        true => ha::start(&files, &mut state, router.is_some())?,
        false => start(&files, &mut state, router.is_some())?,
    };
    let mut stores = false;
    if state.columns {
        stores = stores::start(&files, &state)?;
        if files.config().exists()
            && router_process::add_stores(&files, &state)?
            && let Some(pid) = router.take()
        {
            eprintln!("router: it is told of the stores, starting it anew");
            router_process::stop(&files, pid)?;
        }
    }
    let started = start_router(&files, &state, router)? || started || stores;
    if state.ha {
        ha::wait_for_standbys(&files, &state)?;
    }
    if !started {
        eprintln!("this herd is running already");
    }
    Ok(state.url())
}

/// Makes nodes that are missing and starts those that do not run. True: at least one was started.
fn start(files: &Files, state: &mut State, router_runs: bool) -> Result<bool> {
    let nodes = |state: &State| -> Vec<Node> { state.numbers().map(|number| Node::of(files, state, number)).collect() };
    let found = nodes(state);
    let missing = check_conditions(state, &found)?;
    let stopped = found.iter().filter(|node| node.pid().is_none()).map(|node| (node.name.clone(), node.port));
    check_ports(files, state, &stopped.collect::<Vec<_>>(), router_runs)?;
    let binaries = find_binaries(&found, &missing)?;
    note_begun(files, state)?;
    make_nodes(&missing, files, &binaries, state)?;
    note_made(files, state)?;
    // Made ones have a real path by now.
    start_nodes(&nodes(state), &binaries, state)
}

/// Whatever comes next, this herd's shape and how its router reaches the nodes are settled.
pub(super) fn note_begun(files: &Files, state: &State) -> Result<()> {
    state.save(&files.state())?;
    if state.made { Ok(()) } else { router_process::write_config(files, state) }
}

/// From now on a node that is missing is a loss.
pub(super) fn note_made(files: &Files, state: &mut State) -> Result<()> {
    if state.made {
        return Ok(());
    }
    state.made = true;
    state.save(&files.state())
}

/// The nodes to be made; an error for whatever cannot be started and must not be touched.
fn check_conditions(state: &State, nodes: &[Node]) -> Result<Vec<Node>> {
    let mut missing = Vec::new();
    for node in nodes {
        let path = node.data.clone();
        match node.condition()? {
            Condition::Complete => {}
            Condition::Absent | Condition::HalfMade if state.made => {
                return Err(Error::NodeGone { path });
            }
            Condition::Absent | Condition::HalfMade => missing.push(node.clone()),
            Condition::Unmarked => {
                return Err(Error::Unmarked { path, marker: MARKER });
            }
            Condition::Foreign => return Err(Error::NotANode { path }),
        }
    }
    Ok(missing)
}

/// The ports that these stopped servers, and the router if it does not run, need are free.
pub(super) fn check_ports(files: &Files, state: &State, stopped: &[(String, u16)], router_runs: bool) -> Result<()> {
    let router = (!router_runs).then(|| ("the router".to_owned(), state.port));
    for (user, port) in router.into_iter().chain(stopped.iter().cloned()) {
        // A server of its own that was killed a moment ago may not be gone yet.
        let free = if state.made { process::port_becomes_free(port) } else { process::port_is_free(port) };
        if !free {
            let remedy = match state.made {
                true => "stop that process; a herd keeps its ports".to_owned(),
                false => {
                    let after = state.ports_after();
                    format!("choose others with --port (the herd uses that port and the {after} after it)")
                }
            };
            return Err(Error::PortInUse { port, owner: process::port_owner(port), user, remedy });
        }
    }
    if state.made && !router_runs && files.config().exists() {
        let metrics = router_process::read_config(files, state)?.metrics.map(|address| address.port());
        if let Some(port) = metrics.filter(|port| *port != 0 && !process::port_is_free(*port)) {
            let remedy = format!("stop that process, or change `metrics` in {}", files.config().display());
            let owner = process::port_owner(port);
            return Err(Error::PortInUse { port, owner, user: "the metrics page".to_owned(), remedy });
        }
    }
    Ok(())
}

/// The PostgreSQL for this herd, where the user who runs it can reach it.
fn find_binaries(nodes: &[Node], missing: &[Node]) -> Result<Binaries> {
    let made = nodes.iter().find(|node| missing.iter().all(|other| other.number != node.number));
    let major = made.map(Node::major).transpose()?;
    let account: Option<Account> = match made {
        Some(node) => account::owner_of(&node.data)?,
        None => account::for_new_data()?,
    };
    reach::binaries(account.as_ref(), binaries::find(major)?)
}

fn make_nodes(missing: &[Node], files: &Files, binaries: &Binaries, state: &State) -> Result<()> {
    if let Some(first) = missing.first() {
        let last = &missing[missing.len() - 1].name;
        let names = if missing.len() == 1 { first.name.clone() } else { format!("{} to {last}", first.name) };
        eprintln!("{names}: making PostgreSQL {} data directories in {}", binaries.version, files.dir().display());
    }
    in_parallel(missing, |node| node_make::make(node, files, binaries, &state.settings).map(drop))
}

/// True: at least one was started.
fn start_nodes(nodes: &[Node], binaries: &Binaries, state: &State) -> Result<bool> {
    let stopped: Vec<Node> = nodes.iter().filter(|node| !node.serves()).cloned().collect();
    for node in nodes {
        let changed = node_make::write_settings(node, &state.settings)?;
        if changed && node.pid().is_some() {
            node.reload(binaries)?;
            eprintln!("{}: settings reloaded; some take effect only after `herd down` and `herd up`", node.name);
        }
    }
    in_parallel(&stopped, |node| {
        if node.has_crashed() {
            eprintln!("{}: was not stopped properly; starting it, PostgreSQL recovers from its log", node.name);
        }
        node.start(binaries)?;
        eprintln!("{}: ready on port {}", node.name, node.port);
        Ok(())
    })?;
    Ok(!stopped.is_empty())
}

/// True: it was started.
fn start_router(files: &Files, state: &State, running: Option<u32>) -> Result<bool> {
    if let Some(pid) = running {
        if !router_process::is_hung(state.port) {
            return Ok(false);
        }
        eprintln!("router: process {pid} does not answer, starting it anew");
        router_process::stop(files, pid)?;
    } else if files.router_pid().exists() {
        eprintln!("router: router.pid is stale, the router was not stopped properly; starting it");
    }
    if !files.config().exists() {
        eprintln!("router: herd.toml is missing, writing it anew");
        router_process::write_config(files, state)?;
    }
    router_process::read_config(files, state)?;
    router_process::start(files, state)?;
    eprintln!("router: ready on port {}", state.port);
    Ok(true)
}

/// Does the same for several at once; the first error, in their order, when all are done.
pub(super) fn in_parallel<T: Sync>(nodes: &[T], work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = nodes.iter().map(|node| scope.spawn(|| work(node))).collect();
        let mut results = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let first = results.by_ref().find(|result| result.is_err()).unwrap_or(Ok(()));
        results.for_each(drop);
        first
    })
}
