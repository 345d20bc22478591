//! Code that runs text it puts together: where it may be met without a call that a statement shows. It may name anything, so
//! what meets it is watched while it runs, or refused; how it is watched is not known here.

use std::collections::{HashMap, HashSet};

use catalog::code::{Attached, Needs, Object, RUN_TEXT, RelationCode, TAKE_TYPES};
use catalog::{Oid, RelationKind};

use super::breach::{Breach, How};
use super::reach::Reach;
use super::{Broken, Graph, PlacementKind};

/// Tables on which such code hangs, or whose rows bring others' with them.
#[derive(Default)]
pub struct Dynamic {
    /// Policies.
    pub read: HashSet<Oid>,
    pub written: HashSet<Oid>,
    /// The same in blocks whose errors are caught.
    caught_read: HashSet<Oid>,
    caught_written: HashSet<Oid>,
    marked: HashSet<Oid>,
}

impl Dynamic {
    /// What using a table runs, as far as it is of this kind.
    pub fn code(&self, oid: &Oid) -> RelationCode {
        let read = Needs { herd: self.caught_read.contains(oid), dynamic: self.read.contains(oid), ..Needs::default() };
        RelationCode {
            read,
            written_dynamic: self.written.contains(oid),
            written_catches: self.caught_written.contains(oid),
            marked: self.marked.contains(oid),
            ..RelationCode::default()
        }
    }

    fn len(&self) -> usize {
        self.read.len() + self.written.len() + self.caught_read.len() + self.caught_written.len()
    }

    /// Whether code runs such text, itself or by what hangs on the tables it uses.
    pub fn of(&self, reach: &Reach) -> bool {
        reach.takes_types || self.runs_text(reach)
    }

    fn runs_text(&self, reach: &Reach) -> bool {
        reach.dynamic
            || reach.makes
            || reach.reads.iter().any(|oid| self.read.contains(oid))
            || reach.writes.iter().any(|oid| self.written.contains(oid))
    }
}

impl Graph<'_> {
    /// Such code where no statement shows that it runs: a domain is checked wherever a value becomes one (json_table, `'(5)'::row_type`,
    /// DECLARE in plpgsql …), indexes and statistics are computed by maintenance, deferred triggers run at COMMIT.
    pub(super) fn unwatched(&self) -> Vec<Broken> {
        if !self.may_run_text() {
            return vec![];
        }
        let code = &self.snapshot.code;
        let types = code.types.iter().filter_map(|(_, name, oid)| {
            let reach = self.reach_of(Object { class: b't', oid: *oid }, None, None);
            Some(self.broken(refuse(&format!("type \"{name}\""), &reach)?, *oid))
        });
        let hidden = |a: &&Attached| a.deferrable || matches!(a.what.as_str(), "index" | "statistics");
        let attached = code.attached.iter().filter(hidden).filter_map(|a| {
            let table = *self.relations.get(&a.table)?;
            let reach = self.reach_of(a.object(), Some(a.table), None);
            let subject = format!("{} \"{}\" on table \"{}\"", a.what, a.name, table.name);
            Some(self.broken(refuse(&subject, &reach)?, a.table))
        });
        types.chain(attached).collect()
    }

    /// Whether any code at all may run text it puts together, or change the catalog.
    fn may_run_text(&self) -> bool {
        !self.snapshot.code.runs_text.is_empty()
            || !self.snapshot.code.takes_types.is_empty()
            || self.heeds_marks && !self.snapshot.code.marked.is_empty()
            || self.bodies.values().any(|body| {
                let calls = |names: &[&str]| body.calls.iter().any(|(_, name)| names.contains(&name.as_str()));
                body.unknown || calls(&RUN_TEXT) || calls(TAKE_TYPES) || !body.utilities.is_empty()
            })
    }

    /// Whether the code of some type uses tables of which a node has a part, a copy or nothing.
    pub(super) fn types_need(&self) -> bool {
        if self.types_need.get().is_none() {
            // Types whose own code takes types are as the others.
            self.types_need.set(Some(false));
            let needs = |(_, _, oid): &(String, String, Oid)| {
                let needs = self.needs(Object { class: b't', oid: *oid }, &Dynamic::default());
                needs.herd || needs.home
            };
            self.types_need.set(Some(self.snapshot.code.types.iter().any(needs)));
        }
        self.types_need.get() == Some(true)
    }

    pub(super) fn dynamic(&self) -> Dynamic {
        let code = &self.snapshot.code;
        let mut dynamic = Dynamic::default();
        if !self.may_run_text() {
            return dynamic;
        }
        for table in self.marked_relations() {
            let all = [
                &mut dynamic.read,
                &mut dynamic.written,
                &mut dynamic.caught_read,
                &mut dynamic.caught_written,
                &mut dynamic.marked,
            ];
            all.into_iter().for_each(|tables| {
                tables.insert(table);
            });
        }
        let hanging: Vec<(&str, Oid, Reach)> = code
            .attached
            .iter()
            .filter(|a| a.what != "view")
            .map(|a| (&*a.what, a.table, self.reach_of(a.object(), Some(a.table), a.definition.as_deref())))
            .collect();
        loop {
            let before = dynamic.len();
            for (what, table, reach) in &hanging {
                // Of a table that nodes share nothing could be seen on home.
                let local = || self.relations.get(table).is_some_and(|r| self.kind(r) == PlacementKind::Local);
                if dynamic.runs_text(reach) || reach.takes_types && local() {
                    dynamic.written.insert(*table);
                    if *what == "policy" {
                        dynamic.read.insert(*table);
                    }
                }
                if !self.all_local() && reach.catches(|oid| dynamic.code(oid)) {
                    dynamic.caught_written.insert(*table);
                    if *what == "policy" {
                        dynamic.caught_read.insert(*table);
                    }
                }
            }
            for (from, to) in &code.tied {
                if dynamic.written.contains(to) {
                    dynamic.written.insert(*from);
                }
                if dynamic.caught_written.contains(to) {
                    dynamic.caught_written.insert(*from);
                }
            }
            if before == dynamic.len() {
                return dynamic;
            }
        }
    }

    /// What using each relation runs besides, where that is anything.
    pub(super) fn relation_code(&self, dynamic: Dynamic) -> HashMap<Oid, RelationCode> {
        let mut all: HashMap<Oid, RelationCode> = HashMap::new();
        let plain = |view: &&Oid| self.relations.get(*view).is_some_and(|r| r.kind == RelationKind::View);
        for view in self.views.keys().filter(plain) {
            let mut code =
                RelationCode { read: self.needs_of(self.reach_of_view(*view), &dynamic), ..RelationCode::default() };
            let below = self.reach_of_relation(*view).reads;
            code.read.dynamic |= below.iter().any(|oid| dynamic.read.contains(oid));
            code.read.herd |= below.iter().any(|oid| dynamic.caught_read.contains(oid));
            code.written_dynamic = below.iter().any(|oid| dynamic.written.contains(oid));
            code.written_catches = below.iter().any(|oid| dynamic.caught_written.contains(oid));
            if code.read.herd || code.read.dynamic || code.written_dynamic {
                all.insert(*view, code);
            }
        }
        for table in dynamic.read.union(&dynamic.written) {
            all.insert(*table, dynamic.code(table));
        }
        all
    }
}

/// Where no session watches.
pub fn refuse(subject: &str, reach: &Reach) -> Option<Breach> {
    let how = match (reach.makes, reach.dynamic) {
        (true, _) => How::ChangesCatalog,
        (_, true) => How::RunsText,
        _ => return None,
    };
    Some(Breach::new(subject, how))
}
