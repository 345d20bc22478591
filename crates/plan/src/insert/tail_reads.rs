//! ON CONFLICT and RETURNING with subqueries over tables that not every node has: what they read is read before the INSERT, as PostgreSQL's
//! subqueries see the tables as they were before it. A subquery that stands by itself is read as a whole, of another one the needed columns of its
//! tables; the rows are parameters behind the client's own. How rows are kept is not known here.

use std::collections::{BTreeSet, HashSet};

use catalog::{Oid, Placement, Relation};
use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, relations, search};

use crate::compose::names_query;
use crate::in_turn::parts::kept_rows;
use crate::in_turn::{self, InTurn, Turn, WithQuery, names, read_before, returned};
use crate::levels::Analysis;
use crate::scope::Owner;
use crate::text::Text;
use crate::types::{Planned, Whole};
use crate::{Context, Refusal, Result};

/// What of an INSERT is read before, and how its rows take its place.
struct Reads<'a> {
    insert: &'a ast::InsertStmt,
    target: &'a Relation,
    cx: &'a Context<'a>,
    /// What is looked at runs on home alone, which has all local tables.
    on_home: bool,
    parameters: usize,
    /// Each with the names of its columns, its text, and the number of its first parameter.
    found: Vec<(ast::SelectStmt, Vec<String>, String, usize)>,
    rows: Vec<(usize, usize)>,
    /// How many subqueries have rows in the places of what they read.
    put: usize,
    failed: Option<Refusal>,
}

/// The INSERT over rows that are read before; `None`: it needs none.
pub fn plan(insert: &ast::InsertStmt, target: &Relation, cx: &Context) -> Result<Option<Planned>> {
    if insert.on_conflict_clause.is_none() && insert.returning_clause.is_none() {
        return Ok(None);
    }
    let statement = NodeEnum::InsertStmt(Box::new(insert.clone()));
    let parameters = in_turn::parameters(&statement);
    let local = crate::modify::is_local(target);
    let mut reads =
        Reads { insert, target, cx, on_home: local, parameters, found: vec![], rows: vec![], put: 0, failed: None };
    let mut new = insert.clone();
    if let Some(conflict) = &mut new.on_conflict_clause {
        conflict.target_list.iter_mut().for_each(|n| walk::walk_mut(n, &mut reads));
        if let Some(condition) = conflict.where_clause.as_deref_mut() {
            walk::walk_mut(condition, &mut reads);
        }
    }
    // Home returns the rows of a reference table.
    reads.on_home |= target.is_reference();
    for returned in new.returning_clause.iter_mut().flat_map(|r| &mut r.exprs) {
        let before = reads.put;
        let name = match &returned.node {
            Some(NodeEnum::ResTarget(t)) if t.name.is_empty() => t.val.as_deref().map(sql::names::figure_column),
            _ => None,
        };
        walk::walk_mut(returned, &mut reads);
        // A subquery gives its column the name of its own.
        if let (Some(NodeEnum::ResTarget(t)), Some(name), true) = (&mut returned.node, name, reads.put > before) {
            t.name = name;
        }
    }
    if reads.put == 0 && reads.failed.is_none() {
        return Ok(None);
    }
    if reads.rows.is_empty() {
        return Err(reads.failed.unwrap_or_else(|| refuse("a table that is not known")));
    }
    if let Some(refusal) = reads.failed {
        return Err(refusal);
    }
    let types = in_turn::types(cx, parameters, reads.rows.len());
    let own = Context { parameters: &types, steps: cx.steps, target: cx.target, ..names(cx) };
    let mut turns = vec![];
    for (number, (query, columns, _, _)) in reads.found.into_iter().enumerate() {
        let text = Text::of(&cx.views.settle(NodeEnum::SelectStmt(Box::new(query)))?)?;
        let query = WithQuery {
            number,
            name: String::new(),
            unnamed: false,
            types: vec![None; columns.len()],
            columns: Some(text.clone()),
            domains: true,
        };
        turns.push(turn(Some(query), text, &own)?);
    }
    turns.push(turn(None, Text::of(&cx.views.settle(NodeEnum::InsertStmt(Box::new(new)))?)?, &own)?);
    let (search_path, temporary) = (cx.search_path.to_vec(), cx.temporary.to_vec());
    let whole = Whole { tables: in_turn::tables(&statement, cx), template: false, ..Whole::on_home(true) };
    let turns = InTurn { turns, parameters, rows: reads.rows, search_path, temporary, one_state: false };
    Ok(Some(Planned::InTurn { whole, turns: Ok(Box::new(turns)), split: true }))
}

fn turn(query: Option<WithQuery>, text: Text, cx: &Context) -> Result<Turn> {
    let sql = in_turn::sql(&text, &|_, _| "pg_catalog.text".into());
    let tree = sql::parse(&sql, true)?.pop().ok_or_else(|| Refusal::bare("internal: an empty statement"))?;
    let plan = crate::plan(&tree, &sql, cx)?;
    match plan.refusal() {
        Some(refusal) => Err(refusal.clone()),
        None => Ok(Turn { query, text, plan }),
    }
}

fn refuse(what: &str) -> Refusal {
    Refusal::new(
        format!("{what} in ON CONFLICT or RETURNING is not supported: not every node has all of it"),
        "Have the subquery stand by itself, and name its columns; or select its value first and pass it as a parameter.",
    )
}

impl Reads<'_> {
    /// One of the statement's WITH queries, which other nodes may not see.
    fn is_with_query(&self, rv: &ast::RangeVar) -> bool {
        rv.schemaname.is_empty() && self.insert.with_clause.as_ref().is_some_and(|w| names_query(w, &rv.relname))
    }

    /// Not every node has it.
    fn is_apart(&self, rv: &ast::RangeVar) -> bool {
        if self.is_with_query(rv) {
            return self.reads_with_query();
        }
        match self.cx.placement(rv) {
            Some(Placement::Reference) => false,
            Some(Placement::Distributed(_)) => true,
            Some(Placement::Local) | None => !self.on_home,
        }
    }

    /// What WITH queries are goes with the rows of VALUES, if every node has it.
    fn reads_with_query(&self) -> bool {
        let is_values = match self.insert.select_stmt.as_deref().and_then(|s| s.node.as_ref()) {
            Some(NodeEnum::SelectStmt(s)) => !s.values_lists.is_empty(),
            _ => true,
        };
        let bodies = self.insert.with_clause.iter().flat_map(|w| &w.ctes);
        let others = bodies
            .flat_map(relations::of_node)
            .any(|rv| !self.is_with_query(rv) && !matches!(self.cx.placement(rv), Some(Placement::Reference)));
        !is_values || others
    }

    /// A subquery names nothing of the rows it is asked for.
    fn stands_alone(&self, s: &ast::SelectStmt) -> bool {
        let mut a = Analysis::new(self.cx);
        if a.query(s).is_err() {
            return false;
        }
        let mut alone = true;
        let function = |n: &NodeEnum| {
            matches!(n, NodeEnum::RangeFunction(_) | NodeEnum::RangeTableFunc(_) | NodeEnum::JsonTable(_))
        };
        let calls = search::any(s, function);
        a.each_column(s, |scope, parts| {
            // What may be a function's column may be the target's as well.
            let levels = || std::iter::successors(Some(scope), |s| s.parent.as_deref());
            let may_be_target = match parts {
                [name] if calls => {
                    self.target.column(name).is_some() && !levels().any(|s| s.has_column(name) == Some(true))
                }
                _ => false,
            };
            alone &= matches!(scope.owner(parts), Owner::Level(_)) && !may_be_target;
        });
        alone
    }

    /// The rows of a query, which is read once.
    fn read(&mut self, mut query: ast::SelectStmt, columns: Vec<String>) -> Result<ast::SelectStmt> {
        let names_with = relations::of_select(&query).iter().any(|rv| self.is_with_query(rv));
        if let Some(with) = self.insert.with_clause.as_ref().filter(|_| names_with) {
            let volatile = |n: &NodeEnum| match n {
                NodeEnum::FuncCall(f) => {
                    self.cx.functions(&f.funcname).any(|f| f.volatility == catalog::Volatility::Volatile)
                }
                NodeEnum::InsertStmt(_)
                | NodeEnum::UpdateStmt(_)
                | NodeEnum::DeleteStmt(_)
                | NodeEnum::MergeStmt(_) => true,
                _ => false,
            };
            if query.with_clause.is_some() || with.ctes.iter().any(|cte| search::any(cte, volatile)) {
                return Err(refuse("a WITH query that is not the same each time"));
            }
            query.with_clause = Some(with.clone());
        }
        let text = sql::deparse(&NodeEnum::SelectStmt(Box::new(query.clone())))?;
        let first = match self.found.iter().find(|(_, _, known, _)| *known == text) {
            Some((_, _, _, first)) => *first,
            None => {
                let (number, first) = (self.found.len(), self.parameters + self.rows.len());
                self.rows.extend((0..columns.len()).map(|column| (number, column)));
                self.found.push((query, columns.clone(), text.clone(), first));
                first
            }
        };
        let number = self.found.iter().position(|(_, _, known, _)| *known == text).unwrap_or(0);
        kept_rows(&columns, number, first)
    }

    /// A subquery that stands by itself: its rows.
    fn whole(&mut self, s: &ast::SelectStmt) -> Result<ast::SelectStmt> {
        let names = returned::columns(s, self.cx).ok_or_else(|| refuse("this list of what a subquery selects"))?;
        let mut query = s.clone();
        if names.is_empty() {
            // EXISTS asks for rows alone.
            query.target_list.push(build::target(build::integer(1), None));
        }
        self.read(query, (0..names.len().max(1)).map(|i| format!("c{i}")).collect())
    }

    /// The rows of the tables in a subquery that names what is around it.
    fn tables(&mut self, s: &mut ast::SelectStmt) -> Result<()> {
        let named = relations::of_select(s);
        let with_queries: BTreeSet<String> =
            named.iter().filter(|rv| self.is_with_query(rv)).map(|rv| rv.relname.clone()).collect();
        let apart: HashSet<Oid> =
            named.iter().filter(|rv| self.is_apart(rv)).filter_map(|rv| Some(self.cx.relation(rv)?.oid)).collect();
        let mut statement = NodeEnum::SelectStmt(Box::new(std::mem::replace(s, build::select())));
        let queries = read_before::taken(&mut statement, apart, self.cx)
            .ok_or_else(|| refuse("more than columns of a table in a subquery that names what is around it"))?;
        let mut rows = Vec::with_capacity(queries.len());
        for (name, query) in queries {
            let columns = returned::columns(&query, self.cx).ok_or_else(|| refuse("a table of unknown columns"))?;
            rows.push((name, self.read(query, columns)?));
        }
        for name in with_queries {
            let mut query = build::select();
            query.target_list = vec![build::target(build::star(), None)];
            query.from_clause = vec![build::range_var("", &name, None)];
            let seen = ast::SelectStmt { with_clause: self.insert.with_clause.clone(), ..query.clone() };
            let columns = returned::columns(&seen, self.cx).ok_or_else(|| refuse("a WITH query of unknown columns"))?;
            rows.push((name, self.read(query, columns)?));
        }
        let mut statement = build::node(statement);
        walk::walk_mut(&mut statement, &mut Put(&rows));
        if let Some(NodeEnum::SelectStmt(new)) = statement.node {
            *s = *new;
        }
        Ok(())
    }
}

impl VisitMut for Reads<'_> {
    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        if self.failed.is_some() || !relations::of_select(s).into_iter().any(|rv| self.is_apart(rv)) {
            return false;
        }
        let done = match self.stands_alone(s) {
            true => self.whole(s).map(|rows| *s = rows),
            false => self.tables(s),
        };
        self.put += 1;
        self.failed = done.err();
        false
    }
}

/// Rows go where names stand for them.
struct Put<'r>(&'r [(String, ast::SelectStmt)]);

impl VisitMut for Put<'_> {
    fn listed(&mut self, n: &mut Node) {
        if let Some(NodeEnum::RangeVar(rv)) = &n.node
            && let Some((_, rows)) = self.0.iter().find(|(name, _)| rv.schemaname.is_empty() && *name == rv.relname)
        {
            let alias = rv.alias.clone().unwrap_or_else(|| build::alias(&rv.relname));
            *n = build::subselect(rows.clone(), Some(alias), false);
        }
    }
}
