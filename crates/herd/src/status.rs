//! `herd status`: of a local herd what runs (`local/status.rs`), and of each node in the catalog what it says of itself.
//!
//! Home is asked which nodes there are, or a router, which knows the stores of column copies, too; then each node, and each host of a node that has several, by psql, all
//! at once; which role a host has, Patroni where it leads. It only looks.

use std::process::Command;

use serde::Deserialize;

use crate::dump::Error;
use crate::dump::program::{psql, run};
use crate::dump::server::Node;
use crate::local::{self, DOWN, MemberStatus, NodeStatus, RouterStatus, Status, StoreStatus, Target};
use crate::patroni;

const NODES: &str = "SELECT coalesce(jsonb_agg(to_jsonb(n) - 'added_at' ORDER BY n.id), '[]') FROM herd.node n";

const STATE: &str = "SELECT jsonb_build_object('version', current_setting('server_version'), 'in_recovery', pg_is_in_recovery(), \
    'prepared', (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, 'herd_')), \
    'bytes', pg_database_size(current_database()))";

/// A server that does not answer by then is taken for dead.
const CONNECT_SECONDS: &str = "4";
const ANSWER: &str = "-c statement_timeout=4s";

const STORES: &str = "SELECT coalesce(jsonb_agg(to_jsonb(s) || jsonb_build_object('lag_ms', \
    (extract(epoch FROM s.lag) * 1000)::bigint)), '[]') FROM herd.column_stores s";

/// What a router says of a store.
#[derive(Deserialize)]
struct Store {
    node: String,
    host: String,
    port: u16,
    state: String,
    why: Option<String>,
    copies: Option<u64>,
    ready: Option<u64>,
    lag_bytes: Option<u64>,
    lag_ms: Option<u64>,
    file_bytes: Option<u64>,
}

/// What a node says of itself.
#[derive(Deserialize)]
struct Said {
    version: String,
    in_recovery: bool,
    prepared: u64,
    bytes: u64,
}

/// What of a herd is up: of a local one, or of the one that a router serves.
pub fn of(target: &Target) -> Result<Status, Error> {
    let mut status = match target {
        Target::Dir(dir) => local::status(dir)?,
        Target::Url(url) => Status {
            up: true,
            url: crate::dump::program::without_password(url),
            dir: None,
            shards: None,
            router: RouterStatus { up: true, pid: None, port: None, metrics: None },
            nodes: Vec::new(),
            stores: Vec::new(),
            etcd: Vec::new(),
            watch: None,
        },
    };
    let (asked, router) = match target {
        Target::Url(url) => (url.clone(), url.clone()),
        Target::Dir(_) => match status.nodes.first() {
            Some(home) if home.up => {
                (format!("postgresql://postgres@127.0.0.1:{}/postgres", home.port), status.url.clone())
            }
            // Nobody can tell which nodes there are besides.
            _ => return Ok(status),
        },
    };
    let nodes: Vec<Node> = match ask(&asked, NODES) {
        Ok(nodes) => nodes,
        // What a login shows is known all the same.
        Err(_) if status.dir.is_some() => return Ok(status),
        Err(e) => return Err(e),
    };
    let said = in_parallel(&nodes, |node| (say(node, &asked), members(node, &asked)));
    for (node, (said, members)) in nodes.iter().zip(said) {
        enter(&mut status, node, said, members);
    }
    if status.router.up {
        // It may log clients in and have no home that answers, as in a failover: that is told, with all else.
        match ask::<Vec<Store>>(&router, STORES) {
            Ok(stores) => stores.into_iter().for_each(|store| enter_store(&mut status, store, &nodes)),
            Err(_) => status.router.up = false,
        }
    }
    status.sum_up();
    Ok(status)
}

/// What each answers, asked all at once.
fn in_parallel<T: Sync, A: Send>(all: &[T], ask: impl Fn(&T) -> A + Sync) -> Vec<A> {
    std::thread::scope(|scope| {
        let asking: Vec<_> = all.iter().map(|one| scope.spawn(|| ask(one))).collect();
        let answer = |one: std::thread::ScopedJoinHandle<A>| match one.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        asking.into_iter().map(answer).collect()
    })
}

fn say(node: &Node, asked: &str) -> Option<Said> {
    ask(&node.conninfo(asked, &[]), STATE).ok()
}

/// The hosts of a node that has several.
fn members(node: &Node, asked: &str) -> Vec<MemberStatus> {
    let hosts = node.hosts();
    if hosts.len() < 2 {
        return Vec::new();
    }
    let listed = patroni::members(&node.patroni());
    let status = |(host, said): (&Node, Option<Said>)| {
        let listed = listed.iter().find(|one| one.host == host.host && one.port == host.port);
        let role = match (&said, listed) {
            (None, _) => DOWN.to_owned(),
            (Some(_), Some(one)) => one.role_shown(),
            (Some(said), None) => if said.in_recovery { "standby" } else { "primary" }.to_owned(),
        };
        let name = listed.map_or_else(|| format!("{}:{}", host.host, host.port), |one| one.name.clone());
        let (up, pid, patroni_pid, data) = (said.is_some(), None, None, None);
        MemberStatus { name, up, role, pid, patroni_pid, host: host.host.clone(), port: host.port, data }
    };
    hosts.iter().zip(in_parallel(&hosts, |host| say(host, asked))).map(status).collect()
}

fn enter(status: &mut Status, node: &Node, said: Option<Said>, members: Vec<MemberStatus>) {
    let is_local = |n: &NodeStatus| n.data.is_some() && n.port == node.port || !n.members.is_empty();
    let here = status.nodes.iter().position(|n| is_local(n) && n.host == node.host);
    let at = here.unwrap_or_else(|| {
        let new = NodeStatus::new(node.name.clone(), node.host.clone(), node.port);
        status.nodes.push(NodeStatus { up: said.is_some(), members, ..new });
        status.nodes.len() - 1
    });
    if let (Some(entry), Some(said)) = (status.nodes.get_mut(at), said) {
        entry.version = Some(said.version);
        (entry.in_recovery, entry.prepared, entry.bytes) =
            (Some(said.in_recovery), Some(said.prepared), Some(said.bytes));
    }
}

/// One that the router knows is perhaps this herd's own, whose node has another name here than in the catalog.
fn enter_store(status: &mut Status, store: Store, nodes: &[Node]) {
    let of = nodes.iter().find(|node| node.name == store.node);
    let shown = of.and_then(|of| status.nodes.iter().find(|node| node.host == of.host && node.port == of.port));
    let (node, is_of_no_node) = (shown.map_or(store.node, |node| node.name.clone()), of.is_none());
    let here = status.stores.iter().position(|known| known.host == store.host && known.port == store.port);
    let pid = here.and_then(|at| status.stores[at].pid);
    let entered = StoreStatus {
        node,
        up: store.state != "unreachable" && !is_of_no_node,
        pid,
        host: store.host,
        port: store.port,
        why: store.why.or((store.state == "busy").then(|| "busy".to_owned())),
        copies: store.copies,
        ready: store.ready,
        lag_bytes: store.lag_bytes,
        lag_ms: store.lag_ms,
        bytes: store.file_bytes,
    };
    match here {
        Some(at) => status.stores[at] = entered,
        None => status.stores.push(entered),
    }
}

fn ask<T: serde::de::DeserializeOwned>(server: &str, sql: &str) -> Result<T, Error> {
    let mut command: Command = psql(server);
    command.env("PGCONNECT_TIMEOUT", CONNECT_SECONDS).env("PGOPTIONS", ANSWER).args(["-c", sql]);
    let said = run("psql", server, command, |_| {})?;
    serde_json::from_str(&said)
        .map_err(|_| Error::Unreadable { server: crate::dump::program::without_password(server), said: said.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_the_catalog_join_those_of_the_directory() {
        let local = |port| NodeStatus {
            up: true,
            pid: Some(1),
            data: Some("x".into()),
            ..NodeStatus::new(format!("node{port}"), "127.0.0.1".into(), port)
        };
        let router = RouterStatus { up: true, pid: Some(2), port: Some(6500), metrics: None };
        let mut status = Status {
            up: true,
            url: String::new(),
            dir: Some("x".into()),
            shards: Some(8),
            router,
            nodes: vec![local(1), local(2)],
            stores: Vec::new(),
            etcd: Vec::new(),
            watch: None,
        };
        let node = |name: &str, host: &str, port| Node {
            id: 1,
            name: name.into(),
            host: host.into(),
            port,
            database: "postgres".into(),
            is_home: false,
        };
        let said = || Some(Said { version: "18.6".into(), in_recovery: false, prepared: 3, bytes: 1 << 21 });
        enter(&mut status, &node("home", "127.0.0.1", 1), said(), Vec::new());
        enter(&mut status, &node("node3", "10.0.0.3", 2), None, Vec::new());
        let shown: Vec<_> = status.nodes.iter().map(|n| (n.name.as_str(), n.up, n.prepared)).collect();
        assert_eq!(shown, [("node1", true, Some(3)), ("node2", true, None), ("node3", false, None)]);
        let text = status.to_string();
        assert!(text.contains("PostgreSQL 18.6  2 MiB  3 prepared  x") && text.contains("on 10.0.0.3"), "{text}");

        // Home's store is this herd's own; that of node3 is known to the router alone; one is of a node that has left.
        let nodes = [node("home", "127.0.0.1", 1), node("node3", "10.0.0.3", 2)];
        let own = StoreStatus {
            node: "node1".into(),
            host: "127.0.0.1".into(),
            port: 7,
            pid: Some(9),
            ..StoreStatus::default()
        };
        status.stores.push(own);
        for (of, host, port, state) in
            [("home", "127.0.0.1", 7, "up"), ("node3", "10.0.0.3", 8, "unreachable"), ("gone", "10.0.0.4", 8, "up")]
        {
            let said = serde_json::json!({"node": of, "host": host, "port": port, "state": state, "why": null,
                "copies": 2, "ready": 1, "lag_bytes": 0, "lag_ms": 45, "file_bytes": 1 << 21});
            enter_store(&mut status, serde_json::from_value(said).unwrap(), &nodes);
        }
        let shown: Vec<_> = status.stores.iter().map(|s| (s.node.as_str(), s.up, s.pid)).collect();
        assert_eq!(shown, [("node1", true, Some(9)), ("node3", false, None), ("gone", false, None)]);
        let text = status.to_string();
        assert!(text.contains("1 of 2 copies ready  2 MiB  45 ms behind at most  on 127.0.0.1"), "{text}");
        assert!(text.contains("store of gone"), "{text}");
        status.nodes.iter_mut().for_each(|node| node.up = true);
        status.sum_up();
        assert!(!status.up);
        status.stores.truncate(1);
        status.sum_up();
        assert!(status.up);
    }
}
