//! A table's columns may stand beside aggregates where its primary key is grouped by. Rows in a table's place have no key, so
//! the columns join the key in GROUP BY: they are the same wherever it is.
//!
//! It does not know where rows come from.

use std::sync::Arc;

use catalog::Relation;
use sql::ast::{self, Node};
use sql::{NodeEnum, build};
use wire::type_oid;

use super::used;
use crate::compose::Composer;
use crate::levels::Analysis;

/// Goes down a copy of a query beside the query itself.
pub struct Depend<'c, 'p, 'a, I> {
    pub levels: I,
    pub composer: &'c Composer<'p, 'a>,
}

impl<'p> Composer<'p, '_> {
    /// `out` is to be what `s` was, and may have been changed already, but for GROUP BY.
    pub fn group_dependent(&self, s: &'p ast::SelectStmt, out: &mut ast::SelectStmt) {
        let Some(gather) = &self.gather else { return };
        let Some(level) = self.a.by_node.get(&std::ptr::from_ref(s)).copied() else { return };
        for of in dependent(self.a, s, level) {
            let wanted = gather.facts.used.columns(&of.relation);
            let wanted = wanted.into_iter().filter(|c| of.columns.contains(c));
            out.group_clause.extend(wanted.map(|c| of.column(c)));
        }
    }
}

/// A table of a level's FROM that is grouped by its primary key.
pub struct Dependent<'s> {
    relation: Arc<Relation>,
    alias: &'s str,
    /// What its columns are called there.
    names: Vec<String>,
    /// Columns that depend on the key, and can join it; none stands in GROUP BY itself.
    columns: Vec<usize>,
}

impl Dependent<'_> {
    /// All of them, as the level names them.
    pub fn all(&self) -> impl Iterator<Item = Node> {
        self.columns.iter().map(|c| self.column(*c))
    }

    fn column(&self, number: usize) -> Node {
        build::column(&[self.alias, &self.names[number]])
    }
}

/// The tables of a level whose columns may stand beside aggregates: each of its grouping sets, if it has such, has their key. Columns that are
/// in some of the sets alone are grouped by there, and NULL elsewhere.
pub fn dependent<'s>(a: &Analysis, s: &'s ast::SelectStmt, level: usize) -> Vec<Dependent<'s>> {
    let by = &a.levels[level].grouped_by;
    if by.always.is_empty() {
        return vec![];
    }
    let of = |rv: &'s ast::RangeVar| {
        let uses = a.ranges.get(&std::ptr::from_ref(rv)).into_iter().flatten();
        let u = uses.map(|u| &a.uses[*u]).find(|u| u.level == level)?;
        let primary = u.relation.unique.iter().find(|i| i.primary)?;
        if !primary.columns.iter().all(|c| by.always.contains(&u.columns[*c])) {
            return None;
        }
        let can_join = |c: &usize| !by.ever.contains(&u.columns[*c]) && can_group(u.relation.columns[*c].type_oid);
        Some(Dependent {
            relation: u.relation.clone(),
            alias: rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname),
            names: used::visible(&u.relation, rv),
            columns: (0..u.relation.columns.len()).filter(can_join).collect(),
        })
    };
    tables(s).into_iter().filter_map(of).collect()
}

/// Types without equality can't be grouped by.
fn can_group(of: u32) -> bool {
    const GEOMETRY: std::ops::RangeInclusive<u32> = 600..=629;
    !matches!(of, type_oid::JSON | type_oid::XML | type_oid::CIRCLE) && !GEOMETRY.contains(&of)
}

/// The tables that FROM of this very level names.
fn tables(s: &ast::SelectStmt) -> Vec<&ast::RangeVar> {
    fn of<'a>(node: &'a Node, found: &mut Vec<&'a ast::RangeVar>) {
        match &node.node {
            Some(NodeEnum::RangeVar(rv)) => found.push(rv),
            Some(NodeEnum::JoinExpr(j)) => j.larg.iter().chain(&j.rarg).for_each(|side| of(side, found)),
            _ => {}
        }
    }
    let mut found = vec![];
    s.from_clause.iter().for_each(|n| of(n, &mut found));
    found
}
