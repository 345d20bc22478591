//! What nodes answer while somebody looks (EXPLAIN ANALYZE): rows, bytes, and when the last of it had come. For everybody else it is one look
//! at whether somebody does. It does not know what is asked.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use catalog::{NodeId, Row};

tokio::task_local! {
    static LOOKING: RefCell<Looking>;
}

struct Looking {
    since: Instant,
    nodes: BTreeMap<NodeId, Answered>,
}

/// What has come to the router from one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    pub rows: u64,
    /// Of whole messages, as the protocol has them.
    pub bytes: u64,
    /// Until its last answer had been read.
    pub time: Duration,
    /// By its store of column copies, not from its rows.
    pub by_columns: bool,
}

/// Does something, and tells what nodes have answered meanwhile.
pub async fn looking<T>(what: impl Future<Output = T>) -> (T, BTreeMap<NodeId, Answered>) {
    let looking = Looking { since: Instant::now(), nodes: BTreeMap::new() };
    let seen = async {
        let done = what.await;
        (done, LOOKING.with(|l| std::mem::take(&mut l.borrow_mut().nodes)))
    };
    LOOKING.scope(RefCell::new(looking), seen).await
}

/// A row has come.
pub fn row(node: NodeId, bytes: usize) {
    note(node, |of, _| (of.rows, of.bytes) = (of.rows + 1, of.bytes + bytes as u64));
}

/// A statement's answer has ended.
pub fn ended(node: NodeId) {
    note(node, |of, since| of.time = since);
}

/// A store's rows, which came at that moment, with what their values take.
pub fn by_columns(node: NodeId, rows: &[Row], came: Instant) {
    note(node, |of, until_now| {
        let bytes: usize = rows.iter().flatten().flatten().map(String::len).sum();
        (of.rows, of.bytes, of.by_columns) = (of.rows + rows.len() as u64, of.bytes + bytes as u64, true);
        of.time = of.time.max(until_now.saturating_sub(came.elapsed()));
    });
}

fn note(node: NodeId, with: impl FnOnce(&mut Answered, Duration)) {
    let _ = LOOKING.try_with(|l| {
        if let Ok(mut l) = l.try_borrow_mut() {
            let since = l.since.elapsed();
            with(l.nodes.entry(node).or_default(), since);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_comes_meanwhile_is_told() {
        row(1, 10);
        let (done, nodes) = looking(async {
            row(1, 20);
            row(1, 30);
            row(2, 5);
            ended(2);
            "done"
        })
        .await;
        row(1, 10);
        assert_eq!((done, nodes.len()), ("done", 2));
        assert_eq!((nodes[&1].rows, nodes[&1].bytes, nodes[&1].time), (2, 50, Duration::ZERO));
        assert_eq!((nodes[&2].rows, nodes[&2].bytes), (1, 5));
    }
}
