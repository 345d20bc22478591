//! Puts rows that are read beforehand into the places of tables and subqueries: each query that stands by itself is read once as a whole;
//! of one that names columns around it, the tables are.

use std::collections::HashSet;

use sql::ast::{self, Node};
use sql::walk::{self, Visit, VisitMut};
use sql::{NodeEnum, build, search};

use super::Broadcast;
use crate::Result;
use crate::gather::{NONE, visible};
use crate::levels::function_name;
use crate::refuse::Refusal;

const HINT: &str = "Have a subquery that chooses rows stand by itself, or name a column of the changed table in it; or select the rows first.";

fn refuse(what: &str) -> Refusal {
    Refusal::new(format!("{what} of a change that reads other tables is not supported over several nodes"), HINT)
}

impl<'a> Broadcast<'_, 'a> {
    /// An item of FROM.
    pub(super) fn item(&mut self, item: &'a Node, out: &mut Node) -> Result<()> {
        match (&item.node, &mut out.node) {
            (Some(NodeEnum::RangeVar(rv)), _) => {
                if !self.is_with_query(rv) && self.is_apart(rv) {
                    *out = self.table(rv)?;
                }
                Ok(())
            }
            (Some(NodeEnum::RangeSubselect(sub)), Some(NodeEnum::RangeSubselect(rows))) => {
                let Some(NodeEnum::SelectStmt(body)) = sub.subquery.as_deref().and_then(|q| q.node.as_ref()) else {
                    return Err(refuse("this kind of subquery"));
                };
                if self.stays(body) {
                    return Ok(());
                }
                let new = match self.stands_alone(body) {
                    // By the name of a view, if it is one.
                    true => {
                        let mut query = build::select();
                        query.target_list = vec![build::target(build::star(), None)];
                        query.from_clause = vec![item.clone()];
                        self.read_with(query)?
                    }
                    false => self.inside(body)?,
                };
                rows.subquery = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(new)))));
                Ok(())
            }
            (Some(NodeEnum::JoinExpr(join)), Some(NodeEnum::JoinExpr(out))) => {
                for (side, out) in [(&join.larg, &mut out.larg), (&join.rarg, &mut out.rarg)] {
                    if let (Some(side), Some(out)) = (side.as_deref(), out.as_deref_mut()) {
                        self.item(side, out)?;
                    }
                }
                self.expressions(
                    &join.quals.as_deref().into_iter().collect::<Vec<_>>(),
                    out.quals.as_deref_mut().into_iter().collect(),
                )
            }
            (Some(NodeEnum::RangeTableSample(_)), _) => Err(refuse("TABLESAMPLE")),
            _ => {
                let volatile = |n: &NodeEnum| match n {
                    NodeEnum::FuncCall(f) => {
                        self.a.cx.functions(&f.funcname).any(|f| f.volatility == catalog::Volatility::Volatile)
                    }
                    _ => false,
                };
                match !self.on_home && search::any(item, volatile) {
                    true => self.function(item, out),
                    false => self.expressions(&[item], vec![out]),
                }
            }
        }
    }

    /// The rows of a table, by the names the statement has for it.
    fn table(&mut self, rv: &'a ast::RangeVar) -> Result<Node> {
        let mut query = build::select();
        let mut table = rv.clone();
        let mut alias = rv.alias.clone().unwrap_or_else(|| build::alias(&rv.relname));
        table.alias = None;
        match self.a.ranges.get(&std::ptr::from_ref(rv)) {
            Some(uses) => {
                let relation = &self.a.uses[uses[0]].relation;
                let (columns, names) = (self.used.columns(relation), visible(relation, rv));
                let column = |c: &usize| {
                    let (own, shown) = (&relation.columns[*c].name, &names[*c]);
                    build::target(build::column(&[own]), (own != shown).then_some(shown))
                };
                query.target_list = columns.iter().map(column).collect();
                if columns.is_empty() {
                    query.target_list.push(build::target(build::integer(1), Some(NONE)));
                }
                // Whatever WITH queries are called here, it is the table.
                table.schemaname = relation.schema.clone();
                query.where_clause = self.filters.of_table(rv).map(Box::new);
                alias.colnames.clear();
            }
            None => query.target_list = vec![build::target(build::star(), None)],
        }
        query.from_clause = vec![build::node(NodeEnum::RangeVar(table))];
        Ok(build::subselect(self.read(query)?, Some(alias), false))
    }

    /// The rows of a volatile function, which is called once.
    fn function(&mut self, item: &'a Node, out: &mut Node) -> Result<()> {
        let Some(NodeEnum::RangeFunction(f)) = &item.node else { return Err(refuse("a volatile function in FROM")) };
        let names = search::any(item, |n| matches!(n, NodeEnum::ColumnRef(_) | NodeEnum::SubLink(_)));
        let name = f.alias.as_ref().map(|alias| alias.aliasname.clone()).or_else(|| function_name(f));
        let Some(name) = name.filter(|_| !names) else {
            return Err(refuse("a volatile function in FROM"));
        };
        let mut query = build::select();
        query.target_list = vec![build::target(build::star(), None)];
        query.from_clause = vec![item.clone()];
        *out = build::subselect(self.read(query)?, Some(build::alias(&name)), false);
        Ok(())
    }

    /// A query that names columns around it: as it is, but for what it reads.
    fn inside(&mut self, s: &'a ast::SelectStmt) -> Result<ast::SelectStmt> {
        if s.with_clause.is_some() {
            return Err(refuse("WITH in a correlated subquery"));
        }
        if !s.locking_clause.is_empty() {
            return Err(refuse("FOR UPDATE in a correlated subquery"));
        }
        if !self.may_be_asked(s) {
            return Err(refuse(
                "LIMIT, a volatile function or what else is open in a subquery that hangs on other tables' rows",
            ));
        }
        let mut out = s.clone();
        if let (Some(left), Some(right)) = (s.larg.as_deref(), s.rarg.as_deref()) {
            out.larg = Some(Box::new(self.inside(left)?));
            out.rarg = Some(Box::new(self.inside(right)?));
        }
        for (item, out) in s.from_clause.iter().zip(&mut out.from_clause) {
            self.item(item, out)?;
        }
        let lists =
            [&s.target_list, &s.values_lists, &s.group_clause, &s.sort_clause, &s.distinct_clause, &s.window_clause];
        let singles = [&s.where_clause, &s.having_clause, &s.limit_count, &s.limit_offset];
        let own =
            lists.into_iter().flatten().chain(singles.into_iter().filter_map(|n| n.as_deref())).collect::<Vec<_>>();
        let o = &mut out;
        let lists = [
            &mut o.target_list,
            &mut o.values_lists,
            &mut o.group_clause,
            &mut o.sort_clause,
            &mut o.distinct_clause,
            &mut o.window_clause,
        ];
        let singles = [&mut o.where_clause, &mut o.having_clause, &mut o.limit_count, &mut o.limit_offset];
        let outs = lists.into_iter().flatten().chain(singles.into_iter().filter_map(|n| n.as_deref_mut())).collect();
        self.expressions(&own, outs)?;
        Ok(out)
    }

    /// The subqueries in expressions; `outs` are copies of them, one by one.
    pub(super) fn expressions(&mut self, nodes: &[&'a Node], outs: Vec<&mut Node>) -> Result<()> {
        let mut found = Subqueries::default();
        nodes.iter().for_each(|n| walk::walk(n, &mut found));
        if found.bodies.is_empty() {
            return Ok(());
        }
        let mut rows = Vec::with_capacity(found.bodies.len());
        for body in &found.bodies {
            rows.push(self.subquery(body, found.exist.contains(&std::ptr::from_ref(*body)))?);
        }
        let mut put = Put(rows.into_iter());
        outs.into_iter().for_each(|n| walk::walk_mut(n, &mut put));
        Ok(())
    }

    /// What stands for a subquery of an expression; `None`: itself.
    fn subquery(&mut self, s: &'a ast::SelectStmt, exists: bool) -> Result<Option<ast::SelectStmt>> {
        let level = self.a.by_node.get(&std::ptr::from_ref(s));
        if level.is_some_and(|l| self.kept.contains(l)) || self.stays(s) {
            return Ok(None);
        }
        if !self.stands_alone(s) {
            return self.inside(s).map(Some);
        }
        if exists {
            // Whether there are rows is all that is asked.
            let mut query = build::select();
            query.target_list = vec![build::target(build::integer(1), None)];
            query.from_clause = vec![build::subselect(s.clone(), Some(build::alias("q")), false)];
            query.limit_count = Some(Box::new(build::integer(1)));
            query.limit_option = ast::LimitOption::Count as i32;
            return self.read_with(query).map(Some);
        }
        self.read_with(s.clone()).map(Some)
    }
}

/// The outermost subqueries of expressions.
#[derive(Default)]
struct Subqueries<'a> {
    bodies: Vec<&'a ast::SelectStmt>,
    /// Those of EXISTS.
    exist: HashSet<*const ast::SelectStmt>,
}

impl<'a> Visit<'a> for Subqueries<'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        if let NodeEnum::SubLink(s) = n
            && s.sub_link_type == ast::SubLinkType::ExistsSublink as i32
            && let Some(NodeEnum::SelectStmt(body)) = s.subselect.as_deref().and_then(|q| q.node.as_ref())
        {
            self.exist.insert(std::ptr::from_ref(body.as_ref()));
        }
        true
    }

    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        self.bodies.push(s);
        false
    }
}

struct Put<I>(I);

impl<I: Iterator<Item = Option<ast::SelectStmt>>> VisitMut for Put<I> {
    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        if let Some(Some(rows)) = self.0.next() {
            *s = rows;
        }
        false
    }
}
