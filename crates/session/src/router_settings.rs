//! The settings that routers have of their own, and no node knows, or that they keep from nodes (`idle.rs`): their names, values and defaults. They are part of the
//! transaction as PostgreSQL's are. It does not know what they do.

use std::collections::BTreeMap;

use exec::{Choice, ExecError, Moves};
use pool::Settings;
use txn::Cuts;
use wire::sqlstate;

use crate::column_use;
use crate::encoding;
use crate::idle;
use crate::read_from;
use crate::session::Result;
use crate::set::Pending;

/// Settings of the router itself, which no node knows.
#[derive(Clone, Debug, Default)]
pub struct RouterSettings {
    /// As they were when the transaction began.
    lasting: BTreeMap<&'static str, String>,
    /// As they are.
    values: BTreeMap<&'static str, String>,
}

/// What `herd.snapshot` is unless it is set: for what reads repeatably.
const SNAPSHOT: &str = "repeatable";

/// Whether rows of tables that are not colocated go to all nodes of the largest.
const BROADCAST: &str = "herd.broadcast";
/// Whether rows of such tables go to nodes by what they are joined by.
const SHUFFLE: &str = "herd.shuffle";

/// Whether the rows of such tables come home by the values of others that are read before.
const SEMIJOIN: &str = "herd.semijoin";

/// Name as SHOW tells it, the same under other products' names, and the default.
const ROUTER_SETTINGS: [(&str, &[&str], &str); 22] = [
    ("herd.two_phase", &[], "on"),
    ("herd.snapshot", &[], SNAPSHOT),
    ("herd.coalesce", &[], "on"),
    ("herd.multiplex", &[], "on"),
    (BROADCAST, &[], "auto"),
    (SHUFFLE, &[], "auto"),
    (SEMIJOIN, &[], "auto"),
    ("herd.bulk_load", &["yb_disable_transactional_writes"], "off"),
    ("herd.upsert", &["yb_enable_upsert_mode"], "off"),
    ("herd.batch_rows", &["ysql_session_max_batch_size"], "0"),
    ("herd.in_flight_rows", &["ysql_max_in_flight_ops"], "0"),
    (column_use::WAY, &[], "auto"),
    (column_use::FRESHNESS, &[], column_use::STRICT),
    (column_use::WAIT, &[], "1s"),
    (column_use::FLOAT_SUMS, &[], "off"),
    (read_from::WAY, &[], read_from::PRIMARY),
    (read_from::STALENESS, &[], "5s"),
    ("citus.shard_count", &["herd.shard_count"], ""),
    ("citus.shard_replication_factor", &[], "1"),
    (idle::IN_TRANSACTION, &[], "0"),
    (idle::SESSION, &[], "0"),
    (encoding::NAME, &[], encoding::UTF8),
];

impl RouterSettings {
    /// The name of a setting of the router's by this or another name of it; `None`: it is none of them.
    pub fn canonical(name: &str) -> Option<&'static str> {
        ROUTER_SETTINGS.iter().find(|(n, aliases, _)| *n == name || aliases.contains(&name)).map(|(n, _, _)| *n)
    }

    /// All of them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ROUTER_SETTINGS.iter().map(|(name, ..)| *name)
    }

    /// The value, or the default; empty for what is no setting of the router's.
    pub fn get(&self, name: &str) -> &str {
        self.values.get(name).map_or_else(|| Self::default_of(name), String::as_str)
    }

    fn default_of(name: &str) -> &'static str {
        ROUTER_SETTINGS.iter().find(|(n, _, _)| *n == name).map_or("", |(_, _, d)| d)
    }

    /// What it was set to, if that is not the default.
    pub fn set_to(&self, name: &str) -> Option<String> {
        self.values.get(name).cloned()
    }

    /// What sees one snapshot of all nodes.
    pub fn cuts(&self) -> Cuts {
        match self.get("herd.snapshot") {
            SNAPSHOT => Cuts::Repeatable,
            _ if self.is_on("herd.snapshot") => Cuts::All,
            _ => Cuts::None,
        }
    }

    /// How rows of tables that are not colocated may move.
    pub fn moves(&self) -> Moves {
        let choice = |name| match self.get(name) {
            "on" => Choice::On,
            "off" => Choice::Off,
            _ => Choice::Auto,
        };
        Moves::new(choice(BROADCAST), choice(SHUFFLE), choice(SEMIJOIN))
    }

    /// Whether its value, or default, is one of the words for true; false for what is no setting of the router's.
    pub fn is_on(&self, name: &str) -> bool {
        matches!(self.get(name), "on" | "true" | "1" | "yes")
    }

    /// What a client asked for when it connected, and what its role has.
    pub fn of(startup: &Settings) -> Result<Self> {
        let mut own = Self::default();
        for (name, value) in startup.iter() {
            if let Some(name) = Self::canonical(name) {
                own.keep(name, Some(Self::spelled(name, value)?));
            }
        }
        own.follow(&[]);
        Ok(own)
    }

    /// For the rest of the session; `None`: the default, which takes no place.
    pub fn keep(&mut self, name: &'static str, value: Option<String>) {
        match value.filter(|value| value != Self::default_of(name)) {
            Some(value) => drop(self.lasting.insert(name, value)),
            None => drop(self.lasting.remove(name)),
        }
    }

    /// Until [`follow`](Self::follow) is called.
    pub fn use_now(&mut self, name: &'static str, value: String) {
        self.values.insert(name, value);
    }

    /// What holds with what the transaction has set so far.
    pub fn follow(&mut self, pending: &[Pending]) {
        self.values = self.lasting.clone();
        for p in pending {
            match (Self::canonical(&p.name), &p.value) {
                (Some(name), Some(value)) => drop(self.values.insert(name, value.clone())),
                (Some(name), None) => drop(self.values.remove(name)),
                (None, _) => {}
            }
        }
    }

    /// A value as SHOW tells it, if it is one.
    pub fn spelled(name: &str, value: &str) -> Result<String> {
        let invalid = || {
            ExecError::sql(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"{name}\": \"{value}\""),
            )
        };
        Ok(match name {
            "citus.shard_count" => match value.parse::<i32>() {
                Ok(n @ 1..=catalog::SHARDS_MAX) => n.to_string(),
                _ => return Err(invalid().hint(&format!("{name} goes from 1 to {}.", catalog::SHARDS_MAX))),
            },
            "citus.shard_replication_factor" => match value.parse::<i64>() {
                Ok(1) => value.to_string(),
                Err(_) => return Err(invalid()),
                Ok(_) => {
                    let message = "more than one copy of a shard is not supported";
                    return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
                        .hint("Replicate each node with PostgreSQL's own streaming replication."));
                }
            },
            "herd.batch_rows" | "herd.in_flight_rows" => match value.parse::<u32>() {
                Ok(n) => n.to_string(),
                Err(_) => return Err(invalid().hint(&format!("{name} is a number of rows, 0 or more."))),
            },
            read_from::WAY => read_from::spelled(value)?,
            // As home has spelled it.
            encoding::NAME => value.to_string(),
            idle::IN_TRANSACTION | idle::SESSION => idle::spelled(name, value)?,
            column_use::WAY | BROADCAST | SHUFFLE | SEMIJOIN if value.eq_ignore_ascii_case("auto") => {
                "auto".to_string()
            }
            column_use::FRESHNESS if value.eq_ignore_ascii_case(column_use::STRICT) => column_use::STRICT.to_string(),
            column_use::FRESHNESS | column_use::WAIT | read_from::STALENESS => idle::spelled(name, value)?,
            "herd.snapshot" if value.eq_ignore_ascii_case(SNAPSHOT) => SNAPSHOT.to_string(),
            _ => match value.to_ascii_lowercase().as_str() {
                "on" | "true" | "yes" | "1" => "on".to_string(),
                "off" | "false" | "no" | "0" => "off".to_string(),
                _ => return Err(invalid()),
            },
        })
    }
}
