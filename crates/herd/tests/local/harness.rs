//! Drives the built `herd` in a directory of its own, as a user would, and cleans up after it.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU16, Ordering};

use tempfile::TempDir;

/// A place for one herd, and the ports it may use. Whatever runs in it is stopped in the end.
pub struct Place {
    root: TempDir,
    pub port: u16,
}

/// What a command answered.
pub struct Answer {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new() -> Place {
        // PostgreSQL may run as another user, who must be able to get here.
        let root = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
        Place { root, port: free_ports() }
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The herd directory.
    pub fn dir(&self) -> PathBuf {
        self.root().join("herd")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut herd = Command::new(env!("CARGO_BIN_EXE_herd"));
        herd.arg(command).arg("--dir").arg(self.dir()).args(arguments);
        herd
    }

    pub fn run(&self, command: &str, arguments: &[&str]) -> Answer {
        Answer::of(self.command(command, arguments).output().unwrap())
    }

    /// `herd up` on this place's port, with two nodes.
    pub fn up(&self) -> Answer {
        self.run("up", &["--port", &self.port.to_string()])
    }

    pub fn url(&self) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.run("status", &["--json"]).out).unwrap()
    }

    pub fn node_pid(&self, number: usize) -> u64 {
        self.status()["nodes"][number - 1]["pid"].as_u64().unwrap()
    }

    /// SQL on a node itself, not through the router.
    pub fn on_node(&self, number: u16, sql: &str) -> String {
        let port = (self.port + number).to_string();
        let answer = self.run("psql", &["-p", &port, "-XAtc", sql]);
        assert!(answer.ok, "{sql}: {}", answer.err);
        answer.out.trim().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let down = self.run("down", &[]);
        if !down.ok && !down.err.contains("there is no herd") && !std::thread::panicking() {
            panic!("herd down: {}", down.err);
        }
    }
}

impl Answer {
    pub fn of(output: Output) -> Answer {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Answer { ok: output.status.success(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// It went well and said this on standard error.
    #[track_caller]
    pub fn said(&self, expected: &str) -> &Answer {
        assert!(self.ok, "failed: {}", self.err);
        assert!(self.err.contains(expected), "not {expected:?} but {}", self.err);
        self
    }

    /// It failed with this message.
    #[track_caller]
    pub fn failed(&self, expected: &str) -> &Answer {
        assert!(!self.ok, "succeeded: {}", self.err);
        assert!(self.err.contains(expected), "not {expected:?} but {}", self.err);
        self
    }
}

pub fn kill_9(pid: u64) {
    let status = Command::new("kill").arg("-9").arg(pid.to_string()).status().unwrap();
    assert!(status.success());
    let stat = format!("/proc/{pid}/stat");
    while std::fs::read_to_string(&stat).is_ok_and(|text| !text.contains(") Z")) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The first of a row of free ports, below those that outgoing connections get.
fn free_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % 100) as u16 * 100;
    loop {
        let port = 10_000 + (start + NEXT.fetch_add(20, Ordering::Relaxed)) % 20_000;
        if (port..port + 4).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return port;
        }
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
