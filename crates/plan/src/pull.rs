//! The fallback of the finish: the needed columns of the filtered rows travel, and PostgreSQL does everything above
//! FROM and WHERE (window functions, GROUPING SETS, aggregates that don't split) over them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, search};

use catalog::FunctionKind;

use crate::Result;
use crate::columns::Rows;
use crate::compose::{Composer, part_column};
use crate::gather::grouped;
use crate::levels::{Analysis, star_columns};
use crate::refuse::Refusal;
use crate::rewrite::GroupItem;
use crate::scope::{Owner, Scope};
use crate::{aggregate, duplicates, expression, rewrite, tableoid};

/// Adds a part that reads the rows of the level; gives the query that home runs over them.
pub fn pull<'p>(c: &mut Composer<'p, '_>, s: &'p ast::SelectStmt, level: usize) -> Result<ast::SelectStmt> {
    let scope = scope_of(c, level)?;
    let mut finish = upper(s, &scope)?;
    if c.a.levels[level].locking {
        return Err(Refusal::bare("FOR UPDATE is not allowed with this query over several nodes"));
    }
    group_dependent(c.a, s, level, &scope, &mut finish);
    let mut columns = PulledColumns::new(c.a, &scope);
    each_upper(&mut finish, &mut |n| walk::walk_mut(n, &mut columns));
    if let Some(refusal) = columns.refusal {
        return Err(refusal);
    }
    let mut part = build::select();
    part.with_clause = s.with_clause.clone();
    part.from_clause = s.from_clause.clone();
    part.where_clause = s.where_clause.clone();
    let l = &c.a.levels[level];
    if l.grouped && !l.aggregates && s.group_clause.is_empty() {
        // HAVING alone: one row or none, whatever the tables' rows are. PostgreSQL does not look at them.
        part.where_clause = Some(Box::new(build::own_operator("=", build::integer(1), build::integer(0))));
    }
    part.target_list = columns.originals.into_iter().map(|n| build::target(n, None)).collect();
    if part.target_list.is_empty() {
        part.target_list.push(build::target(build::integer(1), None));
    }
    let rows = if duplicates::go_unnoticed(&finish, c.a) { Rows::Once } else { Rows::All };
    let from = c.add_part_of(part, c.a.deep_uses(level), rows)?;
    finish.from_clause = vec![from];
    Ok(finish)
}

/// The part's rows have no primary key: what depends on a table's stands in GROUP BY beside it.
fn group_dependent(a: &Analysis, s: &ast::SelectStmt, level: usize, scope: &Scope, finish: &mut ast::SelectStmt) {
    let tables = grouped::dependent(a, s, level);
    if tables.is_empty() {
        return;
    }
    let mut named = HashSet::new();
    search::each(&*finish, |n| {
        if let NodeEnum::ColumnRef(c) = n {
            named.insert(canonical(c, scope));
        }
    });
    let is_named = |n: &Node| matches!(&n.node, Some(NodeEnum::ColumnRef(c)) if named.contains(&canonical(c, scope)));
    finish.group_clause.extend(tables.iter().flat_map(grouped::Dependent::all).filter(is_named));
}

/// It names a row of a subquery of FROM as a whole, or what looks like one.
pub fn has_derived_row(s: &ast::SelectStmt) -> bool {
    let derived: Vec<&str> = s
        .from_clause
        .iter()
        .filter_map(|item| match &item.node {
            Some(NodeEnum::RangeSubselect(sub)) => sub.alias.as_ref().map(|a| a.aliasname.as_str()),
            _ => None,
        })
        .collect();
    let names_one = |n: &NodeEnum| matches!(n, NodeEnum::ColumnRef(c) if matches!(&names::strings(&c.fields)[..], [name] if derived.contains(name)) && !names::has_star(c));
    !derived.is_empty()
        && s.target_list
            .iter()
            .chain(&s.sort_clause)
            .chain(s.having_clause.as_deref())
            .any(|n| search::any(n, names_one))
}

/// The names that a level's expressions can mean; `Err` only if it was never analysed.
pub fn scope_of<'a>(c: &Composer<'_, 'a>, level: usize) -> Result<Rc<Scope<'a>>> {
    c.a.scopes.get(&level).cloned().ok_or_else(|| Refusal::bare("internal: a level without scope"))
}

/// The statement without FROM, WHERE and WITH, with `*` expanded, output names in ORDER BY, GROUP BY and DISTINCT ON as
/// positions, and every output column named as PostgreSQL would name it.
pub fn upper(s: &ast::SelectStmt, scope: &Scope) -> Result<ast::SelectStmt> {
    // Field by field: what is below may be large.
    let mut out = ast::SelectStmt {
        distinct_clause: s.distinct_clause.clone(),
        group_clause: s.group_clause.clone(),
        group_distinct: s.group_distinct,
        having_clause: s.having_clause.clone(),
        window_clause: s.window_clause.clone(),
        sort_clause: s.sort_clause.clone(),
        limit_offset: s.limit_offset.clone(),
        limit_count: s.limit_count.clone(),
        limit_option: s.limit_option,
        locking_clause: s.locking_clause.clone(),
        ..build::select()
    };
    for t in &s.target_list {
        let Some(value) = rewrite::target_value(t) else { continue };
        match &value.node {
            Some(NodeEnum::ColumnRef(c)) if names::has_star(c) => {
                let columns = star_columns(c, scope).ok_or_else(|| {
                    Refusal::new("this use of * is not supported over several nodes", "Name the columns.")
                })?;
                out.target_list.extend(columns.into_iter().map(|(n, _, node)| build::target(node, Some(&n))));
            }
            _ => {
                let Some(NodeEnum::ResTarget(t)) = &t.node else { continue };
                let name = if t.name.is_empty() { names::figure_column(value) } else { t.name.clone() };
                out.target_list.push(build::target(value.clone(), Some(&name)));
            }
        }
    }
    let flat = out.clone();
    for g in &mut out.group_clause {
        resolve_group(g, &flat, scope)?;
    }
    for d in &mut out.distinct_clause {
        resolve(d, &flat);
    }
    for item in &mut out.sort_clause {
        if let Some(NodeEnum::SortBy(s)) = &mut item.node
            && let Some(value) = s.node.as_deref_mut()
        {
            resolve(value, &flat);
        }
    }
    Ok(out)
}

fn resolve_group(g: &mut Node, flat: &ast::SelectStmt, scope: &Scope) -> Result<()> {
    match &mut g.node {
        Some(NodeEnum::GroupingSet(set)) => set.content.iter_mut().try_for_each(|n| resolve_group(n, flat, scope)),
        Some(NodeEnum::RowExpr(r)) => r.args.iter_mut().try_for_each(|n| resolve_group(n, flat, scope)),
        _ => {
            match rewrite::group_item(g, flat, Some(scope)) {
                GroupItem::Itself => {}
                GroupItem::Output(_) => resolve(g, flat),
                GroupItem::Unsure(_) => {
                    return Err(Refusal::new(
                        "GROUP BY a name that may be an output column's or one of FROM is not supported over several nodes",
                        "Give the output column a name of its own.",
                    ));
                }
            }
            Ok(())
        }
    }
}

/// An output column's name becomes its position, which means the same above any FROM.
fn resolve(item: &mut Node, flat: &ast::SelectStmt) {
    if let Some(position) = rewrite::output_position(item, flat) {
        *item = build::integer(position);
    }
}

/// Everything above FROM and WHERE.
pub fn each_upper(s: &mut ast::SelectStmt, f: &mut dyn FnMut(&mut Node)) {
    let lists =
        s.target_list.iter_mut().chain(&mut s.group_clause).chain(&mut s.sort_clause).chain(&mut s.distinct_clause);
    lists.chain(&mut s.window_clause).chain(s.having_clause.as_deref_mut()).for_each(|n| {
        if n.node.is_some() {
            f(n)
        }
    });
}

/// Replaces column references by columns of the part, remembering what the part must select.
struct PulledColumns<'s, 'a> {
    a: &'s Analysis<'a>,
    scope: &'s Scope<'a>,
    index: HashMap<String, usize>,
    originals: Vec<Node>,
    refusal: Option<Refusal>,
}

impl<'s, 'a> PulledColumns<'s, 'a> {
    fn new(a: &'s Analysis<'a>, scope: &'s Scope<'a>) -> Self {
        PulledColumns { a, scope, index: HashMap::new(), originals: vec![], refusal: None }
    }
}

impl VisitMut for PulledColumns<'_, '_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        if let NodeEnum::ColumnRef(c) = n {
            let key = canonical(c, self.scope);
            if names::has_star(c) {
                self.refusal = Some(Refusal::new(
                    "whole-row references are not supported over several nodes",
                    "Name the columns.",
                ));
                return false;
            }
            self.carry(n, key);
            return false;
        }
        if tableoid::is_looked_up(n) {
            // Only the node that has the row can say it.
            match aggregate::text(&build::node(n.clone()), self.scope) {
                Ok(text) => self.carry(n, format!("({text}")),
                Err(_) => self.refusal = Some(Refusal::not_moved()),
            }
            return false;
        }
        if let NodeEnum::FuncCall(f) = n
            && self.aggregates_all(f)
        {
            // What an aggregate is asked of every row the node can give in place of the columns it is made of.
            let once = f.agg_within_group;
            for arg in &mut f.args {
                if once || !self.carry_small(arg) {
                    walk::walk_mut(arg, self);
                }
            }
            for item in &mut f.agg_order {
                let value = match &mut item.node {
                    Some(NodeEnum::SortBy(by)) => by.node.as_deref_mut(),
                    _ => None,
                };
                if !value.is_some_and(|value| self.carry_small(value)) {
                    walk::walk_mut(item, self);
                }
            }
            return false;
        }
        true
    }

    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        // Without FROM it is an expression: its columns are this level's, or those of levels around it.
        if is_expression(s) {
            return true;
        }
        if !stands_alone(s, self.scope) {
            self.refusal = Some(Refusal::new(
                "a subquery above an aggregate or window function is not supported over several nodes",
                "Put it into a WITH query or join it.",
            ));
        }
        false
    }
}

impl PulledColumns<'_, '_> {
    /// The part selects it, and the finish names the part's column.
    fn carry(&mut self, n: &mut NodeEnum, key: String) {
        let next = self.originals.len();
        let i = *self.index.entry(key).or_insert(next);
        let Some(column) = part_column(i).node else { return };
        let original = std::mem::replace(n, column);
        if i == next {
            self.originals.push(build::node(original));
        }
    }

    /// An aggregate of PostgreSQL's own whose arguments are evaluated for every row.
    fn aggregates_all(&self, f: &ast::FuncCall) -> bool {
        let mut overloads = self.a.cx.functions(&f.funcname).peekable();
        f.over.is_none()
            && f.agg_filter.is_none()
            && overloads.peek().is_some()
            && overloads.all(|o| o.kind == FunctionKind::Aggregate && !o.user_defined)
    }

    /// Has the part select the argument itself; false if its columns should travel.
    fn carry_small(&mut self, arg: &mut Node) -> bool {
        let plain = matches!(arg.node, Some(NodeEnum::ColumnRef(_)));
        let small = || expression::type_of(arg, self.a, self.scope).is_some_and(expression::is_small);
        if plain || !small() || !expression::is_of_its_row(arg, self.a.cx) {
            return false;
        }
        let (Ok(text), Some(n)) = (aggregate::text(arg, self.scope), &mut arg.node) else { return false };
        self.carry(n, format!("({text}"));
        true
    }
}

/// It says the same wherever it stands: it names no column of the scope, and no table.
pub fn stands_alone(s: &ast::SelectStmt, scope: &Scope) -> bool {
    !names_any(s, scope) && !reads_tables(s)
}

/// A subquery that only has a list of targets.
fn is_expression(s: &ast::SelectStmt) -> bool {
    let only = ast::SelectStmt { target_list: s.target_list.clone(), ..build::select() };
    *s == only
}

/// A column in the query may be one of this scope's.
fn names_any(s: &ast::SelectStmt, scope: &Scope) -> bool {
    search::any(s, |n| match n {
        NodeEnum::ColumnRef(c) => {
            let parts = names::strings(&c.fields);
            parts.is_empty() || !matches!(scope.owner(&parts), Owner::Nobody)
        }
        _ => false,
    })
}

fn reads_tables(s: &ast::SelectStmt) -> bool {
    let mut reads = false;
    search::each_relation(s, |_| reads = true);
    reads
}

/// One spelling for each column, whether qualified or not. Two columns of a subquery with the same value are two: GROUPING
/// SETS may leave out one of them.
pub fn canonical(c: &ast::ColumnRef, scope: &Scope) -> String {
    let parts = names::strings(&c.fields);
    // The first character keeps both apart, the separator parts of names that hold dots.
    match scope.place(&parts) {
        Some((hops, item, column)) => format!("={hops}.{item}.{column}"),
        None => format!("?{}", parts.join("\u{1}")),
    }
}

/// The subquery refers to a column of a level above it, or to something that could be one: a name beside a function whose columns are not known.
pub fn refers_outside(s: &ast::SelectStmt, scope: &Scope) -> bool {
    let is_here = |parts: &[&str]| matches!(scope.owner(parts), Owner::Level(0));
    search::any(
        s,
        |n| matches!(n, NodeEnum::ColumnRef(c) if !names::has_star(c) && !is_here(&names::strings(&c.fields))),
    )
}
