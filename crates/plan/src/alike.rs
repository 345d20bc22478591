//! What of a query says the same on every node, where it reads nothing but what all of them have.
//!
//! Copies of a table have the same rows, each in an order of its own: so nothing may hang on the order in which rows are met, however
//! deep inside a subquery. What is asked for each row of a distributed table by itself is asked on one node, once.

use std::collections::HashSet;

use sql::ast;
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use crate::apart::{Apart, Differs};
use crate::levels::{Analysis, Distinct, From, Level};
use crate::scope::{Owner, Scope};

impl Level {
    /// Which of the rows that it reads it takes is open.
    fn chooses(&self) -> bool {
        let cuts = self.limit || matches!(self.distinct, Distinct::On(_));
        cuts && (!self.from.is_empty() || self.arms.is_some())
    }

    /// What it makes of its rows hangs on their order.
    fn minds_order(&self) -> bool {
        self.order_sensitive || !self.windows.is_empty() || (self.array && !self.sorted)
    }

    /// Which rows it takes, or what it makes of them, may differ from one time to another.
    pub fn is_open(&self) -> bool {
        self.chooses() || self.volatile || self.minds_order()
    }
}

impl<'a> Analysis<'a> {
    /// What a level and those below it read of tables that every node has gives the same rows on each.
    pub fn same_everywhere(&self, level: usize) -> Result<(), Apart> {
        if self.judged || !self.cx.take(1) {
            return Ok(());
        }
        if self.is_free(level) {
            self.is_alike(level)?;
        }
        let l = &self.levels[level];
        l.from.iter().try_for_each(|from| self.same_in(from))?;
        l.sublinks.iter().try_for_each(|(s, _)| self.same_everywhere(*s))?;
        match l.arms {
            Some((_, _, left, right)) => self.same_everywhere(left).and_then(|()| self.same_everywhere(right)),
            None => Ok(()),
        }
    }

    fn same_in(&self, from: &From) -> Result<(), Apart> {
        match from {
            From::Sub { level, .. } => self.same_everywhere(*level),
            From::Join { left, right, .. } => self.same_in(left).and_then(|()| self.same_in(right)),
            _ => Ok(()),
        }
    }

    fn is_alike(&self, level: usize) -> Result<(), Apart> {
        let l = &self.levels[level];
        if l.chooses() {
            return Err(Apart::Differs(Differs::Choice));
        }
        if l.volatile {
            return Err(Apart::Differs(Differs::Volatile));
        }
        // Without a name from around it, PostgreSQL computes it once for all rows.
        if l.minds_order() && l.from.iter().any(|f| self.reads_copies(f)) && !self.names_around(level) {
            return Err(Apart::Differs(Differs::Order));
        }
        Ok(())
    }

    fn reads_copies(&self, from: &From) -> bool {
        match from {
            From::Reference => true,
            From::Anywhere => self.sent,
            From::Sub { level, .. } => self.level_reads_copies(*level),
            From::Join { left, right, .. } => self.reads_copies(left) || self.reads_copies(right),
            _ => false,
        }
    }

    fn level_reads_copies(&self, level: usize) -> bool {
        let l = &self.levels[level];
        l.from.iter().any(|f| self.reads_copies(f))
            || l.arms.is_some_and(|(_, _, left, right)| self.level_reads_copies(left) || self.level_reads_copies(right))
    }

    /// A column of what is around it is in it, for sure.
    fn names_around(&self, level: usize) -> bool {
        let Some(s) = self.bodies.get(&level) else { return false };
        let own = self.levels_of(s);
        let mut found = false;
        self.each_column(s, |scope, parts| {
            found |= match scope.owner(parts) {
                Owner::Level(hops) => scope.level_around(hops).is_some_and(|level| !own.contains(&level)),
                Owner::Unsure | Owner::Nobody => false,
            };
        });
        found
    }

    /// The levels of a query and of the queries in it.
    pub fn levels_of(&self, s: &'a ast::SelectStmt) -> HashSet<usize> {
        selects(s).into_iter().filter_map(|s| self.by_node.get(&std::ptr::from_ref(s)).copied()).collect()
    }

    /// Every column that is named in a query, with the scope of the SELECT it stands in.
    pub fn each_column(&self, s: &'a ast::SelectStmt, f: impl FnMut(&Scope<'a>, &[&str])) {
        struct Columns<'b, 'a, F> {
            a: &'b Analysis<'a>,
            around: Vec<Option<usize>>,
            f: F,
        }
        impl<'a, F: FnMut(&Scope<'a>, &[&str])> Visit<'a> for Columns<'_, 'a, F> {
            fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
                self.around.push(self.a.by_node.get(&std::ptr::from_ref(s)).copied());
                true
            }
            fn leave_select(&mut self, _: &'a ast::SelectStmt) {
                self.around.pop();
            }
            fn node(&mut self, n: &'a NodeEnum) -> bool {
                if let NodeEnum::ColumnRef(c) = n
                    && let Some(Some(level)) = self.around.last()
                    && let Some(scope) = self.a.scopes.get(level)
                {
                    (self.f)(scope, &names::strings(&c.fields));
                }
                true
            }
        }
        walk::select_stmt(s, &mut Columns { a: self, around: vec![], f });
    }
}

/// A query and all in it.
pub fn selects(s: &ast::SelectStmt) -> Vec<&ast::SelectStmt> {
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
