//! The watch as a process in the background: how it is started, found again, and ended.
//!
//! It does not know what a watch does; `watch.rs` does, in the process started here.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::local::background;
use crate::local::error::{Error, Result};
use crate::local::files::Files;

const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The running one of this herd.
pub fn pid(files: &Files) -> Option<u32> {
    let dir = files.dir().display().to_string();
    background::find(|arguments| {
        arguments.get(1).is_some_and(|argument| argument == "watch") && arguments.last() == Some(&dir)
    })
}

/// Starts it where it does not run. True: it did not.
pub fn start(files: &Files) -> Result<bool> {
    if pid(files).is_some() {
        return Ok(false);
    }
    let executable = std::env::current_exe().map_err(Error::io("find", PathBuf::from("this program")))?;
    let mut command = Command::new(executable);
    command.args(["watch", "--dir"]).arg(files.dir()).current_dir(files.dir());
    background::start(command, &files.watch_log())?;
    eprintln!("watch: started");
    Ok(true)
}

/// Ends it, so that it starts nothing again.
pub fn stop(files: &Files) -> Result<()> {
    if let Some(pid) = pid(files) {
        background::stop(pid, STOP_LIMIT)?;
        eprintln!("watch: stopped");
    }
    Ok(())
}
