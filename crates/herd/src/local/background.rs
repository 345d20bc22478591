//! Programs that go on when `herd` has ended: how they are started, found again, and ended.
//!
//! It does not know what they are. PostgreSQL's servers have `pg_ctl` for that (`node.rs`), or Patroni (`ha`).

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::error::{Error, Result};
use super::files::open_log;
use super::process;

/// Starts it, with what it says at the end of its log.
pub fn start(mut command: Command, log: &Path) -> Result<Child> {
    command.stdin(Stdio::null()).stdout(open_log(log)?).stderr(open_log(log)?);
    // A group of its own: Ctrl-C at the terminal does not reach it.
    command.process_group(0);
    let program = PathBuf::from(command.get_program());
    command.spawn().map_err(|source| Error::Spawn { program, source })
}

/// The process whose arguments are those that were meant. None without /proc.
pub fn find(is_meant: impl Fn(&[String]) -> bool) -> Option<u32> {
    process::all().into_iter().find(|pid| process::arguments(*pid).is_some_and(|arguments| is_meant(&arguments)))
}

/// Ends it: politely, and by force when it has not ended within `limit`. True: force was needed.
pub fn stop(pid: u32, limit: Duration) -> Result<bool> {
    process::signal(pid, Signal::TERM);
    if process::wait_for_end(pid, limit) {
        return Ok(false);
    }
    process::signal(pid, Signal::KILL);
    if process::wait_for_end(pid, limit) { Ok(true) } else { Err(Error::WillNotDie { pid }) }
}
