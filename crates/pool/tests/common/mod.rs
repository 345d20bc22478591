//! A real PostgreSQL server for a test: made, started and, when dropped, stopped and removed.
//!
//! The server's programs come from `HERD_PG_BIN`, else from PATH, else from Debian's folders. Other crates' tests
//! include this file by `#[path]`; it needs nothing but std. It does not know pgherd.

// Each test binary uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Superuser and database of every test server.
pub const USER: &str = "postgres";
pub const DATABASE: &str = "postgres";

pub struct Server {
    pub port: u16,
    /// Holds the data, the log and the Unix socket.
    pub dir: PathBuf,
    bin: PathBuf,
    process: Child,
}

#[derive(Default)]
pub struct Options {
    bin: Option<PathBuf>,
    hba: Option<String>,
    settings: Vec<String>,
    /// Files to lay into the data directory, readable by the server only.
    files: Vec<(String, String)>,
}

impl Server {
    /// A server that trusts everybody on loopback.
    pub fn start() -> Server {
        Options::default().start()
    }

    pub fn options() -> Options {
        Options::default()
    }

    pub fn socket_dir(&self) -> &str {
        self.dir.to_str().expect("a plain path")
    }

    /// Stops it at once, as a crash would.
    pub fn stop(&mut self) {
        let data = self.dir.join("data");
        let _ = as_postgres(self.bin.join("pg_ctl"))
            .args(["stop", "-s", "-m", "immediate", "-D"])
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let _ = self.process.wait();
    }

    /// Starts it again after `stop`, on the same port and data.
    pub fn restart(&mut self) {
        self.process = spawn(&self.bin, &self.dir, self.port);
        assert!(wait_until_up(&mut self.process, &self.dir, self.port), "server did not restart: {}", log(&self.dir));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Options {
    pub fn bin(mut self, bin: PathBuf) -> Self {
        self.bin = Some(bin);
        self
    }

    /// Replaces pg_hba.conf.
    pub fn hba(mut self, lines: &str) -> Self {
        self.hba = Some(lines.into());
        self
    }

    /// A line of postgresql.conf.
    pub fn set(mut self, line: &str) -> Self {
        self.settings.push(line.into());
        self
    }

    pub fn file(mut self, name: &str, content: &str) -> Self {
        self.files.push((name.into(), content.into()));
        self
    }

    pub fn start(self) -> Server {
        let bin = self.bin.clone().unwrap_or_else(any_bin);
        // Another process may take the port between finding and using it.
        for _ in 0..5 {
            let (dir, port) = (self.make_cluster(&bin), free_port());
            let mut process = spawn(&bin, &dir, port);
            if wait_until_up(&mut process, &dir, port) {
                return Server { port, dir, bin, process };
            }
            let (_, _) = (process.kill(), process.wait());
            let said = log(&dir);
            let _ = fs::remove_dir_all(&dir);
            assert!(said.contains("in use"), "server did not start: {said}");
        }
        panic!("found no free port");
    }

    fn make_cluster(&self, bin: &Path) -> PathBuf {
        let dir = open_dir("server");
        let data = dir.join("data");
        let copied = as_postgres("cp").arg("-r").arg(template(bin)).arg(&data).status();
        assert!(copied.is_ok_and(|s| s.success()), "could not copy the template");
        // Data and access must belong to the server's user; so do files that he writes himself.
        let mut conf = String::from(
            "listen_addresses = '127.0.0.1'\nfsync = off\nshared_buffers = '16MB'\nmax_connections = 50\n\
             max_prepared_transactions = 20\nlog_min_messages = warning\n",
        );
        self.settings.iter().for_each(|line| conf.extend([line, "\n"]));
        write_as_postgres(&data.join("postgresql.auto.conf"), &conf);
        if let Some(hba) = &self.hba {
            write_as_postgres(&data.join("pg_hba.conf"), hba);
        }
        for (name, content) in &self.files {
            write_as_postgres(&data.join(name), content);
        }
        dir
    }
}

/// A folder of programs, of any version.
pub fn any_bin() -> PathBuf {
    bins()
        .into_iter()
        .next()
        .expect("no PostgreSQL found: install it, or set HERD_PG_BIN to the folder of its programs")
}

/// A folder of programs whose server was built with TLS.
pub fn tls_bin() -> PathBuf {
    let has_tls = |bin: &PathBuf| {
        let configured = Command::new(bin.join("pg_config")).arg("--configure").output();
        configured.is_ok_and(|o| {
            let flags = String::from_utf8_lossy(&o.stdout).into_owned();
            flags.contains("with-openssl") || flags.contains("ssl=openssl")
        })
    };
    bins().into_iter().find(has_tls).expect("no PostgreSQL with TLS found: install Debian's, or set HERD_PG_BIN")
}

fn bins() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::env::var_os("HERD_PG_BIN").map(PathBuf::from).into_iter().collect();
    found.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|e| e.path().join("bin"));
    let mut debian: Vec<PathBuf> = debian.collect();
    debian.sort();
    found.extend(debian.into_iter().rev());
    found.retain(|dir| dir.join("postgres").is_file() && dir.join("initdb").is_file());
    found
}

/// A command run by the user that may run a server: ourselves, or `postgres` or `nobody` when we are root.
pub fn as_postgres(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = server_user() {
        command.uid(uid).gid(gid);
    }
    command.current_dir("/").env_remove("PGDATA").env("LC_ALL", "C");
    command
}

fn server_user() -> Option<(u32, u32)> {
    let us = Command::new("id").arg("-u").output().expect("id runs");
    if us.stdout != b"0\n" {
        return None;
    }
    let passwd = fs::read_to_string("/etc/passwd").expect("/etc/passwd is there");
    let find = |name: &str| {
        let fields = passwd.lines().map(|l| l.split(':').collect::<Vec<_>>()).find(|f| f[0] == name)?;
        Some((fields[2].parse().ok()?, fields[3].parse().ok()?))
    };
    Some(find("postgres").or_else(|| find("nobody")).expect("root can't run PostgreSQL, and there is no user postgres"))
}

/// A folder anybody may write into.
fn open_dir(what: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("pgherd-test-{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(name);
    fs::create_dir(&dir).expect("the temporary folder is writable");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("it is ours");
    dir
}

fn write_as_postgres(path: &Path, content: &str) {
    use std::io::Write;
    let mut shell = as_postgres("sh")
        .args(["-c", "umask 077; cat > \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell runs");
    shell.stdin.take().expect("piped").write_all(content.as_bytes()).expect("the shell reads");
    assert!(shell.wait().is_ok_and(|s| s.success()), "could not write {}", path.display());
}

/// An initialised cluster to copy, kept for later runs: initdb takes longer than most tests.
fn template(bin: &Path) -> PathBuf {
    let version = Command::new(bin.join("postgres")).arg("--version").output().expect("postgres runs");
    let version: String =
        String::from_utf8_lossy(&version.stdout).chars().filter(char::is_ascii_alphanumeric).collect();
    let user = server_user().map_or("self".into(), |(uid, _)| uid.to_string());
    let kept = std::env::temp_dir().join(format!("pgherd-test-template-{version}-{user}"));
    if !kept.exists() {
        let dir = open_dir("initdb");
        let made = as_postgres(bin.join("initdb"))
            .args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(dir.join("data"))
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        // If another process was faster, its is as good.
        if fs::rename(&dir, &kept).is_err() {
            let _ = fs::remove_dir_all(&dir);
        }
    }
    kept.join("data")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("loopback has free ports").port()
}

fn spawn(bin: &Path, dir: &Path, port: u16) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).expect("the folder is ours");
    as_postgres(bin.join("postgres"))
        .arg("-D")
        .arg(dir.join("data"))
        .args(["-p", &port.to_string(), "-k"])
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file"))
        .stderr(log)
        .spawn()
        .expect("postgres runs")
}

fn wait_until_up(process: &mut Child, dir: &Path, port: u16) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if matches!(process.try_wait(), Ok(Some(_))) {
            return false;
        }
        // The last line of the pid file says "ready" before anybody is refused.
        let state = fs::read_to_string(dir.join("data/postmaster.pid")).unwrap_or_else(|_| pid_file(dir));
        if state.contains("ready") && TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Read by the server's user, where we may not.
fn pid_file(dir: &Path) -> String {
    let read = as_postgres("cat").arg(dir.join("data/postmaster.pid")).stderr(Stdio::null()).output();
    read.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
}

fn log(dir: &Path) -> String {
    fs::read_to_string(dir.join("log")).unwrap_or_default()
}
