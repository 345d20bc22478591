//! Code that breaks the rule by a change of somebody else's, who is not to be held up by it: the relations and types by which it runs
//! are marked, and nobody may use them until it is mended. A mark is taken like code that puts statements together where errors are
//! caught, so all that comes to it by views, functions, triggers and foreign keys is refused with it.
//!
//! Marked is only what names a table with its schema, or is known to PostgreSQL to use it: what a name without one means is
//! the affair of whoever runs the code, and others must not be able to have somebody's table marked by a table of that name.

use std::cell::OnceCell;
use std::collections::HashSet;

use catalog::code::{Attached, Object, Unnamed};
use catalog::{Oid, Relation, RelationKind};

use wire::type_oid::FIRST_NORMAL_OBJECT_ID;

use super::{Broken, Graph};

impl Graph<'_> {
    /// As it is without marks: by this, code is judged. Of a graph that has been asked nothing yet.
    pub fn unmarked(self) -> Self {
        Graph { heeds_marks: false, ..self }
    }

    /// Everything to be marked.
    pub(super) fn marks(&self) -> HashSet<Object> {
        if self.is_alone() || self.all_local() {
            return HashSet::new();
        }
        self.on_relations_and_types().into_iter().flat_map(|b| b.marks).collect()
    }

    pub(super) fn on_relations_and_types(&self) -> Vec<Broken> {
        let code = &self.snapshot.code;
        let exact = OnceCell::new();
        let exact = || exact.get_or_init(|| self.exact());
        let attached = code
            .attached
            .iter()
            .filter_map(|a| Some(with_marks(self.attached(a)?, || exact().attached(a), || self.mark_of(a))));
        let columns = self.relations.values().filter_map(|r| {
            let table = || vec![Object { class: b'r', oid: r.oid }];
            Some(with_marks(self.columns_types(r)?, || exact().columns_types(r), table))
        });
        let unnamed = code
            .unnamed
            .iter()
            .filter_map(|u| Some(with_marks(self.unnamed(u)?, || exact().unnamed(u), || types_of(u))));
        attached.chain(columns).chain(unnamed).collect()
    }

    /// What is filled or runs when nobody uses it can't be kept from that: materialized views, deferred triggers.
    fn mark_of(&self, a: &Attached) -> Vec<Object> {
        match a.what == "view" || a.deferrable {
            true => vec![],
            false => vec![Object { class: b'r', oid: a.table }],
        }
    }

    fn exact(&self) -> Graph<'_> {
        let graph = Graph::new(self.snapshot, self.bodies);
        Graph { exact: true, changed: self.changed.clone(), heeds_marks: self.heeds_marks, ..graph }
    }

    pub(super) fn is_marked(&self, object: &Object) -> bool {
        self.heeds_marks && self.snapshot.code.marked.contains(object)
    }

    /// Tables that are marked, and those with columns of types that are.
    pub(super) fn marked_relations(&self) -> Vec<Oid> {
        if !self.heeds_marks || self.snapshot.code.marked.is_empty() {
            return vec![];
        }
        let of_type = |r: &&Relation| {
            let uses = self.snapshot.code.uses.get(&Object { class: b'r', oid: r.oid });
            let types = uses.into_iter().flatten().filter(|u| u.class == b't');
            types.into_iter().any(|t| self.reach_of(*t).caught)
        };
        let relations = self.relations.values().map(|r| &***r).filter(|r| r.kind != RelationKind::Sequence);
        let marked = |r: &&Relation| self.is_marked(&Object { class: b'r', oid: r.oid }) || of_type(r);
        relations.filter(marked).map(|r| r.oid).collect()
    }
}

/// Marked if it is the same where only names with their schemas count, and another's table is what it names.
fn with_marks(found: Broken, exact: impl Fn() -> Option<Broken>, marks: impl Fn() -> Vec<Object>) -> Broken {
    let marks = marks();
    let is_other = |oid: &Oid| marks.iter().all(|m| m.oid != *oid);
    let names_other = found.tables > 0 && found.names.iter().take(found.tables).any(is_other);
    let same = || exact().is_some_and(|b| b.breach.key() == found.breach.key());
    match names_other && same() {
        true => Broken { marks, ..found },
        false => found,
    }
}

/// Those of users' own: where there are none, nothing can be marked.
fn types_of(u: &Unnamed) -> Vec<Object> {
    u.types.iter().filter(|oid| **oid >= FIRST_NORMAL_OBJECT_ID).map(|oid| Object { class: b't', oid: *oid }).collect()
}
