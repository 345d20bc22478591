//! Throw-away PostgreSQL servers: one for each version found, shared by the tests, stopped when the last test drops it.
//!
//! Binaries: `HERD_PG_BIN`, and every `/usr/lib/postgresql/*/bin`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};

use catalog::{Query, Row};
use postgres::{Client, NoTls, SimpleQueryMessage};

pub struct Server {
    bin: PathBuf,
    dir: PathBuf,
}

/// Runs a test on every server; says so where there is none.
pub fn on_each_server(test: impl Fn(&Server)) {
    let mut found: Vec<PathBuf> = std::env::var_os("HERD_PG_BIN").map(PathBuf::from).into_iter().collect();
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    found.extend(installed.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").exists()));
    if found.is_empty() {
        println!("skipped: no PostgreSQL found (set HERD_PG_BIN to its bin directory)");
    }
    for bin in found {
        let server = Server::shared(bin);
        println!("with {}", server.bin.display());
        test(&server);
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout
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
    fn shared(bin: PathBuf) -> Arc<Server> {
        static SHARED: Mutex<Vec<(PathBuf, Weak<Server>)>> = Mutex::new(Vec::new());
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let running = shared.iter().find(|(path, _)| *path == bin).and_then(|(_, server)| server.upgrade());
        running.unwrap_or_else(|| {
            let server = Arc::new(Server::start(bin.clone()));
            shared.retain(|(path, _)| *path != bin);
            shared.push((bin, Arc::downgrade(&server)));
            server
        })
    }

    fn start(bin: PathBuf) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("catalog-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a temporary directory");
        let server = Server { bin, dir };
        if let Some(user) = unprivileged_user() {
            run(Command::new("chown").arg(user).arg(&server.dir));
        }
        let data = server.dir.join("data");
        // Of libc's: a collation that is not known to order by bytes.
        run(server.program("initdb").arg("-D").arg(&data).args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-N",
            "--locale=C.UTF-8",
        ]));
        let options =
            format!("-k {} -c listen_addresses= -c fsync=off -c max_prepared_transactions=10", server.dir.display());
        let mut start = server.program("pg_ctl");
        start.arg("start").arg("-w").arg("-D").arg(&data).arg("-l").arg(server.dir.join("log")).arg("-o").arg(options);
        // The postmaster would inherit and hold an output pipe.
        let status = start.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("pg_ctl");
        let log = fs::read_to_string(server.dir.join("log")).unwrap_or_default();
        assert!(status.success(), "pg_ctl start: {status}\n{log}");
        let roles = "CREATE ROLE alice; CREATE ROLE bob; CREATE ROLE \"Carol C\"; CREATE ROLE dave SUPERUSER LOGIN";
        server.connect("postgres").sql(roles);
        server
    }

    fn program(&self, name: &str) -> Command {
        let program = self.bin.join(name);
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

    pub fn connect(&self, database: &str) -> Session {
        let mut config = postgres::Config::new();
        config.host_path(&self.dir).user("postgres").dbname(database);
        Session(config.connect(NoTls).unwrap_or_else(|error| panic!("connecting to {database}: {error}")))
    }

    /// A new, empty database; returns its name.
    pub fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("db_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.connect("postgres").sql(&format!("CREATE DATABASE {name} TEMPLATE template0"));
        name
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let data = self.dir.join("data");
        let _ = self.program("pg_ctl").args(["stop", "-m", "immediate", "-w", "-D"]).arg(data).output();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A session on one database.
pub struct Session(pub Client);

impl Query for Session {
    type Error = postgres::Error;

    fn query(&mut self, sql: &str) -> impl Future<Output = Result<Vec<Row>, postgres::Error>> + Send {
        std::future::ready(self.try_sql(sql))
    }
}

impl Session {
    pub fn try_sql(&mut self, sql: &str) -> Result<Vec<Row>, postgres::Error> {
        let rows = self.0.simple_query(sql)?.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|i| row.get(i).map(str::to_string)).collect()),
            _ => None,
        });
        Ok(rows.collect())
    }

    /// Runs SQL that must succeed.
    pub fn sql(&mut self, sql: &str) -> Vec<Row> {
        self.try_sql(sql).unwrap_or_else(|error| {
            let detail = error.as_db_error().map(|e| format!("{e}\n{:?}", e.where_())).unwrap_or_default();
            panic!("{sql}\n{error}: {detail}")
        })
    }

    /// Runs SQL that must fail, and returns its SQLSTATE.
    pub fn sqlstate(&mut self, sql: &str) -> String {
        let error = self.try_sql(sql).map(|rows| panic!("{sql}\nsucceeded: {rows:?}")).unwrap_err();
        error.code().unwrap_or_else(|| panic!("{sql}\n{error}")).code().to_string()
    }

    /// Each row as one string, columns separated by `|`, NULL as `-`.
    pub fn lines(&mut self, sql: &str) -> Vec<String> {
        let line = |row: Row| row.into_iter().map(|c| c.unwrap_or("-".into())).collect::<Vec<_>>().join("|");
        self.sql(sql).into_iter().map(line).collect()
    }

    pub fn one(&mut self, sql: &str) -> String {
        self.lines(sql).join("\n")
    }
}

/// Runs a future that waits for nobody, as a `Session` answers at once: it may give others their turn.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => assert!(woken.0.swap(false, Ordering::Relaxed), "the future waits"),
        }
    }
}
