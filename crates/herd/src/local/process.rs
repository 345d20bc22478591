//! Processes of this machine, through /proc: is one alive, is it ours, which one holds a port.
//!
//! A process id in a file proves nothing: the process may be dead and the id given to another program. Nothing here
//! is signalled on the strength of an id alone; callers first ask what the process is. Where there is no /proc, a
//! live process counts as the one that was meant.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Whether a process with this id runs.
pub fn is_alive(pid: u32) -> bool {
    is_taken(pid) && !is_zombie(pid)
}

/// Whether the id is in use: by a process that runs, or by a dead one that nobody has reaped (which stays so in
/// containers without an init).
pub fn is_taken(pid: u32) -> bool {
    let probe = to_pid(pid).map(test_kill_process);
    matches!(probe, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
}

/// The arguments a process was started with; `None` when it is gone or not ours to see.
pub fn arguments(pid: u32) -> Option<Vec<String>> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok().filter(|bytes| !bytes.is_empty())?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Some(text.trim_end_matches('\0').split('\0').map(str::to_owned).collect())
}

/// The folder a process works in; PostgreSQL's processes work in their data directory.
pub fn working_dir(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// Ids of all processes of this machine; empty without /proc.
pub fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Whether this system shows its processes under /proc.
pub fn has_proc() -> bool {
    Path::new("/proc/self/cmdline").exists()
}

/// Sends a signal; a process that is gone already is not an error.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = to_pid(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Waits until the process is gone. False: it is still there after `limit`.
pub fn wait_for_end(pid: u32, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    while is_alive(pid) {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Whether a server could listen on this port of 127.0.0.1 now.
pub fn port_is_free(port: u16) -> bool {
    // std sets SO_REUSEADDR, as PostgreSQL does: a port that only lingers in TIME_WAIT is free.
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The same, waiting a little for who is about to let go of it.
pub fn port_becomes_free(port: u16) -> bool {
    let end = Instant::now() + Duration::from_secs(1);
    while !port_is_free(port) {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Who listens on a port, for a message: `process 4711 (python3)`.
pub fn port_owner(port: u16) -> String {
    let owner = listening_inodes(port).and_then(|inodes| {
        all().into_iter().find(|pid| {
            let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fd")) else {
                return false;
            };
            fds.flatten()
                .filter_map(|fd| fs::read_link(fd.path()).ok())
                .any(|target| inodes.iter().any(|inode| target.as_os_str() == inode.as_str()))
        })
    });
    match owner {
        Some(pid) => {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("process {pid} ({})", name.trim())
        }
        None => "another program".to_owned(),
    }
}

/// The sockets listening on a port, as /proc/PID/fd names them: `socket:[4711]`.
fn listening_inodes(port: u16) -> Option<Vec<String>> {
    const LISTEN: &str = "0A"; // TCP_LISTEN in the kernel's include/net/tcp_states.h
    let mut inodes = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, state, _, _, _, _, _, inode, ..] = fields[..] else {
                continue;
            };
            if state == LISTEN && local.ends_with(&format!(":{port:04X}")) {
                inodes.push(format!("socket:[{inode}]"));
            }
        }
    }
    (!inodes.is_empty()).then_some(inodes)
}

fn to_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the program's name, which is in parentheses and may itself hold any character.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_known() {
        let pid = std::process::id();
        assert!(is_alive(pid));
        if has_proc() {
            assert_eq!(arguments(pid), Some(std::env::args().collect()));
            assert_eq!(working_dir(pid), std::env::current_dir().ok());
            assert!(all().contains(&pid));
        }
    }

    #[test]
    fn an_ended_process_is_dead_also_before_it_is_reaped() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        assert!(is_alive(child.id()));
        signal(child.id(), Signal::KILL);
        assert!(wait_for_end(child.id(), Duration::from_secs(5)));
        assert!(is_taken(child.id()));
        child.wait().unwrap();
        assert!(!is_alive(child.id()) && !is_taken(child.id()));
        assert!(!is_alive(0) && !is_alive(u32::MAX));
    }

    #[test]
    fn a_port_in_use_names_its_owner() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!port_is_free(port));
        if has_proc() {
            assert!(port_owner(port).starts_with(&format!("process {} (", std::process::id())));
        }
        drop(listener);
        assert!(port_is_free(port));
    }
}
