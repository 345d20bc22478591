//! What the code of tables that nodes share names, by its names alone: where a session has a temporary table of one of these, home's part of
//! the code would use that, and other nodes the table that it hides. Names are taken widely, with a schema or without. It does not know
//! sessions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use catalog::{Oid, Relation, RelationKind};

use super::reach::Reach;
use super::{Graph, PlacementKind};

impl Graph<'_> {
    /// What code uses of relations that other nodes have, too: of home's own tables it runs there alone.
    pub(super) fn shared_names(&self, reach: &Reach) -> Vec<String> {
        let relations = self.numbers.oids(&reach.reads).filter_map(|oid| self.relations.get(&oid));
        let shared = |r: &&&Arc<Relation>| r.kind == RelationKind::View || self.kind(r) != PlacementKind::Local;
        relations.filter(shared).map(|r| r.name.clone()).collect()
    }

    /// The same of what the queries of views call, and of those under them.
    pub(super) fn named_by_views(&self) -> HashMap<Oid, Vec<String>> {
        let own = |view: Oid| self.shared_names(&self.reach_of_view(view));
        let own: HashMap<Oid, Vec<String>> = self.views.keys().map(|view| (*view, own(*view))).collect();
        if own.values().all(Vec::is_empty) {
            return HashMap::new();
        }
        let all = |view: &Oid| {
            let below = self.reach_of_relation(*view).reads;
            let views = self.numbers.oids(&below).chain([*view]);
            let names: BTreeSet<String> = views.filter_map(|oid| own.get(&oid)).flatten().cloned().collect();
            (*view, names.into_iter().collect::<Vec<_>>())
        };
        own.keys().map(all).filter(|(_, names)| !names.is_empty()).collect()
    }

    /// Of distributed and reference tables, and of views over them: the names of relations that are used by what hangs on them, or on tables
    /// to which their foreign keys' actions come.
    pub(super) fn named_by_code(&self) -> HashMap<Oid, Vec<String>> {
        let shared = |oid: &Oid| self.relations.get(oid).is_some_and(|r| self.kind(r) != PlacementKind::Local);
        let mut own: HashMap<Oid, BTreeSet<&str>> = HashMap::new();
        for a in self.snapshot.code.attached.iter().filter(|a| a.what != "view" && shared(&a.table)) {
            let reads = self.reach_of_attached(a).reads;
            let names = self.numbers.oids(&reads).filter_map(|oid| self.relations.get(&oid)).map(|r| r.name.as_str());
            own.entry(a.table).or_default().extend(names);
        }
        own.retain(|_, names| !names.is_empty());
        if own.is_empty() {
            return HashMap::new();
        }
        let tied_to = self.tied_to();
        let of_table = |table: Oid| {
            let (mut met, mut todo) = (HashSet::from([table]), vec![table]);
            while let Some(from) = todo.pop() {
                let more = tied_to.get(&from).into_iter().flatten().copied();
                todo.extend(more.filter(|to| met.insert(*to)));
            }
            met.iter().filter_map(|oid| own.get(oid)).flatten().copied().collect::<BTreeSet<&str>>()
        };
        let tables = self.relations.keys().copied().filter(shared).map(|table| (table, of_table(table)));
        let mut all: HashMap<Oid, BTreeSet<&str>> = tables.filter(|(_, names)| !names.is_empty()).collect();
        for view in self.views.keys() {
            let below = self.reach_of_relation(*view).reads;
            let names: BTreeSet<&str> =
                self.numbers.oids(&below).filter_map(|oid| all.get(&oid)).flatten().copied().collect();
            if !names.is_empty() {
                all.insert(*view, names);
            }
        }
        all.into_iter().map(|(oid, names)| (oid, names.into_iter().map(str::to_string).collect())).collect()
    }
}
