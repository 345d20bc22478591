//! Who waits for whom, and whether that goes round in a circle over several nodes. Pure: it asks no node.

use std::collections::{HashMap, HashSet};

/// A backend of a node: node and process id.
pub type Backend = (i32, i32);
/// Whose backend: the router and its session.
pub type Owner = (String, i32);

/// One backend waits for another of its node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Edge {
    pub waiter: Backend,
    pub holder: Backend,
    /// When the waiting statement began, as its node tells it: another statement is another wait.
    pub since: String,
}

#[derive(Debug, Default)]
pub struct Waits {
    pub edges: Vec<Edge>,
    /// When each backend's transaction began, in seconds.
    pub began: HashMap<Backend, f64>,
}

/// The circles over more than one node, each with its waits, and the session that began last.
///
/// A backend that is nobody's stands for itself: a client of the node's own, or one whose router died while it
/// waited, which it does not notice.
pub fn circles(owners: &HashMap<Backend, Owner>, waits: &Waits) -> HashMap<Vec<Edge>, Owner> {
    let strangers: HashMap<Backend, Owner> = waits
        .edges
        .iter()
        .flat_map(|e| [e.waiter, e.holder])
        .filter(|backend| !owners.contains_key(backend))
        .map(|backend| (backend, (format!("node {}", backend.0), backend.1)))
        .collect();
    let owner = |backend| owners.get(backend).or_else(|| strangers.get(backend));
    let mut graph: HashMap<&Owner, Vec<(&Owner, &Edge)>> = HashMap::new();
    for edge in &waits.edges {
        let (Some(w), Some(h)) = (owner(&edge.waiter), owner(&edge.holder)) else { continue };
        if w != h {
            graph.entry(w).or_default().push((h, edge));
        }
    }
    // A session began when its first backend did.
    let mut start: HashMap<&Owner, f64> = HashMap::new();
    for (backend, owner) in owners {
        if let Some(began) = waits.began.get(backend) {
            let first = start.entry(owner).or_insert(*began);
            *first = first.min(*began);
        }
    }
    let mut found = HashMap::new();
    for session in graph.keys() {
        let Some(circle) = circle_from(session, &graph) else { continue };
        // A circle within one node is that node's own to find.
        let nodes: HashSet<i32> = circle.iter().map(|(_, e)| e.waiter.0).collect();
        let age = |o: &Owner| start.get(o).copied().unwrap_or(0.0);
        let sessions = circle.iter().map(|(o, _)| *o).filter(|o| start.contains_key(o));
        let youngest = sessions.max_by(|a, b| age(a).total_cmp(&age(b)).then(a.cmp(b)));
        if let (true, Some(victim)) = (nodes.len() > 1, youngest) {
            let mut edges: Vec<Edge> = circle.iter().map(|(_, e)| (*e).clone()).collect();
            edges.sort();
            found.insert(edges, victim.clone());
        }
    }
    found
}

type Graph<'a> = HashMap<&'a Owner, Vec<(&'a Owner, &'a Edge)>>;

/// A way from a session back to itself: each session on it, and the wait that leads on.
fn circle_from<'a>(start: &'a Owner, graph: &Graph<'a>) -> Option<Vec<(&'a Owner, &'a Edge)>> {
    // Each session, which of its waits comes next, and the wait gone along last.
    let mut path: Vec<(&Owner, usize, Option<&Edge>)> = vec![(start, 0, None)];
    let mut seen = HashSet::from([start]);
    while let Some((at, next, way)) = path.last_mut() {
        match graph.get(*at).and_then(|h| h.get(*next)) {
            Some((holder, edge)) => {
                *next += 1;
                *way = Some(edge);
                if *holder == start {
                    return path.iter().map(|(s, _, e)| e.map(|e| (*s, e))).collect();
                }
                if seen.insert(holder) {
                    path.push((holder, 0, None));
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

    fn edge(waiter: Backend, holder: Backend) -> Edge {
        Edge { waiter, holder, since: "1".into() }
    }

    fn owner(router: &str, session: i32) -> Owner {
        (router.to_string(), session)
    }

    /// Session 100 began first, though it came to node 2 last.
    fn two() -> (HashMap<Backend, Owner>, HashMap<Backend, f64>) {
        let owners = HashMap::from([
            ((1, 10), owner("a", 100)),
            ((2, 20), owner("a", 100)),
            ((1, 11), owner("b", 200)),
            ((2, 21), owner("b", 200)),
        ]);
        let began = HashMap::from([((1, 10), 1.0), ((2, 21), 2.0), ((1, 11), 3.0), ((2, 20), 4.0)]);
        (owners, began)
    }

    #[test]
    fn a_circle_over_two_nodes_costs_the_youngest() {
        let (owners, began) = two();
        let edges = vec![edge((1, 11), (1, 10)), edge((2, 20), (2, 21))];
        let found = circles(&owners, &Waits { edges: edges.clone(), began });
        assert_eq!(found, HashMap::from([(edges, owner("b", 200))]));
    }

    #[test]
    fn a_circle_through_a_backend_whose_router_died() {
        let (owners, began) = two();
        // 100 waits for 200, 200 for the one left behind, and that for 100.
        let edges = vec![edge((1, 10), (1, 11)), edge((2, 21), (2, 99)), edge((2, 99), (2, 20))];
        let found = circles(&owners, &Waits { edges: edges.clone(), began });
        assert_eq!(found, HashMap::from([(edges, owner("b", 200))]));
    }

    #[test]
    fn a_chain_and_a_circle_within_one_node_cost_nobody() {
        let (owners, began) = two();
        let chain = Waits { edges: vec![edge((1, 11), (1, 10))], began: began.clone() };
        assert!(circles(&owners, &chain).is_empty());
        let local = Waits { edges: vec![edge((1, 10), (1, 11)), edge((1, 11), (1, 10))], began };
        assert!(circles(&owners, &local).is_empty());
    }

    #[test]
    fn three_in_a_circle_with_a_side_way() {
        let owners = HashMap::from([
            ((1, 1), owner("a", 1)),
            ((2, 1), owner("a", 1)),
            ((2, 2), owner("a", 2)),
            ((3, 2), owner("a", 2)),
            ((3, 3), owner("a", 3)),
            ((1, 3), owner("a", 3)),
            ((2, 9), owner("a", 9)),
        ]);
        let edges = vec![edge((2, 1), (2, 9)), edge((2, 1), (2, 2)), edge((3, 2), (3, 3)), edge((1, 3), (1, 1))];
        let began = HashMap::from([((1, 1), 1.0), ((2, 2), 3.0), ((3, 3), 2.0), ((2, 9), 9.0)]);
        let found = circles(&owners, &Waits { edges: edges.clone(), began });
        let mut circle = edges[1..].to_vec();
        circle.sort();
        assert_eq!(found, HashMap::from([(circle, owner("a", 2))]));
    }
}
