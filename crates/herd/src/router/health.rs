//! Which nodes the router can reach, as those find out who look every few seconds (`background.rs`): said once when a node goes, once when it is
//! back, and shown on the metrics page. Nothing is decided by it: statements find out for themselves.

use std::collections::BTreeMap;
use std::time::Instant;

use catalog::{Node, NodeId};
use parking_lot::Mutex;

/// Of each node that was looked at.
#[derive(Default)]
pub struct Health {
    nodes: Mutex<BTreeMap<NodeId, Seen>>,
}

struct Seen {
    name: String,
    /// Since when it can't be reached.
    away: Option<Instant>,
}

impl Health {
    /// A look at a node: it could be reached, or why not.
    pub fn seen(&self, node: &Node, error: Option<&str>) {
        let mut nodes = self.nodes.lock();
        let seen = nodes.entry(node.id).or_insert_with(|| Seen { name: node.name.clone(), away: None });
        match (error, seen.away) {
            (Some(error), None) => {
                seen.away = Some(Instant::now());
                tracing::warn!(node = node.name, host = node.host, port = node.port, error, "a node can't be reached");
            }
            (None, Some(since)) => {
                seen.away = None;
                tracing::info!(node = node.name, seconds = since.elapsed().as_secs(), "the node is back");
            }
            _ => {}
        }
    }

    /// Those that are no nodes any more are forgotten.
    pub fn keep(&self, is_node: impl Fn(NodeId) -> bool) {
        self.nodes.lock().retain(|id, _| is_node(*id));
    }

    /// For the metrics page, each with its name.
    pub fn up(&self) -> Vec<(String, bool)> {
        self.nodes.lock().values().map(|seen| (seen.name.clone(), seen.away.is_none())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_last_counts() {
        let node = |id| Node { id, name: format!("node{id}"), host: "h".into(), port: 1, database: "d".into() };
        let health = Health::default();
        health.seen(&node(1), None);
        health.seen(&node(2), Some("gone"));
        health.seen(&node(2), Some("gone"));
        assert_eq!(health.up(), [("node1".to_owned(), true), ("node2".to_owned(), false)]);
        health.seen(&node(2), None);
        health.keep(|id| id == 2);
        assert_eq!(health.up(), [("node2".to_owned(), true)]);
    }
}
