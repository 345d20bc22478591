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
    /// Backends whose wait can be broken at no cost: they try it again.
    pub give_way: HashSet<Backend>,
}

/// Who is to be cancelled for a circle.
#[derive(Debug, PartialEq, Eq)]
pub struct Victim {
    pub owner: Owner,
    /// It will try again: at first sight, before a node finds the circle and ends somebody else's statement.
    pub tries_again: bool,
}

/// The circles that are to be broken, each with its waits: those over more than one node, at the cost of the session that began last, and all
/// with somebody in them who gives way, at his.
///
/// A backend that is nobody's stands for itself: a client of the node's own, or one whose router died while it
/// waited, which it does not notice.
pub fn circles(owners: &HashMap<Backend, Owner>, waits: &Waits) -> HashMap<Vec<Edge>, Victim> {
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
        // Another circle within one node is that node's own to find.
        let nodes: HashSet<i32> = circle.iter().map(|(_, e)| e.waiter.0).collect();
        let gives_way = circle.iter().find(|(_, e)| waits.give_way.contains(&e.waiter)).map(|(o, _)| *o);
        let age = |o: &Owner| start.get(o).copied().unwrap_or(0.0);
        let sessions = circle.iter().map(|(o, _)| *o).filter(|o| start.contains_key(o));
        let youngest = sessions.max_by(|a, b| age(a).total_cmp(&age(b)).then(a.cmp(b)));
        if let Some(owner) = gives_way.or(youngest.filter(|_| nodes.len() > 1)) {
            let mut edges: Vec<Edge> = circle.iter().map(|(_, e)| (*e).clone()).collect();
            edges.sort();
            found.insert(edges, Victim { owner: owner.clone(), tries_again: gives_way.is_some() });
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

    fn costs(owner: Owner) -> Victim {
        Victim { owner, tries_again: false }
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
        let found = circles(&owners, &Waits { edges: edges.clone(), began, ..Waits::default() });
        assert_eq!(found, HashMap::from([(edges, costs(owner("b", 200)))]));
    }

    #[test]
    fn a_circle_through_a_backend_whose_router_died() {
        let (owners, began) = two();
        // 100 waits for 200, 200 for the one left behind, and that for 100.
        let edges = vec![edge((1, 10), (1, 11)), edge((2, 21), (2, 99)), edge((2, 99), (2, 20))];
        let found = circles(&owners, &Waits { edges: edges.clone(), began, ..Waits::default() });
        assert_eq!(found, HashMap::from([(edges, costs(owner("b", 200)))]));
    }

    #[test]
    fn who_gives_way_is_the_one_wherever_the_circle_is() {
        let (owners, began) = two();
        for edges in
            [vec![edge((1, 10), (1, 11)), edge((2, 21), (2, 20))], vec![edge((1, 10), (1, 11)), edge((1, 11), (1, 10))]]
        {
            let give_way = HashSet::from([(1, 10)]);
            let found = circles(&owners, &Waits { edges: edges.clone(), began: began.clone(), give_way });
            assert_eq!(found, HashMap::from([(edges, Victim { owner: owner("a", 100), tries_again: true })]));
        }
        // Only if it is in it.
        let give_way = HashSet::from([(1, 77)]);
        let edges = vec![edge((1, 10), (1, 11)), edge((2, 21), (2, 20))];
        let found = circles(&owners, &Waits { edges: edges.clone(), began, give_way });
        assert_eq!(found, HashMap::from([(edges, costs(owner("b", 200)))]));
    }

    #[test]
    fn a_chain_and_a_circle_within_one_node_cost_nobody() {
        let (owners, began) = two();
        let chain = Waits { edges: vec![edge((1, 11), (1, 10))], began: began.clone(), ..Waits::default() };
        assert!(circles(&owners, &chain).is_empty());
        let local = Waits { edges: vec![edge((1, 10), (1, 11)), edge((1, 11), (1, 10))], began, ..Waits::default() };
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
        let found = circles(&owners, &Waits { edges: edges.clone(), began, ..Waits::default() });
        let mut circle = edges[1..].to_vec();
        circle.sort();
        assert_eq!(found, HashMap::from([(circle, costs(owner("a", 2)))]));
    }
}
