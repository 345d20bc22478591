//! What one of the statements reads and writes: tables, and what their code may come to besides. It does not judge.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use catalog::code::Attached;
use catalog::{Oid, Placement, Relation, RelationKind, Volatility};
use sql::ast::RangeVar;
use sql::{NodeEnum, clauses, names, relations, search};

use crate::{Context, modify};

/// A table by what it is, or by its name where the catalog has none: one of PostgreSQL's own, or a temporary one.
#[derive(Clone, Debug)]
pub struct Table {
    pub relation: Option<Arc<Relation>>,
    pub name: String,
}

/// Which it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    Known(Oid),
    Named(String),
}

impl Table {
    /// What tells it from other tables: its object id, or its name where the catalog has none.
    pub fn which(&self) -> Which {
        self.relation.as_ref().map_or_else(|| Which::Named(self.name.clone()), |r| Which::Known(r.oid))
    }
}

/// Whether a table is of those code may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    pub local: bool,
    pub reference: bool,
}

/// What one statement reads and writes.
#[derive(Debug, Default)]
pub struct Touches {
    /// Those of the others whose rows it needs.
    pub needs: BTreeSet<usize>,
    pub reads: BTreeMap<Which, String>,
    pub writes: BTreeMap<Which, String>,
    /// To these foreign keys' actions may come: rows that they refer to may go, or get other keys.
    pub reached: HashSet<Oid>,
    /// Local tables that it names, and those that may have some rows of the local ones that it writes: partitions, parents.
    pub local: HashSet<Oid>,
    pub family: HashSet<Oid>,
    /// Rows come, or are changed.
    pub adds: bool,
    /// All it does is to add rows.
    pub only_adds: bool,
    /// All it does is to take rows away.
    pub only_takes: bool,
    /// It changes rows, but none of their keys.
    pub keeps_keys: bool,
    /// The table that it changes as others do, leaving alone what these have changed (see `again.rs`).
    pub again: Option<Oid>,
    /// What its tables' code, and functions that it calls, may read, and write.
    pub code_reads: Kinds,
    pub code_writes: Kinds,
    /// Of what kinds the tables are that it names.
    pub named: Kinds,
    /// Of what kinds those are that it writes.
    pub written: Kinds,
}

/// The tables a name stands for: a view's are those it is made of.
pub fn tables(rv: &RangeVar, cx: &Context) -> Vec<Table> {
    let mut found = vec![];
    let known = cx.relation(rv).cloned();
    let name = rv.relname.clone();
    match &known {
        Some(relation) => below(relation, cx, &mut found, (0, &mut HashSet::new())),
        None => found.push(Table { relation: None, name }),
    }
    found
}

/// `seen`: many views may name one.
fn below(relation: &Arc<Relation>, cx: &Context, found: &mut Vec<Table>, (depth, seen): (usize, &mut HashSet<Oid>)) {
    // What stands for a view has the table's number.
    if !seen.insert(relation.through.unwrap_or(relation.oid)) {
        return;
    }
    let itself = Table { relation: Some(relation.clone()), name: relation.name.clone() };
    let view = relation.view.as_ref().filter(|v| !v.materialized && cx.take(v.query.len()));
    let query = view.and_then(|v| sql::parse(&v.query, true).ok());
    let (Some(query), true) = (query, depth < 64) else { return found.push(itself) };
    for rv in query.iter().flat_map(relations::of) {
        let (schema, name) = names::table(rv);
        match cx.snapshot.resolve(schema, name, &[]) {
            Some(r) => below(r, cx, found, (depth + 1, seen)),
            None => found.push(Table { relation: None, name: name.to_string() }),
        }
    }
}

impl Touches {
    /// `needs`: which of the other statements' rows it reads.
    pub fn of(statement: &NodeEnum, needs: BTreeSet<usize>, cx: &Context) -> Self {
        let mut t = Touches { needs, ..Default::default() };
        let target = clauses::target(statement);
        t.only_adds = matches!(statement, NodeEnum::InsertStmt(i) if i.on_conflict_clause.is_none());
        for rv in relations::of(statement) {
            let is_target = target.is_some_and(|own| std::ptr::eq(own, rv));
            let view = cx.relation(rv).is_some_and(|r| r.kind == RelationKind::View);
            let below = tables(rv, cx);
            let one_of_several = view && below.len() > 1;
            for table in below {
                t.named.add(&table);
                if let Some(r) = table.relation.as_ref().filter(|r| modify::is_local(r)) {
                    t.local.insert(r.oid);
                    if is_target {
                        t.family.extend(family(r.oid, cx));
                    }
                }
                if is_target {
                    t.written.add(&table);
                    t.writes.insert(table.which(), table.name.clone());
                }
                // Through a view of several tables it may be any of them that is written; and who changes rows finds them first.
                if !is_target || one_of_several || !t.only_adds {
                    t.reads.insert(table.which(), table.name.clone());
                }
                if let (true, Some(relation)) = (is_target, &table.relation) {
                    t.by_writing(statement, relation, cx);
                }
                if let Some(r) = table.relation.as_ref().filter(|r| r.row_security || r.statement_triggers) {
                    t.runs_code_of(r);
                }
            }
            if view {
                t.code_reads = Kinds { local: true, reference: true };
            }
        }
        t.only_takes = matches!(statement, NodeEnum::DeleteStmt(_));
        t.adds = !matches!(statement, NodeEnum::DeleteStmt(_) | NodeEnum::SelectStmt(_));
        t.by_calling(statement, cx);
        t
    }

    fn by_writing(&mut self, statement: &NodeEnum, relation: &Arc<Relation>, cx: &Context) {
        let mut reached = HashSet::new();
        if modify::takes_others(statement, relation) {
            let mut todo = vec![relation.oid];
            while let Some(from) = todo.pop() {
                let tied = cx.snapshot.code.tied.iter().filter(|(f, _)| *f == from).map(|(_, to)| *to);
                todo.extend(tied.filter(|to| reached.insert(*to)));
            }
        }
        self.keeps_keys = matches!(statement, NodeEnum::UpdateStmt(_)) && !modify::takes_others(statement, relation);
        self.reached.extend(&reached);
        reached.insert(relation.oid);
        for r in cx.snapshot.relations.values().filter(|r| reached.contains(&r.oid)) {
            if has_code(r, cx) {
                self.runs_code_of(r);
            }
        }
    }

    /// Code on a table that several nodes have may use reference tables, and write none; on home it may use local ones.
    fn runs_code_of(&mut self, relation: &Relation) {
        let local = matches!(relation.placement, Placement::Local);
        self.code_reads.reference = true;
        self.code_reads.local |= local;
        self.code_writes.local |= local;
    }

    fn by_calling(&mut self, statement: &NodeEnum, cx: &Context) {
        search::each(statement, |n| {
            let NodeEnum::FuncCall(call) = n else { return };
            for f in cx.functions(&call.funcname).filter(|f| f.user_defined) {
                if f.volatility != Volatility::Immutable {
                    self.code_reads = Kinds { local: true, reference: true };
                }
                self.code_writes.local |= f.volatility == Volatility::Volatile;
            }
        });
    }
}

/// Tables that inherit from each other, or refer to each other: which of both is not told.
fn family(oid: Oid, cx: &Context) -> HashSet<Oid> {
    let (mut found, mut todo) = (HashSet::new(), vec![oid]);
    while let Some(next) = todo.pop() {
        let of = |(f, to): &(Oid, Oid)| if *f == next { Some(*to) } else { (*to == next).then_some(*f) };
        todo.extend(cx.snapshot.code.tied.iter().filter_map(of).filter(|o| found.insert(*o)));
    }
    found.remove(&oid);
    found
}

/// Triggers, policies, rules; or defaults and checks that call functions of users' own.
fn has_code(relation: &Relation, cx: &Context) -> bool {
    let code = &cx.snapshot.code;
    let calls = |a: &Attached| code.uses.get(&a.object()).is_some_and(|u| u.iter().any(|o| o.class == b'f'));
    relation.triggers
        || relation.statement_triggers
        || relation.row_security
        || code.attached.iter().any(|a| a.table == relation.oid && a.what != "view" && calls(a))
}

impl Kinds {
    fn add(&mut self, table: &Table) {
        match table.relation.as_ref().map(|r| &r.placement) {
            Some(Placement::Distributed(_)) => {}
            Some(Placement::Reference) => self.reference = true,
            Some(Placement::Local) | None => self.local = true,
        }
    }

    /// Some tables may be of both.
    pub fn meets(self, other: Kinds) -> bool {
        self.local && other.local || self.reference && other.reference
    }
}
