//! Deadlocks across nodes: each node sees only its own half of the circle.
//!
//! Every second the wait graphs of all nodes are joined by the sessions of this router: a session waits where any of its
//! connections waits. A circle over sessions is broken by cancelling the one whose transaction began last.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use pool::Conn;
use session::Router;

const EVERY: Duration = Duration::from_secs(1);

/// A backend of a node.
type Backend = (i32, i32);

pub async fn watch(router: Arc<Router>) {
    let mut conns: HashMap<i32, Conn> = HashMap::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let snapshot = router.herd.epoch.load().snapshot.clone();
        if snapshot.nodes.len() < 2 {
            continue;
        }
        let owners = router.cancels.owners(&|key| node_of(&router, &snapshot, key));
        if owners.values().collect::<std::collections::HashSet<_>>().len() < 2 {
            continue;
        }
        conns.retain(|_, c| !c.is_broken());
        let mut edges: Vec<(Backend, Backend)> = Vec::new();
        let mut began: HashMap<Backend, f64> = HashMap::new();
        for node in &snapshot.nodes {
            if let Entry::Vacant(place) = conns.entry(node.id)
                && let Ok(conn) = router.herd.admin(&snapshot, node.id).await
            {
                place.insert(conn);
            }
            let Some(conn) = conns.get_mut(&node.id) else { continue };
            let sql = "SELECT a.pid, b, extract(epoch FROM a.xact_start) FROM pg_catalog.pg_stat_activity a, unnest(pg_catalog.pg_blocking_pids(a.pid)) b WHERE a.wait_event_type = 'Lock'";
            let Ok(rows) = conn.simple(sql).await else { continue };
            for row in rows {
                let number = |i: usize| row.get(i).and_then(|v| v.as_deref()?.parse::<f64>().ok()).unwrap_or(0.0);
                let (waiter, holder) = ((node.id, number(0) as i32), (node.id, number(1) as i32));
                began.insert(waiter, number(2));
                edges.push((waiter, holder));
            }
        }
        for victim in victims(&owners, &edges, &began) {
            tracing::info!(session = victim, "deadlock across nodes: the youngest transaction is cancelled");
            router.cancels.cancel_for_deadlock(victim).await;
        }
    }
}

fn node_of(router: &Router, snapshot: &catalog::Snapshot, key: &pool::CancelKey) -> Option<i32> {
    snapshot.nodes.iter().map(|n| n.id).find(|n| router.herd.target(snapshot, *n).is_ok_and(|t| t == *key.target))
}

/// The session to cancel in each circle.
fn victims(owners: &HashMap<Backend, i32>, edges: &[(Backend, Backend)], began: &HashMap<Backend, f64>) -> Vec<i32> {
    let mut waits: HashMap<i32, Vec<i32>> = HashMap::new();
    let mut start: HashMap<i32, f64> = HashMap::new();
    let mut nodes: HashMap<(i32, i32), i32> = HashMap::new();
    for (waiter, holder) in edges {
        let (Some(w), Some(h)) = (owners.get(waiter), owners.get(holder)) else { continue };
        if w != h {
            waits.entry(*w).or_default().push(*h);
            nodes.insert((*w, *h), waiter.0);
            let at = began.get(waiter).copied().unwrap_or(0.0);
            let s = start.entry(*w).or_insert(at);
            *s = s.max(at);
        }
    }
    let mut victims = Vec::new();
    for session in waits.keys() {
        if let Some(circle) = circle_from(*session, &waits) {
            // A circle within one node is that node's own to find.
            let over: std::collections::HashSet<i32> = circle
                .iter()
                .zip(circle.iter().cycle().skip(1))
                .filter_map(|(a, b)| nodes.get(&(*a, *b)).copied())
                .collect();
            let youngest = circle
                .iter()
                .max_by(|a, b| start.get(a).unwrap_or(&0.0).total_cmp(start.get(b).unwrap_or(&0.0)).then(a.cmp(b)));
            if let (true, Some(v)) = (over.len() > 1, youngest)
                && !victims.contains(v)
            {
                victims.push(*v);
            }
        }
    }
    victims
}

/// A path from a session back to itself.
fn circle_from(start: i32, waits: &HashMap<i32, Vec<i32>>) -> Option<Vec<i32>> {
    let mut path = vec![(start, 0usize)];
    let mut seen = std::collections::HashSet::from([start]);
    while let Some((at, next)) = path.last_mut() {
        match waits.get(at).and_then(|h| h.get(*next)) {
            Some(holder) if *holder == start => return Some(path.iter().map(|(s, _)| *s).collect()),
            Some(holder) => {
                *next += 1;
                if seen.insert(*holder) {
                    path.push((*holder, 0));
                }
            }
            None => {
                path.pop();
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_over_two_nodes_costs_the_youngest_and_a_chain_costs_nobody() {
        let owners = HashMap::from([((1, 10), 100), ((2, 20), 100), ((1, 11), 200), ((2, 21), 200)]);
        let circle = [((1, 10), (1, 11)), ((2, 21), (2, 20))];
        let began = HashMap::from([((1, 10), 5.0), ((2, 21), 7.0)]);
        assert_eq!(victims(&owners, &circle, &began), [200]);
        assert!(victims(&owners, &circle[..1], &began).is_empty());
        let local = [((1, 10), (1, 11)), ((1, 11), (1, 10))];
        assert!(victims(&owners, &local, &began).is_empty());
    }
}
