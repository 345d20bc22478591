//! The router of a local herd as a process in the background: its configuration file, start, and end.
//!
//! It does not know what a router does; `router.rs` does, in the process started here.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::error::{Error, Result};
use super::files::{Files, tail, write_whole};
use super::probe::{Answer, probe};
use super::state::{METRICS_OFFSET, State};
use super::{background, ha, process, stores};
use crate::config::Config;

/// How long a router may take to make the catalog and listen.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a router may take to let its clients finish.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How long a running router may leave a login unanswered before it counts as hung.
const HUNG_LIMIT: Duration = Duration::from_secs(10);

/// The running router of this herd.
pub fn pid(files: &Files) -> Option<u32> {
    let text = fs::read_to_string(files.router_pid()).unwrap_or_default();
    let written = text.trim().parse().ok().filter(|pid| is_ours(files, *pid));
    // The file may be lost while the router still runs.
    written.or_else(|| process::all().into_iter().find(|pid| is_ours(files, *pid)))
}

fn is_ours(files: &Files, pid: u32) -> bool {
    let config = files.config().display().to_string();
    let names_us = |arguments: Vec<String>| {
        arguments.get(1).is_some_and(|argument| argument == "router") && arguments.contains(&config)
    };
    process::is_alive(pid) && (!process::has_proc() || process::arguments(pid).is_some_and(names_us))
}

/// Whether the router is alive but answers nobody.
pub fn is_hung(port: u16) -> bool {
    let end = Instant::now() + HUNG_LIMIT;
    while !probe(port).is_ready() {
        if Instant::now() > end {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    false
}

/// Writes the `herd.toml` of a new herd.
pub fn write_config(files: &Files, state: &State) -> Result<()> {
    let address = |number| match state.ha {
        true => ha::address(state, number),
        false => format!("\"host=127.0.0.1 port={} dbname=postgres user=postgres\"", state.node_port(number)),
    };
    let further: Vec<String> = state.numbers().skip(1).map(address).collect();
    let metrics = match metrics_port(state) {
        Some(port) => format!("metrics = \"127.0.0.1:{port}\""),
        None => "# metrics = \"127.0.0.1:9090\"   no port was free".to_owned(),
    };
    let text = format!(
        "# The router of this herd, written once by `herd up`. Change it as you like;\n\
         # `herd down` and `herd up` again make a change take effect.\n\
         listen = [\"127.0.0.1:{port}\"]\n\
         {metrics}\n\
         home = {home}\n\
         nodes = [{further}]\n\
         shards = {shards}\n\
         auth = \"trust\"\n\
         log = \"info\"\n\
         log_format = \"text\"\n\
         {stores}",
        stores = if state.columns { stores::for_router(state) } else { String::new() },
        port = state.port,
        home = address(1),
        further = further.join(", "),
        shards = state.shards,
    );
    write_whole(&files.config(), &text)
}

/// Names the stores in a configuration that was written before there were any; whether it named none.
pub fn add_stores(files: &Files, state: &State) -> Result<bool> {
    if !read_config(files, state)?.column.is_empty() {
        return Ok(false);
    }
    let text = fs::read_to_string(files.config()).map_err(Error::io("read", files.config()))?;
    write_whole(&files.config(), &(text + &stores::for_router(state)))?;
    Ok(true)
}

/// A free port near the herd's own, and not one that a herd a hundred ports further would use.
fn metrics_port(state: &State) -> Option<u16> {
    let first = state.port.checked_add(METRICS_OFFSET)?;
    (first..first.saturating_add(10)).find(|port| process::port_is_free(*port))
}

/// The configuration that the router will start with, and whether it fits this herd.
pub fn read_config(files: &Files, state: &State) -> Result<Config> {
    let config = Config::load(&files.config())?;
    if config.listen.iter().all(|address| address.port() != state.port) {
        let problem =
            format!("it does not listen on this herd's port: put \"127.0.0.1:{}\" into its list `listen`", state.port);
        return Err(Error::Damaged { path: files.config(), problem });
    }
    Ok(config)
}

/// Starts the router in the background and waits until it serves.
pub fn start(files: &Files, state: &State) -> Result<u32> {
    let executable = std::env::current_exe().map_err(Error::io("find", PathBuf::from("this program")))?;
    let path = files.router_log();
    let mut command = Command::new(&executable);
    command.arg("router").arg("--config").arg(files.config()).current_dir(files.dir());
    let mut child = background::start(command, &path)?;
    write_whole(&files.router_pid(), &format!("{}\n", child.id()))?;

    let failed = |reason: String| Error::RouterStart { reason, tail: tail(&path, 12), log: path.clone() };
    let end = Instant::now() + START_LIMIT;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            let _ = fs::remove_file(files.router_pid());
            return Err(failed(format!("it ended with {status}")));
        }
        let said = match probe(state.port) {
            Answer::Ready { .. } => return Ok(child.id()),
            Answer::NotReady(message) => format!(": {message}"),
            Answer::Nothing => String::new(),
        };
        if Instant::now() > end {
            stop(files, child.id())?;
            return Err(failed(format!("it does not serve after {} s{said}", START_LIMIT.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ends the router: politely, and when it does not listen, by force.
pub fn stop(files: &Files, pid: u32) -> Result<()> {
    process::signal(pid, Signal::TERM);
    if !process::wait_for_end(pid, STOP_LIMIT) && is_ours(files, pid) {
        eprintln!("router: process {pid} does not end within {} s, killing it", STOP_LIMIT.as_secs());
        process::signal(pid, Signal::KILL);
        if !process::wait_for_end(pid, STOP_LIMIT) {
            return Err(Error::WillNotDie { pid });
        }
    }
    match fs::remove_file(files.router_pid()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", files.router_pid())(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State { nodes: 3, port: 6500, shards: 16, ..State::default() }
    }

    #[test]
    fn the_written_configuration_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path()).unwrap();
        write_config(&files, &state()).unwrap();
        let config = read_config(&files, &state()).unwrap();
        assert_eq!((config.shards, config.home.port, config.home.user.as_str()), (16, 6501, "postgres"));
        let ports: Vec<u16> = config.nodes.iter().map(|node| node.port).collect();
        assert_eq!(ports, [6502, 6503]);
        assert!((6590..6600).contains(&config.metrics.unwrap().port()));
        let moved = State { port: 7000, ..state() };
        let error = read_config(&files, &moved).unwrap_err().to_string();
        assert!(error.contains("put \"127.0.0.1:7000\" into its list `listen`"), "{error}");
    }

    #[test]
    fn nodes_with_standbys_are_led_by_patroni() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path()).unwrap();
        let state = State { nodes: 2, ha: true, ..state() };
        write_config(&files, &state).unwrap();
        let config = read_config(&files, &state).unwrap();
        assert_eq!((config.home.host, config.home.port), (ha::hosts(&state, 1), 6501));
        let second = "127.0.0.1:6503,127.0.0.1:6504,http://127.0.0.1:6507,http://127.0.0.1:6508";
        assert_eq!((config.nodes[0].host.as_str(), ha::hosts(&state, 2).as_str()), (second, second));
    }

    #[test]
    fn a_pid_of_another_program_is_not_the_router() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path()).unwrap();
        assert_eq!(pid(&files), None);
        if process::has_proc() {
            fs::write(files.router_pid(), std::process::id().to_string()).unwrap();
            assert_eq!(pid(&files), None);
        }
    }
}
