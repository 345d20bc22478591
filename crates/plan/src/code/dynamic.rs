//! Code that runs text it puts together: where it may be met without a call that a statement shows. It may name anything, so
//! what meets it is watched while it runs, or refused; how it is watched is not known here.

use std::collections::{HashMap, HashSet};

use catalog::code::RelationCode;
use catalog::{Oid, RelationKind};

use super::reach::Reach;
use super::{Graph, Refusal};

/// Tables on which such code hangs, or whose rows bring others' with them.
#[derive(Default)]
pub struct Dynamic {
    /// Policies.
    pub read: HashSet<Oid>,
    pub written: HashSet<Oid>,
}

impl Dynamic {
    /// Whether code runs such text, itself or by what hangs on the tables it uses.
    pub fn of(&self, reach: &Reach) -> bool {
        reach.dynamic
            || reach.reads.iter().any(|oid| self.read.contains(oid))
            || reach.writes.iter().any(|oid| self.written.contains(oid))
    }
}

impl Graph<'_> {
    pub(super) fn dynamic(&self) -> Dynamic {
        let code = &self.snapshot.code;
        let mut dynamic = Dynamic::default();
        if code.runs_text.is_empty() && !self.bodies.values().any(|body| body.unknown) {
            return dynamic;
        }
        let hanging: Vec<(&str, Oid, Reach)> = code
            .attached
            .iter()
            .filter(|a| a.what != "view")
            .map(|a| (&*a.what, a.table, self.reach_of(a.object(), Some(a.table), a.definition.as_deref())))
            .collect();
        loop {
            let before = dynamic.read.len() + dynamic.written.len();
            for (what, table, reach) in &hanging {
                if dynamic.of(reach) {
                    dynamic.written.insert(*table);
                    if *what == "policy" {
                        dynamic.read.insert(*table);
                    }
                }
            }
            for (from, to) in &code.tied {
                if dynamic.written.contains(to) {
                    dynamic.written.insert(*from);
                }
            }
            if before == dynamic.read.len() + dynamic.written.len() {
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
            code.written_dynamic = below.iter().any(|oid| dynamic.written.contains(oid));
            if code.read.herd || code.read.dynamic || code.written_dynamic {
                all.insert(*view, code);
            }
        }
        dynamic.read.into_iter().for_each(|table| all.entry(table).or_default().read.dynamic = true);
        dynamic.written.into_iter().for_each(|table| all.entry(table).or_default().written_dynamic = true);
        all
    }
}

/// Where no session watches.
pub fn refuse(subject: &str, reach: &Reach) -> Option<Refusal> {
    reach.dynamic.then(|| {
        Refusal::new(
            format!("{subject} runs statements that it puts together: what they name can't be known to be on its node"),
            "Write the statements out in place of EXECUTE.",
        )
    })
}
