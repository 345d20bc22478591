//! A server to measure: what answers at a URL, and the client programs run against it.
//!
//! It does not know workloads. Programs, not a client library, because they are the clients people measure with.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::{Error, Result};
use super::output::{self, Load, Timed};
use super::talk::Talk;
use super::workload::Protocol;
use crate::local::{program, store_program};

/// How often a transaction of a mix is tried at most.
const TRIES: u32 = 50;

/// What answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerKind {
    Plain,
    /// A router of a herd.
    Herd,
    /// PostgreSQL with the extension Citus, which distributes tables by the same function.
    Citus,
    /// DuckDB itself, in a process that the bench starts, on a file at the end of `duckdb:` that it makes and drops.
    DuckDb,
}

#[derive(Debug, Clone)]
pub struct Server {
    /// How tables and messages call it.
    pub name: String,
    pub url: String,
    pub kind: ServerKind,
    pub version: String,
    pub host: String,
    pub port: String,
    user: String,
    pub database: String,
}

impl Server {
    /// Connects once, to see who is there. Without a name it is called by what it is.
    pub fn connect(name: Option<&str>, url: &str) -> Result<Server> {
        if let Some(file) = url.strip_prefix("duckdb:") {
            return Self::duckdb(name.unwrap_or("DuckDB"), file);
        }
        let mut server = Server::unknown(name.unwrap_or(url), url.to_owned(), ServerKind::Plain);
        // psql knows where a URL and the environment lead; one a line, because a name can hold any character.
        let said = server.psql("\\echo :HOST\n\\echo :PORT\n\\echo :USER\n\\echo :DBNAME\nshow server_version;\n")?;
        let mut lines = said.lines().map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        (server.host, server.port, server.user, server.database, server.version) =
            (next(), next(), next(), next(), next());
        server.kind = server.find_kind()?;
        if name.is_none() {
            server.name = match server.kind {
                ServerKind::Plain => "PostgreSQL",
                ServerKind::Herd => "herd",
                ServerKind::Citus => "Citus",
                ServerKind::DuckDb => "DuckDB",
            }
            .to_owned();
        }
        Ok(server)
    }

    /// Of which no more is known yet.
    fn unknown(name: &str, url: String, kind: ServerKind) -> Server {
        let (version, host, port, user, database) = Default::default();
        Server { name: name.to_owned(), url, kind, version, host, port, user, database }
    }

    /// DuckDB on a file that is not there yet; of no name: in the folder for temporary files.
    fn duckdb(name: &str, file: &str) -> Result<Server> {
        let own = || std::env::temp_dir().join(format!("herd-bench-{}.duckdb", std::process::id()));
        let file = if file.is_empty() { own() } else { PathBuf::from(file) };
        if file.exists() || PathBuf::from(format!("{}.wal", file.display())).exists() {
            return Err(Error::FileThere { path: file });
        }
        let mut server = Server::unknown(name, file.display().to_string(), ServerKind::DuckDb);
        let said = server.duckdb_at(":memory:", "SELECT version();\n")?.pop();
        server.version = said.map(|said| said.answer).unwrap_or_default();
        Ok(server)
    }

    fn duckdb_at(&self, file: &str, script: &str) -> Result<Vec<Timed>> {
        let mut command = Command::new(store_program()?);
        command.args(["sql", "--file", file]);
        Ok(output::psql_timings(&self.run("herd-column", command, script)?))
    }

    /// Both are DuckDB on one file.
    pub fn is_same_file(&self, other: &Server) -> bool {
        self.is_duckdb() && other.is_duckdb() && self.url == other.url
    }

    /// The file that DuckDB has made is gone.
    pub fn drop_file(&self) {
        for path in [self.url.clone(), format!("{}.wal", self.url)] {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Only a router answers to the settings of a session with it; the catalog's tables are on home too.
    fn find_kind(&self) -> Result<ServerKind> {
        match self.psql("show herd.two_phase;\n") {
            Ok(_) => return Ok(ServerKind::Herd),
            Err(Error::Program { .. }) => {}
            Err(error) => return Err(error),
        }
        let citus = self.value("select count(*) from pg_catalog.pg_extension where extname = 'citus'")?;
        Ok(if citus == "0" { ServerKind::Plain } else { ServerKind::Citus })
    }

    /// What it is and where, for a report.
    pub fn description(&self) -> String {
        let what = match self.kind {
            ServerKind::Plain => format!("PostgreSQL {}", self.version),
            ServerKind::Herd => format!("a herd of PostgreSQL {}", self.version),
            ServerKind::Citus => format!("Citus on PostgreSQL {}", self.version),
            ServerKind::DuckDb => return format!("DuckDB {} on {}", self.version, self.url),
        };
        format!("{what} at {}:{}/{}", self.host, self.port, self.database)
    }

    /// It is a herd's router.
    pub fn is_herd(&self) -> bool {
        self.kind == ServerKind::Herd
    }

    /// It is DuckDB itself, which has its own words for making tables, and is asked statement by statement alone.
    pub fn is_duckdb(&self) -> bool {
        self.kind == ServerKind::DuckDb
    }

    /// It has distributed tables: a herd's router or Citus.
    pub fn can_distribute(&self) -> bool {
        matches!(self.kind, ServerKind::Herd | ServerKind::Citus)
    }

    /// Runs a script in one session of psql; ends at the first error. Columns are divided by `|`.
    pub fn psql(&self, script: &str) -> Result<String> {
        let mut command = Command::new(program("psql"));
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-P", "pager=off", "-f", "-", "-d", &self.url]);
        self.run("psql", command, script)
    }

    /// The same, statement by statement, each with its answer and its time.
    pub fn timed(&self, script: &str) -> Result<Vec<Timed>> {
        if self.is_duckdb() {
            return self.duckdb_at(&self.url, script);
        }
        Ok(output::psql_timings(&self.psql(&format!("\\timing on\n{script}"))?))
    }

    /// A session of psql that is asked again and again.
    pub fn talk(&self) -> Result<Talk> {
        Talk::begin(&self.name, &self.url)
    }

    /// What one statement answers.
    pub fn value(&self, sql: &str) -> Result<String> {
        Ok(self.psql(&format!("{sql};\n"))?.trim_end().to_owned())
    }

    /// That a table has as many rows as the client was told.
    pub fn check_count(&self, table: &str, expected: u64) -> Result<()> {
        let said = self.value(&format!("select count(*) from {table}"))?;
        let unreadable = |_| Error::Unreadable { program: "psql", figure: "count", said: said.clone() };
        let (is, expected) = (said.parse().map_err(unreadable)?, expected as i64);
        if is == expected {
            return Ok(());
        }
        Err(Error::Count { server: self.name.clone(), what: format!("count(*) of {table}"), is, expected })
    }

    /// Runs pgbench with a script for `seconds`; failed transactions are an error.
    pub fn pgbench(&self, script: &str, protocol: Protocol, clients: u32, seconds: u32) -> Result<Load> {
        self.run_pgbench(Command::new(program("pgbench")), script, protocol, clients, seconds)
    }

    /// The same of transactions that may meet in a deadlock: one that failed so is tried again.
    pub fn pgbench_again(&self, script: &str, protocol: Protocol, clients: u32, seconds: u32) -> Result<Load> {
        let mut command = Command::new(program("pgbench"));
        command.arg(format!("--max-tries={TRIES}"));
        self.run_pgbench(command, script, protocol, clients, seconds)
    }

    /// The same, not more than `rate` transactions a second.
    pub fn pgbench_at(
        &self,
        rate: Option<u32>,
        script: &str,
        protocol: Protocol,
        clients: u32,
        seconds: u32,
    ) -> Result<Load> {
        let mut command = Command::new(program("pgbench"));
        if let Some(rate) = rate {
            command.arg(format!("--rate={rate}"));
        }
        self.run_pgbench(command, script, protocol, clients, seconds)
    }

    fn run_pgbench(
        &self,
        mut command: Command,
        script: &str,
        protocol: Protocol,
        clients: u32,
        seconds: u32,
    ) -> Result<Load> {
        let threads = threads(clients);
        command.args(["-n", "-f", "-", "-D", "n=0", "-M", &protocol.to_string(), "-c", &clients.to_string()]);
        command.args(["-j", &threads.to_string(), "-T", &seconds.to_string(), &self.url]);
        self.without_failures("pgbench", output::pgbench(&self.run("pgbench", command, script)?)?)
    }

    /// Whether sysbench can log in here: it takes no URL, so what else stands in one would be lost.
    pub fn suits_sysbench(&self) -> bool {
        let authority = self.url.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
        let has_password =
            authority.is_some_and(|text| text.rsplit_once('@').is_some_and(|(login, _)| login.contains(':')));
        authority.is_some() && !has_password && !self.url.contains('?') && !self.host.contains(',')
    }

    /// Runs a script that comes with sysbench; ignored errors are an error.
    pub fn sysbench(
        &self,
        sysbench: &Path,
        script: &str,
        options: &[&str],
        clients: u32,
        seconds: u32,
    ) -> Result<Load> {
        let mut command = Command::new(sysbench);
        command.arg(script).args(["--db-driver=pgsql", "--report-interval=0"]).args(options);
        command.arg(format!("--pgsql-host={}", self.host)).arg(format!("--pgsql-port={}", self.port));
        command.arg(format!("--pgsql-user={}", self.user)).arg(format!("--pgsql-db={}", self.database));
        command.arg(format!("--threads={clients}")).arg(format!("--time={seconds}")).arg("run");
        self.without_failures("sysbench", output::sysbench(&self.run("sysbench", command, "")?)?)
    }

    fn without_failures(&self, program: &str, load: Load) -> Result<Load> {
        if load.failed == 0 {
            return Ok(load);
        }
        let said = format!("{} of {} statements failed", load.failed, load.acknowledged + load.failed);
        Err(Error::Program { program: program.to_owned(), server: self.name.clone(), said })
    }

    /// Runs a program to its end, `input` on its standard input; what it wrote to standard output.
    fn run(&self, name: &str, mut command: Command, input: &str) -> Result<String> {
        let spawn = |source| Error::Spawn { program: name.to_owned(), source };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C");
        let mut child = command.spawn().map_err(spawn)?;
        // Scripts are shorter than a pipe's buffer. A program that ended already has said why.
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(spawn)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr)).trim().to_owned();
        Err(Error::Program { program: name.to_owned(), server: self.name.clone(), said })
    }
}

/// Clients share threads; more threads than processors only take turns.
fn threads(clients: u32) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |number| number.get() as u32);
    clients.min(processors).max(1)
}

/// sysbench, where it is installed.
pub fn find_sysbench() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("sysbench")).find(|program| program.is_file())
}
