//! What of a change means the same on every node, and what hangs on the row of the target that it is asked for.
//!
//! It goes by the facts of `levels.rs`; what is not known is taken for the worse.

use sql::ast;
use sql::relations;

use super::Broadcast;
use crate::alike::selects;
use crate::levels::view_is_builtin;
use crate::scope::Owner;

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
        selects(s).into_iter().all(|s| {
            let level = self.a.by_node.get(&std::ptr::from_ref(s)).map(|l| &self.a.levels[*l]);
            level.is_some_and(|l| !l.is_open() && l.home_below.is_none() && l.home_above.is_none() && !l.locking)
        })
    }

    /// Of a query that is asked on nodes for rows there: it says the same wherever it is asked for the same row.
    pub(super) fn may_be_asked(&self, s: &'a ast::SelectStmt) -> bool {
        let Some(level) = self.a.by_node.get(&std::ptr::from_ref(s)).map(|l| &self.a.levels[*l]) else { return false };
        // A row of the target is on one node, which asks for it alone.
        self.on_home || !level.is_open() || self.names_target(s)
    }

    /// A column of the target is in it.
    fn names_target(&self, s: &'a ast::SelectStmt) -> bool {
        let mut found = false;
        self.a.each_column(s, |scope, parts| {
            found |= scope.resolve(parts).is_some_and(|v| self.target.contains(&v));
        });
        found
    }

    /// It names no column of what is around it.
    pub(super) fn stands_alone(&self, s: &'a ast::SelectStmt) -> bool {
        let own = self.a.levels_of(s);
        let mut alone = self.a.by_node.contains_key(&std::ptr::from_ref(s));
        self.a.each_column(s, |scope, parts| {
            alone &= match scope.owner(parts) {
                Owner::Level(hops) => scope.level_around(hops).is_some_and(|level| own.contains(&level)),
                Owner::Unsure => false,
                Owner::Nobody => true,
            };
        });
        alone
    }
}
