//! Which names by themselves are columns, whatever tables are called. PostgreSQL looks for a column first, from the query a name
//! stands in outwards, and takes it for a row only where it finds none (`colNameToVar` and `transformColumnRef` in its parser).
//!
//! Names in FROM see less than the whole of it, and are left out here.

use std::collections::HashSet;

use sql::walk::{self, Visit};
use sql::{NodeEnum, ast, names, search};

use crate::levels::Analysis;

/// The references that mean a column of the query they stand in.
pub fn of(a: &Analysis, tree: &impl search::Tree) -> HashSet<*const ast::ColumnRef> {
    let mut levels = Levels { a, found: HashSet::new() };
    tree.look(&mut levels);
    levels.found
}

struct Levels<'l, 'a> {
    a: &'l Analysis<'a>,
    found: HashSet<*const ast::ColumnRef>,
}

impl<'n> Visit<'n> for Levels<'_, '_> {
    fn select(&mut self, s: &'n ast::SelectStmt) -> bool {
        let level = self.a.by_node.get(&std::ptr::from_ref(s));
        let Some(scope) = level.and_then(|l| self.a.scopes.get(l)) else { return true };
        // The columns of what is in a join with a name of its own can't be seen.
        if s.from_clause
            .iter()
            .any(|item| search::any(item, |n| matches!(n, NodeEnum::JoinExpr(j) if j.alias.is_some())))
        {
            return true;
        }
        let is_column = |name: &str| scope.items.iter().any(|i| i.columns.iter().any(|(column, _)| column == name));
        let mut own = Own { is_column: &is_column, found: &mut self.found };
        let lists = [&s.target_list, &s.group_clause, &s.distinct_clause, &s.window_clause, &s.sort_clause];
        let conditions = s.where_clause.iter().chain(&s.having_clause).map(|n| &**n);
        lists.into_iter().flatten().chain(conditions).for_each(|n| walk::walk(n, &mut own));
        true
    }
}

/// What stands in a query itself, not in those within it.
struct Own<'o> {
    is_column: &'o dyn Fn(&str) -> bool,
    found: &'o mut HashSet<*const ast::ColumnRef>,
}

impl<'n> Visit<'n> for Own<'_> {
    fn node(&mut self, n: &'n NodeEnum) -> bool {
        if let NodeEnum::ColumnRef(c) = n
            && let ([name], 1) = (&names::strings(&c.fields)[..], c.fields.len())
            && (self.is_column)(name)
        {
            self.found.insert(std::ptr::from_ref(c));
        }
        true
    }

    fn select(&mut self, _: &'n ast::SelectStmt) -> bool {
        false
    }
}
