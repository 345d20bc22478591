//! Tables that several parts of a statement change. PostgreSQL shows each of them the rows as they were before, and of a row that several
//! would change only one does: so each comes after the one before it, and leaves alone what that has changed, by its primary key. What one has
//! deleted is gone. Others than UPDATE and DELETE, which could also meet rows that are new, are not told here.

use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{Oid, Relation};
use sql::ast;
use sql::{NodeEnum, build, clauses, relations, search};

use super::parts::kept_columns;
use super::touches;
use crate::{Context, Result};

/// What the columns of primary keys are called that a part returns for those behind it.
const CHANGED: &str = "herd changed";

/// A part that changes a table which others change, too.
#[derive(Clone, Debug)]
pub struct Again {
    pub relation: Arc<Relation>,
    /// Those before it.
    pub behind: Vec<usize>,
    /// Others behind it need to know what it has changed.
    pub tells: bool,
}

/// A part by its number.
type Part<'s> = (usize, &'s NodeEnum);

/// Those among the parts, which come in the order PostgreSQL runs them in. `last`: the statement itself.
pub fn of(parts: Vec<Part>, last: usize, cx: &Context) -> BTreeMap<usize, Again> {
    let mut writers: BTreeMap<Oid, (Arc<Relation>, Vec<Part>)> = BTreeMap::new();
    for (part, statement) in parts {
        let Some(target) = clauses::target(statement) else { continue };
        for relation in touches::tables(target, cx).into_iter().filter_map(|t| t.relation) {
            writers.entry(relation.oid).or_insert((relation, vec![])).1.push((part, statement));
        }
    }
    let mut found = BTreeMap::new();
    for (relation, parts) in writers.into_values().filter(|(_, parts)| parts.len() > 1) {
        if relation.distribution().is_none() || !parts.iter().all(|(_, statement)| may_be(statement, &relation, cx)) {
            continue;
        }
        // PostgreSQL has the statement itself change rows first; but what it returns is the client's, and tells nobody.
        if parts.iter().any(|(part, statement)| *part == last && tells(statement)) {
            continue;
        }
        let before = &parts[..parts.len() - 1];
        if key(&relation).is_empty() && before.iter().any(|(_, statement)| tells(statement)) {
            continue;
        }
        for (at, (part, statement)) in parts.iter().enumerate() {
            let behind = parts[..at].iter().map(|(part, _)| *part).collect();
            let tells = at + 1 < parts.len() && tells(statement);
            found.insert(*part, Again { relation: relation.clone(), behind, tells });
        }
    }
    found
}

/// What it has changed is there afterwards.
fn tells(statement: &NodeEnum) -> bool {
    matches!(statement, NodeEnum::UpdateStmt(_))
}

/// It changes rows of this table, and reads no others of it. (Whose policies say which rows, to whom these are shown changes that.)
fn may_be(statement: &NodeEnum, relation: &Relation, cx: &Context) -> bool {
    let Some(target) = clauses::target(statement) else { return false };
    let reads = |rv: &&ast::RangeVar| {
        !std::ptr::eq(*rv, target)
            && touches::tables(rv, cx).iter().any(|t| t.relation.as_ref().is_some_and(|r| r.oid == relation.oid))
    };
    matches!(statement, NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_))
        && cx
            .relation(target)
            .is_some_and(|r| r.oid == relation.oid && r.through.is_none() && r.view.is_none() && !r.row_security)
        && !search::any(statement, |n| matches!(n, NodeEnum::CurrentOfExpr(_)))
        && !relations::of(statement).iter().any(reads)
}

fn shown(target: &ast::RangeVar) -> &str {
    target.alias.as_ref().map_or(&target.relname, |alias| &alias.aliasname)
}

fn key(relation: &Relation) -> &[usize] {
    relation.unique.iter().find(|u| u.primary).map_or(&[], |u| &u.columns)
}

impl Again {
    /// Has the part return the primary keys of what it changes, behind what it returns; how many columns these are.
    pub fn tell(&self, statement: &mut NodeEnum) -> usize {
        let NodeEnum::UpdateStmt(u) = statement else { return 0 };
        let table = u.relation.as_ref().map(shown).unwrap_or_default();
        let returned = key(&self.relation).iter().enumerate().map(|(i, column)| {
            let name = format!("{CHANGED} {i}");
            build::target(build::column(&[table, &self.relation.columns[*column].name]), Some(&name))
        });
        let returned: Vec<_> = returned.collect();
        let width = returned.len();
        u.returning_clause.get_or_insert_default().exprs.extend(returned);
        width
    }

    /// Has the part leave alone what another one told: its number, where the keys are among what that returned, and their first parameter.
    pub fn leave(&self, statement: &mut NodeEnum, (number, at, first): (usize, usize, usize)) -> Result<()> {
        let names: Vec<String> = (0..key(&self.relation).len()).map(|i| format!("k{i}")).collect();
        let rows = kept_columns(&names, number, (at, first))?;
        let (target, condition) = match statement {
            NodeEnum::UpdateStmt(u) => (u.relation.as_ref(), &mut u.where_clause),
            NodeEnum::DeleteStmt(d) => (d.relation.as_ref(), &mut d.where_clause),
            _ => return Ok(()),
        };
        let table = target.map(shown).unwrap_or_default();
        let equal = key(&self.relation).iter().zip(&names).map(|(column, name)| {
            let own = build::column(&[table, &self.relation.columns[*column].name]);
            build::own_operator("=", build::column(&[CHANGED, name]), own)
        });
        let mut query = build::select();
        query.from_clause = vec![build::subselect(rows, Some(build::alias(CHANGED)), false)];
        query.where_clause = Some(Box::new(build::and(equal.collect())));
        let left = build::not_exists(query);
        *condition = Some(Box::new(match condition.take() {
            Some(known) => build::and(vec![*known, left]),
            None => left,
        }));
        Ok(())
    }
}
