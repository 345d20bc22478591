//! Everything code can come to use: what it uses itself ([`facts`](super::facts)), and what all that it leads to comes to use
//! ([`components`](super::components)). It does not judge.

use std::sync::Arc;

use catalog::Oid;
use catalog::code::{Attached, Object};
use sql::body::Body;

use super::Graph;
use super::dynamic::Dynamic;
use super::facts::{Facts, Node, What};
use super::lookup_path::LookupPath;
use super::relation_set::RelationSet;

/// What code can come to use, all told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub reads: RelationSet,
    pub writes: RelationSet,
    /// Takes or sets a sequence's value.
    pub sequence: bool,
    /// Notifies listeners, who all listen on home.
    pub notifies: bool,
    pub dynamic: bool,
    /// Makes values of types that it is told when it runs. Of interest while there are some whose code uses tables: what a graph
    /// is asked for says so then only.
    pub takes_types: bool,
    /// Text that is put together may run in a block whose errors are caught.
    pub caught: bool,
    /// What is used in such blocks.
    pub caught_reads: RelationSet,
    pub caught_writes: RelationSet,
    /// Changes the catalog, or roles.
    pub makes: bool,
    pub varies: Option<Arc<str>>,
    /// By this name a trigger asks which table it is on.
    pub asks_table: Option<Arc<str>>,
    /// Names the row type of a local or temporary table, which only home has.
    pub row_types: bool,
    /// Some of it sees what the statement that runs it has done so far (VOLATILE).
    pub volatile: bool,
    /// Some of it may name a moment by a string ('now', 'today' …), which is another one on each node.
    pub moments: bool,
}

impl Reach {
    /// Whether text that is put together may run in a block whose errors are caught, by what using each relation runs, too.
    pub fn catches(&self, dynamic: &Dynamic) -> bool {
        self.caught
            || self.caught_reads.meets(&dynamic.read)
            || self.caught_writes.meets(&dynamic.written)
            || self.reads.meets(&dynamic.caught_read)
            || self.writes.meets(&dynamic.caught_written)
    }

    /// Takes in what another piece of code can come to use.
    pub fn add(&mut self, other: &Reach) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.sequence |= other.sequence;
        self.notifies |= other.notifies;
        self.dynamic |= other.dynamic;
        self.takes_types |= other.takes_types;
        self.caught |= other.caught;
        self.caught_reads.add(&other.caught_reads);
        self.caught_writes.add(&other.caught_writes);
        self.makes |= other.makes;
        self.varies = self.varies.take().or_else(|| other.varies.clone());
        self.asks_table = self.asks_table.take().or_else(|| other.asks_table.clone());
        self.row_types |= other.row_types;
        self.volatile |= other.volatile;
        self.moments |= other.moments;
    }

    /// What is left of it for who runs it in a block whose errors are caught, beside what it is anyway.
    pub fn in_block(self) -> Reach {
        Reach { caught: self.dynamic, caught_reads: self.reads, caught_writes: self.writes, ..Reach::default() }
    }
}

impl Graph<'_> {
    pub(super) fn reach_of(&self, object: Object) -> Reach {
        self.told(Reach::clone(&self.reach_of_node(What::Used(object).outside())))
    }

    /// What hangs on a table names it for its own row's values.
    pub(super) fn reach_of_attached(&self, a: &Attached) -> Reach {
        self.reach_from(Facts::of_attached(self, a))
    }

    /// The same of a trigger, but for what was proved of its function.
    pub(super) fn reach_beside_key(&self, a: &Attached, function: Oid) -> Reach {
        self.reach_from(Facts::beside_key(self, a, function))
    }

    /// Everything that is read with a relation.
    pub(super) fn reach_of_relation(&self, oid: Oid) -> Reach {
        self.reach_of(Object { class: b'r', oid })
    }

    /// Of a view: what its query runs besides reading tables, which the planner sees for itself.
    pub(super) fn reach_of_view(&self, view: Oid) -> Reach {
        self.told(Reach::clone(&self.reach_of_node(What::Query(view).outside())))
    }

    pub(super) fn reach_of_body(&self, body: &Body, scope: &LookupPath) -> Reach {
        self.reach_from(Facts::of_body(self, body, scope))
    }

    fn reach_from(&self, facts: Facts) -> Reach {
        let mut reach = facts.own;
        // In the order in which a search meets them: of two that differ from node to node, the same one is named.
        facts.next.into_iter().rev().for_each(|node| reach.add(&self.reach_of_node(node)));
        self.told(reach)
    }

    pub(super) fn reach_of_node(&self, node: Node) -> Arc<Reach> {
        self.components.reach(node, |node| Facts::of(self, node))
    }

    fn told(&self, reach: Reach) -> Reach {
        Reach { takes_types: reach.takes_types && self.types_need(), ..reach }
    }
}
