//! The order of a subquery as that of the query around it: `SELECT a FROM (SELECT a FROM t ORDER BY b) s` becomes
//! `SELECT s.a FROM (SELECT a, b AS "%o0" FROM t ORDER BY b) s ORDER BY s."%o0"`, which nodes can sort and the router merge.
//!
//! Aggregates get it as an ORDER BY of their own. Only where nothing can see the columns that are added. It does not know where
//! rows are.

use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, search};

use catalog::FunctionKind;

use crate::compose::has_sublink;
use crate::levels::{Analysis, star_columns};
use crate::{pull, rewrite};

/// The query with the order of the subquery it reads, if it can be written so.
pub fn lift(a: &Analysis, s: &ast::SelectStmt, level: usize) -> Option<ast::SelectStmt> {
    let l = &a.levels[level];
    let aggregates = l.aggregates || l.grouped;
    if s.larg.is_some() || !s.distinct_clause.is_empty() || !l.windows.is_empty() {
        return None;
    }
    let mut lifted = s.clone();
    let (alias, order) = from_sub(a, s, &mut lifted, level)?;
    let sort: Vec<Node> = order
        .into_iter()
        .enumerate()
        .map(|(i, mut by)| {
            by.node = Some(Box::new(build::column(&[&alias, &hidden(i)])));
            build::node(NodeEnum::SortBy(Box::new(by)))
        })
        .collect();
    if aggregates {
        pull::each_upper(&mut lifted, &mut |n| walk::walk_mut(n, &mut Sort { a, sort: &sort }));
    } else if lifted.sort_clause.is_empty() {
        lifted.sort_clause = sort;
    }
    Some(lifted)
}

/// Gives aggregates an order.
struct Sort<'s, 'a> {
    a: &'s Analysis<'a>,
    sort: &'s [Node],
}

impl VisitMut for Sort<'_, '_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        let json = match n {
            NodeEnum::FuncCall(call) => {
                let mut named = self.a.cx.functions(&call.funcname);
                if named.any(|f| f.kind == FunctionKind::Aggregate) && call.over.is_none() && self.a.minds_order(call) {
                    call.agg_order = self.sort.to_vec();
                }
                return true;
            }
            NodeEnum::JsonArrayAgg(j) => j.constructor.as_deref_mut(),
            NodeEnum::JsonObjectAgg(j) => j.constructor.as_deref_mut(),
            _ => None,
        };
        if let Some(json) = json.filter(|j| j.over.is_none() && j.agg_order.is_empty()) {
            json.agg_order = self.sort.to_vec();
        }
        true
    }

    fn select(&mut self, _: &mut ast::SelectStmt) -> bool {
        false
    }
}

fn hidden(i: usize) -> String {
    format!("%o{i}")
}

/// Has the one subquery in FROM give its order as columns: its alias, and which way each is sorted.
fn from_sub(
    a: &Analysis,
    s: &ast::SelectStmt,
    lifted: &mut ast::SelectStmt,
    level: usize,
) -> Option<(String, Vec<ast::SortBy>)> {
    let ([Node { node: Some(NodeEnum::RangeSubselect(sub)) }], [Node { node: Some(NodeEnum::RangeSubselect(out)) }]) =
        (&s.from_clause[..], &mut lifted.from_clause[..])
    else {
        return None;
    };
    let (Some(NodeEnum::SelectStmt(inner)), Some(NodeEnum::SelectStmt(inner_out))) =
        (&sub.subquery.as_deref()?.node, &mut out.subquery.as_deref_mut()?.node)
    else {
        return None;
    };
    let alias = sub.alias.as_ref()?.aliasname.clone();
    let inner_level = *a.by_node.get(&std::ptr::from_ref(inner.as_ref()))?;
    let columns = a.levels[inner_level].columns.as_ref()?;
    if sub.lateral || columns.iter().any(|(name, _)| name.starts_with("%o")) {
        return None;
    }
    let order = give(a, inner, inner_out, inner_level)?;
    expand_stars(a, lifted, level)?;
    let whole = ast::SelectStmt { from_clause: vec![], ..lifted.clone() };
    let sees_all = |n: &NodeEnum| matches!(n, NodeEnum::ColumnRef(c) if names::has_star(c) || names::strings(&c.fields)[..] == [alias.as_str()]);
    let seen = search::any(&whole, sees_all);
    (!seen).then_some((alias, order))
}

/// Adds columns that say where a row of this level comes in its order.
fn give(a: &Analysis, s: &ast::SelectStmt, out: &mut ast::SelectStmt, level: usize) -> Option<Vec<ast::SortBy>> {
    let chosen = s.limit_count.is_some() || s.limit_offset.is_some() || !s.distinct_clause.is_empty();
    if chosen || s.larg.is_some() || !s.locking_clause.is_empty() || a.levels[level].volatile {
        return None;
    }
    if s.sort_clause.is_empty() {
        let l = &a.levels[level];
        if l.aggregates || l.grouped || !l.windows.is_empty() {
            return None;
        }
        let (alias, order) = from_sub(a, s, out, level)?;
        let columns = (0..order.len()).map(|i| build::target(build::column(&[&alias, &hidden(i)]), Some(&hidden(i))));
        out.target_list.extend(columns);
        return Some(order);
    }
    let mut order = vec![];
    for (i, item) in s.sort_clause.iter().enumerate() {
        let Some(NodeEnum::SortBy(by)) = &item.node else { return None };
        let value = by.node.as_deref()?;
        let value = match rewrite::output_item(value, s) {
            Some(target) => target,
            None if matches!(value.node, Some(NodeEnum::AConst(_))) => return None,
            None => value,
        };
        if has_sublink(value) || by.sortby_dir == ast::SortByDir::SortbyUsing as i32 {
            return None;
        }
        out.target_list.push(build::target(value.clone(), Some(&hidden(i))));
        order.push(ast::SortBy { node: None, ..by.as_ref().clone() });
    }
    Some(order)
}

/// `*` would give the columns that are added, too.
fn expand_stars(a: &Analysis, s: &mut ast::SelectStmt, level: usize) -> Option<()> {
    let scope = a.scopes.get(&level)?;
    let mut targets = vec![];
    for target in std::mem::take(&mut s.target_list) {
        match rewrite::target_value(&target).and_then(|v| v.node.as_ref()) {
            Some(NodeEnum::ColumnRef(c)) if names::has_star(c) => {
                let columns = star_columns(c, scope)?;
                targets.extend(columns.into_iter().map(|(name, _, node)| build::target(node, Some(&name))));
            }
            _ => targets.push(target),
        }
    }
    s.target_list = targets;
    Some(())
}
