//! A Part's SELECT as DuckDB's, its clauses translated one by one.

use std::sync::Arc;

use sql::ast::{self, Node};
use sql::{NodeEnum, names};

use super::expression::{Expr, Kind, Writer};
use super::from::{self, From};
use super::scope::Reader;
use super::subquery::{self, Query};
use super::types::Ty;
use super::{ColumnPart, ColumnTable, Found, Rows, aggregate, compare, first_bytes, refused, scans};
use crate::levels::Analysis;
use crate::rewrite;

/// So many rows are few: stores tell no more (exec `router/column_stores.rs`).
const FEW_ROWS: u64 = 100_000;

/// What a SELECT asks, translated.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    pub distinct: bool,
    /// With the names they have in the Part.
    pub targets: Vec<(String, Expr)>,
    pub condition: Option<Expr>,
    pub groups: Vec<Expr>,
    pub having: Option<Expr>,
    pub order: Vec<(Expr, &'static str)>,
    pub limit: Option<Expr>,
}

/// See [`super::read`].
pub fn read(part: &ast::SelectStmt, tables: &[usize], rows: Rows, a: &Analysis) -> Found<ColumnPart> {
    if !a.cx.views.is_empty() {
        return Err("a view is not read on columns".into());
    }
    if a.cx.snapshot.builtins_revoked {
        return Err("not everybody may call all of PostgreSQL's own functions, and stores do not ask".into());
    }
    let reader = Reader::new(a, tables);
    let Query { mut select, from } = reader.within(false, || Query::read(&reader, part))?;
    select.distinct |= rows == Rows::Once && select.is_flat();
    let types = select.targets.iter().map(|(_, e)| match e.ty.printed() {
        Some(ty) => Ok(ty),
        None => Err(format!("a value of {} is not read from columns", e.ty.name())),
    });
    let types = types.collect::<Found<Vec<_>>>()?;
    let written = |select: Select| {
        let mut writer = Writer::new(reader.count());
        select.of_few_rows().write(&from, &mut writer, false);
        writer
    };
    let by_first_bytes = first_bytes::select(&select, &from, &reader).map(|select| written(select).text());
    let writer = written(select.clone());
    let mut params = writer.params.clone();
    params.sort_unstable();
    if let Some(twice) = params.windows(2).find(|w| w[0].0 == w[1].0) {
        return Err(format!("parameter ${} is of two types on columns", twice[0].0));
    }
    let mut tables: Vec<ColumnTable> = vec![];
    for table in reader.tables() {
        let Some(relation) = table.relation() else { continue };
        if tables.iter().all(|t| !Arc::ptr_eq(&t.relation, relation)) {
            tables.push(ColumnTable { relation: relation.clone(), columns: vec![] });
        }
    }
    for (table, name) in &writer.columns {
        let table = reader.table(*table);
        let Some(relation) = table.relation() else { continue };
        let named = tables.iter_mut().find(|t| Arc::ptr_eq(&t.relation, relation)).map(|t| &mut t.columns);
        named.filter(|names| !names.contains(name)).map(|names| names.push(name.clone())).unwrap_or_default();
    }
    let text = writer.text();
    Ok(ColumnPart {
        in_pieces: rows == Rows::AddedUp && select.is_of_any_rows(&from) && !text.names_now(),
        text,
        by_first_bytes,
        tables,
        types,
        params,
        scans: scans::scans(&select, &from, &reader),
        bounded: select.is_bounded(),
        float_sums: select.adds_floats(),
    })
}

impl Select {
    /// Of what FROM names.
    pub fn of(r: &Reader, s: &ast::SelectStmt) -> Found<Select> {
        r.subqueries.set(true);
        let condition = s.where_clause.as_deref().map(|w| r.condition(w)).transpose()?;
        r.subqueries.set(false);
        r.aggregates.set(true);
        let mut targets = Vec::with_capacity(s.target_list.len());
        for target in &s.target_list {
            let value = rewrite::target_value(target).and_then(|v| v.node.as_ref());
            let star = match value {
                Some(NodeEnum::ColumnRef(c)) => from::star(r, c)?,
                _ => None,
            };
            match star {
                Some(columns) => targets.extend(columns),
                None => targets.push(output(r, target)?),
            }
        }
        if targets.is_empty() {
            return Err(refused("a SELECT of no columns"));
        }
        if targets.iter().any(|(_, e)| e.has_parameters_digits()) {
            return Err(refused("a number whose digits a parameter gives"));
        }
        let distinct = match &s.distinct_clause[..] {
            [] => false,
            [Node { node: None }] => true,
            _ => return Err(refused("DISTINCT ON")),
        };
        let mut select =
            Select { distinct, targets, condition, groups: vec![], having: None, order: vec![], limit: None };
        for item in &s.group_clause {
            let group = select.group(r, item)?;
            if !group.is_constant() {
                aggregate::is_grouped(&group)?;
            }
            select.groups.push(group);
        }
        select.having = s.having_clause.as_deref().map(|h| r.condition(h)).transpose()?;
        for item in &s.sort_clause {
            let sorted = select.sorted(r, item)?;
            select.order.push(sorted);
        }
        select.computes_of_rows()?;
        r.aggregates.set(false);
        select.limit = limit(r, s)?;
        select.fails_for_all_rows()?;
        select.tells_float_sums()?;
        if distinct {
            select.targets.iter().try_for_each(|(_, e)| aggregate::is_grouped(e))?;
        }
        select.is_whole()?;
        Ok(select)
    }

    /// Rows as they are, all of them, of which equal ones are the same.
    fn is_flat(&self) -> bool {
        let same = |(_, e): &(String, Expr)| aggregate::is_grouped(e).is_ok();
        !self.groups_rows() && self.order.is_empty() && self.limit.is_none() && self.targets.iter().all(same)
    }

    /// What an item of GROUP BY stands for: a column's name is one of FROM before it is one of the output's.
    fn group(&self, r: &Reader, item: &Node) -> Found<Expr> {
        if let Some(NodeEnum::AConst(c)) = &item.node {
            return self.position(c);
        }
        if let Some(NodeEnum::GroupingSet(_)) = &item.node {
            return Err(refused("GROUPING SETS"));
        }
        match names::column(item).as_deref() {
            Some([name]) if !r.has_column(name) => self.named(name)?.ok_or_else(|| refused(name)),
            _ => {
                r.aggregates.set(false);
                let group = r.expression(item);
                r.aggregates.set(true);
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
    fn sorted(&self, r: &Reader, item: &Node) -> Found<(Expr, &'static str)> {
        let Some(NodeEnum::SortBy(s)) = &item.node else { return Err(refused("ORDER BY")) };
        let Some(value) = s.node.as_deref() else { return Err(refused("ORDER BY")) };
        let by_name = match names::column(value).as_deref() {
            Some([name]) => self.named(name)?,
            _ => None,
        };
        let e = match (&value.node, by_name) {
            (_, Some(e)) => e,
            (Some(NodeEnum::AConst(c)), None) => self.position(c)?,
            _ => r.expression(value)?,
        };
        aggregate::is_ordered(r, &e)?;
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
    pub fn groups_rows(&self) -> bool {
        let above = self.targets.iter().map(|(_, e)| e).chain(&self.having).chain(self.order.iter().map(|(e, _)| e));
        !self.groups.is_empty() || self.having.is_some() || above.into_iter().any(Expr::has_aggregate)
    }

    /// No constants are left to be computed (see [`Expr::computes_of_none`]).
    fn computes_of_rows(&self) -> Found<()> {
        let below = self.condition.iter().chain(&self.groups);
        let above = self.targets.iter().map(|(_, e)| e).chain(&self.having).chain(self.order.iter().map(|(e, _)| e));
        match below.chain(above).any(Expr::computes_of_none) {
            true => Err(refused("an expression of no column")),
            false => Ok(()),
        }
    }

    /// Where the first rows of an order are wanted, what may fail is computed for all rows. PostgreSQL does so before it sorts them, of all that is cheap
    /// (`make_sort_input_target` in planner.c). DuckDB leaves out rows once it has found others that come before them, be it for a condition; but it
    /// computes of each by what the order begins with. Groups and different rows have been made of all.
    fn fails_for_all_rows(&self) -> Found<()> {
        if self.limit.is_none() || self.distinct || self.groups_rows() {
            return Ok(());
        }
        let first = self.order.first().map(|(e, _)| e);
        let order = self.order.iter().map(|(e, _)| e);
        let mut all = self.targets.iter().map(|(_, e)| e).chain(&self.condition).chain(order);
        match all.any(|e| e.may_not_fit() && Some(e) != first) {
            true => Err(refused("what can fail for rows beyond a LIMIT")),
            false => Ok(()),
        }
    }

    /// DuckDB looks for the first rows of an order in those blocks of a table that may hold some, once it has others. Of the table that an outer join
    /// need not find a row in it leaves blocks out as well, and joins what finds its partners there with nothing: NULLs, which may come first. Seen with
    /// 1.5.6 (`TopN::PushdownDynamicFilters`). Groups and different rows have been made of all.
    pub fn is_first_of_all(&self, from: &[From]) -> Found<()> {
        // What `of_few_rows` adds is more than a store tells of.
        if self.limit.is_none() || self.order.is_empty() || self.distinct || self.groups_rows() {
            return Ok(());
        }
        match from.iter().any(From::passes_on_outer_rows) {
            true => Err(refused("the first rows of an outer join")),
            false => Ok(()),
        }
    }

    /// PostgreSQL finds out that a sum is too great while it adds up, also for groups that are left out then, or where nothing comes to look at it.
    /// DuckDB's is looked at where it is told: so it is told, of all groups.
    fn tells_float_sums(&self) -> Found<()> {
        let inside = |e: &Expr| e.adds_floats() && !matches!(e.kind, Kind::FloatSum(_));
        let elsewhere = self.having.iter().chain(self.order.iter().map(|(e, _)| e)).any(Expr::adds_floats);
        if elsewhere || self.targets.iter().any(|(_, e)| inside(e)) {
            return Err(refused("an expression of a sum of floats"));
        }
        match (self.having.is_some() || self.limit.is_some()) && self.adds_floats() {
            true => Err(refused("a sum of floats beside HAVING or LIMIT")),
            false => Ok(()),
        }
    }

    fn adds_floats(&self) -> bool {
        self.targets.iter().any(|(_, e)| e.adds_floats())
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

    /// What it says of some rows of a table and what it says of the others, added up, is what it says of all.
    fn is_of_any_rows(&self, from: &[From]) -> bool {
        let splits = |e: &Expr| match &e.kind {
            _ if self.groups.contains(e) => true,
            Kind::Aggregate(a) => !a.distinct,
            Kind::Cast(sum) => matches!(&sum.kind, Kind::Aggregate(a) if a.name == "sum" && !a.distinct),
            Kind::FloatSum(_) => true,
            _ => false,
        };
        let plain = !self.distinct && self.having.is_none() && self.order.is_empty() && self.limit.is_none();
        let looks_beyond = |e: &Expr| e.any(&mut |e| matches!(e.kind, Kind::Subquery(_) | Kind::Bound(_)));
        let beyond =
            self.condition.iter().chain(&self.groups).chain(self.targets.iter().map(|(_, e)| e)).any(looks_beyond);
        plain && !beyond && matches!(from, [From::Table { .. }]) && self.targets.iter().all(|(_, e)| splits(e))
    }

    /// The answer is small by construction.
    pub fn is_bounded(&self) -> bool {
        let few = |limit: &Expr| match &limit.kind {
            Kind::Constant(n) => n.parse::<u64>().is_ok_and(|n| n <= FEW_ROWS),
            Kind::Null => false,
            _ => true,
        };
        self.distinct || self.groups_rows() || self.limit.as_ref().is_some_and(few)
    }

    /// The same where it is a few rows, and too many of them where it is more: a store has all rows of an answer in memory that DuckDB does not count,
    /// and finds out that they are too many.
    fn of_few_rows(mut self) -> Select {
        let most = FEW_ROWS + 1;
        let constant = || Expr { ty: Ty::Int8, kind: Kind::Constant(most.to_string()) };
        let is_one_row = self.groups.is_empty() && self.groups_rows();
        self.limit = match self.limit.take() {
            None if is_one_row => None,
            None => Some(constant()),
            Some(limit) => match &limit.kind {
                Kind::Null => Some(constant()),
                Kind::Constant(n) => match n.parse::<u64>() {
                    Ok(n) if n > most => Some(constant()),
                    _ => Some(limit),
                },
                // Of nothing and a number it is the number.
                _ => Some(Expr { ty: Ty::Int8, kind: Kind::Call("least", vec![limit, constant()]) }),
            },
        };
        self
    }

    /// In DuckDB's words. `named`: its columns are called as who is around it calls them.
    pub fn write(&self, from: &[From], w: &mut Writer, named: bool) {
        w.sql(if self.distinct { "SELECT DISTINCT " } else { "SELECT " });
        for (i, (_, e)) in self.targets.iter().enumerate() {
            w.sql(if i == 0 { "" } else { ", " });
            w.expression(e);
            if named {
                w.sql(&format!(" AS \"{}\"", subquery::output(i)));
            }
        }
        for (i, item) in from.iter().enumerate() {
            w.sql(if i == 0 { " FROM " } else { ", " });
            item.write(w);
        }
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
        if let Some(limit) = &self.limit {
            w.sql(" LIMIT ");
            w.expression(limit);
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

/// So many rows, of what parameters say: the sum of two, where OFFSET is one (see `push_limit`).
fn limit(r: &Reader, s: &ast::SelectStmt) -> Found<Option<Expr>> {
    if s.limit_offset.is_some() {
        return Err(refused("OFFSET"));
    }
    let Some(count) = s.limit_count.as_deref() else { return Ok(None) };
    let count = match r.expression(count)? {
        e if e.ty == Ty::Unknown => compare::settle(e, Ty::Int8)?,
        e => e,
    };
    let computed = count.any(&mut |e| matches!(e.kind, Kind::Column(_)));
    match count.ty {
        ty if ty.is_integer() && !computed => Ok(Some(count)),
        _ => Err(refused("LIMIT by anything but integers and parameters")),
    }
}

/// An output column, with its name. A constant without a type is a text.
fn output(r: &Reader, target: &Node) -> Found<(String, Expr)> {
    let Some(NodeEnum::ResTarget(target)) = &target.node else { return Err(refused("an output column of this kind")) };
    let (Some(value), true) = (target.val.as_deref(), target.indirection.is_empty()) else {
        return Err(refused("an output column of this kind"));
    };
    let name = if target.name.is_empty() { names::figure_column(value) } else { target.name.clone() };
    let e = r.expression(value)?;
    let e = match (e.ty, &e.kind) {
        (Ty::Unknown, Kind::Param(..)) => return Err(refused("a parameter of no known type")),
        (Ty::Unknown, _) => compare::settle(e, Ty::Text)?,
        _ => e,
    };
    Ok((name, e))
}
