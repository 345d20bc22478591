//! Where code that puts statements together may be met by using a table: it hangs there, or on a table that what hangs there uses, and
//! so on. The same walk as for what code uses ([`components`](super::components)), but that a table leads on to what hangs on it; of what
//! is used it keeps no list.

use std::collections::{HashMap, HashSet};

use catalog::Oid;
use catalog::code::Attached;

use super::components::Components;
use super::dynamic::Dynamic;
use super::facts::{Facts, Node, What};
use super::reach::Reach;
use super::{Graph, PlacementKind};

struct Hanging<'g, 's> {
    graph: &'g Graph<'s>,
    all: Vec<&'s Attached>,
    /// By its own word, or that of what it calls, it counts as code that puts statements together.
    counts: Vec<bool>,
    on: HashMap<Oid, Vec<usize>>,
    tied_to: HashMap<Oid, Vec<Oid>>,
    marked: HashSet<Oid>,
}

impl Graph<'_> {
    /// Tables by whose use such code may be met.
    pub(super) fn dynamic_by_what_hangs(&self) -> Dynamic {
        let hanging = Hanging::of(self);
        let mut dynamic = Dynamic::default();
        let components = Components::default();
        let tables = hanging.on.keys().chain(hanging.tied_to.keys()).chain(&hanging.marked);
        for table in tables.copied().collect::<HashSet<_>>() {
            let met = |written| {
                let node = What::HangsOn { table, written }.outside();
                components.reach(node, |node| hanging.facts(node))
            };
            let (read, written) = (met(false), met(true));
            let sets = [
                (read.dynamic, &mut dynamic.read),
                (written.dynamic, &mut dynamic.written),
                (read.caught, &mut dynamic.caught_read),
                (written.caught, &mut dynamic.caught_written),
                (hanging.marked.contains(&table), &mut dynamic.marked),
            ];
            sets.into_iter().filter(|(is_in, _)| *is_in).for_each(|(_, set)| self.numbers.put(set, table));
        }
        dynamic
    }
}

impl<'g, 's> Hanging<'g, 's> {
    fn of(graph: &'g Graph<'s>) -> Self {
        let all: Vec<&Attached> = graph.snapshot.code.attached.iter().filter(|a| a.what != "view").collect();
        // Of a table that nodes share nothing could be seen on home.
        let local = |oid: &Oid| graph.relations.get(oid).is_some_and(|r| graph.kind(r) == PlacementKind::Local);
        let counts = |a: &&Attached| {
            let reach = graph.reach_of_attached(a);
            reach.makes || reach.takes_types && local(&a.table)
        };
        let counts = all.iter().map(counts).collect();
        let mut on: HashMap<Oid, Vec<usize>> = HashMap::new();
        for (at, a) in all.iter().enumerate() {
            on.entry(a.table).or_default().push(at);
        }
        let marked = graph.marked_relations().into_iter().collect();
        Hanging { graph, all, counts, on, tied_to: graph.tied_to(), marked }
    }

    fn facts(&self, node: Node) -> Facts {
        let mut facts = match node.what {
            What::HangsOn { table, written } => return self.on(table, written, node.inside),
            What::Hanging(at) => {
                let mut facts = Facts::of_attached(self.graph, self.all[at]);
                facts.own.dynamic |= self.counts[at];
                if node.inside {
                    facts.next.retain(|next| !next.inside);
                    facts.next.iter_mut().for_each(|next| next.inside = true);
                    facts.own = facts.own.in_block();
                }
                facts
            }
            _ => Facts::of(self.graph, node),
        };
        let own = std::mem::take(&mut facts.own);
        for (tables, written, inside) in [
            (&own.reads, false, false),
            (&own.writes, true, false),
            (&own.caught_reads, false, true),
            (&own.caught_writes, true, true),
        ] {
            let tables = self.graph.numbers.oids(tables);
            facts.next.extend(tables.map(|table| Node { what: What::HangsOn { table, written }, inside }));
        }
        // Where all tables are home's, what it has locked need not be seen.
        let caught = own.caught && !self.graph.all_local();
        facts.own = Reach { dynamic: own.dynamic, caught, ..Reach::default() };
        facts
    }

    /// What is run for a table's rows that are written, or read: policies.
    fn on(&self, table: Oid, written: bool, inside: bool) -> Facts {
        let hanging = self.on.get(&table).into_iter().flatten();
        let hanging = hanging.filter(|at| written || self.all[**at].what == "policy").map(|at| What::Hanging(*at));
        let tied = self.tied_to.get(&table).filter(|_| written).into_iter().flatten();
        let tied = tied.map(|to| What::HangsOn { table: *to, written: true });
        let next = hanging.chain(tied).map(|what| Node { what, inside }).collect();
        let is_marked = self.marked.contains(&table);
        let own = Reach { dynamic: is_marked && !inside, caught: is_marked, ..Reach::default() };
        Facts { own, next }
    }
}
