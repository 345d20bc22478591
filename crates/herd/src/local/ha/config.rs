//! What Patroni is told: `patroni.yml` of each member, and in it what a new cluster has in common.
//!
//! PostgreSQL's settings are those of any local herd (`node_make.rs`). YAML can be written as JSON.

use serde_json::{Map, Value, json};

use super::etcd;
use super::member::Member;
use crate::local::account::{self, Account};
use crate::local::binaries::Binaries;
use crate::local::error::Result;
use crate::local::files::{set_mode, write_whole};
use crate::local::node_make;
use crate::local::state::State;

/// Seconds. Patroni allows no shorter one: so long after its holder's last word the leader's key is free.
const TTL: u64 = 20;
/// Seconds between its looks at PostgreSQL.
const LOOP_WAIT: u64 = 1;
/// Seconds. `LOOP_WAIT` and twice this are at most `TTL`; the longer it is, the slower a machine may be.
const RETRY_TIMEOUT: u64 = 9;

/// Writes it anew at each start; the user may read it.
pub fn write(member: &Member, state: &State, binaries: &Binaries, account: Option<&Account>) -> Result<()> {
    let json = serde_json::to_string_pretty(&of_member(member, state, binaries))
        .unwrap_or_else(|error| unreachable!("plain data: {error}"));
    write_whole(&member.config, &format!("# Written by `herd up` at each start.\n{json}\n"))?;
    set_mode(&member.config, 0o600)?;
    account::give(account, &member.config)
}

fn of_member(member: &Member, state: &State, binaries: &Binaries) -> Value {
    let rest = format!("127.0.0.1:{}", member.rest_port);
    let postgres = format!("127.0.0.1:{}", member.node.port);
    let superuser = json!({"username": "postgres"});
    json!({
        "scope": format!("node{}", member.node.number),
        "namespace": "/pgherd/",
        "name": member.name(),
        "log": {"deduplicate_heartbeat_logs": true},
        "restapi": {"listen": rest, "connect_address": rest},
        "etcd3": {"hosts": etcd::hosts(state)},
        "watchdog": {"mode": "off"},
        "bootstrap": {"dcs": shared(state), "initdb": initdb(binaries)},
        "postgresql": {
            "listen": postgres,
            "connect_address": postgres,
            "data_dir": member.folder.join("data"),
            "bin_dir": binaries.bin,
            "pgpass": member.folder.join("pgpass"),
            "authentication": {"superuser": superuser, "replication": superuser},
            // A socket's path has a length limit that a herd directory may exceed.
            "parameters": {"unix_socket_directories": ""},
            "basebackup": [{"checkpoint": "fast"}],
        },
    })
}

/// What etcd has of a node, from when it is first made; Patroni's REST API changes it.
fn shared(state: &State) -> Value {
    json!({
        "ttl": TTL,
        "loop_wait": LOOP_WAIT,
        "retry_timeout": RETRY_TIMEOUT,
        // A primary that has crashed is not waited for.
        "primary_start_timeout": 0,
        // What was acknowledged is on the standby.
        "synchronous_mode": true,
        // Those of subscribers are not Patroni's to drop.
        "ignore_slots": [{"type": "logical"}],
        "postgresql": {"use_pg_rewind": true, "parameters": node_make::parameters(&state.settings)},
    })
}

fn initdb(binaries: &Binaries) -> Vec<Value> {
    let option = |(name, value): (&str, &str)| Value::Object(Map::from_iter([(name.to_owned(), value.into())]));
    node_make::initdb_options(binaries.major, node_make::LOCALE).into_iter().map(option).collect()
}
