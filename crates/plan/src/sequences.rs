//! Whether a statement takes values from sequences or reads those a session took, by its tree and the defaults of the
//! tables it adds rows to; of code of users' own the catalog knows ([`catalog::SessionCode`]).

use catalog::{Relation, RelationKind};
use sql::ast;
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use crate::Context;
use crate::types::Sequences;

pub fn used(statement: &NodeEnum, cx: &Context) -> Sequences {
    let mut find = Find { cx, reads: false, any: false, takes: vec![] };
    if find.node(statement) {
        walk::below(statement, &mut find);
    }
    match find {
        Find { any: true, .. } => Sequences::Any,
        Find { takes, .. } if !takes.is_empty() => Sequences::Take(takes.into()),
        Find { reads: true, .. } => Sequences::Read,
        _ => Sequences::None,
    }
}

/// Whether a call reads what the session took.
pub fn reads(call: &ast::FuncCall) -> bool {
    matches!(names::last(&call.funcname), "currval" | "lastval")
}

struct Find<'c> {
    cx: &'c Context<'c>,
    reads: bool,
    any: bool,
    takes: Vec<String>,
}

impl<'a> Visit<'a> for Find<'_> {
    fn range_var(&mut self, rv: &'a ast::RangeVar) {
        self.any |= self.is_code(&rv.relname);
    }

    fn node(&mut self, node: &'a NodeEnum) -> bool {
        match node {
            NodeEnum::FuncCall(f) => {
                self.reads |= reads(f);
                let name = names::last(&f.funcname);
                self.any |= matches!(name, "nextval" | "setval") || self.is_code(name);
            }
            NodeEnum::InsertStmt(i) => self.rows_for(i.relation.as_ref()),
            NodeEnum::MergeStmt(m) => self.rows_for(m.relation.as_ref()),
            NodeEnum::UpdateStmt(u) if u.target_list.iter().any(sets_default) => self.rows_for(u.relation.as_ref()),
            NodeEnum::UpdateStmt(u) => self.any |= self.relation(u.relation.as_ref()).is_none_or(has_rules),
            NodeEnum::DeleteStmt(d) => self.any |= self.relation(d.relation.as_ref()).is_none_or(has_rules),
            _ => {}
        }
        true
    }
}

impl Find<'_> {
    fn is_code(&self, name: &str) -> bool {
        self.cx.snapshot.session_code.sequences.contains(name)
    }

    fn relation(&self, rv: Option<&ast::RangeVar>) -> Option<&Relation> {
        self.cx.relation(rv?).map(|r| &**r)
    }

    fn rows_for(&mut self, rv: Option<&ast::RangeVar>) {
        let other =
            |c: &catalog::Column| c.sequence.is_none() && c.default.as_ref().is_some_and(|d| d.contains("nextval"));
        match self.relation(rv) {
            Some(r) if !has_rules(r) && !r.columns.iter().any(other) => {
                let names: Vec<String> = r.columns.iter().filter_map(|c| c.sequence.clone()).collect();
                self.takes.extend(names);
            }
            _ => self.any = true,
        }
    }
}

/// SET a = DEFAULT
fn sets_default(target: &ast::Node) -> bool {
    let Some(NodeEnum::ResTarget(t)) = &target.node else { return false };
    matches!(t.val.as_deref().and_then(|v| v.node.as_ref()), Some(NodeEnum::SetToDefault(_)))
}

/// What is written may be another table's rows, too.
fn has_rules(r: &Relation) -> bool {
    r.kind != RelationKind::Table || r.statement_triggers
}
