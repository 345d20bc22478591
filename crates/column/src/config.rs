//! The configuration file: one table, `[column]`. It does not connect to anything.

use std::net::SocketAddr;
use std::path::PathBuf;

use pool::{Login, NodeTarget, Secret};
use serde::Deserialize;

use crate::conninfo::{self, ConninfoError};

/// What one store is told.
pub struct Config {
    pub node: NodeTarget,
    pub login: Login,
    /// Of its own: DuckDB's file and what it spills.
    pub directory: PathBuf,
    pub listen: SocketAddr,
    pub user: String,
    pub password: Option<String>,
    /// As DuckDB understands it: `1GB`.
    pub memory: String,
    pub threads: u16,
    /// The name of slot and publication.
    pub slot: String,
    pub wal_bytes_max: u64,
    /// What the node may keep in memory of the transactions that it decodes for the store, in units of 1024 bytes; the rest it writes to files and reads
    /// again.
    pub decoding_kb: u64,
    /// What answers that are kept may take; 0: none is.
    pub kept_bytes: usize,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    #[error("node: {0}")]
    Node(#[from] ConninfoError),
    #[error("{key}: {reason}")]
    Value { key: &'static str, reason: &'static str },
}

/// What PostgreSQL takes for `logical_decoding_work_mem`.
const DECODING_KB: std::ops::RangeInclusive<u64> = 64..=(1 << 30);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    column: Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    node: String,
    directory: PathBuf,
    listen: SocketAddr,
    #[serde(default = "user")]
    user: String,
    password: Option<String>,
    #[serde(default = "memory")]
    memory: String,
    #[serde(default = "threads")]
    threads: u16,
    #[serde(default = "slot")]
    slot: String,
    #[serde(default = "wal")]
    wal_bytes_max: String,
    #[serde(default = "decoding")]
    decoding_memory: String,
    #[serde(default = "kept")]
    kept_memory: String,
}

fn user() -> String {
    "herd".into()
}

fn memory() -> String {
    "1GB".into()
}

fn threads() -> u16 {
    2
}

fn slot() -> String {
    "herd_column".into()
}

fn wal() -> String {
    "4GB".into()
}

fn decoding() -> String {
    "256MB".into()
}

fn kept() -> String {
    "32MB".into()
}

impl Config {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        let Table {
            node,
            directory,
            listen,
            user,
            password,
            memory,
            threads,
            slot,
            wal_bytes_max,
            decoding_memory,
            kept_memory,
        } = toml::from_str::<File>(text)?.column;
        let wrong = |key, reason| Err(ConfigError::Value { key, reason });
        let (node, login) = conninfo::parse(&node)?;
        if !listen.ip().is_loopback() && password.is_none() {
            return wrong("listen", "without a password only an address of this machine's own (127.0.0.1) will do");
        }
        if password.as_deref() == Some("") {
            return wrong("password", "it is empty");
        }
        if bytes(&memory).is_none() {
            return wrong("memory", "write it as 512MB or 1GB");
        }
        if !(1..=256).contains(&threads) {
            return wrong("threads", "from 1 to 256");
        }
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if slot.is_empty() || slot.len() > 40 || !slot.chars().all(plain) {
            return wrong("slot", "1 to 40 of a-z, 0-9 and _");
        }
        let Some(wal_bytes_max) = bytes(&wal_bytes_max) else {
            return wrong("wal_bytes_max", "write it as 512MB or 4GB");
        };
        let decoding_kb = bytes(&decoding_memory).map(|bytes| bytes >> 10);
        let Some(decoding_kb) = decoding_kb.filter(|kb| DECODING_KB.contains(kb)) else {
            return wrong("decoding_memory", "from 64kB to 1TB, as 256MB");
        };
        let Some(kept_bytes) = kept_bytes(&kept_memory) else {
            return wrong("kept_memory", "write it as 32MB, or 0");
        };
        Ok(Config {
            node,
            login,
            directory,
            listen,
            user,
            password,
            memory,
            threads,
            slot,
            wal_bytes_max,
            decoding_kb,
            kept_bytes,
        })
    }

    /// The file is a secret.
    pub fn has_password(&self) -> bool {
        self.password.is_some() || !matches!(self.login.secret, Secret::None)
    }
}

/// The same, or `0`.
fn kept_bytes(text: &str) -> Option<usize> {
    if text == "0" { Some(0) } else { usize::try_from(bytes(text)?).ok() }
}

/// `4GB` → bytes, in units of 1024 as PostgreSQL's settings have them.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let unit = match &text[digits..] {
        "kB" | "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        "TB" => 40,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << unit).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(more: &str) -> Result<Config, ConfigError> {
        Config::parse(&format!("[column]\nnode = \"host=127.0.0.1 port=6501\"\ndirectory = \"/d\"\n{more}"))
    }

    #[test]
    fn defaults_and_refusals() {
        let config = parse("listen = \"127.0.0.1:6601\"").unwrap();
        assert_eq!((config.decoding_kb, config.kept_bytes), (256 << 10, 32 << 20));
        assert_eq!(parse("listen = \"127.0.0.1:6601\"\nkept_memory = \"0\"").unwrap().kept_bytes, 0);
        assert_eq!((&*config.user, &*config.slot, config.wal_bytes_max), ("herd", "herd_column", 4 << 30));
        assert!(parse("listen = \"0.0.0.0:6601\"\npassword = \"x\"").is_ok());
        for wrong in [
            "listen = \"0.0.0.0:6601\"",
            "listen = \"127.0.0.1:1\"\nslot = \"a b\"",
            "listen = \"127.0.0.1:1\"\nmemory = \"lots\"",
            "listen = \"127.0.0.1:1\"\nthreads = 0",
            "listen = \"127.0.0.1:1\"\ndecoding_memory = \"1kB\"",
            "listen = \"127.0.0.1:1\"\ndecoding_memory = \"1KB -c x=y\"",
            "listen = \"127.0.0.1:1\"\nkept_memory = \"some\"",
            "listen = \"127.0.0.1:1\"\nunknown = 0",
            "",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
