//! A table's columns may stand beside aggregates where its primary key is grouped by. Rows in a table's place have no key, so
//! the columns join the key in GROUP BY: they are the same wherever it is.
//!
//! It does not know where rows come from.

use sql::ast::{self, Node};
use sql::{NodeEnum, build};
use wire::type_oid;

use super::used;
use crate::compose::Composer;

/// Goes down a copy of a query beside the query itself.
pub struct Depend<'c, 'p, 'a, I> {
    pub levels: I,
    pub composer: &'c Composer<'p, 'a>,
}

impl<'p> Composer<'p, '_> {
    /// `out` is to be what `s` was, and may have been changed already, but for GROUP BY.
    pub fn group_dependent(&self, s: &'p ast::SelectStmt, out: &mut ast::SelectStmt) {
        let (a, Some(gather)) = (self.a, &self.gather) else { return };
        let Some(level) = a.by_node.get(&std::ptr::from_ref(s)).copied() else { return };
        let grouped = &a.levels[level].group;
        if grouped.is_empty() || a.levels[level].grouping_sets {
            return;
        }
        let has = |v: usize| grouped.contains(&Some(v));
        for rv in tables(s) {
            let uses = a.ranges.get(&std::ptr::from_ref(rv)).into_iter().flatten();
            let Some(u) = uses.map(|u| &a.uses[*u]).find(|u| u.level == level) else { continue };
            let primary = u.relation.unique.iter().find(|i| i.primary);
            if !primary.is_some_and(|key| key.columns.iter().all(|c| has(u.columns[*c]))) {
                continue;
            }
            let names = used::visible(&u.relation, rv);
            let alias = rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname);
            let all = gather.facts.used.columns(&u.relation).into_iter();
            let wanted = all.filter(|c| !has(u.columns[*c]) && can_group(u.relation.columns[*c].type_oid));
            out.group_clause.extend(wanted.map(|c| build::column(&[alias, &names[c]])));
        }
    }
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
