//! FROM: tables that have column copies, and joins of them. Nodes have what they join together, or it would be no Part: a store has the same,
//! of reference tables all.

use std::sync::Arc;

use sql::ast::{self, JoinType, Node};
use sql::{NodeEnum, names};

use super::expression::{Expr, Kind, Writer};
use super::infer::{Reader, Table};
use super::{Found, refused};
use crate::levels::Analysis;

/// An item of FROM.
pub enum From {
    /// By its place among the reader's tables.
    Table(usize),
    Join {
        word: &'static str,
        left: Box<From>,
        right: Box<From>,
        /// None of a join in which every row finds every other.
        on: Option<Expr>,
    },
}

/// What FROM names, with the reader's tables filled in. `uses`: those of distributed tables that the Part reads.
pub fn read<'a>(items: &'a [Node], uses: &[usize], a: &'a Analysis<'a>, r: &mut Reader<'a>) -> Found<Vec<From>> {
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        all.push(read_item(item, uses, a, r)?);
    }
    let shown = |n: usize| r.tables[n].shown;
    if (0..r.tables.len()).any(|n| (0..n).any(|m| shown(n) == shown(m))) {
        return Err(refused("a FROM with one name twice"));
    }
    match all.is_empty() {
        true => Err(refused("a SELECT of no table")),
        false => Ok(all),
    }
}

fn read_item<'a>(item: &'a Node, uses: &[usize], a: &'a Analysis<'a>, r: &mut Reader<'a>) -> Found<From> {
    match &item.node {
        Some(NodeEnum::RangeVar(rv)) => {
            r.tables.push(table(rv, uses, a)?);
            Ok(From::Table(r.tables.len() - 1))
        }
        Some(NodeEnum::JoinExpr(join)) => read_join(join, uses, a, r),
        Some(NodeEnum::RangeSubselect(_)) => Err(refused("a subquery in FROM")),
        Some(NodeEnum::RangeTableSample(_)) => Err(refused("TABLESAMPLE")),
        _ => Err(refused("a FROM with anything but tables")),
    }
}

fn table<'a>(rv: &'a ast::RangeVar, uses: &[usize], a: &'a Analysis<'a>) -> Found<Table<'a>> {
    let relation = a.cx.relation(rv).ok_or_else(|| refused(&format!("\"{}\"", rv.relname)))?;
    let mut read = uses.iter().map(|u| &a.uses[*u].relation).chain(&a.reference_tables);
    let is_read = read.any(|r| Arc::ptr_eq(r, relation));
    let Some(copy) = relation.column_copy.as_ref().filter(|_| is_read) else {
        return Err(format!("\"{}\" has no column copy", relation.name));
    };
    if relation.row_security {
        return Err(format!("\"{}\" has row-level security", relation.name));
    }
    let alias = rv.alias.as_ref();
    if !rv.inh || relation.through.is_some() || alias.is_some_and(|a| !a.colnames.is_empty()) {
        return Err(format!("\"{}\" is not read on columns under these names", relation.name));
    }
    let shown = alias.map_or(rv.relname.as_str(), |a| &a.aliasname);
    Ok(Table { relation, copy, shown, renamed: alias.is_some() })
}

fn read_join<'a>(join: &'a ast::JoinExpr, uses: &[usize], a: &'a Analysis<'a>, r: &mut Reader<'a>) -> Found<From> {
    let word = match JoinType::try_from(join.jointype) {
        Ok(JoinType::JoinInner) => "JOIN",
        Ok(JoinType::JoinLeft) => "LEFT JOIN",
        Ok(JoinType::JoinRight) => "RIGHT JOIN",
        Ok(JoinType::JoinFull) => "FULL JOIN",
        _ => return Err(refused("a join of this kind")),
    };
    if join.is_natural || !join.using_clause.is_empty() || join.alias.is_some() {
        return Err(refused("a join by USING, or with a name"));
    }
    let (Some(left), Some(right)) = (join.larg.as_deref(), join.rarg.as_deref()) else {
        return Err(refused("a join without sides"));
    };
    let first = r.tables.len();
    let left = Box::new(read_item(left, uses, a, r)?);
    let right = Box::new(read_item(right, uses, a, r)?);
    let on = join.quals.as_deref().map(|on| r.condition(on)).transpose()?;
    // Those of other items are not seen here.
    let outside = |on: &Expr| on.any(&mut |e| matches!(&e.kind, Kind::Column(c) if c.table < first));
    match on {
        Some(on) if outside(&on) => Err(refused("a join by columns of others")),
        Some(on) if on.computes_of_none() => Err(refused("an expression of no column")),
        on => Ok(From::Join { word, left, right, on }),
    }
}

impl From {
    /// What its joins are by, each.
    pub fn conditions<'e>(&'e self, f: &mut impl FnMut(&'e Expr)) {
        if let From::Join { left, right, on, .. } = self {
            on.iter().for_each(&mut *f);
            left.conditions(f);
            right.conditions(f);
        }
    }

    /// In DuckDB's words.
    pub fn write(&self, r: &Reader, w: &mut Writer) {
        match self {
            From::Table(n) => {
                w.sql(&format!("copy_{} AS ", r.tables[*n].copy.id));
                w.table(*n);
            }
            From::Join { word, left, right, on } => {
                w.sql("(");
                left.write(r, w);
                w.sql(&format!(" {word} "));
                right.write(r, w);
                match on {
                    Some(on) => {
                        w.sql(" ON ");
                        w.expression(on);
                    }
                    None => w.sql(" ON true"),
                }
                w.sql(")");
            }
        }
    }
}

/// The columns of `*`, or of `table.*`, with their names. `None`: it is no star.
pub fn star(r: &Reader, c: &ast::ColumnRef) -> Found<Option<Vec<(String, Expr)>>> {
    if !names::has_star(c) {
        return Ok(None);
    }
    let of: Vec<usize> = match names::strings(&c.fields)[..] {
        [] => (0..r.tables.len()).collect(),
        [table] => (0..r.tables.len()).filter(|n| r.tables[*n].shown == table).collect(),
        _ => vec![],
    };
    if of.is_empty() {
        return Err(refused("this use of *"));
    }
    let mut columns = vec![];
    for n in of {
        for (at, column) in r.tables[n].relation.columns.iter().enumerate() {
            columns.push((column.name.clone(), r.of_position(n, at)?));
        }
    }
    Ok(Some(columns))
}
