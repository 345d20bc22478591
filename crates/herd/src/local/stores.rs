//! The stores of a local herd (`herd up --columns`): a process `herd-column` beside each node, its configuration, its start and end.
//!
//! It does not know what a store does. The program is one of its own, beside `herd` or where `HERD_COLUMN_BIN` says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::error::{Error, Result};
use super::files::{Files, set_mode, tail, write_whole};
use super::node::Node;
use super::probe::probe;
use super::state::State;
use super::status::StoreStatus;
use super::{background, process};

const PROGRAM: &str = "herd-column";
/// How long a store may take to listen, and to end.
const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// Starts those that do not run; true: at least one was started.
pub fn start(files: &Files, state: &State) -> Result<bool> {
    let mut started = false;
    for number in state.numbers() {
        if pid(files, number).is_some() {
            continue;
        }
        start_one(files, state, number)?;
        eprintln!("{}: ready on port {}", name(number), state.store_port(number));
        started = true;
    }
    Ok(started)
}

/// Ends those that run.
pub fn stop(files: &Files, state: &State) -> Result<()> {
    for number in state.numbers() {
        let Some(pid) = pid(files, number) else { continue };
        // By force, if need be: what it had not noted it copies or applies again.
        background::stop(pid, STOP_LIMIT)?;
        eprintln!("{}: stopped", name(number));
    }
    Ok(())
}

/// Which of them run.
pub fn status(files: &Files, state: &State) -> Vec<StoreStatus> {
    let one = |number| {
        let (pid, port) = (pid(files, number), state.store_port(number));
        // Another program on its port may answer as well.
        let up = pid.is_some() && probe(port).is_ready();
        StoreStatus {
            node: Node::of(files, state, number).name,
            up,
            pid,
            host: "127.0.0.1".to_owned(),
            port,
            ..StoreStatus::default()
        }
    };
    state.numbers().map(one).collect()
}

/// What the router's configuration says of the stores.
pub fn for_router(state: &State) -> String {
    let one = |number| {
        format!(
            "\n[[column]]\nnode = \"{number}\"\nstore = \"host=127.0.0.1 port={} dbname=herd user=herd\"\n",
            state.store_port(number)
        )
    };
    state.numbers().map(one).collect()
}

/// The process of a node's store.
fn pid(files: &Files, number: u16) -> Option<u32> {
    let config = files.store_config(number).display().to_string();
    background::find(|arguments| {
        let program = arguments.first().and_then(|argument| Path::new(argument).file_name());
        program.is_some_and(|program| program == PROGRAM) && arguments.contains(&config)
    })
}

/// Of each store: they are asked together, and share this machine.
fn threads(state: &State) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / usize::from(state.nodes.max(1))).clamp(1, 256)
}

fn start_one(files: &Files, state: &State, number: u16) -> Result<()> {
    let program = program()?;
    let directory = files.store(number);
    std::fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
    // It holds rows of tables: the store starts in no other.
    set_mode(&directory, 0o700)?;
    let config = files.store_config(number);
    if !config.exists() {
        let text = format!(
            "# The store of column copies beside node{number}, written once by `herd up --columns`. Change it as you like.\n\
             [column]\n\
             node = \"host=127.0.0.1 port={} dbname=postgres user=postgres\"\n\
             directory = \"{}\"\n\
             listen = \"127.0.0.1:{}\"\n\
             # All stores together have a thread for each processor.\n\
             threads = {}\n",
            state.node_port(number),
            directory.display(),
            state.store_port(number),
            threads(state),
        );
        write_whole(&config, &text)?;
        set_mode(&config, 0o600)?;
    }
    let log = files.store_log(number);
    let mut command = Command::new(&program);
    command.arg("--config").arg(&config).current_dir(files.dir());
    let mut child = background::start(command, &log)?;
    let failed =
        |reason: String| Error::StoreStart { store: name(number), reason, tail: tail(&log, 12), log: log.clone() };
    let end = Instant::now() + START_LIMIT;
    while !probe(state.store_port(number)).is_ready() {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(failed(format!("it ended with {status}")));
        }
        if Instant::now() > end {
            process::signal(child.id(), Signal::KILL);
            return Err(failed(format!("it does not answer after {} s", START_LIMIT.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn name(number: u16) -> String {
    format!("column{number}")
}

/// The program that stores are: beside this one, unless it is said where.
pub fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HERD_COLUMN_BIN") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(Error::io("find", PathBuf::from("this program")))?;
    let beside = own.with_file_name(PROGRAM);
    if beside.exists() { Ok(beside) } else { Err(Error::NoStoreProgram { path: beside }) }
}
