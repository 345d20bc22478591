//! Whether a statement takes values from sequences or reads those a session took, by its tree and the defaults of the
//! tables it adds rows to; of code of users' own the catalog knows ([`catalog::SessionCode`]).

use catalog::{Oid, Relation, RelationKind, Snapshot};
use sql::ast;
use sql::walk::{self, Visit};
use sql::{NodeEnum, names, search};

use crate::Context;
use crate::ddl::Facts;
use crate::types::Sequences;

/// How the statement uses sequences; where that can't be known, in any way.
pub fn used(statement: &NodeEnum, cx: &Context) -> Sequences {
    match Find::below(statement, cx) {
        Find { hidden: true, .. } => Sequences::Any,
        Find { named, .. } if !named.is_empty() => Sequences::Any,
        Find { takes, .. } if !takes.is_empty() => Sequences::Take(takes.into_iter().map(|(oid, _)| oid).collect()),
        Find { reads: true, .. } => Sequences::Read,
        _ => Sequences::None,
    }
}

/// The sequences a statement may take values from, as constants of SQL that `regclass` reads. `None`: code may take any,
/// or setval() changes what `lastval` is of.
pub fn taken(statement: &NodeEnum, cx: &Context) -> Option<Vec<String>> {
    let find = Find::below(statement, cx);
    let takes = find.takes.iter().map(|(_, name)| catalog::quote_literal(name));
    (!find.hidden).then(|| takes.chain(find.named.iter().map(|name| catalog::quote_literal(name))).collect())
}

/// Whether a change of the schema may compute anything, or have code run, that takes values or asks for them. What a sequence
/// is called is of no account, nor is RESTART (`init_params` in sequence.c leaves currval alone).
pub fn change_may_take(statement: &NodeEnum, snapshot: &Snapshot, facts: &Facts) -> bool {
    use NodeEnum::*;
    use ast::AlterTableType::*;
    let computes_nothing = |n: &ast::Node| match &n.node {
        Some(AlterTableCmd(c)) => matches!(
            ast::AlterTableType::try_from(c.subtype),
            Ok(AtColumnDefault
                | AtDropNotNull
                | AtSetNotNull
                | AtDropColumn
                | AtDropConstraint
                | AtChangeOwner
                | AtSetStatistics)
        ),
        _ => false,
    };
    let event_triggers = || snapshot.code.unnamed.iter().any(|u| u.what == "event trigger");
    match statement {
        CreateStmt(s) => s.partbound.is_some() || event_triggers(),
        AlterTableStmt(s) if s.cmds.iter().all(computes_nothing) => event_triggers(),
        CreateSchemaStmt(s) => !s.schema_elts.is_empty() || event_triggers(),
        CreateSeqStmt(_)
        | AlterSeqStmt(_)
        | CompositeTypeStmt(_)
        | CreateEnumStmt(_)
        | AlterEnumStmt(_)
        | ViewStmt(_)
        | RuleStmt(_)
        | CreateTrigStmt(_)
        | CreateFunctionStmt(_)
        | DropStmt(_)
        | RenameStmt(_)
        | AlterObjectSchemaStmt(_)
        | AlterOwnerStmt(_)
        | CommentStmt(_)
        | GrantStmt(_)
        | AlterDefaultPrivilegesStmt(_) => event_triggers(),
        // Of all databases: no event trigger runs.
        GrantRoleStmt(_) | CreateRoleStmt(_) | AlterRoleStmt(_) | AlterRoleSetStmt(_) | DropRoleStmt(_) => false,
        _ => !crate::ddl::inert(statement, snapshot, facts),
    }
}

/// Whether a call reads what the session took.
pub fn reads(call: &ast::FuncCall) -> bool {
    matches!(names::last(&call.funcname), "currval" | "lastval")
}

struct Find<'c> {
    cx: &'c Context<'c>,
    reads: bool,
    /// By code, or nobody knows here from which.
    hidden: bool,
    /// By nextval() of a literal.
    named: Vec<String>,
    /// By columns' defaults.
    takes: Vec<(Oid, String)>,
}

impl<'a> Visit<'a> for Find<'_> {
    fn range_var(&mut self, rv: &'a ast::RangeVar) {
        self.hidden |= self.is_code([&*rv.schemaname, &*rv.relname]);
    }

    fn node(&mut self, node: &'a NodeEnum) -> bool {
        match node {
            NodeEnum::FuncCall(f) => {
                self.reads |= reads(f);
                match (names::last(&f.funcname), f.args.first().and_then(literal)) {
                    ("nextval", Some(sequence)) => self.named.push(sequence.to_string()),
                    (name, _) => {
                        self.hidden |= matches!(name, "nextval" | "setval") || self.is_code(names::strings(&f.funcname))
                    }
                }
            }
            NodeEnum::InsertStmt(i) => self.rows_for(i.relation.as_ref()),
            NodeEnum::MergeStmt(m) => self.rows_for(m.relation.as_ref()),
            NodeEnum::UpdateStmt(u) if u.target_list.iter().any(sets_default) => self.rows_for(u.relation.as_ref()),
            NodeEnum::UpdateStmt(u) => self.hidden |= self.relation(u.relation.as_ref()).is_none_or(has_rules),
            NodeEnum::DeleteStmt(d) => self.hidden |= self.relation(d.relation.as_ref()).is_none_or(has_rules),
            _ => {}
        }
        true
    }
}

impl<'c> Find<'c> {
    fn below(statement: &NodeEnum, cx: &'c Context) -> Self {
        let mut find = Find { cx, reads: false, hidden: false, named: vec![], takes: vec![] };
        if find.node(statement) {
            walk::below(statement, &mut find);
        }
        find
    }

    fn is_code<'n>(&self, name: impl IntoIterator<Item = &'n str>) -> bool {
        self.cx.snapshot.session_code.takes_values(name, self.cx.search_path)
    }

    fn relation(&self, rv: Option<&ast::RangeVar>) -> Option<&Relation> {
        self.cx.relation(rv?).map(|r| &**r)
    }

    fn rows_for(&mut self, rv: Option<&ast::RangeVar>) {
        let other =
            |c: &catalog::Column| c.sequence.is_none() && c.default.as_ref().is_some_and(|d| d.contains("nextval"));
        match self.relation(rv) {
            Some(r) if !has_rules(r) && !r.columns.iter().any(other) => {
                let of = |c: &catalog::Column| Some((c.sequence_oid, c.sequence.clone()?));
                let taken: Vec<_> = r.columns.iter().filter_map(of).collect();
                self.takes.extend(taken);
            }
            _ => self.hidden = true,
        }
    }
}

/// `'name'` or `'name'::regclass`; other casts may make another name of it.
fn literal(argument: &ast::Node) -> Option<&str> {
    match argument.node.as_ref()? {
        NodeEnum::AConst(c) => match c.val.as_ref()? {
            ast::a_const::Val::Sval(s) => Some(&s.sval),
            _ => None,
        },
        NodeEnum::TypeCast(t) if names::last(&t.type_name.as_ref()?.names) == "regclass" => literal(t.arg.as_deref()?),
        _ => None,
    }
}

/// SET a = DEFAULT
fn sets_default(target: &ast::Node) -> bool {
    search::any(target, |n| matches!(n, NodeEnum::SetToDefault(_)))
}

/// What is written may be another table's rows, too.
fn has_rules(r: &Relation) -> bool {
    r.kind != RelationKind::Table && r.through.is_none() || r.statement_triggers
}
