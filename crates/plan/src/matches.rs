//! Whether UPDATE … FROM finds, for each row of its target, one row of FROM at most: if several match, PostgreSQL takes the one
//! it meets first.
//!
//! An item of FROM is *settled* if all columns of a unique index of it, or of what its rows are grouped by, are equal to
//! what is settled already: the target's row, constants, other items. Equal means what the index means by it: the columns' own
//! type on both sides (a float equals several integers). It does not know what is done with the answer.

use sql::ast::{self, Node, SelectStmt};
use sql::{NodeEnum, names, search};

use wire::type_oid;

use crate::Context;
use crate::keys;
use crate::order::is_identical;
use crate::order::possible::{Possible, ValueType};
use crate::rewrite::{self, GroupItem};

struct Item<'u> {
    alias: &'u str,
    /// Its columns; `None`: not known.
    columns: Option<Vec<String>>,
    /// Sets of columns of which no two rows are equal; an empty set: there is one row.
    unique: Vec<Vec<String>>,
    /// It may be left out: what its own condition says holds for the rows it is not left out of.
    on: Option<&'u Node>,
    settled: bool,
}

/// The item of which several rows could match a row, and say what it becomes.
pub fn several(update: &ast::UpdateStmt, cx: &Context, possible: &Possible) -> Option<String> {
    let rv = update.relation.as_ref()?;
    let target = cx.relation(rv)?;
    let alias = shown(rv);
    let own: Vec<String> = target.columns.iter().map(|c| c.name.clone()).collect();
    // What is set may be the same whichever row matches.
    let of_target = |c: &ast::ColumnRef| match names::strings(&c.fields)[..] {
        [column] => own.iter().any(|o| o == column),
        [table, _] => table == alias,
        _ => false,
    };
    let from_others = |n: &Node| search::any(n, |n| matches!(n, NodeEnum::ColumnRef(c) if !of_target(c)));
    if update.from_clause.is_empty() || !update.target_list.iter().any(from_others) {
        return None;
    }
    let target = Item { alias, columns: Some(own.clone()), unique: vec![], on: None, settled: true };
    let mut items = Items { all: vec![target], conditions: vec![], update, cx, possible };
    update.from_clause.iter().for_each(|n| items.add(n, None));
    items.conditions.extend(update.where_clause.as_deref());
    items.settle();
    items.all.iter().find(|i| !i.settled).map(|i| i.alias.to_string())
}

/// A change of the one row that has these values in a unique index.
pub fn is_of_one_row(statement: &NodeEnum, cx: &Context) -> bool {
    let update = match statement {
        NodeEnum::UpdateStmt(u) => u.as_ref().clone(),
        NodeEnum::DeleteStmt(d) => ast::UpdateStmt {
            relation: d.relation.clone(),
            where_clause: d.where_clause.clone(),
            from_clause: d.using_clause.clone(),
            with_clause: d.with_clause.clone(),
            ..Default::default()
        },
        _ => return false,
    };
    let Some(rv) = update.relation.as_ref().filter(|_| update.from_clause.is_empty()) else { return false };
    let target = Node { node: Some(NodeEnum::RangeVar(rv.clone())) };
    let possible = Possible::new(cx, statement);
    let mut items = Items { all: vec![], conditions: vec![], update: &update, cx, possible: &possible };
    items.add(&target, None);
    items.conditions.extend(update.where_clause.as_deref());
    items.settle();
    items.all.iter().all(|i| i.settled)
}

struct Items<'u> {
    all: Vec<Item<'u>>,
    /// That all rows pass.
    conditions: Vec<&'u Node>,
    update: &'u ast::UpdateStmt,
    cx: &'u Context<'u>,
    possible: &'u Possible<'u>,
}

impl<'u> Items<'u> {
    fn add(&mut self, n: &'u Node, on: Option<&'u Node>) {
        let mut item = Item { alias: "a query", columns: None, unique: vec![], on, settled: false };
        match n.node.as_ref() {
            Some(NodeEnum::RangeVar(rv)) => {
                let (schema, name) = names::table(rv);
                item.alias = shown(rv);
                let renamed = rv.alias.as_ref().is_some_and(|a| !a.colnames.is_empty());
                let with = self.update.with_clause.iter().flat_map(|w| &w.ctes).find_map(|c| match &c.node {
                    Some(NodeEnum::CommonTableExpr(c)) if schema.is_none() && c.ctename == name => Some(c.as_ref()),
                    _ => None,
                });
                let query = with.and_then(|c| c.ctequery.as_deref()?.node.as_ref());
                match (with, query) {
                    (Some(with), Some(NodeEnum::SelectStmt(s))) if !renamed => {
                        self.describe(&mut item, s, &names::strings(&with.aliascolnames))
                    }
                    (Some(_), _) => {}
                    (None, _) => {
                        if let Some(r) = self.cx.relation(rv).filter(|_| !renamed) {
                            let name = |c: &usize| r.columns[*c].name.clone();
                            item.columns = Some(r.columns.iter().map(|c| c.name.clone()).collect());
                            let unique = r.unique.iter().filter(|u| u.plain);
                            item.unique = unique.map(|u| u.columns.iter().map(name).collect()).collect();
                        }
                    }
                }
            }
            Some(NodeEnum::RangeSubselect(s)) => {
                let alias = s.alias.as_ref();
                item.alias = alias.map_or("a subquery", |a| a.aliasname.as_str());
                if let Some(NodeEnum::SelectStmt(select)) = s.subquery.as_deref().and_then(|q| q.node.as_ref()) {
                    self.describe(&mut item, select, &alias.map(|a| names::strings(&a.colnames)).unwrap_or_default());
                }
            }
            Some(NodeEnum::JoinExpr(j)) if j.alias.is_none() && j.using_clause.is_empty() && !j.is_natural => {
                let sides = (j.larg.as_deref(), j.rarg.as_deref());
                if let (Some(left), Some(right)) = sides {
                    match ast::JoinType::try_from(j.jointype) {
                        Ok(ast::JoinType::JoinInner) => {
                            self.add(left, on);
                            self.add(right, on);
                            if on.is_none() {
                                self.conditions.extend(j.quals.as_deref());
                            }
                            return;
                        }
                        Ok(ast::JoinType::JoinLeft) if on.is_none() => {
                            self.add(left, None);
                            self.add(right, j.quals.as_deref());
                            return;
                        }
                        _ => item.alias = "a join",
                    }
                }
            }
            _ => item.alias = "a function",
        }
        self.all.push(item);
    }

    fn settle(&mut self) {
        while let Some(at) = (0..self.all.len()).find(|i| !self.all[*i].settled && self.is_settled(*i)) {
            self.all[at].settled = true;
        }
    }

    fn is_settled(&self, at: usize) -> bool {
        let item = &self.all[at];
        let mut equal = vec![];
        self.conditions.iter().chain(&item.on).for_each(|c| self.equal(c, at, &mut equal));
        item.unique.iter().any(|columns| columns.iter().all(|c| equal.contains(c)))
    }

    /// Columns of an item that a condition makes equal to what is settled.
    fn equal(&self, condition: &Node, at: usize, equal: &mut Vec<String>) {
        match condition.node.as_ref() {
            Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::AndExpr as i32 => {
                b.args.iter().for_each(|c| self.equal(c, at, equal));
            }
            Some(NodeEnum::AExpr(e)) if e.kind == ast::AExprKind::AexprOp as i32 && self.is_equality(&e.name) => {
                let (Some(l), Some(r)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return };
                for (column, value) in [(l, r), (r, l)] {
                    if let Some(NodeEnum::ColumnRef(c)) = &column.node
                        && self.owner(c) == Some(at)
                        && self.is_known(value)
                        && self.is_of_its_type(column, value)
                    {
                        equal.push(names::last(&c.fields).to_string());
                    }
                }
            }
            _ => {}
        }
    }

    /// PostgreSQL's own `=`.
    fn is_equality(&self, name: &[Node]) -> bool {
        match names::strings(name)[..] {
            ["pg_catalog", "="] => true,
            ["="] => !self.cx.snapshot.own_equality.iter().any(|s| self.cx.search_path.contains(s)),
            _ => false,
        }
    }

    /// What `=` compares is the column as it is, by what its index goes by.
    fn is_of_its_type(&self, column: &Node, value: &Node) -> bool {
        let Some(kinds) = self.possible.of(column).filter(|kinds| !kinds.is_empty()) else { return false };
        let all = |kinds: &[ValueType], test: &dyn Fn(u32) -> bool| kinds.iter().all(|(oid, _)| test(*oid));
        let own = |oid: u32| {
            is_identical(oid, self.possible.collates)
                || type_oid::is_number(oid)
                || matches!(oid, type_oid::INTERVAL | type_oid::BPCHAR)
        };
        if !all(&kinds, &own) {
            return false;
        }
        if let Some(NodeEnum::ParamRef(_)) = &value.node {
            // Whatever type it turns out to have, what is compared is exact.
            use type_oid::{BOOL, BYTEA, INT2, INT4, TEXT, UUID};
            return all(&kinds, &|oid| matches!(oid, BOOL | BYTEA | INT2 | INT4 | TEXT | UUID));
        }
        let Some(values) = self.possible.of(value) else { return false };
        let exact = |oid: u32| type_oid::is_integer(oid) || oid == type_oid::NUMERIC;
        let first = kinds[0].0;
        let families: [&dyn Fn(u32) -> bool; 3] = [&exact, &type_oid::is_text, &|oid| oid == first];
        let literal = |oid: u32| oid == type_oid::UNKNOWN;
        families.iter().any(|family| all(&kinds, family) && all(&values, &|oid| literal(oid) || family(oid)))
    }

    /// It is made of constants and of settled items' columns.
    fn is_known(&self, value: &Node) -> bool {
        !keys::is_bare_null(value)
            && !search::any(value, |n| match n {
                NodeEnum::ColumnRef(c) => !self.owner(c).is_some_and(|at| self.all[at].settled),
                NodeEnum::SubLink(_) => true,
                _ => false,
            })
    }

    /// The item a column is of, where that is certain.
    fn owner(&self, c: &ast::ColumnRef) -> Option<usize> {
        let has = |i: &Item, column: &str| i.columns.as_ref().is_some_and(|all| all.iter().any(|c| c == column));
        match names::strings(&c.fields)[..] {
            [column] => {
                // What is not known may have it, too.
                let mut owners = (0..self.all.len()).filter(|i| has(&self.all[*i], column));
                let known = self.all.iter().all(|i| i.columns.is_some());
                owners.next().filter(|_| known && owners.next().is_none())
            }
            [table, _] => self.all.iter().position(|i| i.alias == table),
            _ => None,
        }
    }

    /// A table of the catalog by its own columns' names, not a WITH query of `s` or around it.
    fn table(&self, rv: &ast::RangeVar, s: &SelectStmt) -> Option<&'u catalog::Relation> {
        let (schema, name) = names::table(rv);
        let with = |c: &Node| matches!(&c.node, Some(NodeEnum::CommonTableExpr(c)) if c.ctename == name);
        let all = self.update.with_clause.iter().chain(&s.with_clause).flat_map(|w| &w.ctes);
        let inner = self
            .update
            .with_clause
            .iter()
            .flat_map(|w| &w.ctes)
            .any(|c| search::any(c, |n| matches!(n, NodeEnum::CommonTableExpr(c) if c.ctename == name)));
        let renamed = rv.alias.as_ref().is_some_and(|a| !a.colnames.is_empty());
        let named = renamed || schema.is_none() && (inner || all.into_iter().any(with));
        self.cx.relation(rv).map(|r| &**r).filter(|_| !named)
    }

    /// The columns of a query, and which of them tell its rows apart.
    fn describe(&self, item: &mut Item, s: &SelectStmt, renamed: &[&str]) {
        if !s.values_lists.is_empty() {
            return describe_values(item, s, renamed);
        }
        if s.larg.is_some() {
            return;
        }
        let mut columns = vec![];
        for (i, target) in s.target_list.iter().enumerate() {
            let (Some(NodeEnum::ResTarget(t)), false) = (&target.node, crate::rewrite::is_star(target)) else { return };
            let Some(value) = t.val.as_deref() else { return };
            let name = if t.name.is_empty() { names::figure_column(value) } else { t.name.clone() };
            columns.push((renamed.get(i).map_or(name, |n| n.to_string()), value));
        }
        item.columns = Some(columns.iter().map(|(n, _)| n.clone()).collect());
        if s.distinct_clause.first().is_some_and(|n| n.node.is_none()) {
            item.unique.push(columns.iter().map(|(n, _)| n.clone()).collect());
        }
        // What gives several rows for one tells none of them apart.
        let gives_set = |n: &NodeEnum| match n {
            NodeEnum::FuncCall(f) => {
                let mut all = self.cx.functions(&f.funcname).peekable();
                all.peek().is_none() || all.any(|f| f.returns_set)
            }
            _ => false,
        };
        if s.target_list.iter().any(|t| search::any(t, gives_set)) {
            return;
        }
        let shown = |g: &Node| columns.iter().find(|(_, value)| is_same(value, g)).map(|(n, _)| n.clone());
        let grouped = |g: &Node| match rewrite::group_item(g, s, None) {
            GroupItem::Itself => shown(g),
            GroupItem::Output(value) => shown(value),
            GroupItem::Unsure(_) => None,
        };
        let distinct = |d: &Node| shown(rewrite::output_item(d, s).unwrap_or(d));
        // Each row is one of a table's.
        if let [Node { node: Some(NodeEnum::RangeVar(rv)) }] = &s.from_clause[..]
            && let Some(relation) = self.table(rv, s).filter(|_| s.group_clause.is_empty())
        {
            let shown = |c: &usize| {
                let is =
                    |v: &&Node| names::column(v).and_then(|v| v.last().copied()) == Some(&relation.columns[*c].name);
                columns.iter().find(|(_, value)| is(value)).map(|(n, _)| n.clone())
            };
            let unique = relation.unique.iter().filter(|u| u.plain);
            item.unique.extend(unique.filter_map(|u| u.columns.iter().map(shown).collect::<Option<Vec<_>>>()));
        }
        let sets = s.group_clause.iter().any(|g| matches!(g.node, Some(NodeEnum::GroupingSet(_))));
        if !s.group_clause.is_empty() && !sets {
            item.unique.extend(s.group_clause.iter().map(grouped).collect::<Option<Vec<_>>>());
        }
        if s.distinct_clause.first().is_some_and(|n| n.node.is_some()) {
            item.unique.extend(s.distinct_clause.iter().map(distinct).collect::<Option<Vec<_>>>());
        }
        // One row: nothing in FROM, or an aggregate of all of it.
        let aggregate = |n: &Node| {
            matches!(&n.node, Some(NodeEnum::FuncCall(f)) if f.over.is_none()
            && matches!(names::last(&f.funcname), "count" | "sum" | "avg" | "min" | "max"))
        };
        let returns_set = search::any(s, |n| matches!(n, NodeEnum::FuncCall(_)));
        if s.group_clause.is_empty()
            && (columns.iter().any(|(_, v)| aggregate(v)) || s.from_clause.is_empty() && !returns_set)
        {
            item.unique.push(vec![]);
        }
    }
}

/// Columns of VALUES of which all constants are different.
fn describe_values(item: &mut Item, s: &SelectStmt, renamed: &[&str]) {
    let rows: Option<Vec<&[Node]>> = s
        .values_lists
        .iter()
        .map(|row| match &row.node {
            Some(NodeEnum::List(l)) => Some(&l.items[..]),
            _ => None,
        })
        .collect();
    let Some(rows) = rows else { return };
    let width = rows.first().map_or(0, |r| r.len());
    let name = |i: usize| renamed.get(i).map_or(format!("column{}", i + 1), |n| n.to_string());
    item.columns = Some((0..width).map(name).collect());
    if rows.len() == 1 {
        item.unique.push(vec![]);
    }
    for i in 0..width {
        let mut seen = std::collections::HashSet::new();
        let integer = |n: &Node| match &n.node {
            Some(NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Ival(v)), isnull: false, .. })) => {
                Some(v.ival)
            }
            _ => None,
        };
        if rows.iter().all(|r| r.get(i).and_then(integer).is_some_and(|v| seen.insert(v))) {
            item.unique.push(vec![name(i)]);
        }
    }
}

/// The name by which its columns are said to be of it.
fn shown(rv: &ast::RangeVar) -> &str {
    rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname)
}

fn is_same(a: &Node, b: &Node) -> bool {
    match (names::column(a), names::column(b)) {
        (Some(a), Some(b)) => a.last() == b.last() && (a == b || a.len() == 1 || b.len() == 1),
        _ => matches!((sql::deparse_expr(a), sql::deparse_expr(b)), (Ok(a), Ok(b)) if a == b),
    }
}
