//! A Part's SELECT as DuckDB's: one table, its clauses translated one by one.

use std::sync::Arc;

use sql::ast::{self, Node};
use sql::{NodeEnum, names};

use super::expression::{Expr, Kind, TABLE, Writer};
use super::infer::Table;
use super::types::Ty;
use super::{ColumnPart, Found, aggregate, compare, refused, scans};
use crate::levels::Analysis;
use crate::rewrite;
use crate::tree::Count;

/// So many rows are few.
const FEW_ROWS: u64 = 100_000;

/// What a Part asks, translated.
pub struct Select {
    pub distinct: bool,
    /// With the names they have in the Part.
    pub targets: Vec<(String, Expr)>,
    pub condition: Option<Expr>,
    pub groups: Vec<Expr>,
    pub having: Option<Expr>,
    pub order: Vec<(Expr, &'static str)>,
    pub limit: Option<u64>,
}

/// See [`super::read`].
pub fn read(part: &ast::SelectStmt, tables: &[usize], a: &Analysis) -> Found<ColumnPart> {
    let other = [
        (part.with_clause.is_some(), "WITH"),
        (part.larg.is_some() || part.rarg.is_some(), "UNION and its like"),
        (!part.values_lists.is_empty(), "VALUES"),
        (!part.locking_clause.is_empty(), "FOR UPDATE and its like"),
        (part.into_clause.is_some(), "INTO"),
        (!part.window_clause.is_empty(), "a window"),
        (part.limit_option == ast::LimitOption::WithTies as i32, "WITH TIES"),
    ];
    if let Some((_, what)) = other.into_iter().find(|(is, _)| *is) {
        return Err(refused(what));
    }
    if !a.cx.views.is_empty() {
        return Err("a view is not read on columns".into());
    }
    let [Node { node: Some(NodeEnum::RangeVar(rv)) }] = &part.from_clause[..] else {
        return Err("only one table is read on columns, and no subquery".into());
    };
    let relation = a.cx.relation(rv).ok_or_else(|| refused(&format!("\"{}\"", rv.relname)))?;
    let number = tables.iter().copied().find(|u| Arc::ptr_eq(&a.uses[*u].relation, relation));
    let (Some(number), Some(copy)) = (number, &relation.column_copy) else {
        return Err(format!("\"{}\" has no column copy", relation.name));
    };
    if relation.row_security {
        return Err(format!("\"{}\" has row-level security", relation.name));
    }
    if !rv.inh || relation.through.is_some() || rv.alias.as_ref().is_some_and(|a| !a.colnames.is_empty()) {
        return Err(format!("\"{}\" is not read on columns under these names", relation.name));
    }
    let table = Table::new(a.cx, relation, copy, rv);
    let select = Select::of(&table, part)?;
    let types = select.targets.iter().map(|(_, e)| match e.ty.printed() {
        Some(ty) => Ok(ty),
        None => Err(format!("a value of {} is not read from columns", e.ty.name())),
    });
    let types = types.collect::<Found<Vec<_>>>()?;
    let (scans, bounded) = (scans::scans(&select, relation), select.is_bounded());
    let mut writer = Writer::default();
    select.write(copy.id, &mut writer);
    let mut params = writer.params.clone();
    params.sort_unstable();
    if let Some(twice) = params.windows(2).find(|w| w[0].0 == w[1].0) {
        return Err(format!("parameter ${} is of two types on columns", twice[0].0));
    }
    let columns = vec![(number, writer.columns.clone())];
    Ok(ColumnPart { text: writer.text(), tables: vec![number], columns, types, params, scans, bounded })
}

impl Select {
    fn of(t: &Table, s: &ast::SelectStmt) -> Found<Select> {
        let condition = s.where_clause.as_deref().map(|w| t.condition(w)).transpose()?;
        t.aggregates.set(true);
        let mut targets = Vec::with_capacity(s.target_list.len());
        for target in &s.target_list {
            if !star(t, target, &mut targets)? {
                targets.push(output(t, target)?);
            }
        }
        if targets.is_empty() {
            return Err(refused("a SELECT of no columns"));
        }
        let distinct = match &s.distinct_clause[..] {
            [] => false,
            [Node { node: None }] => true,
            _ => return Err(refused("DISTINCT ON")),
        };
        let mut select =
            Select { distinct, targets, condition, groups: vec![], having: None, order: vec![], limit: None };
        for item in &s.group_clause {
            let group = select.group(t, item)?;
            if !group.is_constant() {
                aggregate::is_grouped(&group)?;
            }
            select.groups.push(group);
        }
        select.having = s.having_clause.as_deref().map(|h| t.condition(h)).transpose()?;
        for item in &s.sort_clause {
            let sorted = select.sorted(t, item)?;
            select.order.push(sorted);
        }
        select.limit = match (rewrite::count(s.limit_count.as_deref()), &s.limit_offset) {
            (Ok(None), None) => None,
            (Ok(Some(Count::Constant(n))), None) => Some(n),
            _ => return Err(refused("LIMIT or OFFSET by a parameter or an expression")),
        };
        if distinct {
            select.targets.iter().try_for_each(|(_, e)| aggregate::is_grouped(e))?;
        }
        select.is_whole()?;
        Ok(select)
    }

    /// What an item of GROUP BY stands for: a column's name is one of FROM before it is one of the output's.
    fn group(&self, t: &Table, item: &Node) -> Found<Expr> {
        if let Some(NodeEnum::AConst(c)) = &item.node {
            return self.position(c);
        }
        if let Some(NodeEnum::GroupingSet(_)) = &item.node {
            return Err(refused("GROUPING SETS"));
        }
        match names::column(item).as_deref() {
            Some([name]) if t.relation.column(name).is_none() => self.named(name)?.ok_or_else(|| refused(name)),
            _ => {
                t.aggregates.set(false);
                let group = t.expression(item);
                t.aggregates.set(true);
                group
            }
        }
    }

    /// The output column of a name. Several of one name must be the same.
    fn named(&self, name: &str) -> Found<Option<Expr>> {
        let mut named = self.targets.iter().filter(|(own, _)| own == name).map(|(_, e)| e);
        let Some(first) = named.next() else { return Ok(None) };
        match named.all(|e| e == first) {
            true => Ok(Some(first.clone())),
            false => Err(format!("{name} is more than one output column")),
        }
    }

    fn position(&self, c: &ast::AConst) -> Found<Expr> {
        let position = match &c.val {
            Some(ast::a_const::Val::Ival(i)) => usize::try_from(i.ival).ok().and_then(|n| n.checked_sub(1)),
            _ => None,
        };
        let target = position.and_then(|n| self.targets.get(n));
        target.map(|(_, e)| e.clone()).ok_or_else(|| refused("an output column of this number"))
    }

    /// An item of ORDER BY: an output column by its position or name, before anything of FROM.
    fn sorted(&self, t: &Table, item: &Node) -> Found<(Expr, &'static str)> {
        let Some(NodeEnum::SortBy(s)) = &item.node else { return Err(refused("ORDER BY")) };
        let Some(value) = s.node.as_deref() else { return Err(refused("ORDER BY")) };
        let by_name = match names::column(value).as_deref() {
            Some([name]) => self.named(name)?,
            _ => None,
        };
        let e = match (&value.node, by_name) {
            (_, Some(e)) => e,
            (Some(NodeEnum::AConst(c)), None) => self.position(c)?,
            _ => t.expression(value)?,
        };
        aggregate::is_ordered(t, &e)?;
        if self.distinct && !self.targets.iter().any(|(_, target)| *target == e) {
            return Err(refused("an order by what is not selected"));
        }
        let descending = match ast::SortByDir::try_from(s.sortby_dir) {
            Ok(ast::SortByDir::SortbyDesc) => true,
            Ok(ast::SortByDir::SortbyAsc | ast::SortByDir::SortbyDefault) => false,
            _ => return Err(refused("ORDER BY … USING")),
        };
        let nulls_first = match ast::SortByNulls::try_from(s.sortby_nulls) {
            Ok(ast::SortByNulls::SortbyNullsFirst) => true,
            Ok(ast::SortByNulls::SortbyNullsLast) => false,
            _ => descending,
        };
        let direction = match (descending, nulls_first) {
            (false, false) => "ASC NULLS LAST",
            (false, true) => "ASC NULLS FIRST",
            (true, false) => "DESC NULLS LAST",
            (true, true) => "DESC NULLS FIRST",
        };
        Ok((e, direction))
    }

    /// Rows become groups.
    fn groups_rows(&self) -> bool {
        let above = self.targets.iter().map(|(_, e)| e).chain(&self.having).chain(self.order.iter().map(|(e, _)| e));
        !self.groups.is_empty() || self.having.is_some() || above.into_iter().any(Expr::has_aggregate)
    }

    /// Above groups a column of a row stands in an aggregate, or is part of what is grouped by.
    fn is_whole(&self) -> Found<()> {
        if !self.groups_rows() {
            return Ok(());
        }
        let above = self.targets.iter().map(|(_, e)| e).chain(&self.having).chain(self.order.iter().map(|(e, _)| e));
        match above.into_iter().all(|e| self.is_of_group(e)) && !self.groups.iter().any(Expr::has_aggregate) {
            true => Ok(()),
            false => Err(refused("a column that is not grouped by")),
        }
    }

    fn is_of_group(&self, e: &Expr) -> bool {
        match &e.kind {
            _ if self.groups.contains(e) => true,
            Kind::Aggregate(_) => true,
            Kind::Column(_) => false,
            _ => e.operands().into_iter().all(|e| self.is_of_group(e)),
        }
    }

    /// The answer is small by construction.
    pub fn is_bounded(&self) -> bool {
        self.distinct || self.groups_rows() || self.limit.is_some_and(|n| n <= FEW_ROWS)
    }

    fn write(&self, copy: i64, w: &mut Writer) {
        w.sql(if self.distinct { "SELECT DISTINCT " } else { "SELECT " });
        w.list(self.targets.iter().map(|(_, e)| e), ", ");
        w.sql(&format!(" FROM copy_{copy} AS {TABLE}"));
        if let Some(condition) = &self.condition {
            w.sql(" WHERE ");
            w.expression(condition);
        }
        for (i, group) in self.groups.iter().enumerate() {
            w.sql(if i == 0 { " GROUP BY " } else { ", " });
            self.output(group, w);
        }
        if let Some(having) = &self.having {
            w.sql(" HAVING ");
            w.expression(having);
        }
        for (i, (e, direction)) in self.order.iter().enumerate() {
            w.sql(if i == 0 { " ORDER BY " } else { ", " });
            self.output(e, w);
            w.sql(&format!(" {direction}"));
        }
        if let Some(limit) = self.limit {
            w.sql(&format!(" LIMIT {limit}"));
        }
    }

    /// An output column by its position, anything else as it is.
    fn output(&self, e: &Expr, w: &mut Writer) {
        match self.targets.iter().position(|(_, target)| target == e) {
            Some(at) => w.sql(&(at + 1).to_string()),
            None => w.expression(e),
        }
    }
}

/// `*` or `t.*`, as its columns; false: it is none.
fn star(t: &Table, target: &Node, targets: &mut Vec<(String, Expr)>) -> Found<bool> {
    let Some(NodeEnum::ColumnRef(c)) = rewrite::target_value(target).and_then(|v| v.node.as_ref()) else {
        return Ok(false);
    };
    if !names::has_star(c) {
        return Ok(false);
    }
    match names::strings(&c.fields)[..] {
        [] => {}
        [table] if table == t.shown => {}
        _ => return Err(refused("this use of *")),
    }
    for (at, column) in t.relation.columns.iter().enumerate() {
        targets.push((column.name.clone(), t.of_position(at)?));
    }
    Ok(true)
}

/// An output column, with its name. A constant without a type is a text.
fn output(t: &Table, target: &Node) -> Found<(String, Expr)> {
    let Some(NodeEnum::ResTarget(target)) = &target.node else { return Err(refused("an output column of this kind")) };
    let (Some(value), true) = (target.val.as_deref(), target.indirection.is_empty()) else {
        return Err(refused("an output column of this kind"));
    };
    let name = if target.name.is_empty() { names::figure_column(value) } else { target.name.clone() };
    let e = t.expression(value)?;
    let e = match (e.ty, &e.kind) {
        (Ty::Unknown, Kind::Param(..)) => return Err(refused("a parameter of no known type")),
        (Ty::Unknown, _) => compare::settle(e, Ty::Text)?,
        _ => e,
    };
    Ok((name, e))
}
