//! Whether a server can be a node beside home: that it has what home has where answers, or whether a statement can be run at all, hang on
//! it. How it reads text is another file's (`likeness.rs`).
//!
//! The rule. What a session may set is home's on every connection, whatever a node's configuration, role or database say
//! (`pool/src/at_login.rs`), and is not looked at. What is fixed when a server is built decides what it takes, and is the same on all
//! nodes. Of what bounds a server, a node has as much as home, or statements that run there fail here: that is told. It does not know
//! how a server becomes a node.

use std::collections::HashMap;

use pool::{Conn, PoolError};
use wire::{ErrorFields, sqlstate};

use super::likeness;
use crate::error::{ExecError, Result};

/// Fixed when PostgreSQL is built: how long names and rows are, how much an index or a function takes.
const BUILT: [&str; 4] = ["block_size", "max_function_args", "max_identifier_length", "max_index_keys"];

/// What bounds a server, and what fails where there is less of it.
const BOUNDS: [(&str, &str); 5] = [
    ("max_connections", "Clients that the others take are turned away by this one (53300)."),
    (
        "max_prepared_transactions",
        "Commits over several nodes that home takes fail when this one's are used up (53200).",
    ),
    ("max_locks_per_transaction", "Statements over many partitions run out of shared memory there first (53200)."),
    ("max_replication_slots", "Fewer shards can be moved from it at once."),
    ("max_wal_senders", "Fewer shards can be moved from it at once."),
];

const SETTINGS: &str = "SELECT name, setting FROM pg_catalog.pg_settings \
    UNION ALL SELECT 'in recovery', pg_catalog.pg_is_in_recovery()::pg_catalog.text";

/// By extension: the version that is there, or that CREATE EXTENSION would make.
const EXTENSIONS: &str = "SELECT a.name, coalesce(a.installed_version, a.default_version) FROM pg_catalog.pg_available_extensions a \
    UNION SELECT e.extname, e.extversion FROM pg_catalog.pg_extension e";
const EXTENSIONS_OF_HOME: &str = "SELECT extname, extversion FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.<>) 'plpgsql' ORDER BY 1";

/// Something to know of a server: a sentence, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    pub message: String,
    pub hint: String,
}

impl Remark {
    fn new(message: String, hint: impl Into<String>) -> Remark {
        Remark { message, hint: hint.into() }
    }

    /// As a client is told it.
    pub fn warning(&self) -> ErrorFields {
        ErrorFields::with_severity("WARNING", sqlstate::WARNING, &*self.message).hint(&*self.hint)
    }
}

/// What is asked of a server.
#[derive(Default)]
struct Facts {
    settings: HashMap<String, String>,
    extensions: Vec<(String, String)>,
}

impl Facts {
    async fn ask(conn: &mut Conn, extensions: &str) -> std::result::Result<Facts, PoolError> {
        let settings = pairs(conn.simple(SETTINGS).await?).into_iter().collect();
        Ok(Facts { settings, extensions: pairs(conn.simple(extensions).await?) })
    }

    fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("unknown", String::as_str)
    }

    fn number(&self, name: &str) -> i64 {
        self.setting(name).parse().unwrap_or(0)
    }

    fn major(&self) -> i64 {
        self.number("server_version_num") / 10_000
    }
}

fn pairs(rows: Vec<catalog::Row>) -> Vec<(String, String)> {
    let pair = |row: catalog::Row| {
        let mut values = row.into_iter();
        Some((values.next()??, values.next()??))
    };
    rows.into_iter().filter_map(pair).collect()
}

/// Refuses a server that can't be a node, with all reasons; what else is to be known of one that can.
pub async fn can_join(home: &mut Conn, node: &mut Conn) -> Result<Vec<Remark>> {
    let server = node.target().to_string();
    let of_home = Facts::ask(home, EXTENSIONS_OF_HOME).await?;
    let of_node = Facts::ask(node, EXTENSIONS).await?;
    let refused = refusals(&of_home, &of_node);
    if !refused.is_empty() {
        let said: Vec<&str> = refused.iter().map(|r| r.message.as_str()).collect();
        let hints: Vec<&str> = refused.iter().map(|r| r.hint.as_str()).collect();
        let message = format!("server {server} cannot be a node: {}", said.join("; "));
        return Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(&hints.join(" ")));
    }
    let version = likeness::is_like_home(home, node).await?;
    let remarks = remarks(&of_home, &of_node, version);
    Ok(remarks.into_iter().map(|r| Remark { message: format!("node {server}: {}", r.message), ..r }).collect())
}

fn differs(name: &str, home: &Facts, node: &Facts) -> String {
    format!("{name} is {}, on home {}", node.setting(name), home.setting(name))
}

fn set(name: &str, value: &str) -> String {
    format!("ALTER SYSTEM SET {name} = {value} on it, and restart it.")
}

fn refusals(home: &Facts, node: &Facts) -> Vec<Remark> {
    let mut found = Vec::new();
    if node.setting("in recovery") == "true" {
        found.push(Remark::new("it is in recovery".into(), "It is a standby: name its primary."));
    }
    for name in BUILT.iter().filter(|name| home.setting(name) != node.setting(name)) {
        found.push(Remark::new(differs(name, home, node), "Use a PostgreSQL that is built as home's is."));
    }
    let prepared = "max_prepared_transactions";
    if node.number(prepared) == 0 && home.number(prepared) > 0 {
        found.push(Remark::new(differs(prepared, home, node), set(prepared, home.setting(prepared))));
    }
    for (name, version) in &home.extensions {
        if !node.extensions.iter().any(|(there, _)| there == name) {
            let message = format!("extension \"{name}\" is not available, home has version {version}");
            let hint = format!("Install the package that has \"{name}\" for PostgreSQL {} there.", node.major());
            found.push(Remark::new(message, hint));
        }
    }
    found
}

fn remarks(home: &Facts, node: &Facts, collations: Option<String>) -> Vec<Remark> {
    let mut found = Vec::new();
    if let Some(versions) = collations {
        let hint = "Text may be ordered in another way there. Use the same operating system's libraries on both.";
        found.push(Remark::new(format!("the version of its collations is {versions}"), hint));
    }
    if home.major() != node.major() {
        let message =
            format!("it is PostgreSQL {}, home is {}", node.setting("server_version"), home.setting("server_version"));
        let hint = "What the older one does not know fails there; other answers can differ as between these versions. Use one version.";
        found.push(Remark::new(message, hint));
    }
    for (name, fails) in BOUNDS.iter().filter(|(name, _)| node.number(name) < home.number(name)) {
        let hint = format!("{fails} {}", set(name, home.setting(name)));
        found.push(Remark::new(differs(name, home, node), hint));
    }
    if home.number("max_prepared_transactions") == 0 {
        let hint = "Transactions that write to several nodes will be refused, unless herd.two_phase is off. Set it on all nodes, and restart them.";
        found.push(Remark::new("max_prepared_transactions is 0 on home".into(), hint));
    }
    if node.setting("wal_level") != "logical" {
        let hint = format!("Shards can be moved to it, not away from it. {}", set("wal_level", "logical"));
        found.push(Remark::new(differs("wal_level", home, node), hint));
    }
    for (name, version) in &home.extensions {
        if let Some((_, there)) = node.extensions.iter().find(|(there, _)| there == name).filter(|(_, v)| v != version)
        {
            let message = format!("extension \"{name}\" is version {there}, on home {version}");
            found.push(Remark::new(message, "ALTER EXTENSION … UPDATE brings the older one to the other's version."));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(settings: &[(&str, &str)], extensions: &[(&str, &str)]) -> Facts {
        let usual = [
            ("server_version_num", "180006"),
            ("server_version", "18.6"),
            ("wal_level", "logical"),
            ("max_connections", "100"),
            ("max_prepared_transactions", "100"),
            ("in recovery", "false"),
        ];
        let pair = |(a, b): &(&str, &str)| (a.to_string(), b.to_string());
        Facts {
            settings: usual.iter().chain(settings).map(pair).collect(),
            extensions: extensions.iter().map(pair).collect(),
        }
    }

    fn said(remarks: Vec<Remark>) -> Vec<String> {
        remarks.into_iter().map(|r| r.message).collect()
    }

    #[test]
    fn a_server_like_home_is_fit() {
        let (home, node) = (facts(&[], &[("hstore", "1.8")]), facts(&[], &[("hstore", "1.8"), ("ltree", "1.3")]));
        assert_eq!((refusals(&home, &node), remarks(&home, &node, None)), (vec![], vec![]));
        let more = facts(&[("max_connections", "1000")], &[("hstore", "1.8")]);
        assert_eq!(remarks(&home, &more, None), []);
    }

    #[test]
    fn what_cannot_be_is_refused_all_at_once() {
        let home = facts(&[("block_size", "8192")], &[("hstore", "1.8")]);
        let node = facts(&[("block_size", "32768"), ("max_prepared_transactions", "0"), ("in recovery", "true")], &[]);
        assert_eq!(
            said(refusals(&home, &node)),
            [
                "it is in recovery",
                "block_size is 32768, on home 8192",
                "max_prepared_transactions is 0, on home 100",
                "extension \"hstore\" is not available, home has version 1.8",
            ]
        );
        let without = facts(&[("max_prepared_transactions", "0")], &[]);
        assert_eq!(refusals(&without, &without), []);
        assert_eq!(said(remarks(&without, &without, None)), ["max_prepared_transactions is 0 on home"]);
    }

    #[test]
    fn what_is_less_than_homes_is_told() {
        let home = facts(&[], &[("hstore", "1.8")]);
        let less = [
            ("max_connections", "20"),
            ("wal_level", "replica"),
            ("server_version_num", "150018"),
            ("server_version", "15.18"),
        ];
        assert_eq!(
            said(remarks(&home, &facts(&less, &[("hstore", "1.7")]), Some("1, on home 2".into()))),
            [
                "the version of its collations is 1, on home 2",
                "it is PostgreSQL 15.18, home is 18.6",
                "max_connections is 20, on home 100",
                "wal_level is replica, on home logical",
                "extension \"hstore\" is version 1.7, on home 1.8",
            ]
        );
    }
}
