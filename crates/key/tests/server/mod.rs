//! A throw-away PostgreSQL for tests: found, started, asked through `psql`, stopped when the last user drops it (also on panic).
//!
//! It knows nothing of the crate under test. Binaries: `HERD_PG_BIN`, else the newest of `/usr/lib/postgresql/*/bin`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

pub struct Server {
    bin: PathBuf,
    dir: PathBuf,
    scripts: AtomicU32,
    pub major: u32,
}

/// The server all tests of this process share; `None`, with a printed line, where no PostgreSQL is installed.
pub fn shared() -> Option<Arc<Server>> {
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(server) = shared.upgrade() {
        return Some(server);
    }
    let Some(bin) = find_binaries() else {
        println!("skipped: no PostgreSQL found (set HERD_PG_BIN to its bin directory)");
        return None;
    };
    let server = Arc::new(Server::start(bin));
    *shared = Arc::downgrade(&server);
    Some(server)
}

fn find_binaries() -> Option<PathBuf> {
    if let Some(bin) = std::env::var_os("HERD_PG_BIN") {
        return Some(bin.into());
    }
    let version = |path: &Path| path.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").exists())
        .max_by_key(|bin| version(bin))
}

fn check(output: Output, what: &str) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed: {}\n{stdout}{stderr}", output.status);
    stdout
}

fn run(command: &mut Command) -> String {
    let what = format!("{command:?}");
    check(command.output().unwrap_or_else(|error| panic!("{what}: {error}")), &what)
}

/// PostgreSQL refuses to run as root: then the first of these users that exists runs it.
fn unprivileged_user() -> Option<&'static str> {
    if run(Command::new("id").arg("-u")).trim() != "0" {
        return None;
    }
    let exists = |user: &&str| Command::new("id").arg(user).output().is_ok_and(|output| output.status.success());
    Some(["postgres", "nobody"].into_iter().find(exists).expect("a user to run PostgreSQL as"))
}

impl Server {
    fn start(bin: PathBuf) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("key-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a temporary directory");
        let server = Server { major: major_version(&bin), bin, dir, scripts: AtomicU32::new(0) };
        if let Some(user) = unprivileged_user() {
            run(Command::new("chown").arg(user).arg(&server.dir));
        }
        let data = server.dir.join("data");
        // Strings are compared by their bytes in the crate under test, so the database's collation is C.
        run(server.server_command("initdb").arg("-D").arg(&data).args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
            "--locale=C",
        ]));
        let options =
            format!("-k {} -c listen_addresses= -c fsync=off -c jit=off -c max_connections=20", server.dir.display());
        let mut start = server.server_command("pg_ctl");
        start.arg("start").arg("-w").arg("-D").arg(&data).arg("-l").arg(server.dir.join("log")).arg("-o").arg(options);
        // The postmaster would inherit and hold an output pipe.
        let status =
            start.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).status().expect("pg_ctl");
        let log = fs::read_to_string(server.dir.join("log")).unwrap_or_default();
        assert!(status.success(), "pg_ctl start: {status}\n{log}");
        println!("PostgreSQL {} from {}", server.major, server.bin.display());
        server
    }

    /// A program of the server's, run as a user it accepts.
    fn server_command(&self, program: &str) -> Command {
        let program = self.bin.join(program);
        let mut command = match unprivileged_user() {
            None => Command::new(program),
            Some(user) => {
                let mut command = Command::new("runuser");
                command.args(["-u", user, "--"]).arg(program);
                command
            }
        };
        command.current_dir(&self.dir);
        command
    }

    /// Runs a script, failing the test on any error; answers the rows' columns.
    pub fn query(&self, script: &str) -> Vec<Vec<String>> {
        let number = self.scripts.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("key-test-{}-script-{number}.sql", std::process::id()));
        fs::write(&file, script).expect("a script file");
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["-XqAt", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres", "-h"])
            .arg(&self.dir);
        psql.arg("-f").arg(&file).env("PGCLIENTENCODING", "UTF8");
        let output = psql.output().expect("psql");
        let _ = fs::remove_file(&file);
        let start: String = script.chars().take(2000).collect();
        let text = check(output, &format!("psql:\n{start}\n"));
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = self.server_command("pg_ctl");
        let _ = stop.args(["stop", "-w", "-m", "immediate", "-D"]).arg(self.dir.join("data")).output();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn major_version(bin: &Path) -> u32 {
    let text = run(Command::new(bin.join("postgres")).arg("--version"));
    let digits =
        text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit())).expect("a version");
    digits.split('.').next().and_then(|major| major.parse().ok()).expect("a major version")
}

/// The text COPY reads as this value.
pub fn copy_field(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

pub fn unhex(text: &str) -> Vec<u8> {
    assert_eq!(text.len() % 2, 0, "hexadecimal: {text}");
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect()
}
