//! `herd status`: of a local herd what runs (`local/status.rs`), and of each node in the catalog what it says of itself.
//!
//! Home is asked which nodes there are, or a router; then each node, by psql, all at once. It only looks.

use std::process::Command;

use serde::Deserialize;

use crate::dump::Error;
use crate::dump::program::{psql, run};
use crate::dump::server::Node;
use crate::local::{self, NodeStatus, RouterStatus, Status, Target};

const NODES: &str = "SELECT coalesce(jsonb_agg(to_jsonb(n) - 'added_at' ORDER BY n.id), '[]') FROM herd.node n";

const STATE: &str = "SELECT jsonb_build_object('version', current_setting('server_version'), 'in_recovery', pg_is_in_recovery(), \
    'prepared', (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, 'herd_')), \
    'bytes', pg_database_size(current_database()))";

/// A server that does not answer by then is taken for dead.
const CONNECT_SECONDS: &str = "4";
const ANSWER: &str = "-c statement_timeout=4s";

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
        },
    };
    let asked = match target {
        Target::Url(url) => url.clone(),
        Target::Dir(_) => match status.nodes.first() {
            Some(home) if home.up => format!("postgresql://postgres@127.0.0.1:{}/postgres", home.port),
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
    let said: Vec<Option<Said>> = std::thread::scope(|scope| {
        let asking: Vec<_> =
            nodes.iter().map(|node| scope.spawn(|| ask(&node.conninfo(&asked, &[]), STATE).ok())).collect();
        asking.into_iter().map(|one| one.join().ok().flatten()).collect()
    });
    for (node, said) in nodes.iter().zip(said) {
        enter(&mut status, node, said);
    }
    status.up = status.router.up && status.nodes.iter().all(|node| node.up);
    Ok(status)
}

fn enter(status: &mut Status, node: &Node, said: Option<Said>) {
    let here = status.nodes.iter().position(|n| n.data.is_some() && n.host == node.host && n.port == node.port);
    let at = here.unwrap_or_else(|| {
        status.nodes.push(NodeStatus {
            name: node.name.clone(),
            up: said.is_some(),
            pid: None,
            host: node.host.clone(),
            port: node.port,
            version: None,
            in_recovery: None,
            prepared: None,
            bytes: None,
            data: None,
        });
        status.nodes.len() - 1
    });
    if let (Some(entry), Some(said)) = (status.nodes.get_mut(at), said) {
        entry.version = Some(said.version);
        (entry.in_recovery, entry.prepared, entry.bytes) =
            (Some(said.in_recovery), Some(said.prepared), Some(said.bytes));
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
            name: format!("node{port}"),
            up: true,
            pid: Some(1),
            host: "127.0.0.1".into(),
            port,
            version: None,
            in_recovery: None,
            prepared: None,
            bytes: None,
            data: Some("x".into()),
        };
        let router = RouterStatus { up: true, pid: Some(2), port: Some(6500), metrics: None };
        let mut status = Status {
            up: true,
            url: String::new(),
            dir: Some("x".into()),
            shards: Some(8),
            router,
            nodes: vec![local(1), local(2)],
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
        enter(&mut status, &node("home", "127.0.0.1", 1), said());
        enter(&mut status, &node("node3", "10.0.0.3", 2), None);
        let shown: Vec<_> = status.nodes.iter().map(|n| (n.name.as_str(), n.up, n.prepared)).collect();
        assert_eq!(shown, [("node1", true, Some(3)), ("node2", true, None), ("node3", false, None)]);
        let text = status.to_string();
        assert!(text.contains("PostgreSQL 18.6  2 MiB  3 prepared  x") && text.contains("on 10.0.0.3"), "{text}");
    }
}
