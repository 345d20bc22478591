//! What of a change means the same on every node, and what hangs on the row of the target that it is asked for.
//!
//! It goes by the facts of `levels.rs`; what is not known is taken for the worse.

use std::collections::HashSet;

use sql::ast;
use sql::walk::{self, Visit};
use sql::{NodeEnum, names, relations};

use super::Broadcast;
use crate::levels::{Distinct, Level, view_is_builtin};
use crate::scope::{Owner, Scope};

/// Of the rows it reads, which ones it takes, or what it makes of them, is open.
fn is_open(l: &Level) -> bool {
    let chooses = (l.limit || matches!(l.distinct, Distinct::On(_))) && !l.from.is_empty();
    chooses || l.volatile || l.order_sensitive || !l.windows.is_empty()
}

impl<'a> Broadcast<'_, 'a> {
    /// The query reads nothing that only some nodes have, and says the same on all of them.
    pub(super) fn stays(&self, s: &'a ast::SelectStmt) -> bool {
        !self.reads_apart(s) && (self.on_home || self.is_steady(s))
    }

    /// It names tables that are not on every node. Those of the statement's WITH queries are not its own.
    pub(super) fn reads_apart(&self, s: &ast::SelectStmt) -> bool {
        relations::of_select(s).into_iter().any(|rv| !self.is_with_query(rv) && self.is_apart(rv))
    }

    /// A table that is not on every node; where home makes the change, one that is not there.
    pub(super) fn is_apart(&self, rv: &ast::RangeVar) -> bool {
        match self.a.cx.relation(rv) {
            Some(r) if r.is_reference() => false,
            Some(r) if r.distribution().is_some() => true,
            Some(r) => !self.on_home && !view_is_builtin(r),
            None => !self.on_home,
        }
    }

    fn is_steady(&self, s: &'a ast::SelectStmt) -> bool {
        self.selects(s).into_iter().all(|s| {
            let level = self.a.by_node.get(&std::ptr::from_ref(s)).map(|l| &self.a.levels[*l]);
            level.is_some_and(|l| !is_open(l) && l.home_below.is_none() && l.home_above.is_none() && !l.locking)
        })
    }

    /// Of a query that is asked on nodes for rows there: it says the same wherever it is asked for the same row.
    pub(super) fn may_be_asked(&self, s: &'a ast::SelectStmt) -> bool {
        let Some(level) = self.a.by_node.get(&std::ptr::from_ref(s)).map(|l| &self.a.levels[*l]) else { return false };
        // A row of the target is on one node, which asks for it alone.
        self.on_home || !is_open(level) || self.names_target(s)
    }

    fn selects(&self, s: &'a ast::SelectStmt) -> Vec<&'a ast::SelectStmt> {
        struct All<'a>(Vec<&'a ast::SelectStmt>);
        impl<'a> Visit<'a> for All<'a> {
            fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
                self.0.push(s);
                true
            }
        }
        let mut all = All(vec![s]);
        walk::select_stmt(s, &mut all);
        all.0
    }

    /// A column of the target is in it.
    fn names_target(&self, s: &'a ast::SelectStmt) -> bool {
        let mut found = false;
        self.each_column(s, |scope, parts| {
            found |= scope.resolve(parts).is_some_and(|v| self.target.contains(&v));
        });
        found
    }

    /// It names no column of what is around it.
    pub(super) fn stands_alone(&self, s: &'a ast::SelectStmt) -> bool {
        let level = |s: &&ast::SelectStmt| self.a.by_node.get(&std::ptr::from_ref(*s)).copied();
        let own: HashSet<usize> = self.selects(s).iter().filter_map(level).collect();
        let mut alone = self.a.by_node.contains_key(&std::ptr::from_ref(s));
        self.each_column(s, |scope, parts| {
            alone &= match scope.owner(parts) {
                Owner::Level(hops) => {
                    let around = std::iter::successors(Some(scope), |s| s.parent.as_deref()).nth(hops);
                    around.and_then(|s| s.level).is_some_and(|level| own.contains(&level))
                }
                Owner::Unsure => false,
                Owner::Nobody => true,
            };
        });
        alone
    }

    /// Every column that is named in a query, with the scope of the SELECT it stands in.
    fn each_column(&self, s: &'a ast::SelectStmt, f: impl FnMut(&Scope<'a>, &[&str])) {
        struct Columns<'b, 'p, 'a, F> {
            b: &'b Broadcast<'p, 'a>,
            around: Vec<Option<usize>>,
            f: F,
        }
        impl<'a, F: FnMut(&Scope<'a>, &[&str])> Visit<'a> for Columns<'_, '_, 'a, F> {
            fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
                self.around.push(self.b.a.by_node.get(&std::ptr::from_ref(s)).copied());
                true
            }
            fn leave_select(&mut self, _: &'a ast::SelectStmt) {
                self.around.pop();
            }
            fn node(&mut self, n: &'a NodeEnum) -> bool {
                if let NodeEnum::ColumnRef(c) = n
                    && let Some(Some(level)) = self.around.last()
                    && let Some(scope) = self.b.a.scopes.get(level)
                {
                    (self.f)(scope, &names::strings(&c.fields));
                }
                true
            }
        }
        walk::select_stmt(s, &mut Columns { b: self, around: vec![], f });
    }
}
