//! A statement with data-modifying WITH in parts: the statement itself, WITH queries that change data, and those whose rows must be the
//! same for several parts, or as they were before. Other WITH queries stay with the one that names them; what nobody
//! names is not run. It knows neither their order nor their plans.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use catalog::Oid;
use sql::ast::{self, CommonTableExpr, Node};
use sql::{NodeEnum, build, clauses, relations};

use super::touches::Touches;
use super::{WithQuery, again, body, is_run_once, modifies, returned};
use crate::refuse::Refusal;
use crate::steps::Steps;
use crate::text::{self, Text};
use crate::{Context, Result, rewrite};

/// What one change's leaving another's rows alone takes, in steps: a subquery.
const LEFT_ALONE: usize = 64;

/// A statement and its WITH clause.
pub struct Parts<'a> {
    itself: NodeEnum,
    with: &'a ast::WithClause,
    queries: Vec<&'a CommonTableExpr>,
    /// Which of its WITH queries each names, and the statement itself as the last.
    named: Vec<BTreeSet<usize>>,
    /// Whose rows are kept.
    kept: BTreeSet<usize>,
}

/// Finds what is kept.
pub fn of<'a>(statement: &NodeEnum, with: &'a ast::WithClause, cx: &Context) -> Result<Parts<'a>> {
    let queries: Vec<_> = with.ctes.iter().filter_map(query).collect();
    let names: HashMap<&str, usize> = queries.iter().enumerate().map(|(i, q)| (q.ctename.as_str(), i)).collect();
    if queries.len() < with.ctes.len() || names.len() < queries.len() {
        return Err(Refusal::bare("WITH queries of one name are not supported over several nodes"));
    }
    let mut itself = statement.clone();
    if let Some(with) = clauses::with_mut(&mut itself) {
        *with = None;
    }
    let refers = |n: &NodeEnum, seen: &dyn Fn(usize) -> bool| -> BTreeSet<usize> {
        let target = clauses::target(n);
        let others = relations::of(n).into_iter().filter(|rv| !target.is_some_and(|t| std::ptr::eq(t, *rv)));
        let unqualified = others.filter(|rv| rv.schemaname.is_empty());
        unqualified.filter_map(|rv| names.get(rv.relname.as_str()).copied()).filter(|i| seen(*i)).collect()
    };
    let mut named = vec![];
    for (i, cte) in with.ctes.iter().enumerate() {
        let Some(body) = body(cte) else { return Err(Refusal::bare("a WITH query of an unknown kind")) };
        named.push(refers(body, &|j| j < i || with.recursive));
    }
    named.push(refers(&itself, &|_| true));
    let run = run(with, &named);
    let kept = run.into_iter().filter(|i| is_run_once(&with.ctes[*i])).collect();
    let mut parts = Parts { itself, with, queries, named, kept };
    parts.keep_read_queries(cx)?;
    Ok(parts)
}

/// The WITH queries that are run: those that change something, and those that these or the statement itself (the last that names others) name.
fn run(with: &ast::WithClause, named: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let changes = (0..with.ctes.len()).filter(|i| modifies(&with.ctes[*i]));
    let mut todo: Vec<usize> = changes.chain(named.last().into_iter().flatten().copied()).collect();
    let mut run = BTreeSet::new();
    while let Some(i) = todo.pop() {
        if run.insert(i) {
            todo.extend(&named[i]);
        }
    }
    run
}

fn query(cte: &Node) -> Option<&CommonTableExpr> {
    match &cte.node {
        Some(NodeEnum::CommonTableExpr(c)) => Some(c),
        _ => None,
    }
}

impl Parts<'_> {
    /// Those that change something, by their numbers, in PostgreSQL's order: what the statement itself needs, the statement, then those
    /// that nobody asks, the last one first.
    fn changes(&self) -> Vec<(usize, &NodeEnum)> {
        let mut order = vec![];
        self.ask(self.last(), &mut order);
        self.kept.iter().rev().for_each(|i| self.ask(*i, &mut order));
        let of = |i: usize| match i == self.last() {
            true => Some((i, &self.itself)),
            false => Some((i, body(self.with.ctes.get(i)?)?)),
        };
        order.into_iter().filter_map(of).collect()
    }

    /// The part, behind what it needs.
    fn ask(&self, part: usize, order: &mut Vec<usize>) {
        if !order.contains(&part) {
            self.reached(part).1.into_iter().filter(|i| *i < part).for_each(|i| self.ask(i, order));
            order.push(part);
        }
    }

    /// Where the statement itself is among the parts' numbers.
    fn last(&self) -> usize {
        self.queries.len()
    }

    /// WITH queries that a part takes along, and those whose rows it needs.
    fn reached(&self, part: usize) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let (mut along, mut needed) = (BTreeSet::new(), BTreeSet::new());
        let mut todo: Vec<usize> = self.named[part].iter().copied().collect();
        while let Some(i) = todo.pop() {
            if i == part {
                continue;
            }
            if self.kept.contains(&i) {
                needed.insert(i);
            } else if along.insert(i) {
                todo.extend(&self.named[i]);
            }
        }
        (along, needed)
    }

    /// Queries that read only: those that several parts name, and those that read what another part writes.
    fn keep_read_queries(&mut self, cx: &Context) -> Result<()> {
        let touches = |n: &NodeEnum| Touches::of(n, BTreeSet::new(), cx);
        let bodies: Vec<_> = self.with.ctes.iter().filter_map(body).map(touches).collect();
        let itself = touches(&self.itself);
        let written: BTreeSet<_> = bodies.iter().chain([&itself]).flat_map(|t| t.writes.keys()).collect();
        loop {
            let mut by = BTreeMap::new();
            for part in self.kept.iter().copied().chain([self.last()]) {
                let (along, needed) = self.reached(part);
                if !cx.take(1 + along.len() + needed.len()) {
                    return Err(Steps::refusal());
                }
                along.into_iter().for_each(|i| *by.entry(i).or_insert(0) += 1);
            }
            let reads = |i: &usize| bodies[*i].reads.keys().any(|which| written.contains(which));
            let next = by.into_iter().find(|(i, parts)| *parts > 1 || reads(i));
            let Some((next, _)) = next else { return Ok(()) };
            self.kept.insert(next);
        }
    }
}

/// The parts as statements.
pub struct Made {
    /// Each with the WITH queries whose rows it needs; by their numbers, the statement itself last.
    statements: Vec<(WithQueryOf, NodeEnum)>,
    /// Parameters that are columns of kept rows.
    pub rows: Vec<(usize, usize)>,
    known: HashMap<usize, Vec<Option<String>>>,
}

struct WithQueryOf {
    query: Option<WithQuery>,
    needs: BTreeSet<usize>,
    /// The table that it changes as others do.
    again: Option<Oid>,
    number: usize,
}

impl Made {
    /// Writes each part as a statement. `parameters`: how many the client's own text has; kept rows are numbered behind them.
    pub fn new(parts: Parts, parameters: usize, cx: &Context) -> Result<Made> {
        let mut made = Made { statements: vec![], rows: vec![], known: HashMap::new() };
        // Those that others need come first, so that their columns are known.
        let mut left: Vec<usize> = parts.kept.iter().copied().chain([parts.last()]).collect();
        let mut instead: HashMap<usize, Node> = HashMap::new();
        let everybody: BTreeSet<usize> = left.iter().flat_map(|i| parts.reached(*i).1).collect();
        let again = again::of(parts.changes(), parts.last(), cx);
        // Of those that tell what they have changed, where the keys are among what they return, and their first parameter.
        let mut told: HashMap<usize, (usize, usize)> = HashMap::new();
        while !left.is_empty() {
            let tells = |i: &usize| again.get(i).is_some_and(|a| a.tells);
            let ready = |i: &usize| {
                let mut behind = again.get(i).into_iter().flat_map(|a| &a.behind);
                parts.reached(*i).1.iter().all(|n| instead.contains_key(n))
                    && behind.all(|b| !tells(b) || told.contains_key(b))
            };
            let Some(at) = left.iter().position(ready) else {
                return Err(Refusal::bare("WITH queries that change data and name each other are not supported"));
            };
            let i = left.remove(at);
            let (along, needs) = parts.reached(i);
            let mut statement = parts.statement(i, &along, &needs, &instead)?;
            let (mut needs, mut hidden) = (needs, 0);
            if let Some(again) = again.get(&i) {
                for b in &again.behind {
                    if let Some((at, first)) = told.get(b) {
                        if !cx.take(LEFT_ALONE) {
                            return Err(Steps::refusal());
                        }
                        again.leave(&mut statement, (*b, *at, *first))?;
                    }
                }
                needs.extend(&again.behind);
                if again.tells && (!everybody.contains(&i) || returned::query(&statement).is_some()) {
                    hidden = again.tell(&mut statement);
                }
            }
            let query = match parts.queries.get(i) {
                None => None,
                Some(cte) => {
                    let unnamed = !everybody.contains(&i) && hidden == 0;
                    let (types, columns) = match unnamed {
                        true => (vec![], None),
                        false => {
                            let kept = Kept::of(&statement, &cte.ctename, cx)?;
                            let (first, seen) = (parameters + made.rows.len(), kept.names.len() - hidden);
                            if everybody.contains(&i) {
                                instead.insert(i, kept.rows(cte, i, (first, hidden))?);
                            }
                            if hidden > 0 {
                                told.insert(i, (seen, first + seen));
                            }
                            made.rows.extend((0..kept.names.len()).map(|column| (i, column)));
                            (kept.types, Some(kept.query))
                        }
                    };
                    made.known.insert(i, types.clone());
                    Some(WithQuery { number: i, name: cte.ctename.clone(), unnamed, types, columns, domains: false })
                }
            };
            let again = again.get(&i).map(|a| a.relation.oid);
            made.statements.push((WithQueryOf { query, needs, again, number: i }, statement));
        }
        made.statements.sort_by_key(|(part, _)| part.number);
        Ok(made)
    }

    /// What each of the parts touches; they name each other by their places here.
    pub fn touches(&self, cx: &Context) -> Vec<Touches> {
        let place = |number: &usize| self.statements.iter().position(|(part, _)| part.number == *number);
        let of = |(part, statement): &(WithQueryOf, NodeEnum)| {
            let mut touches = Touches::of(statement, part.needs.iter().filter_map(place).collect(), cx);
            touches.again = part.again;
            touches
        };
        self.statements.iter().map(of).collect()
    }

    /// The part at a place, with its text.
    pub fn turn(&mut self, place: usize) -> Result<(Option<WithQuery>, Text)> {
        let (part, statement) = &mut self.statements[place];
        Ok((part.query.take(), Text::of(statement)?))
    }

    /// The type of a kept column, or one that stands for it while it is not known.
    pub fn type_of(&self, number: usize, column: usize) -> String {
        let known = self.known.get(&number).and_then(|types| types.get(column)).cloned().flatten();
        known.unwrap_or_else(|| "pg_catalog.text".into())
    }
}

impl Parts<'_> {
    /// A part with the WITH queries that it takes along, and kept rows in the place of others.
    fn statement(
        &self,
        part: usize,
        along: &BTreeSet<usize>,
        needs: &BTreeSet<usize>,
        instead: &HashMap<usize, Node>,
    ) -> Result<NodeEnum> {
        // What locks few rows is locked as it stands.
        let by_name = self.with.ctes.get(part).is_some_and(|cte| !is_run_once(cte));
        let own_body = self.with.ctes.get(part).and_then(body);
        let mut statement = match own_body {
            None => self.itself.clone(),
            Some(NodeEnum::SelectStmt(_)) if by_name => {
                let mut select = build::select();
                select.target_list = vec![build::target(build::star(), None)];
                select.from_clause = vec![build::range_var("", &self.queries[part].ctename, None)];
                NodeEnum::SelectStmt(Box::new(select))
            }
            Some(body) => body.clone(),
        };
        let own = matches!(own_body, Some(NodeEnum::SelectStmt(_)) if by_name).then_some(part);
        let takes = |i: &usize| along.contains(i) || needs.contains(i) || own == Some(*i);
        let mut ctes: Vec<Node> = vec![];
        for i in (0..self.queries.len()).filter(takes) {
            ctes.push(instead.get(&i).filter(|_| needs.contains(&i)).cloned().unwrap_or(self.with.ctes[i].clone()));
        }
        if ctes.is_empty() {
            return Ok(statement);
        }
        values_as_query(&mut statement);
        if let Some(inner) = clauses::with(&statement) {
            let taken =
                |c: &Node| query(c).is_some_and(|c| ctes.iter().filter_map(query).any(|o| o.ctename == c.ctename));
            if inner.recursive != self.with.recursive || inner.ctes.iter().any(taken) {
                return Err(Refusal::new(
                    "WITH inside a data-modifying WITH query is not supported over several nodes beside the one around it",
                    "Give its queries other names, and both clauses or none of them the word RECURSIVE.",
                ));
            }
            ctes.extend(inner.ctes.iter().cloned());
        }
        if let Some(with) = clauses::with_mut(&mut statement) {
            *with = Some(ast::WithClause { ctes, recursive: self.with.recursive, location: -1 });
        }
        Ok(statement)
    }
}

/// VALUES that read WITH queries, as a query: it is one for the planner, which looks at rows of VALUES one by one.
fn values_as_query(statement: &mut NodeEnum) {
    let NodeEnum::InsertStmt(insert) = statement else { return };
    let Some(NodeEnum::SelectStmt(source)) = insert.select_stmt.as_deref().and_then(|s| s.node.as_ref()) else {
        return;
    };
    if source.values_lists.is_empty() || sql::search::any(&**source, |n| matches!(n, NodeEnum::SetToDefault(_))) {
        return;
    }
    let mut select = build::select();
    match &source.values_lists[..] {
        [row] if source.with_clause.is_none() => {
            let Some(NodeEnum::List(list)) = &row.node else { return };
            select.target_list = list.items.iter().map(|value| build::target(value.clone(), None)).collect();
        }
        _ => {
            select.target_list = vec![build::target(build::star(), None)];
            select.from_clause = vec![build::subselect((**source).clone(), Some(build::alias("source")), false)];
        }
    }
    insert.select_stmt = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(select)))));
}

/// Rows that stand in the place of a WITH query.
struct Kept {
    names: Vec<String>,
    types: Vec<Option<String>>,
    query: Text,
}

impl Kept {
    fn of(statement: &NodeEnum, name: &str, cx: &Context) -> Result<Kept> {
        let query = returned::query(statement)
            .ok_or_else(|| Refusal::bare(format!("WITH query \"{name}\" does not have a RETURNING clause")))?;
        let names = returned::columns(&query, cx).ok_or_else(|| {
            Refusal::new(
                format!("this list of what WITH query \"{name}\" returns is not supported over several nodes"),
                "Name the columns.",
            )
        })?;
        let types = returned::types(statement, names.len(), cx);
        let mut query = NodeEnum::SelectStmt(Box::new(query));
        rewrite::replace_now(&mut query);
        Ok(Kept { names, types, query: Text::of(&query)? })
    }

    /// `first`: how many parameters there are before; `hidden`: the last columns, which are for others.
    fn rows(&self, cte: &CommonTableExpr, number: usize, (first, hidden): (usize, usize)) -> Result<Node> {
        let select = kept_rows(&self.names[..self.names.len() - hidden], number, first)?;
        Ok(build::node(NodeEnum::CommonTableExpr(Box::new(CommonTableExpr {
            ctename: cte.ctename.clone(),
            aliascolnames: cte.aliascolnames.clone(),
            ctematerialized: cte.ctematerialized,
            ctequery: Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(select))))),
            location: -1,
            ..Default::default()
        }))))
    }
}

/// A query of the rows that are kept of query `number`: its columns are parameters behind the first ones.
pub(crate) fn kept_rows(names: &[String], number: usize, first: usize) -> Result<ast::SelectStmt> {
    kept_columns(names, number, (0, first))
}

/// The same of some of its columns, from one on, and the parameters before that one.
pub(super) fn kept_columns(names: &[String], number: usize, (at, first): (usize, usize)) -> Result<ast::SelectStmt> {
    let arrays: Vec<_> = (0..names.len()).map(|i| format!("pg_catalog.unnest(${})", first + i + 1)).collect();
    let own: Vec<_> = (0..names.len()).map(|i| format!("v{i}")).collect();
    let text = format!("SELECT 1 FROM ROWS FROM ({}) AS x ({})", arrays.join(", "), own.join(", "));
    let failed = || Refusal::bare("internal: rows could not be put in the place of a WITH query");
    let Some(NodeEnum::SelectStmt(mut select)) = sql::parse(&text, true)?.pop() else { return Err(failed()) };
    select.target_list = (names.iter().zip(&own).enumerate())
        .map(|(i, (name, own))| build::target(text::cast(build::column(&["x", own]), number, at + i), Some(name)))
        .collect();
    Ok(*select)
}
