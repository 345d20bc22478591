//! By which columns rows that came home are looked up, one after the other: a subquery that stands for a value, or is LATERAL, is
//! run for each row around it. In a table an index serves it, which rows on home do not have. Other subqueries PostgreSQL joins.
//!
//! It says what helps; a statement is right without.

use std::collections::{HashMap, HashSet};

use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use super::filters::conjuncts;
use crate::classes::Var;
use crate::levels::Analysis;
use crate::scope::Scope;

/// By the place where a table is named: columns that a query equates with those around it.
pub struct Lookups(HashMap<*const ast::RangeVar, Vec<usize>>);

impl Lookups {
    /// Of a query that was analysed.
    pub fn of(a: &Analysis, select: &ast::SelectStmt) -> Self {
        let mut levels = Levels { a, repeated: HashSet::new(), found: HashMap::new() };
        walk::select_stmt(select, &mut levels);
        Lookups(levels.found)
    }

    /// Columns of the table named here.
    pub fn of_table(&self, rv: &ast::RangeVar) -> &[usize] {
        self.0.get(&std::ptr::from_ref(rv)).map_or(&[], Vec::as_slice)
    }
}

struct Levels<'l, 'a> {
    a: &'l Analysis<'a>,
    /// Queries that are run for each row.
    repeated: HashSet<*const ast::SelectStmt>,
    found: HashMap<*const ast::RangeVar, Vec<usize>>,
}

impl<'n> Visit<'n> for Levels<'_, '_> {
    fn node(&mut self, n: &'n NodeEnum) -> bool {
        let query = match n {
            NodeEnum::SubLink(s) => {
                use ast::SubLinkType::*;
                let of_value = [ExprSublink, ArraySublink].iter().any(|kind| s.sub_link_type == *kind as i32);
                s.subselect.as_deref().filter(|_| of_value)
            }
            NodeEnum::RangeSubselect(s) => s.subquery.as_deref().filter(|_| s.lateral),
            _ => None,
        };
        if let Some(NodeEnum::SelectStmt(s)) = query.and_then(|q| q.node.as_ref()) {
            self.repeated.insert(std::ptr::from_ref(s));
        }
        true
    }

    fn select(&mut self, s: &'n ast::SelectStmt) -> bool {
        let at = std::ptr::from_ref(s);
        if let Some(level) = self.a.by_node.get(&at).filter(|_| self.repeated.contains(&at)) {
            let mut conditions = vec![];
            conjuncts(s.where_clause.as_deref(), &mut conditions);
            conditions.into_iter().for_each(|c| self.condition(c, *level));
        }
        true
    }
}

impl Levels<'_, '_> {
    fn condition(&mut self, condition: &Node, level: usize) {
        let Some(scope) = self.a.scopes.get(&level) else { return };
        let Some(NodeEnum::AExpr(e)) = &condition.node else { return };
        if e.kind != ast::AExprKind::AexprOp as i32 || names::last(&e.name) != "=" {
            return;
        }
        let own = |side: Option<&Node>| {
            let v = scope.resolve(&names::column(side?)?)?;
            scope.items.iter().any(|i| i.columns.iter().any(|(_, own)| *own == Some(v))).then_some(v)
        };
        let (l, r) = (e.lexpr.as_deref(), e.rexpr.as_deref());
        match (own(l), own(r)) {
            (Some(v), None) if is_around(scope, r) => self.column(v, level),
            (None, Some(v)) if is_around(scope, l) => self.column(v, level),
            _ => {}
        }
    }

    fn column(&mut self, var: Var, level: usize) {
        for (rv, uses) in &self.a.ranges {
            let of_level = uses.iter().map(|u| &self.a.uses[*u]).filter(|of| of.level == level);
            let position = of_level.filter_map(|of| of.columns.iter().position(|c| *c == var)).next();
            let found = self.found.entry(*rv).or_default();
            found.extend(position.filter(|p| !found.contains(p)));
        }
    }
}

/// A column of none of the scope's own items.
fn is_around(scope: &Scope, side: Option<&Node>) -> bool {
    let Some(parts) = side.and_then(names::column) else { return false };
    let has = |column: &str| scope.items.iter().any(|i| i.opaque || i.columns.iter().any(|(name, _)| name == column));
    match parts[..] {
        [column] => !has(column),
        [.., table, _] => scope.items.iter().all(|i| i.alias != table),
        [] => false,
    }
}
