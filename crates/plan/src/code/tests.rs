//! What is found for all objects at once is what a walk from each of them finds, on catalogs made by chance; and it does not take
//! longer, or more stack, the longer chains of objects are.

mod catalogs;

use std::collections::HashSet;

use catalog::code::{Attached, Object};

use super::dynamic::Dynamic;
use super::facts::{Facts, Node, What};
use super::reach::Reach;
use super::*;
use catalogs::Made;

/// From one object along all that it leads to.
fn walked(graph: &Graph, start: Facts) -> Reach {
    let (mut reach, mut seen, mut todo) = (start.own, HashSet::new(), start.next);
    while let Some(node) = todo.pop() {
        if seen.insert(node) {
            let facts = Facts::of(graph, node);
            reach.add(&facts.own);
            todo.extend(facts.next);
        }
    }
    Reach { takes_types: reach.takes_types && graph.types_need(), ..reach }
}

/// Of two words for what varies, any will do.
fn wordless(reach: Reach) -> Reach {
    let word = |word: Option<Arc<str>>| word.map(|_| "".into());
    Reach { varies: word(reach.varies), asks_table: word(reach.asks_table), ..reach }
}

/// What hangs on tables is asked again and again, until nothing more is found.
fn dynamic_by_rounds(graph: &Graph) -> Dynamic {
    let marked = graph.numbers.set(graph.marked_relations().into_iter());
    let [read, written, caught_read, caught_written] = [&marked; 4].map(Clone::clone);
    let mut dynamic = Dynamic { read, written, caught_read, caught_written, marked };
    let hanging = graph.snapshot.code.attached.iter().filter(|a| a.what != "view");
    let hanging: Vec<(&Attached, Reach)> = hanging.map(|a| (a, walked(graph, Facts::of_attached(graph, a)))).collect();
    loop {
        let before = format!("{dynamic:?}");
        for (a, reach) in &hanging {
            let local = graph.relations.get(&a.table).is_some_and(|r| graph.kind(r) == PlacementKind::Local);
            let untyped = Reach { takes_types: false, ..reach.clone() };
            if dynamic.of(&untyped) || reach.takes_types && local {
                graph.numbers.put(&mut dynamic.written, a.table);
                if a.what == "policy" {
                    graph.numbers.put(&mut dynamic.read, a.table);
                }
            }
            if !graph.all_local() && reach.catches(&dynamic) {
                graph.numbers.put(&mut dynamic.caught_written, a.table);
                if a.what == "policy" {
                    graph.numbers.put(&mut dynamic.caught_read, a.table);
                }
            }
        }
        for (from, to) in &graph.snapshot.code.tied {
            for set in [&mut dynamic.written, &mut dynamic.caught_written] {
                if graph.numbers.has(set, *to) {
                    graph.numbers.put(set, *from);
                }
            }
        }
        if before == format!("{dynamic:?}") {
            return dynamic;
        }
    }
}

#[test]
fn all_at_once_is_what_walks_find() {
    for seed in 0..60 {
        let Made { snapshot, bodies } = catalogs::by_chance(seed);
        for graph in [Graph::new(&snapshot, &bodies), Graph::new(&snapshot, &bodies).unmarked()] {
            for class in [b'f', b't', b'r', b'o'] {
                for oid in catalogs::oids() {
                    let object = Object { class, oid };
                    let walk = walked(&graph, Facts::of(&graph, What::Used(object).outside()));
                    assert_eq!(wordless(graph.reach_of(object)), wordless(walk), "seed {seed}, {object:?}");
                    let query = walked(&graph, Facts::of(&graph, What::Query(oid).outside()));
                    assert_eq!(wordless(graph.reach_of_view(oid)), wordless(query), "seed {seed}, view {oid}");
                    let node = Node { what: What::Written(oid), inside: true };
                    let inside = walked(&graph, Facts::of(&graph, node));
                    assert_eq!(
                        wordless(Reach::clone(&graph.reach_of_node(node))),
                        wordless(inside),
                        "seed {seed}, {oid}"
                    );
                }
            }
            for a in &snapshot.code.attached {
                let walk = walked(&graph, Facts::of_attached(&graph, a));
                assert_eq!(wordless(graph.reach_of_attached(a)), wordless(walk), "seed {seed}, {} {}", a.what, a.oid);
            }
        }
    }
}

#[test]
fn what_hangs_on_tables_is_what_rounds_find() {
    for seed in 0..500 {
        let Made { snapshot, bodies } = catalogs::by_chance(seed);
        let graph = Graph::new(&snapshot, &bodies);
        assert_eq!(graph.dynamic_by_what_hangs(), dynamic_by_rounds(&graph), "seed {seed}");
    }
}

#[test]
fn long_chains_end() {
    let Made { mut snapshot, bodies } = catalogs::chained(10_000);
    settle(&mut snapshot, &bodies);
    let last = &snapshot.functions["f9999"][0];
    assert!(last.reads_herd_tables && last.varies && !last.needs_home);
}

#[test]
fn sets_are_what_was_put_into_them() {
    let numbers = Numbers::new([70_000, 3, 9_000, 5, 3].into_iter());
    let (mut some, others) = (numbers.set([9_000, 3, 4].into_iter()), numbers.set([5, 9_000].into_iter()));
    assert_eq!(numbers.oids(&some).collect::<Vec<_>>(), [3, 9_000]);
    assert_eq!(some.first_in(&others).map(|number| numbers.oid(number)), Some(9_000));
    some.add(&others);
    assert_eq!(numbers.oids(&some).collect::<Vec<_>>(), [3, 5, 9_000]);
    assert!(some.meets(&others) && numbers.has(&some, 5) && !numbers.has(&some, 70_000));
    assert!(!RelationSet::default().meets(&some) && RelationSet::default().is_empty());
}
