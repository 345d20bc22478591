//! WITH queries that nobody names: PostgreSQL never runs them, so what they read need not be where the statement runs.
//!
//! They are taken out of the texts for nodes where they read what only home has. A mistake in them is PostgreSQL's to notice all the
//! same: home is told the whole statement before any node is asked (`Whole::unread`). It does not know levels.

use std::collections::{HashMap, HashSet};

use catalog::{Placement, Relation};
use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, clauses, names, relations, search};

use crate::Context;
use crate::views::reads_herd;

/// Takes them out; true if that was needed.
pub fn drop_unread(statement: &mut NodeEnum, cx: &Context) -> bool {
    match without_unread(statement, cx) {
        Some((changed, true)) => {
            *statement = changed;
            true
        }
        _ => false,
    }
}

/// The statement without them, and whether one reads what only home has; `None`: it has none.
pub fn without_unread(statement: &NodeEnum, cx: &Context) -> Option<(NodeEnum, bool)> {
    let mut changed = statement.clone();
    let mut drop = Drop { cx, named: HashMap::new(), dropped: false, reads_home: false };
    let mut any = false;
    loop {
        // Without one, another one may be named by nobody.
        drop.named = named(&changed);
        drop.dropped = false;
        drop.in_statement(&mut changed);
        walk::below_mut(&mut changed, &mut drop);
        if !drop.dropped {
            break;
        }
        any = true;
    }
    any.then_some((changed, drop.reads_home))
}

/// How often each unqualified name stands for a relation.
fn named(tree: &impl search::Tree) -> HashMap<String, usize> {
    let mut names = HashMap::new();
    search::each_relation(tree, |rv| {
        if rv.schemaname.is_empty() {
            *names.entry(rv.relname.clone()).or_default() += 1;
        }
    });
    names
}

struct Drop<'c> {
    cx: &'c Context<'c>,
    named: HashMap<String, usize>,
    dropped: bool,
    reads_home: bool,
}

impl Drop<'_> {
    fn from(&mut self, with: &mut Option<ast::WithClause>) {
        let Some(clause) = with else { return };
        clause.ctes.retain(|cte| !self.is_unread(cte));
        if clause.ctes.is_empty() {
            *with = None;
        }
    }

    fn is_unread(&mut self, cte: &Node) -> bool {
        let Some(NodeEnum::CommonTableExpr(cte)) = &cte.node else { return false };
        let Some(query @ NodeEnum::SelectStmt(select)) = cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) else {
            return false;
        };
        // A recursive query names itself.
        let own = named(&**select);
        let count = |names: &HashMap<String, usize>| names.get(&cte.ctename).copied().unwrap_or(0);
        let unread = count(&self.named) == count(&own) && !changes_data(select);
        if unread {
            self.dropped = true;
            self.reads_home |= relations::of(query).into_iter().any(|rv| self.is_on_home(rv));
        }
        unread
    }

    fn is_on_home(&self, rv: &ast::RangeVar) -> bool {
        self.cx.is_temporary(rv) || self.cx.relation(rv).is_some_and(|r| self.has_home(r))
    }

    /// Views over the herd's tables alone are on every node.
    fn has_home(&self, relation: &Relation) -> bool {
        // Many views may name one.
        let (mut seen, mut todo) = (HashSet::from([relation.oid]), vec![relation]);
        while let Some(relation) = todo.pop() {
            let Some(view) = relation.view.as_ref().filter(|v| !v.materialized && reads_herd(&v.query, self.cx)) else {
                match relation.placement {
                    Placement::Local => return true,
                    _ => continue,
                }
            };
            let Ok(query) = sql::parse(&view.query, true) else { return true };
            for rv in query.iter().flat_map(relations::of) {
                let (schema, name) = names::table(rv);
                todo.extend(self.cx.snapshot.resolve(schema, name, &[]).filter(|r| seen.insert(r.oid)).map(|r| &**r));
            }
        }
        false
    }

    fn in_statement(&mut self, statement: &mut NodeEnum) {
        if let Some(with) = clauses::with_mut(statement) {
            self.from(with);
        }
    }
}

impl VisitMut for Drop<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        self.in_statement(n);
        true
    }

    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        self.from(&mut s.with_clause);
        true
    }
}

/// A write in WITH runs, whoever names it.
fn changes_data(select: &ast::SelectStmt) -> bool {
    search::any(select, |n| {
        matches!(
            n,
            NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) | NodeEnum::MergeStmt(_)
        )
    })
}
