//! Code that runs text it puts together: where it may be met without a call that a statement shows. It may name anything, so
//! what meets it is watched while it runs, or refused; how it is watched is not known here.

use std::collections::HashMap;

use catalog::code::{Attached, Needs, Object, RUN_TEXT, RelationCode, TAKE_TYPES};
use catalog::{Oid, RelationKind};

use super::breach::{Breach, How};
use super::facts::What;
use super::reach::Reach;
use super::relation_set::RelationSet;
use super::{Broken, Graph};

/// Tables on which such code hangs, or whose rows bring others' with them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Dynamic {
    /// Policies.
    pub read: RelationSet,
    pub written: RelationSet,
    /// The same in blocks whose errors are caught.
    pub caught_read: RelationSet,
    pub caught_written: RelationSet,
    pub marked: RelationSet,
}

impl Dynamic {
    /// Whether code runs such text, itself or by what hangs on the tables it uses.
    pub fn of(&self, reach: &Reach) -> bool {
        reach.takes_types
            || reach.dynamic
            || reach.makes
            || reach.reads.meets(&self.read)
            || reach.writes.meets(&self.written)
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
            let reach = self.reach_of(Object { class: b't', oid: *oid });
            Some(self.broken(refuse(&format!("type \"{name}\""), &reach)?, *oid))
        });
        let hidden = |a: &&Attached| a.deferrable || matches!(a.what.as_str(), "index" | "statistics");
        let attached = code.attached.iter().filter(hidden).filter_map(|a| {
            let table = *self.relations.get(&a.table)?;
            let reach = self.reach_of_attached(a);
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
        *self.types_need.get_or_init(|| {
            // Whether a type's own code takes types is of no account in this.
            self.snapshot.code.types.iter().any(|(_, _, oid)| {
                let reach = self.reach_of_node(What::Used(Object { class: b't', oid: *oid }).outside());
                let needs = self.needs_of(&reach, &Dynamic::default());
                needs.herd || needs.home
            })
        })
    }

    pub(super) fn dynamic(&self) -> Dynamic {
        match self.may_run_text() {
            true => self.dynamic_by_what_hangs(),
            false => Dynamic::default(),
        }
    }

    /// As it was found out when the catalog was read.
    pub(super) fn known_dynamic(&self) -> Dynamic {
        let of = |test: &dyn Fn(&RelationCode) -> bool| {
            let tables = self.snapshot.relation_code.iter().filter(|(_, code)| test(code));
            self.numbers.set(tables.map(|(oid, _)| *oid))
        };
        Dynamic {
            read: of(&|code| code.read.dynamic),
            written: of(&|code| code.written_dynamic),
            caught_read: of(&|code| code.read.herd),
            caught_written: of(&|code| code.written_catches),
            marked: of(&|code| code.marked),
        }
    }

    /// What using a table runs, as far as it is of this kind.
    fn table_code(&self, oid: Oid, dynamic: &Dynamic) -> RelationCode {
        let is_in = |set: &RelationSet| self.numbers.has(set, oid);
        let read = Needs { herd: is_in(&dynamic.caught_read), dynamic: is_in(&dynamic.read), ..Needs::default() };
        RelationCode {
            read,
            written_dynamic: is_in(&dynamic.written),
            written_catches: is_in(&dynamic.caught_written),
            marked: is_in(&dynamic.marked),
            ..RelationCode::default()
        }
    }

    /// What using each relation runs besides, where that is anything.
    pub(super) fn relation_code(&self, dynamic: Dynamic) -> HashMap<Oid, RelationCode> {
        let mut all: HashMap<Oid, RelationCode> = HashMap::new();
        let plain = |view: &&Oid| self.relations.get(*view).is_some_and(|r| r.kind == RelationKind::View);
        for view in self.views.keys().filter(plain) {
            let mut code =
                RelationCode { read: self.needs_of(&self.reach_of_view(*view), &dynamic), ..RelationCode::default() };
            let below = self.reach_of_relation(*view).reads;
            code.read.dynamic |= below.meets(&dynamic.read);
            code.read.herd |= below.meets(&dynamic.caught_read);
            code.written_dynamic = below.meets(&dynamic.written);
            code.written_catches = below.meets(&dynamic.caught_written);
            if code.read.herd || code.read.dynamic || code.written_dynamic {
                all.insert(*view, code);
            }
        }
        for table in self.numbers.oids(&dynamic.read).chain(self.numbers.oids(&dynamic.written)) {
            all.insert(table, self.table_code(table, &dynamic));
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
