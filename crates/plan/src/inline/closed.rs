//! Whether all names in a query are its own: put into another statement, it must not read what stands around it there.
//!
//! It takes tables of the catalog, WITH and FROM's subqueries; with anything whose columns are not known here a query is not closed.

use std::collections::HashSet;

use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use crate::{Context, rewrite};

/// What a query calls what it reads, at any level. `None`: a name in it may be of something else.
pub fn aliases(query: &ast::SelectStmt, cx: &Context) -> Option<HashSet<String>> {
    let mut closed = Closed { cx, aliases: HashSet::new() };
    closed.select(query, &[], &[])?;
    Some(closed.aliases)
}

/// How many columns a query has; `None`: that is not known here.
pub fn outputs(query: &ast::SelectStmt) -> Option<usize> {
    match (&query.larg, query.values_lists.first()) {
        (Some(left), _) => outputs(left),
        (None, Some(Node { node: Some(NodeEnum::List(row)) })) => Some(row.items.len()),
        (None, Some(_)) => None,
        (None, None) if query.target_list.iter().any(rewrite::is_star) => None,
        (None, None) => Some(query.target_list.len()),
    }
}

/// What one item of FROM is called, and its columns.
#[derive(Clone)]
struct Item {
    alias: String,
    columns: Vec<String>,
}

type Ctes = [(String, Vec<String>)];

struct Closed<'c> {
    cx: &'c Context<'c>,
    aliases: HashSet<String>,
}

impl Closed<'_> {
    /// A query's columns. `around`: the items that can be seen from outside of it.
    fn select(&mut self, s: &ast::SelectStmt, around: &[Item], ctes: &Ctes) -> Option<Vec<String>> {
        let mut ctes = ctes.to_vec();
        if let Some(with) = &s.with_clause {
            for cte in &with.ctes {
                let Some(NodeEnum::CommonTableExpr(cte)) = &cte.node else { return None };
                let Some(NodeEnum::SelectStmt(query)) = cte.ctequery.as_deref()?.node.as_ref() else { return None };
                if with.recursive || cte.search_clause.is_some() || cte.cycle_clause.is_some() {
                    return None;
                }
                let own = self.select(query, around, &ctes)?;
                let columns = renamed(own, &cte.aliascolnames);
                self.aliases.insert(cte.ctename.clone());
                ctes.push((cte.ctename.clone(), columns));
            }
        }
        let (mut items, mut own) = (vec![], vec![]);
        let mut output = vec![];
        if let (Some(left), Some(right)) = (&s.larg, &s.rarg) {
            output = self.select(left, around, &ctes)?;
            self.select(right, around, &ctes)?;
        } else {
            for item in &s.from_clause {
                self.item(item, &mut own, around, &ctes)?;
            }
            items = own.clone();
            for target in &s.target_list {
                match rewrite::target_value(target) {
                    _ if rewrite::is_star(target) => output.extend(self.starred(target, &own)?),
                    Some(value) => {
                        let Some(NodeEnum::ResTarget(t)) = &target.node else { return None };
                        output.push(if t.name.is_empty() { names::figure_column(value) } else { t.name.clone() });
                    }
                    None => return None,
                }
            }
            if let Some(Node { node: Some(NodeEnum::List(row)) }) = s.values_lists.first() {
                output = (1..=row.items.len()).map(|n| format!("column{n}")).collect();
            }
        }
        items.extend(around.iter().cloned());
        let mut rest = s.clone();
        (rest.with_clause, rest.larg, rest.rarg) = (None, None, None);
        rest.from_clause = vec![];
        // Only there a name alone may be that of an output.
        for by in [&mut rest.sort_clause, &mut rest.group_clause, &mut rest.distinct_clause] {
            by.retain(|n| !is_output(n, &output));
        }
        let mut see = See { closed: self, items: &items, ctes: &ctes, is_below: false, found: true };
        walk::select_stmt(&rest, &mut see);
        // Conditions of joins.
        for item in &s.from_clause {
            see.joins(item);
        }
        see.found.then_some(output)
    }

    fn item(&mut self, node: &Node, own: &mut Vec<Item>, around: &[Item], ctes: &Ctes) -> Option<()> {
        let (alias, columns) = match node.node.as_ref()? {
            NodeEnum::RangeVar(rv) => {
                let (schema, name) = names::table(rv);
                let cte = ctes.iter().rev().find(|(cte, _)| schema.is_none() && cte == name);
                let columns = match cte {
                    Some((_, columns)) => columns.clone(),
                    None => self.cx.relation(rv)?.columns.iter().map(|c| c.name.clone()).collect(),
                };
                match &rv.alias {
                    Some(alias) => (alias.aliasname.clone(), renamed(columns, &alias.colnames)),
                    None => (name.to_string(), columns),
                }
            }
            NodeEnum::JoinExpr(j) if j.alias.is_none() && j.join_using_alias.is_none() => {
                self.item(j.larg.as_deref()?, own, around, ctes)?;
                return self.item(j.rarg.as_deref()?, own, around, ctes);
            }
            NodeEnum::RangeSubselect(sub) => {
                let Some(NodeEnum::SelectStmt(query)) = sub.subquery.as_deref()?.node.as_ref() else { return None };
                let beside: Vec<Item> = match sub.lateral {
                    true => own.iter().chain(around).cloned().collect(),
                    false => around.to_vec(),
                };
                let alias = sub.alias.as_ref()?;
                let columns = self.select(query, &beside, ctes)?;
                (alias.aliasname.clone(), renamed(columns, &alias.colnames))
            }
            _ => return None,
        };
        self.aliases.insert(alias.clone());
        own.push(Item { alias, columns });
        Some(())
    }

    fn starred(&self, target: &Node, own: &[Item]) -> Option<Vec<String>> {
        let Some(NodeEnum::ColumnRef(c)) = rewrite::target_value(target)?.node.as_ref() else { return None };
        let of: Vec<&Item> = match names::strings(&c.fields)[..] {
            [] => own.iter().collect(),
            [table] => own.iter().filter(|i| i.alias == table).collect(),
            _ => return None,
        };
        (!of.is_empty()).then(|| of.into_iter().flat_map(|i| i.columns.clone()).collect())
    }
}

/// ORDER BY, GROUP BY or DISTINCT ON names one of these.
fn is_output(by: &Node, outputs: &[String]) -> bool {
    let by = match &by.node {
        Some(NodeEnum::SortBy(s)) => s.node.as_deref(),
        _ => Some(by),
    };
    matches!(by.and_then(names::column).as_deref(), Some([name]) if outputs.iter().any(|o| o == name))
}

fn renamed(mut columns: Vec<String>, given: &[Node]) -> Vec<String> {
    columns.iter_mut().zip(names::strings(given)).for_each(|(column, name)| *column = name.to_string());
    columns
}

/// Looks at one level's expressions.
struct See<'s, 'c> {
    closed: &'s mut Closed<'c>,
    items: &'s [Item],
    ctes: &'s Ctes,
    /// The level itself has been seen: what comes now are subqueries.
    is_below: bool,
    found: bool,
}

impl See<'_, '_> {
    fn is_known(&self, c: &ast::ColumnRef) -> bool {
        let of = |table: &str| self.items.iter().find(|i| i.alias == table);
        match (&names::strings(&c.fields)[..], names::has_star(c)) {
            ([], true) => true,
            ([table], true) => of(table).is_some(),
            ([column], false) => {
                let named = |i: &Item| i.alias == *column || i.columns.iter().any(|c| c == column);
                self.items.iter().any(named)
            }
            ([table, column], false) => of(table).is_some_and(|i| i.columns.iter().any(|c| c == column)),
            _ => false,
        }
    }

    fn joins(&mut self, item: &Node) {
        if let Some(NodeEnum::JoinExpr(j)) = &item.node {
            [&j.larg, &j.rarg].into_iter().flatten().for_each(|side| self.joins(side));
            if let Some(condition) = j.quals.as_deref() {
                walk::walk(condition, self);
            }
        }
    }
}

impl<'a> Visit<'a> for See<'_, '_> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        if let NodeEnum::ColumnRef(c) = n {
            self.found &= self.is_known(c);
        }
        self.found
    }

    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        if !std::mem::replace(&mut self.is_below, true) {
            return true;
        }
        self.found &= self.closed.select(s, self.items, self.ctes).is_some();
        false
    }
}
