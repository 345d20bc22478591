//! One node of a local herd: a PostgreSQL server on its own data directory.
//!
//! Looks at it, starts it and stops it. How its data directory is made is in `node_make.rs`. It does not know the
//! catalog, the router or the other nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::account::{self, Account};
use super::binaries::Binaries;
use super::error::{Error, Result};
use super::files::{Files, open_log, tail};
use super::state::State;
use super::{probe, process};

/// Stands in a data directory that was made completely; written last.
pub const MARKER: &str = "herd.made";

/// Crash recovery can take long; a server that cannot start says so at once.
const START_LIMIT_S: &str = "300";
const STOP_LIMIT_S: &str = "60";
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Who answers none of so many hangs.
const SILENT_LOOKS: u32 = 2;
/// How long processes that outlived their postmaster get to notice it.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub struct Node {
    /// `node1`
    pub name: String,
    pub number: u16,
    pub port: u16,
    /// The data directory, links resolved where it exists.
    pub data: PathBuf,
    pub log: PathBuf,
}

/// What a data directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Not there, or empty.
    Absent,
    /// Left by an interrupted initdb; no server ever ran in it, so it holds no data.
    HalfMade,
    Complete,
    /// No marker, but a server ran in it: it may hold data.
    Unmarked,
    /// Something else.
    Foreign,
}

impl Node {
    /// The node of that number, from 1; it need not be there yet.
    pub fn of(files: &Files, state: &State, number: u16) -> Node {
        let path = files.node(number);
        Node {
            name: format!("node{number}"),
            number,
            port: state.node_port(number),
            data: path.canonicalize().unwrap_or(path),
            log: files.node_log(number),
        }
    }

    /// Told by the names of the files in it; `Err`: it can't be read.
    pub fn condition(&self) -> Result<Condition> {
        let entries = match fs::read_dir(&self.data) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Condition::Absent);
            }
            Err(error) => return Err(Error::io("read", &self.data)(error)),
        };
        let names: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        let has = |name: &str| names.iter().any(|n| n == name);
        let is_postgres = |name: &String| {
            name.starts_with("pg_")
                || name.starts_with("postgresql.")
                || ["PG_VERSION", "base", "global", "herd.conf", "herd.new"].contains(&name.as_str())
        };
        Ok(if names.is_empty() {
            Condition::Absent
        } else if has(MARKER) {
            Condition::Complete
        } else if has("postmaster.opts") || has("postmaster.pid") {
            // Only a postmaster writes these (CreateOptsFile in postmaster.c), initdb does not.
            Condition::Unmarked
        } else if names.iter().all(is_postgres) {
            Condition::HalfMade
        } else {
            Condition::Foreign
        })
    }

    /// PostgreSQL's major version that made the data directory.
    pub fn major(&self) -> Result<u32> {
        let path = self.data.join("PG_VERSION");
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        let problem = format!("{:?} is not a version of PostgreSQL", text.trim());
        text.trim().parse().map_err(|_| Error::Damaged { path, problem })
    }

    /// The running postmaster of this data directory.
    pub fn pid(&self) -> Option<u32> {
        self.pid_in_file().filter(|pid| self.is_ours(*pid))
    }

    /// Whether the server runs and will go on running. A process that was killed a moment ago still has its id, its
    /// folder and its file until the kernel has taken it apart, but nobody listens any more: then this waits for its end.
    pub fn serves(&self) -> bool {
        let end = std::time::Instant::now() + LEFTOVER_LIMIT;
        while self.pid().is_some() {
            if probe::probe(self.port) != probe::Answer::Nothing || std::time::Instant::now() > end {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Whether a server was ended here without being stopped.
    pub fn has_crashed(&self) -> bool {
        self.pid_in_file().is_some() && self.pid().is_none()
    }

    fn pid_in_file(&self) -> Option<u32> {
        fs::read_to_string(self.data.join("postmaster.pid")).ok()?.lines().next()?.trim().parse().ok()
    }

    fn is_ours(&self, pid: u32) -> bool {
        process::is_alive(pid)
            && (!process::has_proc() || process::working_dir(pid).is_some_and(|folder| folder == self.data))
    }

    /// PostgreSQL's processes in this data directory, with or without a postmaster.
    fn processes(&self) -> Vec<u32> {
        let is_postgres =
            |pid: &u32| process::arguments(*pid).is_some_and(|arguments| arguments[0].contains("postgres"));
        process::all().into_iter().filter(|pid| self.is_ours(*pid)).filter(is_postgres).collect()
    }

    /// Ends it at once, as a crash would, whatever it is doing; also what hangs.
    pub fn kill(&self) {
        // Its children last: they end by themselves when it is gone.
        let pid = self.pid();
        for pid in pid.into_iter().chain(self.processes()) {
            process::signal(pid, Signal::KILL);
        }
        pid.map(|pid| process::wait_for_end(pid, KILL_LIMIT));
    }

    /// Ends it if it runs and answers nobody: it would not do so for any signal that it has to handle.
    pub fn kill_if_hung(&self) {
        let is_silent = |_| self.pid().is_some() && probe::probe(self.port) == probe::Answer::Nothing;
        if (0..SILENT_LOOKS).all(is_silent) {
            eprintln!("{}: does not answer, killing it; PostgreSQL recovers from its log when it starts", self.name);
            self.kill();
        }
    }

    /// Starts the server and waits until it accepts connections.
    pub fn start(&self, binaries: &Binaries) -> Result<()> {
        let owner = account::owner_of(&self.data)?;
        self.clear_crash()?;
        let log = open_log(&self.log)?;
        let error_log = log.try_clone().map_err(Error::io("open", &self.log))?;
        // Without -l the server inherits these files, so its user needs no right to open them.
        let mut pg_ctl = self.pg_ctl(owner.as_ref(), binaries);
        pg_ctl.args(["start", "--silent", "--wait", "--timeout", START_LIMIT_S]).stdout(log).stderr(error_log);
        let status = pg_ctl.status().map_err(|source| Error::Spawn { program: binaries.bin.join("pg_ctl"), source })?;
        if !status.success() {
            let (node, log) = (self.name.clone(), self.log.clone());
            return Err(Error::NodeStart { node, tail: tail(&log, 12), log });
        }
        Ok(())
    }

    /// Removes what a killed server leaves behind and what would keep a new one from starting.
    pub(super) fn clear_crash(&self) -> Result<()> {
        if self.pid().is_some() {
            return Ok(());
        }
        // Backends that outlived the postmaster still use its shared memory; a new one must not start beside them.
        for signal in [None, Some(Signal::QUIT), Some(Signal::KILL)] {
            for pid in self.processes() {
                if let Some(signal) = signal {
                    process::signal(pid, signal);
                }
            }
            let end = std::time::Instant::now() + LEFTOVER_LIMIT;
            while !self.processes().is_empty() && std::time::Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // PostgreSQL itself removes the file of a dead process, after checking its shared memory. But it refuses to
        // start when the id is taken: by another program, or by its own process that nobody reaped
        // (CreateLockFile in miscinit.c). No process uses this directory any more, so the file is stale.
        if self.pid_in_file().is_some_and(process::is_taken) && self.processes().is_empty() {
            let path = self.data.join("postmaster.pid");
            eprintln!("{}: removing a stale postmaster.pid", self.name);
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
        Ok(())
    }

    /// Stops the server; open transactions are rolled back.
    pub fn stop(&self, binaries: &Binaries) -> Result<()> {
        self.kill_if_hung();
        if self.pid().is_none() {
            return Ok(());
        }
        let owner = account::owner_of(&self.data)?;
        let stop = |mode: &str| -> Result<Output> {
            let mut pg_ctl = self.pg_ctl(owner.as_ref(), binaries);
            pg_ctl.args(["stop", "--silent", "--wait", "--timeout", STOP_LIMIT_S, "--mode", mode]);
            pg_ctl.output().map_err(|source| Error::Spawn { program: binaries.bin.join("pg_ctl"), source })
        };
        let mut output = stop("fast")?;
        if !output.status.success() && self.pid().is_some() {
            eprintln!("{}: does not stop within {STOP_LIMIT_S} s, ending it without a checkpoint", self.name);
            output = stop("immediate")?;
        }
        if !output.status.success() && self.pid().is_some() {
            let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::NodeStop { node: self.name.clone(), output });
        }
        Ok(())
    }

    /// Makes the running server read its settings again.
    pub fn reload(&self, binaries: &Binaries) -> Result<()> {
        let owner = account::owner_of(&self.data)?;
        let mut pg_ctl = self.pg_ctl(owner.as_ref(), binaries);
        run("pg_ctl", &self.name, pg_ctl.args(["reload", "--silent"])).map(drop)
    }

    fn pg_ctl(&self, owner: Option<&Account>, binaries: &Binaries) -> std::process::Command {
        let mut command = account::command(owner, &binaries.bin.join("pg_ctl"), &self.data);
        command.arg("--pgdata").arg(&self.data);
        command
    }
}

/// Runs one of PostgreSQL's tools to its end; what it said is the error when it fails.
pub fn run(tool: &'static str, node: &str, command: &mut std::process::Command) -> Result<Output> {
    let program = PathBuf::from(command.get_program());
    let output = command.stdin(Stdio::null()).output().map_err(|source| Error::Spawn { program, source })?;
    if output.status.success() {
        return Ok(output);
    }
    let text = [&output.stderr[..], &output.stdout[..]].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    Err(Error::Tool { program: tool, node: node.to_owned(), output: text.join("\n").trim().to_owned() })
}

/// Numbers of the nodes whose data directories stand in `dir`, complete or not.
pub fn numbers_in(dir: &Path) -> Vec<u16> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok();
    let mut numbers: Vec<u16> = entries.flatten().filter(|entry| entry.path().is_dir()).filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests;
