//! What Patroni says of a cluster, by its REST API: who its members are and which role each has.
//!
//! It changes nothing but settings, and starts nothing; the router asks by itself who leads (`pool/src/patroni.rs`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::http;

/// A member of a cluster. What is not told is empty, or 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Member {
    pub name: String,
    /// Patroni's word: `leader`, `sync_standby`, `replica`.
    pub role: String,
    /// `running`, or of a standby `streaming`, when it is well.
    pub state: String,
    /// Where its PostgreSQL is reached.
    pub host: String,
    pub port: u16,
}

impl Member {
    /// Its PostgreSQL takes writes. `master` is the word of Patroni 3.
    pub fn leads(&self) -> bool {
        matches!(self.role.as_str(), "leader" | "master") && self.state == "running"
    }

    /// What a commit is acknowledged for is on it.
    pub fn is_sync_standby(&self) -> bool {
        self.role == "sync_standby" && matches!(self.state.as_str(), "running" | "streaming")
    }

    /// The role in the words of `herd status`.
    pub fn role_shown(&self) -> String {
        match self.role.as_str() {
            "leader" | "master" => "leader".to_owned(),
            "replica" => "standby".to_owned(),
            other => other.replace('_', " "),
        }
    }
}

/// The members, as the first of these REST APIs (`http://host:port`) tells that answers. None: no one does.
pub fn members(urls: &[String]) -> Vec<Member> {
    let said = urls.iter().find_map(|url| http::get(address(url), "/cluster").ok());
    said.map(|body| members_of(&body)).unwrap_or_default()
}

fn members_of(body: &[u8]) -> Vec<Member> {
    #[derive(Deserialize)]
    struct Cluster {
        members: Vec<Member>,
    }
    serde_json::from_slice(body).map(|cluster: Cluster| cluster.members).unwrap_or_default()
}

/// Gives all members these settings of PostgreSQL, where they have others. True: some had.
pub fn set_parameters(url: &str, wanted: &BTreeMap<String, String>) -> std::io::Result<bool> {
    let config: Value = serde_json::from_slice(&http::get(address(url), "/config")?)?;
    let has = |name: &String, value: &String| {
        let set = &config["postgresql"]["parameters"][name];
        set.as_str().map_or_else(|| set.to_string(), str::to_owned) == *value
    };
    if wanted.iter().all(|(name, value)| has(name, value)) {
        return Ok(false);
    }
    http::patch(address(url), "/config", &json!({"postgresql": {"parameters": wanted}}).to_string())?;
    Ok(true)
}

fn address(url: &str) -> &str {
    url.strip_prefix("http://").unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_their_roles_are_read() {
        let body = br#"{"members": [
            {"name": "a", "role": "leader", "state": "running", "host": "127.0.0.1", "port": 5432, "timeline": 1},
            {"name": "b", "role": "sync_standby", "state": "streaming", "host": "127.0.0.1", "port": 5433, "lag": 0},
            {"name": "c", "role": "replica", "state": "stopped"}], "scope": "x"}"#;
        let members = members_of(body);
        assert!(members[0].leads() && members[1].is_sync_standby() && !members[2].is_sync_standby());
        let shown: Vec<_> = members.iter().map(Member::role_shown).collect();
        assert_eq!(shown, ["leader", "sync standby", "standby"]);
        assert_eq!((members[1].port, members[2].port), (5433, 0));
        assert!(members_of(b"nothing").is_empty());
    }
}
