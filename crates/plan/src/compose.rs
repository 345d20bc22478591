//! Composes the finish: an outer query for PostgreSQL over the rows of parts.
//!
//! Recursive over the levels of the query. Each level that the nodes can answer alone becomes a part; aggregates
//! become partial aggregates where they split (`aggregate.rs`), otherwise the needed columns travel (`pull.rs`).

use std::cell::OnceCell;
use std::collections::HashMap;

use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, build, names, relations};

use crate::apart::Apart;
use crate::columns::Rows;
use crate::gather::Gather;
use crate::levels::{Analysis, From};
use crate::padded::Padded;
use crate::refuse::Refusal;
use crate::text::{self, Text};
use crate::tree::{AddFunction, Part, Recipients};
use crate::{Result, aggregate, columns, pull, rewrite, select, unread};

/// The texts of a level's output columns, once they are asked for.
type Spelled = OnceCell<Vec<Option<String>>>;

/// The outer query in the making, and the parts it reads.
pub struct Composer<'p, 'a> {
    pub a: &'p Analysis<'a>,
    pub parts: Vec<Part>,
    /// Each part's columns, where they can be counted: the types of those that are a table's own.
    pub types: Vec<Option<Vec<Option<String>>>>,
    /// The finish itself reads local tables.
    pub uses_home: bool,
    /// Set when the whole finish is one row of aggregates that add up.
    pub adds: Option<Vec<AddFunction>>,
    /// WITH clauses above the level being composed.
    pub withs: Vec<ast::WithClause>,
    /// Uses of tables by all who name the WITH query being composed: its rows are for each of them.
    pub others: Vec<usize>,
    /// Tables whose levels nodes can't answer give their rows (see `gather.rs`); `None`: then there is no plan.
    pub gather: Option<Gather>,
}

impl<'p, 'a> Composer<'p, 'a> {
    /// For an analysed statement; nothing is put together yet.
    pub fn new(a: &'p Analysis<'a>) -> Self {
        Composer {
            a,
            parts: vec![],
            types: vec![],
            uses_home: false,
            adds: None,
            withs: vec![],
            others: vec![],
            gather: None,
        }
    }

    /// The text of the whole finish. Shards are read by parts alone: the finish would see home's, and take them for all.
    pub fn text(&self, finish: ast::SelectStmt) -> Result<Text> {
        let cx = self.a.cx;
        for rv in relations::of_select(&finish) {
            if cx.relation(rv).is_some_and(|r| r.distribution().is_some()) {
                return Err(Refusal::not_moved());
            }
        }
        let mut statement = NodeEnum::SelectStmt(Box::new(finish));
        rewrite::replace_now(&mut statement);
        cx.text(statement)
    }

    /// The finish of a level: a query over parts that gives the level's rows.
    pub fn query(&mut self, s: &'p ast::SelectStmt, level: usize) -> Result<ast::SelectStmt> {
        if self.a.is_free(level) {
            // No distributed table: it runs in the finish as it is.
            if self.a.deep_home(level).is_some() {
                self.uses_home = true;
            }
            return Ok(s.clone());
        }
        if let Some(refusal) = &self.a.levels[level].refusal {
            return Err(refusal.clone());
        }
        if self.a.pushable(level, true).is_ok() {
            return self.pushed(s, level);
        }
        if self.a.levels[level].arms.is_some() {
            return self.set_operation(s, level);
        }
        match self.a.colocated(level) {
            Ok(_) if self.a.relies_on_order(level, true, false) => self.mixed(s, level, Refusal::not_moved()),
            Ok(_) if self.a.levels[level].home_above.is_some() => {
                self.uses_home = true;
                pull::pull(self, s, level)
            }
            Ok(_) => match aggregate::split(self, s, level, None)? {
                Some(finish) => Ok(finish),
                // Such a row has names and types where its columns come as those of a subquery alone.
                None if pull::has_derived_row(s) => {
                    self.mixed(s, level, Refusal::not_moved()).or_else(|_| pull::pull(self, s, level))
                }
                None => pull::pull(self, s, level),
            },
            Err(Apart::Repeated) if let Some(padded) = Padded::of(self.a, s, level) => {
                match aggregate::split(self, s, level, Some(padded))? {
                    Some(finish) => Ok(finish),
                    None => self.mixed(s, level, Apart::Repeated.into()),
                }
            }
            Err(apart) => self.mixed(s, level, apart.into()),
        }
    }

    /// A level the nodes answer alone: its rows are a part, sorted and cut again in the finish.
    pub fn pushed(&mut self, s: &'p ast::SelectStmt, level: usize) -> Result<ast::SelectStmt> {
        self.pushed_sorted(s, level, false)
    }

    /// The same. `hidden`: behind its columns the part has one for each item of ORDER BY, also for those that are among them.
    pub fn pushed_sorted(&mut self, s: &'p ast::SelectStmt, level: usize, hidden: bool) -> Result<ast::SelectStmt> {
        let Some(columns) = self.a.levels[level].columns.clone() else {
            return Err(Refusal::new("this use of * is not supported over several nodes", "Name the columns."));
        };
        let mut part = s.clone();
        select::push_limit(&mut part);
        let mut finish = build::select();
        let spelled = Spelled::new();
        let width = columns.len();
        if s.larg.is_none() {
            for (i, item) in s.sort_clause.iter().enumerate() {
                let Some(NodeEnum::SortBy(sort)) = &item.node else { continue };
                let Some(value) = sort.node.as_deref() else { continue };
                let mut sort = sort.clone();
                let visible = if hidden { None } else { self.visible_position(value, s, &columns, &spelled) };
                let column = match visible {
                    Some(i) => i,
                    None if s.distinct_clause.is_empty() => {
                        part.target_list.push(build::target(value.clone(), Some(&rewrite::hidden_name(s, i))));
                        width + part_extra(&part, s) - 1
                    }
                    None => {
                        return Err(Refusal::bare(format!(
                            "ORDER BY item {} of SELECT DISTINCT is not supported over several nodes",
                            i + 1
                        )));
                    }
                };
                sort.node = Some(Box::new(part_column(column)));
                finish.sort_clause.push(build::node(NodeEnum::SortBy(sort)));
            }
        } else {
            finish.sort_clause = s.sort_clause.clone();
            if !s.sort_clause.is_empty() {
                finish.sort_clause = set_sort(&s.sort_clause, &columns)?;
            }
        }
        if part.target_list.is_empty() && s.larg.is_none() {
            // How many there are is all that is known of rows without columns.
            part.target_list.push(build::target(build::integer(1), None));
        }
        finish.target_list =
            columns.iter().enumerate().map(|(i, (n, _))| build::target(part_column(i), Some(n))).collect();
        finish.limit_count = s.limit_count.clone();
        finish.limit_offset = s.limit_offset.clone();
        finish.limit_option = s.limit_option;
        // DISTINCT ON (key): each group is on one node, so it was done there.
        let part = self.add_part(part, self.a.deep_uses(level))?;
        self.answers(level);
        finish.from_clause = vec![part];
        Ok(finish)
    }

    /// The output column an ORDER BY item names by position or name.
    fn visible_position(
        &self,
        value: &Node,
        s: &ast::SelectStmt,
        columns: &[(String, Option<usize>)],
        spelled: &Spelled,
    ) -> Option<usize> {
        match value.node.as_ref()? {
            NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Ival(i)), .. }) => {
                usize::try_from(i.ival).ok()?.checked_sub(1)
            }
            NodeEnum::ColumnRef(c) if c.fields.len() == 1 => {
                let name = names::strings(&c.fields).first()?.to_string();
                columns.iter().position(|(n, _)| *n == name)
            }
            _ => {
                // The same expression as a target.
                let text = sql::deparse_expr(value).ok()?;
                if s.target_list.iter().any(rewrite::is_star) {
                    return None;
                }
                let of = |t| rewrite::target_value(t).and_then(|value| sql::deparse_expr(value).ok());
                let spelled = spelled.get_or_init(|| s.target_list.iter().map(of).collect());
                spelled.iter().position(|target| target.as_ref() == Some(&text))
            }
        }
    }

    /// Registers a part and returns the FROM item that stands for its rows.
    pub fn add_part(&mut self, part: ast::SelectStmt, tables: Vec<usize>) -> Result<Node> {
        self.add_part_of(part, tables, Rows::All)
    }

    /// The same of a part of whose rows others may be wanted.
    pub fn add_part_of(&mut self, mut part: ast::SelectStmt, mut tables: Vec<usize>, rows: Rows) -> Result<Node> {
        tables.extend(self.others.iter().filter(|u| !tables.contains(u)).copied().collect::<Vec<_>>());
        self.attach_ctes(&mut part)?;
        let columns = columns::read(&part, &tables, rows, self.a);
        self.types.push((!part.target_list.iter().any(rewrite::is_star)).then(|| vec![None; part.target_list.len()]));
        let mut statement = NodeEnum::SelectStmt(Box::new(part));
        rewrite::replace_now(&mut statement);
        let rows = text::rows(self.parts.len());
        self.parts.push(Part { text: self.a.cx.text(statement)?, target: Recipients::Shards(tables), columns });
        Ok(build::subselect(rows, Some(build::alias("p")), false))
    }

    /// A part may use CTEs of the levels above it: it takes those along, and no others, which may read what is not where it runs.
    fn attach_ctes(&self, part: &mut ast::SelectStmt) -> Result<()> {
        let (volatile, several) =
            (self.a.levels.iter().any(|l| l.volatile), self.a.named.values().any(|levels| levels.len() > 1));
        for with in self.withs.iter().rev() {
            let defined = |rv: &&ast::RangeVar| rv.schemaname.is_empty() && names_query(with, &rv.relname);
            if !relations::of_select(part).iter().any(defined) {
                continue;
            }
            if volatile && several {
                // Others who name it would see other values.
                return Err(Refusal::not_moved());
            }
            if part.with_clause.is_some() {
                // What its own WITH queries see must not change: they stay where they are, one level down.
                let inner = std::mem::replace(part, build::select());
                part.target_list = vec![build::target(build::star(), None)];
                part.from_clause = vec![build::subselect(inner, Some(build::alias("w")), false)];
            }
            part.with_clause = Some(unread::needed(with, part));
        }
        Ok(())
    }

    fn set_operation(&mut self, s: &'p ast::SelectStmt, level: usize) -> Result<ast::SelectStmt> {
        let arms = self.a.levels[level].arms;
        let (Some(l), Some(r), Some((_, _, left, right))) = (s.larg.as_deref(), s.rarg.as_deref(), arms) else {
            return Err(Refusal::bare("set operation without sides"));
        };
        let with = self.enter_with(s)?;
        let mut finish = s.clone();
        finish.with_clause = with;
        finish.larg = Some(Box::new(self.taken(l, left)?));
        finish.rarg = Some(Box::new(self.taken(r, right)?));
        self.sublinks(s, &mut finish, &Refusal::not_moved())?;
        if self.a.deep_home(level).is_some() {
            self.uses_home = true;
        }
        self.leave_with(s);
        Ok(finish)
    }

    /// WITH queries are finished by themselves and keep their names.
    fn enter_with(&mut self, s: &'p ast::SelectStmt) -> Result<Option<ast::WithClause>> {
        let Some(with) = &s.with_clause else { return Ok(None) };
        let mut out = with.clone();
        for (i, (cte, finished)) in with.ctes.iter().zip(&mut out.ctes).enumerate() {
            let Some(NodeEnum::CommonTableExpr(c)) = &cte.node else { continue };
            let Some(NodeEnum::SelectStmt(body)) = c.ctequery.as_deref().and_then(|q| q.node.as_ref()) else {
                continue;
            };
            let Some(level) = self.a.by_node.get(&(body.as_ref() as *const _)).copied() else { continue };
            // It may read those before it, or all of them.
            let mut seen = with.clone();
            if !with.recursive {
                seen.ctes.truncate(i);
            }
            self.withs.push(seen);
            let named = self.a.named.get(&std::ptr::from_ref(body.as_ref())).filter(|n| n.len() > 1);
            let all = named.into_iter().flatten().flat_map(|l| self.a.deep_uses(*l));
            let others = [self.others.clone(), all.collect()].concat();
            let outside = std::mem::replace(&mut self.others, others);
            let body = self.taken(body, level);
            self.others = outside;
            self.withs.pop();
            let body = body?;
            if let Some(NodeEnum::CommonTableExpr(f)) = &mut finished.node {
                f.ctequery = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(body)))));
            }
        }
        self.withs.push(with.clone());
        Ok(Some(out))
    }

    fn leave_with(&mut self, s: &ast::SelectStmt) {
        if s.with_clause.is_some() {
            self.withs.pop();
        }
    }

    /// FROM items that are not split alike: each subquery is finished by itself, and the outer query joins them.
    fn mixed(&mut self, s: &'p ast::SelectStmt, level: usize, refusal: Refusal) -> Result<ast::SelectStmt> {
        let l = &self.a.levels[level];
        let mut direct = l.from.iter().flat_map(direct_uses);
        if direct.next().is_some() && self.gather.is_none() {
            return Err(refusal);
        }
        if self.a.levels[level].locking {
            return Err(refusal);
        }
        let with = self.enter_with(s)?;
        let mut finish = s.clone();
        finish.with_clause = with;
        self.group_dependent(s, &mut finish);
        for (item, out) in s.from_clause.iter().zip(&mut finish.from_clause) {
            self.from(item, out, &refusal)?;
        }
        self.sublinks(s, &mut finish, &refusal)?;
        if self.a.deep_home(level).is_some() {
            self.uses_home = true;
        }
        self.leave_with(s);
        Ok(finish)
    }

    fn from(&mut self, item: &'p Node, out: &mut Node, refusal: &Refusal) -> Result<()> {
        match (&item.node, &mut out.node) {
            (Some(NodeEnum::RangeSubselect(sub)), Some(NodeEnum::RangeSubselect(finished))) => {
                let Some(NodeEnum::SelectStmt(body)) = sub.subquery.as_deref().and_then(|q| q.node.as_ref()) else {
                    return Err(refusal.clone());
                };
                let level = self.level_of(body, refusal)?;
                if self.a.is_free(level) {
                    return Ok(());
                }
                if let Some(rows) = self.of_item(item, level)? {
                    *out = rows;
                    return Ok(());
                }
                let body = match sub.lateral {
                    true if self.gather.is_none() => return Err(refusal.clone()),
                    true => self.in_place(body)?,
                    false => self.taken(body, level)?,
                };
                finished.subquery = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(body)))));
                Ok(())
            }
            (Some(NodeEnum::JoinExpr(join)), Some(NodeEnum::JoinExpr(finished))) => {
                for (side, out) in [(&join.larg, &mut finished.larg), (&join.rarg, &mut finished.rarg)] {
                    if let (Some(side), Some(out)) = (side.as_deref(), out.as_deref_mut()) {
                        self.from(side, out, refusal)?;
                    }
                }
                match join.quals.as_deref() {
                    Some(q) if has_sublink(q) && self.gather.is_none() => Err(refusal.clone()),
                    _ => Ok(()),
                }
            }
            (Some(NodeEnum::RangeVar(rv)), _) => {
                if let Some(rows) = self.of_table(rv)? {
                    *out = rows;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Uncorrelated subqueries in expressions are finished in place.
    fn sublinks(&mut self, s: &'p ast::SelectStmt, finish: &mut ast::SelectStmt, refusal: &Refusal) -> Result<()> {
        let mut found = Sublinks::default();
        let lists = [&s.target_list, &s.group_clause, &s.sort_clause, &s.distinct_clause, &s.window_clause];
        let singles = [&s.where_clause, &s.having_clause, &s.limit_count, &s.limit_offset];
        let nodes = lists.into_iter().chain([&s.values_lists, &s.from_clause]).flatten();
        nodes.chain(singles.into_iter().flat_map(|n| n.as_deref())).for_each(|n| walk::walk(n, &mut found));
        // Equal expressions (of DISTINCT ON and ORDER BY, say) stay equal: their subqueries are one.
        let alike = !self.a.levels.iter().any(|l| l.volatile);
        let mut composed: HashMap<String, ast::SelectStmt> = HashMap::new();
        let mut bodies = Vec::new();
        for (body, text) in found.bodies {
            if let Some(known) = text.as_ref().filter(|_| alike).and_then(|t| composed.get(t)) {
                bodies.push(Some(known.clone()));
                continue;
            }
            let level = self.level_of(body, refusal)?;
            if self.a.is_free(level) {
                bodies.push(None);
                continue;
            }
            // A correlated one would need the outer row on every node.
            let scope = self.a.scopes.get(&level);
            let body = match scope.is_none_or(|sc| pull::refers_outside(body, sc)) {
                true if self.gather.is_none() => return Err(refusal.clone()),
                true => self.in_place(body)?,
                false => match self.of_subquery(body, level)? {
                    Some(rows) => rows,
                    None => self.taken(body, level)?,
                },
            };
            composed.extend(text.map(|t| (t, body.clone())));
            bodies.push(Some(body));
        }
        let mut put = PutSublinks { bodies: bodies.into_iter() };
        let f = finish;
        let lists =
            [&mut f.target_list, &mut f.group_clause, &mut f.sort_clause, &mut f.distinct_clause, &mut f.window_clause];
        let singles = [&mut f.where_clause, &mut f.having_clause, &mut f.limit_count, &mut f.limit_offset];
        let nodes = lists.into_iter().chain([&mut f.values_lists, &mut f.from_clause]).flatten();
        nodes.chain(singles.into_iter().flat_map(|n| n.as_deref_mut())).for_each(|n| walk::walk_mut(n, &mut put));
        Ok(())
    }

    fn level_of(&self, body: &ast::SelectStmt, refusal: &Refusal) -> Result<usize> {
        self.a.by_node.get(&(body as *const _)).copied().ok_or_else(|| refusal.clone())
    }
}

/// Whether this WITH clause, not one around it, has a query of that name.
pub fn names_query(with: &ast::WithClause, name: &str) -> bool {
    with.ctes.iter().any(|c| matches!(&c.node, Some(NodeEnum::CommonTableExpr(c)) if c.ctename == name))
}

/// Column `i` of a part, as the finish names it.
pub fn part_column(i: usize) -> Node {
    build::column(&["p", &format!("c{i}")])
}

fn part_extra(part: &ast::SelectStmt, s: &ast::SelectStmt) -> usize {
    part.target_list.len() - s.target_list.len()
}

/// ORDER BY of a set operation can only name output columns.
fn set_sort(sort: &[Node], columns: &[(String, Option<usize>)]) -> Result<Vec<Node>> {
    sort.iter()
        .map(|item| {
            let Some(NodeEnum::SortBy(s)) = &item.node else { return Ok(item.clone()) };
            let mut s = s.clone();
            if let Some(name) = s.node.as_deref().and_then(names::column)
                && let Some(i) = columns.iter().position(|(n, _)| Some(&n.as_str()) == name.first())
            {
                s.node = Some(Box::new(part_column(i)));
            }
            Ok(build::node(NodeEnum::SortBy(s)))
        })
        .collect()
}

/// Uses of tables in an item of FROM, but for those in its subqueries.
pub fn direct_uses(from: &From) -> Vec<usize> {
    match from {
        From::Use(u) => vec![*u],
        From::Join { left, right, .. } => [direct_uses(left), direct_uses(right)].concat(),
        _ => vec![],
    }
}

/// A subquery stands in the expression.
pub fn has_sublink(node: &Node) -> bool {
    let mut found = Sublinks::default();
    walk::walk(node, &mut found);
    !found.bodies.is_empty()
}

/// Subqueries in expressions. Those in FROM are others' to finish.
#[derive(Default)]
struct Sublinks<'a> {
    /// Each with its text: two of one level with the same text are the same query.
    bodies: Vec<(&'a ast::SelectStmt, Option<String>)>,
}

impl<'a> Visit<'a> for Sublinks<'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        !matches!(n, NodeEnum::RangeSubselect(_))
    }

    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        self.bodies.push((s, sql::deparse(&NodeEnum::SelectStmt(Box::new(s.clone()))).ok()));
        false
    }
}

struct PutSublinks<I: Iterator<Item = Option<ast::SelectStmt>>> {
    bodies: I,
}

impl<I: Iterator<Item = Option<ast::SelectStmt>>> walk::VisitMut for PutSublinks<I> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        !matches!(n, NodeEnum::RangeSubselect(_))
    }

    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        if let Some(Some(body)) = self.bodies.next() {
            *s = body;
        }
        false
    }
}
