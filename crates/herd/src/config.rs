//! `herd.toml`: what a router is told when it starts.
//!
//! Reads, checks and types the file, so that everything after it can rely on the values. It does not know
//! what a router does with them, and does not open a socket or a certificate.

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use pool::Liveness;
use serde::Deserialize;

pub mod conninfo;

pub use conninfo::NodeConfig;

/// Why a configuration file cannot be used. Every message names the file or the setting.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {path}: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path} is not a valid herd.toml: {source}")]
    Parse { path: PathBuf, source: Box<toml::de::Error> },
    #[error("{path}: {setting} {reason}")]
    Value { path: PathBuf, setting: &'static str, reason: String },
}

/// A router's configuration, checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Addresses clients connect to. At least one.
    pub listen: Vec<SocketAddr>,
    /// Address of the metrics page (HTTP); none when absent.
    pub metrics: Option<SocketAddr>,
    /// The metrics page, which asks nobody who he is, may be on an address others reach.
    #[serde(default)]
    pub metrics_anyone: bool,
    /// The node that holds the catalog and the local tables.
    pub home: NodeConfig,
    /// Further nodes, registered when the herd is first made; afterwards the catalog decides.
    #[serde(default)]
    pub nodes: Vec<NodeConfig>,
    /// Stores of column copies, each beside one node.
    #[serde(default)]
    pub column: Vec<StoreConfig>,
    /// Threads that serve clients; half the machine's cores when absent, as nodes and clients often share it.
    pub threads: Option<u16>,
    /// Shards of a distributed table, unless `create_distributed_table` is told otherwise.
    #[serde(default = "default_shards")]
    pub shards: u32,
    /// How clients prove who they are.
    #[serde(default)]
    pub auth: Auth,
    /// `auth = "trust"` may be used on an address others reach.
    #[serde(default)]
    pub trust_anyone: bool,
    /// Log filter: a level (`info`) or a list of `target=level`.
    #[serde(default = "default_log")]
    pub log: String,
    #[serde(default)]
    pub log_format: LogFormat,
    #[serde(default)]
    pub pool: PoolConfig,
    /// Absent: clients cannot use TLS.
    pub tls: Option<TlsConfig>,
    #[serde(default)]
    pub limits: Limits,
    /// What is allowed and yet a mistake, most likely.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// A store of column copies (`herd-column`).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Its node's number or name in `herd.nodes`.
    pub node: String,
    /// How it is reached.
    pub store: NodeConfig,
}

/// How clients prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// Anyone who reaches the router is who they say. For loopback only.
    #[default]
    Trust,
    /// SCRAM-SHA-256 against the verifiers of home.
    Scram,
}

/// The shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Connections to nodes; each (node, user) has its own pool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PoolConfig {
    /// Connections of one (node, user) at most.
    pub size: u32,
    /// The same of all routers together: each takes its share.
    pub shared_size: Option<u32>,
    /// How long a statement waits for a free connection, in milliseconds.
    pub wait_timeout_ms: u64,
    /// After how many seconds an unused connection is closed.
    pub idle_timeout_s: u64,
    /// Prepared statements kept on one connection at most.
    pub max_prepared: u32,
    /// How soon a node whose machine is gone is noticed.
    pub tcp: Tcp,
}

/// How soon it is noticed that the other end's machine is gone. Absent settings: [`Liveness::NODE`] or
/// [`Liveness::CLIENT`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// Seconds of silence before the first question.
    pub keepalives_idle_s: Option<u16>,
    /// Seconds from question to question.
    pub keepalives_interval_s: Option<u16>,
    /// Unanswered questions after which the connection is lost.
    pub keepalives_count: Option<u8>,
    /// Milliseconds that what was sent may remain unacknowledged, or unread; 0 leaves that to the system.
    pub user_timeout_ms: Option<u32>,
}

impl Tcp {
    /// What is set here, and `default` for what is not.
    pub fn liveness(&self, default: Liveness) -> Liveness {
        let seconds = |s: Option<u16>, default| s.map_or(default, |s| Duration::from_secs(s.into()));
        Liveness {
            idle: seconds(self.keepalives_idle_s, default.idle),
            interval: seconds(self.keepalives_interval_s, default.interval),
            count: self.keepalives_count.map_or(default.count, u32::from),
            user_timeout: self.user_timeout_ms.map_or(default.user_timeout, |ms| Duration::from_millis(ms.into())),
        }
    }

    fn is_possible(&self) -> bool {
        // Linux's own bounds: MAX_TCP_KEEPIDLE, MAX_TCP_KEEPINTVL, MAX_TCP_KEEPCNT.
        [self.keepalives_idle_s, self.keepalives_interval_s].iter().flatten().all(|s| (1..=32_767).contains(s))
            && self.keepalives_count.is_none_or(|c| (1..=127).contains(&c))
    }
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            size: 100,
            shared_size: None,
            wait_timeout_ms: 30_000,
            idle_timeout_s: 600,
            max_prepared: 500,
            tcp: Tcp::default(),
        }
    }
}

/// TLS between clients and the router. Paths are relative to the configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file: the certificate, then its chain.
    pub certificate: PathBuf,
    /// PEM file: the private key.
    pub key: PathBuf,
    /// Refuse clients that do not use TLS.
    #[serde(default)]
    pub required: bool,
}

/// What one router takes on at most.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Client connections.
    pub connections: u32,
    /// Sessions of one user at most; 0 for no limit of their own.
    pub connections_per_user: u32,
    /// Connections whose login is not complete.
    pub logins: u32,
    /// Seconds from connecting to a completed login.
    pub login_timeout_s: u64,
    /// Bytes of one protocol message.
    pub message_bytes_max: u32,
    /// Bytes of long messages (of more than 1 MiB) that are here or coming, of all clients; one role has half of it.
    pub client_message_bytes: u64,
    /// Bytes that one session's prepared statements take, about four times their texts.
    pub prepared_bytes_per_session: u64,
    /// The same of all sessions.
    pub prepared_bytes: u64,
    /// Bytes that reading and planning large statements takes, of all sessions; one role has half of it.
    pub statement_bytes: u64,
    /// Bytes that rows which wait in the router take for one session: what PostgreSQL is to finish and cannot be put into
    /// a table, rows of cursors and of RETURNING.
    pub row_bytes_per_session: u64,
    /// The same of all sessions.
    pub row_bytes: u64,
    /// Bytes of such rows that may be in temporary files of the router, of one session; 0: none are.
    pub spool_bytes_per_session: u64,
    /// The same of all sessions.
    pub spool_bytes: u64,
    /// Where these files are; the system's place for temporary files when absent.
    pub spool_directory: Option<PathBuf>,
    /// Bytes that kept plans take.
    pub plan_bytes: u64,
    /// How soon a client whose machine is gone is noticed.
    pub tcp: Tcp,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 10_000,
            connections_per_user: 0,
            logins: 8_000,
            login_timeout_s: 15,
            message_bytes_max: 1 << 30,
            prepared_bytes_per_session: 256 << 20,
            prepared_bytes: 1 << 30,
            statement_bytes: 4 << 30,
            client_message_bytes: 4 << 30,
            row_bytes_per_session: 256 << 20,
            row_bytes: 1 << 30,
            spool_bytes_per_session: 8 << 30,
            spool_bytes: 16 << 30,
            spool_directory: None,
            plan_bytes: 128 << 20,
            tcp: Tcp::default(),
        }
    }
}

fn default_shards() -> u32 {
    32
}

fn default_log() -> String {
    "info".to_owned()
}

/// The most shards a table can have.
pub const SHARDS_MAX: u32 = catalog::SHARDS_MAX as u32;

impl Config {
    /// Threads that serve clients, at least one.
    pub fn threads(&self) -> usize {
        let half = || std::thread::available_parallelism().map_or(1, |n| n.get() / 2);
        self.threads.map_or_else(half, usize::from).max(1)
    }

    /// Reads and checks `path`. Relative paths in it are resolved against its folder.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let mut config = Config::parse(&text, path)?;
        config.warnings.extend(config.readable_password(path));
        Ok(config)
    }

    /// The file holds a superuser's password, and others than its owner may read it.
    fn readable_password(&self, path: &Path) -> Option<String> {
        let secret = self.servers().any(|node| node.password.is_some());
        let mode = std::fs::metadata(path).ok()?.permissions().mode();
        (secret && mode & 0o077 != 0).then(|| {
            let path = path.display();
            format!(
                "{path} holds a password and others than its owner may read it (mode {:04o}): chmod 600 {path}",
                mode & 0o7777
            )
        })
    }

    /// Checks the text of a configuration file; `path` is for messages and relative paths.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let mut config: Config = toml::from_str(text)
            .map_err(|source| ConfigError::Parse { path: path.to_owned(), source: Box::new(source) })?;
        config.check().map_err(|(setting, reason)| ConfigError::Value { path: path.to_owned(), setting, reason })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        if let Some(tls) = &mut config.tls {
            tls.certificate = folder.join(&tls.certificate);
            tls.key = folder.join(&tls.key);
        }
        let stores = config.column.iter_mut().map(|c| &mut c.store);
        for node in std::iter::once(&mut config.home).chain(&mut config.nodes).chain(stores) {
            node.sslrootcert = node.sslrootcert.take().map(|file| folder.join(file));
        }
        Ok(config)
    }

    fn servers(&self) -> impl Iterator<Item = &NodeConfig> {
        std::iter::once(&self.home).chain(&self.nodes).chain(self.column.iter().map(|c| &c.store))
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        let at_least_one = |setting, value: u64| match value {
            0 => Err((setting, "must be at least 1".to_owned())),
            _ => Ok(()),
        };
        at_least_one("listen", self.listen.len() as u64)?;
        self.check_doors()?;
        at_least_one("pool.size", self.pool.size.into())?;
        at_least_one("pool.shared_size", self.pool.shared_size.unwrap_or(1).into())?;
        at_least_one("pool.wait_timeout_ms", self.pool.wait_timeout_ms)?;
        at_least_one("pool.max_prepared", self.pool.max_prepared.into())?;
        at_least_one("limits.connections", self.limits.connections.into())?;
        at_least_one("limits.logins", self.limits.logins.into())?;
        for (setting, tcp) in [("pool.tcp", &self.pool.tcp), ("limits.tcp", &self.limits.tcp)] {
            if !tcp.is_possible() {
                let bounds = "must have keepalives_idle_s and keepalives_interval_s from 1 to 32767, keepalives_count from 1 to 127";
                return Err((setting, bounds.to_owned()));
            }
        }
        at_least_one("limits.prepared_bytes_per_session", self.limits.prepared_bytes_per_session)?;
        at_least_one("limits.prepared_bytes", self.limits.prepared_bytes)?;
        if self.limits.statement_bytes < 64 << 20 {
            return Err(("limits.statement_bytes", "must be at least 67108864".to_owned()));
        }
        if self.limits.client_message_bytes < 4 << 20 {
            return Err(("limits.client_message_bytes", "must be at least 4194304".to_owned()));
        }
        at_least_one("limits.row_bytes_per_session", self.limits.row_bytes_per_session)?;
        at_least_one("limits.row_bytes", self.limits.row_bytes)?;
        at_least_one("limits.login_timeout_s", self.limits.login_timeout_s)?;
        if !(1..=SHARDS_MAX).contains(&self.shards) {
            return Err(("shards", format!("must be from 1 to {SHARDS_MAX}, and is {}", self.shards)));
        }
        // PostgreSQL's own bounds: a StartupMessage fits 10 000 bytes, no message exceeds 1 GiB.
        if !(10_000..=1 << 30).contains(&self.limits.message_bytes_max) {
            return Err(("limits.message_bytes_max", "must be from 10000 to 1073741824".to_owned()));
        }
        let mut seen = std::collections::HashSet::new();
        for node in std::iter::once(&self.home).chain(&self.nodes) {
            if !seen.insert((&node.host, node.port)) {
                return Err(("nodes", format!("has {}:{} twice", node.host, node.port)));
            }
        }
        let mut seen = std::collections::HashSet::new();
        if let Some(twice) = self.column.iter().find(|c| !seen.insert(&c.node)) {
            return Err(("column", format!("has two stores for node {}", twice.node)));
        }
        Ok(())
    }
}

impl Config {
    /// What asks nobody who he is stays on this machine, unless it is said that it need not.
    fn check_doors(&self) -> Result<(), (&'static str, String)> {
        let reached = |address: &&SocketAddr| !address.ip().is_loopback();
        if let Some(address) = self.listen.iter().find(reached)
            && self.auth == Auth::Trust
            && !self.trust_anyone
        {
            let why = format!(
                "is \"trust\", and {address} can be reached from other machines: whoever reaches it is whatever role he says, \
                 superusers included; use auth = \"scram\", listen on 127.0.0.1, or set trust_anyone = true"
            );
            return Err(("auth", why));
        }
        if let Some(address) = self.metrics.iter().find(reached)
            && !self.metrics_anyone
        {
            let why = format!(
                "is {address}, which can be reached from other machines, and the page tells anyone of users and nodes; \
                 use 127.0.0.1, or set metrics_anyone = true"
            );
            return Err(("metrics", why));
        }
        Ok(())
    }
}

/// A node that is a cluster of Patroni's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LedByPatroni {
    conninfo: String,
    patroni: Vec<String>,
}

impl<'de> Deserialize<'de> for NodeConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = NodeConfig;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(
                    "a connection string such as \"host=10.0.0.5 port=5432 dbname=app user=app\", \
                     or { conninfo = \"…\", patroni = [\"http://10.0.0.5:8008\"] }",
                )
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<NodeConfig, E> {
                NodeConfig::from_str(text).map_err(E::custom)
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<NodeConfig, A::Error> {
                let led = LedByPatroni::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                let node = NodeConfig::from_str(&led.conninfo).and_then(|node| node.led_by_patroni(&led.patroni));
                node.map_err(serde::de::Error::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests;
