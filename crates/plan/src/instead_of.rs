//! Writes to views over the herd's tables that have INSTEAD OF triggers whose functions use tables of several nodes: no node can run those, so the
//! session finds the rows and runs the functions for each, step by step. How they run is not known here.

use std::sync::Arc;

use catalog::code::{Object, Routine};
use catalog::{Relation, RelationKind};
use sql::NodeEnum;
use sql::ast::RangeVar;

use crate::{Context, views};

/// The view that a statement writes to, if the session has to run its triggers.
pub fn written<'a>(statement: &NodeEnum, cx: &Context<'a>) -> Option<&'a Arc<Relation>> {
    let rv = match statement {
        NodeEnum::InsertStmt(s) => s.relation.as_ref(),
        NodeEnum::UpdateStmt(s) => s.relation.as_ref(),
        NodeEnum::DeleteStmt(s) => s.relation.as_ref(),
        _ => None,
    }?;
    view(rv, cx).filter(|view| !view.statement_triggers)
}

/// The view that a name means, if it has such triggers.
pub fn view<'a>(rv: &RangeVar, cx: &Context<'a>) -> Option<&'a Arc<Relation>> {
    cx.relation(rv).filter(|r| is_run(r, cx))
}

/// Its triggers can't run on a node.
pub fn is_run(view: &Relation, cx: &Context) -> bool {
    view.kind == RelationKind::View
        && view.triggers
        && view.through.is_none()
        && view.view.as_ref().is_some_and(|v| views::reads_herd(&v.query, cx))
        && functions(view, cx).any(|routine| {
            let mut meant = cx.snapshot.functions.get(&routine.name).into_iter().flatten();
            meant.any(|f| f.schema == routine.schema && f.reads_herd_tables)
        })
}

/// What its triggers call.
fn functions<'a>(view: &Relation, cx: &Context<'a>) -> impl Iterator<Item = &'a Routine> {
    let code = &cx.snapshot.code;
    let oid = view.oid;
    let triggers = code.attached.iter().filter(move |a| a.what == "trigger" && a.table == oid);
    let used = |trigger: Object| code.uses.get(&trigger).into_iter().flatten().filter(|u| u.class == b'f');
    let oids: Vec<_> = triggers.flat_map(|a| used(a.object())).map(|u| u.oid).collect();
    code.routines.iter().filter(move |r| oids.contains(&r.oid))
}
