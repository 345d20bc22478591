//! An UPDATE that may change a row's key: the row is deleted where it is and inserted where it belongs, in one transaction.
//!
//! PostgreSQL does the same between partitions of one server (ExecCrossPartitionUpdate in nodeModifyTable.c), but there it
//! is still an UPDATE to triggers, foreign keys and policies. So tables whose triggers are users' own are refused, and what home says of
//! foreign keys and policies is for the executor to judge; as is what a DELETE … RETURNING can't compute. It does not know where rows go.

mod returned;
mod stays;
mod values;

use std::sync::Arc;

use catalog::{Relation, RelationKind};
use sql::ast::{self, Node};
use sql::{NodeEnum, build, names, relations, search};

use crate::classes::JoinDomain;
use crate::compose;
use crate::insert::column_target;
use crate::keys;
use crate::levels::{Analysis, From};
use crate::rewrite;
use crate::scope::Scope;
use crate::text;
use crate::through_views;
use crate::tree::{Part, Recipients};
use crate::types::{Change, InPlace, InsertRows, KeyExpr, MoveRows};
use crate::{Context, Refusal, Result};

const HINT: &str = "DELETE the row and INSERT it with its new key, in one transaction.";

/// The name of the key column that the UPDATE may change, if it may.
pub fn changed_key<'u>(u: &'u ast::UpdateStmt, relation: &Relation, a: &Analysis, level: usize) -> Option<&'u str> {
    let d = relation.distribution()?;
    let rv = u.relation.as_ref();
    let shown = rv.map(|rv| rv.alias.as_ref().map_or(rv.relname.as_str(), |alias| alias.aliasname.as_str()));
    u.target_list.iter().find_map(|target| {
        let Some(NodeEnum::ResTarget(t)) = &target.node else { return None };
        let at = d.key.iter().position(|k| relation.columns.get(*k).is_some_and(|c| c.name == t.name))?;
        // A column of that name of another table in FROM is another value.
        let same = t.indirection.is_empty()
            && t.val.as_deref().and_then(names::column).is_some_and(|c| match c[..] {
                [column] => column == t.name,
                [table, column] => column == t.name && Some(table) == shown,
                _ => false,
            });
        (!same && stays(t, at, a, level).is_none()).then_some(t.name.as_str())
    })
}

/// What an UPDATE gives a key column by a constant of its text is what its condition says that the column is: with other
/// constants it would not be.
pub fn stays_by_literals(u: &ast::UpdateStmt, relation: &Relation, a: &Analysis, level: usize) -> bool {
    let Some(d) = relation.distribution() else { return false };
    let told = |t: &ast::ResTarget, (at, k): (usize, &usize)| {
        relation.columns.get(*k).is_some_and(|c| c.name == t.name) && stays(t, at, a, level) == Some(Stays::ByLiterals)
    };
    u.target_list.iter().any(|target| match &target.node {
        Some(NodeEnum::ResTarget(t)) => d.key.iter().enumerate().any(|key| told(t, key)),
        _ => false,
    })
}

/// By what is known that a key column stays as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stays {
    Always,
    ByLiterals,
}

/// What SET gives the `at`th key column is what the condition says that it equals: equal keys are of one shard.
fn stays(t: &ast::ResTarget, at: usize, a: &Analysis, level: usize) -> Option<Stays> {
    stays_in(t, at, a, level, a.levels[level].joined)
}

/// An arm of MERGE gives the `at`th key column what it is, whatever the constants of its text are.
pub fn stays_in_arm(arm: &ast::MergeWhenClause, t: &ast::ResTarget, at: usize, a: &Analysis, level: usize) -> bool {
    let Some(From::Use(used)) = a.levels[level].from.first() else { return false };
    // What ON says is known of rows that match.
    let place = match arm.match_kind == ast::MergeMatchKind::MergeWhenMatched as i32 {
        true => a.levels[level].joined,
        false => a.uses[*used].classes,
    };
    stays_in(t, at, a, level, place) == Some(Stays::Always)
}

fn stays_in(t: &ast::ResTarget, at: usize, a: &Analysis, level: usize, place: JoinDomain) -> Option<Stays> {
    let Some(From::Use(used)) = a.levels[level].from.first() else { return None };
    let (key, value) = (*a.uses[*used].key.get(at)?, values::alone(t)?);
    let known = || a.classes.values(place, key);
    let Some(column) = a.scopes.get(&level).and_then(|scope| a.var(value, scope)) else {
        return is_same(&known()?, &[keys::constant(value)?]);
    };
    match a.classes.same(place, column, key) {
        true => Some(Stays::Always),
        false if comparable(a.types[column], a.types[key]) => is_same(&known()?, &a.classes.values(place, column)?),
        false => None,
    }
}

fn comparable(one: Option<(u32, bool)>, other: Option<(u32, bool)>) -> bool {
    one.zip(other).is_some_and(|((a, _), (b, _))| keys::is_kept(a, b))
}

/// Constants that are one value, wherever in the statement they stand.
fn is_same(one: &[KeyExpr], other: &[KeyExpr]) -> Option<Stays> {
    let ([one], [other]) = (one, other) else { return None };
    match (one, other) {
        // Nothing equals it, or, by `transform_null_equals`, what is NULL.
        (KeyExpr::Null, KeyExpr::Null) => Some(Stays::Always),
        (KeyExpr::Literal { text: a, kind: x, cast: c, .. }, KeyExpr::Literal { text: b, kind: y, cast: d, .. }) => {
            ((a, x, c) == (b, y, d)).then_some(Stays::ByLiterals)
        }
        (KeyExpr::Param(_) | KeyExpr::CastParam(..), _) => (one == other).then_some(Stays::Always),
        _ => None,
    }
}

pub use stays::KEY_CHANGES;
pub(crate) use values::alone;

/// How an UPDATE that may change keys is made: rows move, or, where they can't, it fails unless they stay.
pub fn change(
    u: &ast::UpdateStmt,
    relation: &Arc<Relation>,
    key: &str,
    found: Recipients,
    (a, level): (&Analysis, usize),
) -> Result<Change> {
    let in_place = match stays::in_place(u, relation, a)? {
        // Its condition reads the key: policies for SELECT would come to mean the rows that it finds.
        Some(_) if relation.row_security && !finds_by_columns(u, a, level) => None,
        Some(statement) => Some(Part { text: a.cx.text(statement)?, target: found.clone(), columns: None }),
        None => None,
    };
    let hides = relation.through.is_some() && !through_views::shows_all(relation, a.cx);
    let moved = match hides {
        true => Err(through_views::refusal(relation, &format!("by UPDATE of \"{key}\", the distribution key,"))),
        false => plan(u, relation, key, found, (a, level)),
    };
    match (moved, in_place) {
        (Ok(moved), in_place) => Ok(Change::Move(Box::new(MoveRows { in_place, ..moved }))),
        (Err(otherwise), Some(part)) => Ok(Change::Stay(Box::new(InPlace { part, otherwise }))),
        (Err(refusal), None) => Err(refusal),
    }
}

/// It reads columns of its target, where PostgreSQL looks at policies for SELECT, too.
fn finds_by_columns(u: &ast::UpdateStmt, a: &Analysis, level: usize) -> bool {
    let condition = u.where_clause.as_deref().map(std::slice::from_ref).unwrap_or_default();
    let scope = a.scopes.get(&level).map(|scope| &**scope);
    condition.iter().chain(&u.target_list).any(|n| reads_target(n, scope))
}

/// How the rows move.
/// `found`: the uses of tables that say where the rows are. `a`: what the names at the statement's level mean.
pub fn plan(
    u: &ast::UpdateStmt,
    relation: &Arc<Relation>,
    key: &str,
    found: Recipients,
    (a, level): (&Analysis, usize),
) -> Result<MoveRows> {
    let cx = a.cx;
    let refuse = |why: &str| Refusal::new(format!("changing the distribution key \"{key}\" {why}"), HINT);
    if relation.triggers || relation.statement_triggers {
        return Err(refuse("of a table with triggers is not supported"));
    }
    if uses_cursor(u) {
        return Err(refuse("WHERE CURRENT OF a cursor is not supported"));
    }
    let Some(range) = &u.relation else { return Err(Refusal::bare("a write without a table")) };
    let mut statement = NodeEnum::UpdateStmt(Box::new(u.clone()));
    rewrite::replace_now(&mut statement);
    let NodeEnum::UpdateStmt(u) = statement else { return Err(Refusal::bare("not an UPDATE")) };
    let shown = range.alias.as_ref().map_or(&range.relname, |a| &a.aliasname).clone();
    let columns: Vec<usize> = (0..relation.columns.len()).filter(|i| !relation.columns[*i].generated).collect();
    let set = columns.iter().copied().filter(|i| values::set(&u, &relation.columns[*i].name).is_some()).collect();
    let beside = match &u.returning_clause {
        Some(returning)
            if !u.from_clause.is_empty() || !returning.options.is_empty() || names_old_or_new(returning) =>
        {
            let scope = a.scopes.get(&level).ok_or_else(|| Refusal::bare("internal: an UPDATE without a scope"))?;
            Some(returned::beside(&u, returning, relation, scope, columns.len())?)
        }
        Some(returning) if reads_what_moves(returning, u.with_clause.is_some(), relation, cx) => {
            return Err(refuse(
                "with RETURNING of subqueries that read the table itself or WITH queries is not supported",
            ));
        }
        _ => None,
    };
    let along = beside.as_ref().map_or(&[][..], |b| &b.columns);
    let mut delete = values::deleted(&u, relation, &columns, along)?;
    rewrite::replace_now(&mut delete);
    let mut table = build::range_var(&relation.schema, &relation.name, Some(&shown));
    let Some(NodeEnum::RangeVar(table)) = table.node.take() else { return Err(Refusal::bare("not a table")) };
    let mut insert = ast::InsertStmt {
        relation: Some(table),
        cols: columns.iter().map(|i| column_target(&relation.columns[*i].name)).collect(),
        select_stmt: Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(text::rows(0)))))),
        returning_clause: u.returning_clause.clone(),
        r#override: ast::OverridingKind::OverridingSystemValue as i32,
        ..Default::default()
    };
    let reads = |nodes: &[Node]| nodes.iter().any(|n| reads_target(n, a.scopes.get(&level).map(|scope| &**scope)));
    let returns = u.returning_clause.as_ref().map_or(&[][..], |r| &r.exprs);
    // Where an UPDATE reads columns, its new rows must be visible; those of an INSERT must where they are read.
    let is_visible = relation.row_security && finds_by_columns(&u, a, level) && (returns.is_empty() || reads(returns));
    if is_visible && returns.is_empty() {
        let read = build::target(build::column(&[&shown, key]), None);
        insert.returning_clause = Some(ast::ReturningClause { exprs: vec![read], ..Default::default() });
    }
    let probe = (!along.is_empty()).then(|| probe(&u, along)).map(|query| cx.text(query)).transpose()?;
    let insert = match beside {
        Some(beside) => beside.statement(insert, columns.len())?,
        None => NodeEnum::InsertStmt(Box::new(insert)),
    };
    Ok(MoveRows {
        delete: Part { text: cx.text(delete)?, target: found, columns: None },
        insert: InsertRows::of(&insert)?,
        returning: u.returning_clause.is_some(),
        beside: probe,
        in_place: None,
        is_visible,
        columns,
        set,
        relation: relation.clone(),
    })
}

/// It is known to read a column of the table that is changed.
fn reads_target(expression: &Node, scope: Option<&Scope>) -> bool {
    let Some(scope) = scope.filter(|_| !compose::has_sublink(expression)) else { return false };
    let is_own = |n: &NodeEnum| match n {
        NodeEnum::ColumnRef(c) if names::has_star(c) => match names::strings(&c.fields)[..] {
            [] => true,
            [table] => scope.items.first().is_some_and(|item| item.alias == table),
            _ => false,
        },
        NodeEnum::ColumnRef(c) => matches!(scope.place(&names::strings(&c.fields)), Some((0, 0, _))),
        _ => false,
    };
    search::any(expression, is_own)
}

/// What tells the types of what goes with the new rows: a query of nothing else.
fn probe(u: &ast::UpdateStmt, along: &[Node]) -> NodeEnum {
    let mut query = build::select();
    query.target_list = along.iter().map(|value| build::target(value.clone(), None)).collect();
    let target = u.relation.clone().map(|rv| build::node(NodeEnum::RangeVar(rv)));
    query.from_clause = target.into_iter().chain(u.from_clause.iter().cloned()).collect();
    query.with_clause.clone_from(&u.with_clause);
    NodeEnum::SelectStmt(Box::new(query))
}

/// Subqueries in RETURNING would meet rows that are deleted, or inserted, where PostgreSQL's see those of before; and the INSERT has none of
/// the statement's WITH queries.
fn reads_what_moves(returning: &ast::ReturningClause, with: bool, relation: &Relation, cx: &Context) -> bool {
    let is_split = |r: &Relation| r.distribution().is_some_and(|d| d.is_part || d.partitions.is_some());
    let meets = |rv: &&ast::RangeVar| match cx.relation(rv) {
        Some(r) => r.oid == relation.oid || r.kind != RelationKind::Table || is_split(r) && is_split(relation),
        None => true,
    };
    let mut select = build::select();
    select.target_list.clone_from(&returning.exprs);
    let reads = relations::of_select(&select);
    !reads.is_empty() && (with || reads.iter().any(meets))
}

fn uses_cursor(u: &ast::UpdateStmt) -> bool {
    matches!(u.where_clause.as_deref(), Some(Node { node: Some(NodeEnum::CurrentOfExpr(_)) }))
}

/// PostgreSQL 18's `old` and `new` mean something else in an INSERT.
fn names_old_or_new(returning: &ast::ReturningClause) -> bool {
    let mut select = build::select();
    select.target_list = returning.exprs.clone();
    search::any(&select, |n| match n {
        NodeEnum::ColumnRef(c) => {
            matches!(names::strings(&c.fields).first(), Some(&("old" | "new")))
        }
        _ => false,
    })
}
