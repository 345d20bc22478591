//! A query whose tables' rows could all come home, shuffled instead: each table's rows go to nodes by the value of one column, so that equal
//! values meet, and small tables' to all nodes; there the query runs as over colocated tables, and adds up what it has.
//!
//! How that is planned is nothing of its own: rows in tables' places are distributed and reference tables of one more colocation group.
//! How rows travel is not known here, nor whether less time is spent so (`exec/src/query/shuffle.rs`).

use std::collections::BTreeMap;

use catalog::{Column, FunctionKind, Oid, Volatility};
use sql::{NodeEnum, ast, relations, search};
use wire::type_oid as oid;

use crate::compose::Composer;
use crate::gather::{Facts, may_move};
use crate::in_turn::names;
use crate::levels::{Analysis, Distinct};
use crate::stand_ins::{self, TableRows};
use crate::text::Text;
use crate::{Context, Steps};

/// How many assignments of columns are tried.
const TRIED_MAX: usize = 4;
/// Tables beyond that are not looked at.
const TABLES_MAX: usize = 8;
/// What it may take of planning.
const STEPS_MAX: u32 = Steps::SHORT / 4;

/// A query over rows that were shuffled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// Of each child by what its rows go; `None`: all of them to every node.
    pub by: Vec<Option<Key>>,
    /// What each node answers over the rows that it was sent: [`crate::Piece::Rows`] counts the children.
    pub parts: Vec<Text>,
    /// Over their rows.
    pub text: Text,
    /// Nodes do more than to join: fewer rows may leave them than came.
    pub adds_up: bool,
    /// Nodes read more than those rows, or may: reference tables, users' functions.
    pub reads_more: bool,
}

/// The column whose value says to which node a row goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Of the child.
    pub column: usize,
    /// What the table calls it.
    pub name: String,
}

/// The query over rows of tables alone, as nodes can answer it; `finish` has them in the tables' places.
pub fn of(
    a: &Analysis,
    finish: &NodeEnum,
    facts: &Facts,
    children: usize,
    rows: &BTreeMap<usize, TableRows>,
) -> Option<Shuffle> {
    let tables_alone = rows.len() == children && (2..=TABLES_MAX).contains(&children) && a.cx.views.is_empty();
    if !tables_alone || !may_move(a, facts) {
        return None;
    }
    let planned = || candidates(a, rows).into_iter().find_map(|by| planned(a, finish, rows, by));
    a.cx.aside(STEPS_MAX, planned).flatten()
}

/// What values are compared as: those of one kind that are equal are the same bytes while they travel, be it as text or in binary
/// (`exec/src/carried.rs`).
pub(super) fn kind(of: Oid) -> Option<Oid> {
    match of {
        oid::INT2 | oid::INT4 | oid::INT8 => Some(oid::INT8),
        oid::TEXT | oid::VARCHAR => Some(oid::TEXT),
        same @ (oid::UUID | oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ) => Some(same),
        _ => None,
    }
}

fn kind_of(column: &Column) -> Option<Oid> {
    kind(column.type_oid).filter(|kind| *kind != oid::TEXT || column.collation_deterministic)
}

/// Columns that the query equates, one of each table that has such a one; those with the most tables first.
fn candidates(a: &Analysis, rows: &BTreeMap<usize, TableRows>) -> Vec<Vec<Option<usize>>> {
    let columns: Vec<(usize, usize, Oid)> = rows
        .iter()
        .flat_map(|(n, rows)| {
            rows.columns.iter().enumerate().map(move |(c, at)| (*n, c, kind_of(&rows.relation.columns[*at])))
        })
        .filter_map(|(n, c, kind)| Some((n, c, kind?)))
        .collect();
    let equal = |(n, c): (usize, usize), (m, d): (usize, usize)| {
        let (own, other) = (&rows[&n], &rows[&m]);
        own.uses.iter().any(|u| {
            other.uses.iter().any(|v| {
                let (u, v) = (&a.uses[*u], &a.uses[*v]);
                let same = |place| a.classes.same(place, u.columns[own.columns[c]], v.columns[other.columns[d]]);
                same(u.classes) || same(v.classes)
            })
        })
    };
    let mut all: Vec<Vec<Option<usize>>> = vec![];
    for (n, c, kind) in &columns {
        if !a.cx.take(columns.len()) {
            return vec![];
        }
        let mut by = vec![None; rows.len()];
        by[*n] = Some(*c);
        for (m, d, _) in columns.iter().filter(|(m, _, other)| m != n && other == kind) {
            if by[*m].is_none() && equal((*n, *c), (*m, *d)) {
                by[*m] = Some(*d);
            }
        }
        if by.iter().flatten().count() > 1 && !all.contains(&by) {
            all.push(by);
        }
    }
    all.sort_by_key(|by| by.iter().filter(|c| c.is_none()).count());
    all.truncate(TRIED_MAX);
    all
}

fn planned(
    a: &Analysis,
    finish: &NodeEnum,
    rows: &BTreeMap<usize, TableRows>,
    by: Vec<Option<usize>>,
) -> Option<Shuffle> {
    let group = stand_ins::group(rows.iter().zip(&by).find_map(|((_, rows), c)| Some(rows.column((*c)?).type_oid)));
    let stand_ins: Vec<_> =
        rows.iter().zip(&by).map(|((n, rows), by)| stand_ins::table(*n, rows, *by, &group)).collect();
    let mut tree = finish.clone();
    stand_ins::put_tables(&mut tree);
    let cx = Context { stand_ins: &stand_ins, parameters: a.cx.parameters, ..names(a.cx) };
    let NodeEnum::SelectStmt(select) = &tree else { return None };
    let mut b = Analysis::new(&cx);
    let level = b.query(select).ok()?;
    let several = b.named.values().any(|levels| levels.len() > 1);
    // One key is on one node, wherever others' rows are.
    let narrowed = b.table_keys().iter().any(|t| t.columns.iter().any(|c| !c.is_empty()));
    if several || narrowed || b.writes || b.needs_home.is_some() || b.levels[level].refusal.is_some() {
        return None;
    }
    let top = &b.levels[level];
    let adds_up = top.aggregates || top.grouped || top.limit || !matches!(top.distinct, Distinct::None);
    let mut composer = Composer::new(&b);
    let finish = composer.query(select, level).ok().filter(|_| !composer.uses_home)?;
    // What is read there is on nodes alone: a table that all of them have is not home's, and others are to be seen once.
    if !relations::of_select(&finish).is_empty() {
        return None;
    }
    let text = composer.text(finish).ok()?;
    let parts: Vec<Text> = composer.parts.into_iter().map(|part| part.text).collect();
    let key = |(rows, column): (&TableRows, Option<usize>)| {
        column.map(|column| Key { column, name: rows.column(column).name.clone() })
    };
    let by = rows.values().zip(by).map(key).collect();
    let reads_more = reads_more(&tree, &cx);
    if reads_more && parts.len() > 1 {
        // Each would see others' tables at a moment of its own.
        return None;
    }
    Some(Shuffle { by, parts, text, adds_up, reads_more })
        .filter(|shuffle| !shuffle.parts.is_empty() && !cx.steps.is_some_and(Steps::is_spent))
}

/// Tables of others, or what code of theirs may read: of operators and casts it is not looked for whose they are.
fn reads_more(tree: &NodeEnum, cx: &Context) -> bool {
    let table = |rv: &ast::RangeVar| !stand_ins::is_named(rv) && cx.relation(rv).is_some();
    let own = |n: &NodeEnum| match n {
        NodeEnum::FuncCall(call) => cx
            .functions(&call.funcname)
            .any(|f| f.user_defined && (f.kind != FunctionKind::Function || f.volatility != Volatility::Immutable)),
        _ => false,
    };
    let operators = !cx.snapshot.own_operators.is_empty() || !cx.snapshot.operators.is_empty();
    operators || relations::of(tree).into_iter().any(table) || search::any(tree, own)
}
