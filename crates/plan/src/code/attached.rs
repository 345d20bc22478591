//! What hangs on a table, judged by the table's kind: code that needs what is elsewhere, or could do another thing on each node.
//!
//! A foreign key that sets a column to its default has each node compute that. Transition tables hold the rows of one node: on
//! a distributed table they are not the statement's. It does not know statements.

use catalog::code::{Attached, Object};
use catalog::{Relation, RelationKind};

use super::breach::{Breach, How};
use super::{Broken, Graph, PlacementKind, differs, dynamic};
use crate::reads::{calls_sequence, parse_expression};
use crate::refuse::Refusal;
use crate::same;

impl Graph<'_> {
    pub(super) fn attached(&self, a: &Attached) -> Option<Broken> {
        let table = *self.relations.get(&a.table)?;
        let materialized = table.kind == RelationKind::MaterializedView;
        // What a router fills, it plans each time: home never runs that query.
        if a.what == "view" && (!materialized || table.view.as_ref().is_some_and(|v| v.filled_by_router)) {
            return None;
        }
        let kind = self.kind(table);
        // A router does what it says, in the place of a statement.
        if a.what == "rule" && table.kind == RelationKind::View && self.is_of_herd(table) {
            return None;
        }
        // A router runs its function, row by row.
        if a.what == "trigger"
            && a.rows
            && table.kind == RelationKind::View
            && self.is_of_herd(table)
            && self.is_program(a)
        {
            return None;
        }
        let is_of_rows = a.what == "trigger" && a.rows && kind == PlacementKind::Distributed;
        let (mut reach, mut why) = (self.reach_of_attached(a), None);
        if is_of_rows && self.uses_distributed(&reach) {
            match self.keeps_to_key(a, table) {
                Ok(function) => reach = self.reach_beside_key(a, function),
                Err(other) => why = Some(other),
            }
        }
        let subject = match a.what.as_str() {
            "view" => format!("materialized view \"{}\"", table.name),
            what => format!("{what} \"{}\" on {} table \"{}\"", a.name, kind.word(), table.name),
        };
        let varies = a.what == "trigger" && kind == PlacementKind::Reference;
        let breach = self
            .judge(&subject, kind, &reach)
            .or_else(|| materialized.then(|| dynamic::refuse(&subject, &reach)).flatten())
            .or_else(|| varies.then(|| differs(&subject, &reach)).flatten())
            .or_else(|| {
                let asked = reach.asks_table.clone().filter(|_| a.rows && kind == PlacementKind::Distributed);
                asked.map(|name| Breach::new(&subject, How::AsksTable(name.to_string())))
            })
            .or_else(|| {
                let asks = kind != PlacementKind::Local && self.snapshot.code.asks_tableoid.contains(&a.object());
                asks.then(|| Breach::new(&subject, How::AsksTableoid(kind)))
            })
            .or_else(|| {
                (a.transition && kind == PlacementKind::Distributed)
                    .then(|| Breach::new(&subject, How::TransitionTables))
            })
            .or_else(|| self.sets_default(&subject, a, table, kind))?;
        let hint = "Drop it first, and create it again afterwards: then a router fills it. Or use a plain view.";
        let broken = self.broken(Breach { why, ..breach }, table.oid);
        Some(match materialized {
            true => Broken { refusal: Refusal { hint: Some(hint.into()), ..broken.refusal }, ..broken },
            false => broken,
        })
    }

    /// The function of a trigger can be run step by step.
    fn is_program(&self, a: &Attached) -> bool {
        let functions = self.uses(a.object()).filter(|u| u.class == b'f');
        let mut routines = functions.filter_map(|u| self.routines.get(&u.oid).copied());
        routines.next().is_some_and(|r| r.open && matches!(super::same_key::read(r), Some(Ok(_))))
    }

    /// A view over distributed or reference tables, and none that only home has: every node has it.
    fn is_of_herd(&self, view: &Relation) -> bool {
        let reads = self.reach_of(Object { class: b'r', oid: view.oid }).reads;
        let any = |kind| reads.meets(self.of_kind(kind));
        (any(PlacementKind::Distributed) || any(PlacementKind::Reference)) && !any(PlacementKind::Local)
    }

    /// Of a foreign key: what a node would set is another value on each, or needs a sequence, which is on home.
    fn sets_default(&self, subject: &str, a: &Attached, table: &Relation, kind: PlacementKind) -> Option<Breach> {
        let set = table.columns.iter().filter(|c| a.columns.contains(&c.name));
        let sequence = |default: &str| parse_expression(default).is_some_and(|d| calls_sequence(&d));
        let mut harmful = set.filter(|c| match kind {
            PlacementKind::Local => false,
            PlacementKind::Reference => same::default_differs(self.snapshot, c),
            PlacementKind::Distributed => c.sequence.is_some() || c.default.as_deref().is_some_and(sequence),
        });
        let column = harmful.next()?;
        Some(Breach::new(subject, How::SetsDefault { column: column.name.clone(), kind }))
    }
}
