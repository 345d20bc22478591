//! What a level gives to the one around it: its columns, what it groups by, its windows.

use std::collections::{HashMap, HashSet};

use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use super::{Analysis, GroupedBy};
use crate::classes::Var;
use crate::rewrite::{self, GroupItem};
use crate::scope::{Scope, Star};

/// Columns of what a query gives, of which nothing more is found out.
const COLUMNS_MAX: usize = 8_000;

impl<'a> Analysis<'a> {
    /// Output columns: names and variables.
    pub(super) fn output(&self, s: &'a ast::SelectStmt, scope: &Scope<'a>) -> Option<Vec<(String, Option<Var>)>> {
        let mut columns = Vec::new();
        for target in &s.target_list {
            let Some(NodeEnum::ResTarget(t)) = &target.node else { return None };
            let value = t.val.as_deref()?;
            match &value.node {
                // The columns of a composite type.
                Some(NodeEnum::AIndirection(_)) if rewrite::is_star(target) => return None,
                Some(NodeEnum::ColumnRef(c)) if names::has_star(c) => {
                    columns.extend(star_columns(c, scope)?.into_iter().map(|(n, v, _)| (n, v)))
                }
                _ => {
                    let name = if t.name.is_empty() { names::figure_column(value) } else { t.name.clone() };
                    columns.push((name, self.var(value, scope)));
                }
            }
            // PostgreSQL has 1664 at most (MaxTupleAttributeNumber).
            if columns.len() > COLUMNS_MAX {
                self.cx.take(usize::MAX);
                return None;
            }
        }
        self.cx.take(columns.len());
        Some(columns)
    }

    /// The variable a GROUP BY item means, by name or by position.
    pub(super) fn group_var(&self, node: &'a Node, s: &'a ast::SelectStmt, scope: &Scope<'a>) -> Option<Var> {
        match rewrite::group_item(node, s, Some(scope)) {
            GroupItem::Itself => self.var(node, scope),
            GroupItem::Output(value) => self.var(value, scope),
            GroupItem::Unsure(_) => None,
        }
    }

    /// What stands in every grouping set that these items make together, and in any.
    pub(super) fn grouped_by(&self, items: &'a [Node], s: &'a ast::SelectStmt, scope: &Scope<'a>) -> GroupedBy {
        let mut all = GroupedBy::default();
        for item in items {
            let one = self.grouped_by_item(item, s, scope);
            all.always.extend(one.always);
            all.ever.extend(one.ever);
        }
        all
    }

    fn grouped_by_item(&self, node: &'a Node, s: &'a ast::SelectStmt, scope: &Scope<'a>) -> GroupedBy {
        const LIST: i32 = ast::CoercionForm::CoerceImplicitCast as i32;
        match &node.node {
            Some(NodeEnum::GroupingSet(set)) => {
                let mut all = self.grouped_by(&set.content, s, scope);
                match ast::GroupingSetKind::try_from(set.kind) {
                    Ok(ast::GroupingSetKind::GroupingSetSimple) => {}
                    Ok(ast::GroupingSetKind::GroupingSetSets) => {
                        for item in &set.content {
                            let one = self.grouped_by_item(item, s, scope);
                            all.always.retain(|v| one.always.contains(v));
                        }
                    }
                    // One of their sets is empty.
                    _ => all.always.clear(),
                }
                all
            }
            Some(NodeEnum::RowExpr(r)) if r.row_format == LIST => self.grouped_by(&r.args, s, scope),
            _ => {
                let one: HashSet<Var> = self.group_var(node, s, scope).into_iter().collect();
                GroupedBy { always: one.clone(), ever: one }
            }
        }
    }

    /// The variable a DISTINCT ON item means.
    pub(super) fn distinct_var(&self, node: &'a Node, s: &'a ast::SelectStmt, scope: &Scope<'a>) -> Option<Var> {
        self.var(rewrite::output_item(node, s).unwrap_or(node), scope)
    }

    /// What each window function is partitioned by, and whether its window has an order of its own.
    pub(super) fn windows_of(&self, s: &'a ast::SelectStmt, scope: &Scope<'a>) -> (Vec<Vec<Option<Var>>>, bool) {
        let mut finder = Windows { calls: vec![] };
        s.target_list.iter().chain(&s.sort_clause).for_each(|n| walk::walk(n, &mut finder));
        let named: HashMap<&str, &ast::WindowDef> = s
            .window_clause
            .iter()
            .filter_map(|w| match &w.node {
                Some(NodeEnum::WindowDef(w)) => Some((w.name.as_str(), w.as_ref())),
                _ => None,
            })
            .collect();
        let (mut partitions, mut sorted) = (vec![], true);
        for w in finder.calls {
            let (mut w, mut hops, mut has_order) = (w, 0, !w.order_clause.is_empty());
            while w.partition_clause.is_empty() && hops < 32 {
                let other = if w.refname.is_empty() { w.name.as_str() } else { w.refname.as_str() };
                match named.get(other) {
                    Some(next) if !std::ptr::eq(*next, w) => w = next,
                    _ => break,
                }
                has_order |= !w.order_clause.is_empty();
                hops += 1;
            }
            sorted &= has_order;
            partitions.push(w.partition_clause.iter().map(|p| self.var(p, scope)).collect());
        }
        (partitions, sorted)
    }
}

/// The columns `*` or `t.*` stands for: name, variable, and a reference to it.
pub fn star_columns(c: &ast::ColumnRef, scope: &Scope) -> Option<Star> {
    let qualifier = names::strings(&c.fields);
    if qualifier.is_empty() {
        // Columns of a change that joins have merged are left to PostgreSQL.
        let known = !scope.items.is_empty() && (scope.merged.is_empty() || !scope.joins.is_empty());
        let columns = if known { scope.star(0..scope.items.len())? } else { return None };
        // A merged column has no other name, which may mean another one as well.
        let merged = |node: &Node| names::column(node).is_some_and(|parts| parts.len() == 1);
        let twice = |name: &str| columns.iter().filter(|(other, ..)| other == name).count() > 1;
        let sure = scope.joins.is_empty() || !columns.iter().any(|(name, _, node)| merged(node) && twice(name));
        return sure.then_some(columns);
    }
    let mut columns = Vec::new();
    let mut matched = false;
    for item in &scope.items {
        if qualifier.last().is_none_or(|q| *q == item.alias) {
            if item.opaque {
                return None;
            }
            matched = true;
            let reference = |n: &str| sql::build::column(&[&item.alias, n]);
            columns.extend(item.columns.iter().map(|(n, v)| (n.clone(), *v, reference(n))));
        }
    }
    matched.then_some(columns)
}

struct Windows<'a> {
    calls: Vec<&'a ast::WindowDef>,
}

impl<'a> Visit<'a> for Windows<'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        let json = |c: Option<&'a ast::JsonAggConstructor>| c.and_then(|c| c.over.as_deref());
        self.calls.extend(match n {
            NodeEnum::FuncCall(c) => c.over.as_deref(),
            NodeEnum::JsonArrayAgg(j) => json(j.constructor.as_deref()),
            NodeEnum::JsonObjectAgg(j) => json(j.constructor.as_deref()),
            _ => None,
        });
        !matches!(n, NodeEnum::SubLink(_))
    }
    fn select(&mut self, _: &'a ast::SelectStmt) -> bool {
        false
    }
}
