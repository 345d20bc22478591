//! Which level an aggregate belongs to: not the one it is written in, but the innermost one of the columns in its arguments.
//!
//! PostgreSQL's rule (`check_agg_arguments` in parse_agg.c): columns of subqueries inside of the arguments don't count, and without
//! any column it is the level it is written in. Part of `levels.rs`; it runs when all scopes are known.

use std::rc::Rc;

use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use super::Analysis;
use crate::refuse::Refusal;
use crate::scope::{Owner, Scope};

/// An aggregate of a subquery, which may belong to a level around it.
pub(super) struct Call<'a> {
    /// What tells its level: its arguments and its FILTER.
    arguments: Vec<&'a Node>,
    sensitive: bool,
    level: usize,
    scope: Rc<Scope<'a>>,
}

impl<'a> Analysis<'a> {
    /// A call of an aggregate, not of a window function.
    pub(super) fn aggregate(&mut self, call: &'a ast::FuncCall, level: usize, scope: &Rc<Scope<'a>>) {
        // The arguments in front of WITHIN GROUP are not aggregated.
        let aggregated: &[Node] = if call.agg_within_group { &[] } else { &call.args };
        let arguments = aggregated.iter().chain(&call.agg_order).chain(call.agg_filter.as_deref()).collect();
        let sensitive = self.minds_order(call);
        self.found_aggregate(Call { arguments, sensitive, level, scope: scope.clone() });
    }

    /// The aggregate's result depends on the order of its rows, which it does not say.
    pub fn minds_order(&self, call: &ast::FuncCall) -> bool {
        let name = names::last(&call.funcname);
        let own = self.cx.functions(&call.funcname).any(|f| f.user_defined);
        !call.agg_distinct && call.agg_order.is_empty() && (own || !takes_any_order(name))
    }

    /// JSON_ARRAYAGG or JSON_OBJECTAGG.
    pub(super) fn json_aggregate(&mut self, node: &'a NodeEnum, level: usize, scope: &Rc<Scope<'a>>) {
        let (constructor, key, value) = match node {
            NodeEnum::JsonArrayAgg(j) => (j.constructor.as_deref(), None, j.arg.as_deref()),
            NodeEnum::JsonObjectAgg(j) => {
                let pair = j.arg.as_deref();
                (j.constructor.as_deref(), pair.and_then(|p| p.key.as_deref()), pair.and_then(|p| p.value.as_deref()))
            }
            _ => return,
        };
        let Some(constructor) = constructor.filter(|c| c.over.is_none()) else { return };
        let value = value.and_then(|v| v.raw_expr.as_deref());
        let arguments =
            key.into_iter().chain(value).chain(&constructor.agg_order).chain(constructor.agg_filter.as_deref());
        let sensitive = constructor.agg_order.is_empty();
        self.found_aggregate(Call { arguments: arguments.collect(), sensitive, level, scope: scope.clone() });
    }

    fn found_aggregate(&mut self, call: Call<'a>) {
        match call.scope.parent {
            None => self.give_aggregate(call.level, call.sensitive),
            Some(_) => self.aggregates.push(call),
        }
    }

    fn give_aggregate(&mut self, level: usize, sensitive: bool) {
        self.levels[level].aggregates = true;
        self.levels[level].order_sensitive |= sensitive;
    }

    /// Gives the aggregates of subqueries to their levels.
    pub(super) fn settle_aggregates(&mut self) {
        for Call { arguments, sensitive, level, scope } in std::mem::take(&mut self.aggregates) {
            let mut columns = ColumnOwners { a: self, scopes: vec![scope.clone()], innermost: None, unsure: None };
            arguments.into_iter().for_each(|n| walk::walk(n, &mut columns));
            let (innermost, unsure) = (columns.innermost.unwrap_or(0), columns.unsure);
            let around = || std::iter::successors(Some(&scope), |s| s.parent.as_ref());
            let owner = around().nth(innermost).and_then(|s| s.level).unwrap_or(level);
            self.give_aggregate(owner, sensitive);
            let Some(column) = unsure else { continue };
            for level in around().filter_map(|s| s.level) {
                self.levels[level].refusal.get_or_insert_with(|| {
                    Refusal::new(
                        format!("column \"{column}\" in an aggregate of a subquery may be of several levels, which is not supported over several nodes"),
                        "Write the name or alias of its table in front of it.",
                    )
                });
            }
        }
    }
}

/// PostgreSQL's aggregates whose result does not depend on the order of their rows.
fn takes_any_order(name: &str) -> bool {
    matches!(
        name,
        "count"
            | "sum"
            | "min"
            | "max"
            | "avg"
            | "every"
            | "corr"
            | "range_agg"
            | "range_intersect_agg"
            | "mode"
            | "rank"
            | "dense_rank"
            | "percent_rank"
            | "cume_dist"
            | "percentile_cont"
            | "percentile_disc"
    ) || ["bool_", "bit_", "stddev", "var", "regr_", "covar_"].iter().any(|p| name.starts_with(p))
}

/// Looks for the columns of an aggregate's arguments.
struct ColumnOwners<'c, 'a> {
    a: &'c Analysis<'a>,
    /// The aggregate's own, and those of the subqueries the walk is in.
    scopes: Vec<Rc<Scope<'a>>>,
    /// How many levels around the aggregate's the innermost column's is.
    innermost: Option<usize>,
    unsure: Option<String>,
}

impl<'a> Visit<'a> for ColumnOwners<'_, 'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        let (NodeEnum::ColumnRef(c), Some(scope)) = (n, self.scopes.last()) else { return true };
        let parts = names::strings(&c.fields);
        match scope.owner(&parts) {
            Owner::Level(hops) => {
                if let Some(hops) = (hops + 1).checked_sub(self.scopes.len()) {
                    self.innermost = Some(self.innermost.map_or(hops, |i| i.min(hops)));
                }
            }
            Owner::Unsure => self.unsure = Some(parts.join(".")),
            Owner::Nobody => {}
        }
        true
    }

    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        let scope = self.a.by_node.get(&std::ptr::from_ref(s)).and_then(|level| self.a.scopes.get(level)).cloned();
        let Some(scope) = scope else { return false };
        self.scopes.push(scope);
        true
    }

    fn leave_select(&mut self, _: &'a ast::SelectStmt) {
        self.scopes.pop();
    }
}
