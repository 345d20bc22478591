//! FROM: tables that have column copies, subqueries, and joins of them. Nodes have what they join together, or it would be no Part: a store has the
//! same, of reference tables all.

use std::sync::Arc;

use sql::ast::{self, JoinType, Node};
use sql::{NodeEnum, names};

use super::expression::{Expr, Kind, Writer};
use super::scope::{Reader, Source, Table};
use super::subquery::{self, Query};
use super::types::Ty;
use super::{Found, refused};

/// The join whose rows have all found others.
const INNER: &str = "JOIN";
const FULL: &str = "FULL JOIN";

/// An item of FROM.
#[derive(Clone, Debug, PartialEq)]
pub enum From {
    /// By its number.
    Table {
        number: usize,
        copy: i64,
    },
    Query {
        number: usize,
        query: Box<Query>,
    },
    Join {
        word: &'static str,
        left: Box<From>,
        right: Box<From>,
        /// None of a join in which every row finds every other.
        on: Option<Expr>,
    },
}

/// What FROM names, which can be named from now on.
pub fn read(items: &[Node], r: &Reader) -> Found<Vec<From>> {
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        all.push(read_item(item, r)?);
    }
    let shown: Vec<String> = r.level().into_iter().map(|n| r.table(n).shown.clone()).collect();
    if (0..shown.len()).any(|n| shown[..n].contains(&shown[n])) {
        return Err(refused("a FROM with one name twice"));
    }
    match all.is_empty() {
        true => Err(refused("a SELECT of no table")),
        false => Ok(all),
    }
}

fn read_item(item: &Node, r: &Reader) -> Found<From> {
    match &item.node {
        Some(NodeEnum::RangeVar(rv)) => {
            let (table, copy) = table(rv, r)?;
            Ok(From::Table { number: r.add(table), copy })
        }
        Some(NodeEnum::JoinExpr(join)) => read_join(join, r),
        Some(NodeEnum::RangeSubselect(s)) => {
            let (table, query) = subquery::of_from(r, s)?;
            Ok(From::Query { number: r.add(table), query: Box::new(query) })
        }
        Some(NodeEnum::RangeTableSample(_)) => Err(refused("TABLESAMPLE")),
        _ => Err(refused("a FROM with anything but tables")),
    }
}

fn table<'a>(rv: &ast::RangeVar, r: &Reader<'a>) -> Found<(Table<'a>, i64)> {
    let a = r.a;
    let relation = a.cx.relation(rv).ok_or_else(|| refused(&format!("\"{}\"", rv.relname)))?;
    let mut read = r.uses.iter().map(|u| &a.uses[*u].relation).chain(&a.reference_tables);
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
    let shown = alias.map_or(&rv.relname, |a| &a.aliasname).clone();
    Ok((Table { source: Source::Copy { relation, copy }, shown, renamed: alias.is_some() }, copy.id))
}

fn read_join(join: &ast::JoinExpr, r: &Reader) -> Found<From> {
    let word = match JoinType::try_from(join.jointype) {
        Ok(JoinType::JoinInner) => INNER,
        Ok(JoinType::JoinLeft) => "LEFT JOIN",
        Ok(JoinType::JoinRight) => "RIGHT JOIN",
        Ok(JoinType::JoinFull) => FULL,
        _ => return Err(refused("a join of this kind")),
    };
    if join.is_natural || !join.using_clause.is_empty() || join.alias.is_some() {
        return Err(refused("a join by USING, or with a name"));
    }
    let (Some(left), Some(right)) = (join.larg.as_deref(), join.rarg.as_deref()) else {
        return Err(refused("a join without sides"));
    };
    let first = r.count();
    let left = Box::new(read_item(left, r)?);
    let beside = r.count();
    let right = Box::new(read_item(right, r)?);
    let on = join.quals.as_deref().map(|on| r.condition(on)).transpose()?;
    // Those of other items are not seen here.
    let outside = |on: &Expr| on.any(&mut |e| matches!(&e.kind, Kind::Column(c) if c.table < first));
    match on {
        Some(on) if outside(&on) => Err(refused("a join by columns of others")),
        Some(on) if on.computes_of_none() => Err(refused("an expression of no column")),
        Some(on) if word == FULL && !has_full_plan(&on, beside) => {
            Err(refused("a FULL JOIN that is neither hashed nor merged"))
        }
        on => Ok(From::Join { word, left, right, on }),
    }
}

/// PostgreSQL has a plan for a FULL JOIN if it can be hashed by one of its terms, or merged by all. `right`: the first table of the right side.
fn has_full_plan(on: &Expr, right: usize) -> bool {
    let of = |e: &Expr, side: bool| {
        let (mut any, mut all) = (false, true);
        e.any(&mut |e| {
            if let Kind::Column(c) = &e.kind {
                (any, all) = (true, all && (c.table >= right) == side);
            }
            false
        });
        any && all
    };
    fn sides<'e>(e: &'e Expr, of: &impl Fn(&Expr, bool) -> bool) -> Option<(&'e Expr, &'e Expr)> {
        match &e.kind {
            Kind::Infix("=", sides) => match &sides[..] {
                [a, b] if of(a, false) && of(b, true) || of(a, true) && of(b, false) => Some((a, b)),
                _ => None,
            },
            _ => None,
        }
    }
    let terms = match &on.kind {
        Kind::Infix("AND", terms) => &terms[..],
        _ => std::slice::from_ref(on),
    };
    let is_day = |e: &Expr| matches!(&e.kind, Kind::Cast(of) if of.ty == Ty::Date);
    let hashes = |a: Ty, b: Ty| a.oid().is_some() && a.oid() == b.oid() || a.is_integer() && b.is_integer();
    let hashed = |(a, b): (&Expr, &Expr)| hashes(a.ty, b.ty) && !is_day(a) && !is_day(b);
    terms.iter().all(|term| sides(term, &of).is_some()) || terms.iter().filter_map(|term| sides(term, &of)).any(hashed)
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

    /// It has rows of an outer join, as they come.
    pub fn passes_on_outer_rows(&self) -> bool {
        match self {
            From::Table { .. } => false,
            From::Join { word, left, right, .. } => {
                *word != INNER || left.passes_on_outer_rows() || right.passes_on_outer_rows()
            }
            From::Query { query, .. } => {
                let made = query.select.distinct || query.select.groups_rows();
                !made && query.from.iter().any(From::passes_on_outer_rows)
            }
        }
    }

    /// The subqueries among them.
    pub fn queries<'e>(&'e self, f: &mut impl FnMut(&'e Query)) {
        match self {
            From::Table { .. } => {}
            From::Query { query, .. } => f(query),
            From::Join { left, right, .. } => {
                left.queries(f);
                right.queries(f);
            }
        }
    }

    /// In DuckDB's words.
    pub fn write(&self, w: &mut Writer) {
        match self {
            From::Table { number, copy } => {
                w.sql(&format!("copy_{copy} AS "));
                w.table(*number);
            }
            From::Query { number, query } => {
                w.sql("(");
                query.write(w);
                w.sql(") AS ");
                w.table(*number);
            }
            From::Join { word, left, right, on } => {
                w.sql("(");
                left.write(w);
                w.sql(&format!(" {word} "));
                right.write(w);
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
        [] => r.level(),
        [table] => r.level().into_iter().filter(|n| r.table(*n).shown == table).collect(),
        _ => vec![],
    };
    if of.is_empty() {
        return Err(refused("this use of *"));
    }
    let mut columns = vec![];
    for n in of {
        for (at, name) in r.table(n).names().into_iter().enumerate() {
            columns.push((name.to_string(), r.of_position(n, at)?));
        }
    }
    Ok(Some(columns))
}
