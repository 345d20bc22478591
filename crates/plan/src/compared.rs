//! Changes of a reference table of which it can't be told beforehand that they come out the same on each copy, nor be made on home
//! alone: BEFORE triggers may make of a row what they like, and which rows a condition finds depends on what others commit.
//!
//! Every node makes the change and returns the rows it has written; if they are not the same everywhere, the statement fails. How
//! they are compared is not known here.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::Relation;
use catalog::code::RelationCode;
use sql::{NodeEnum, build};

use crate::by_key::MERGE_RETURNS;
use crate::types::Compared;
use crate::{Context, Result, modify};

/// Triggers of a reference table may change what is written.
pub fn has_triggers(relation: &Relation, cx: &Context) -> bool {
    // Who returns a row must be allowed to see it: with policies, only where it has to be.
    let needed = |code: &RelationCode| code.before_reads || code.before_rows && !relation.row_security;
    cx.snapshot.relation_code.get(&relation.oid).is_some_and(needed)
}

/// Reference tables to whose rows foreign keys' actions may come, and their triggers with them.
pub fn tied(statement: &NodeEnum, relation: &Relation, cx: &Context) -> Vec<Arc<Relation>> {
    let (mut found, mut todo) = (BTreeSet::new(), vec![relation.oid]);
    if !modify::takes_others(statement, relation) {
        return vec![];
    }
    while let Some(from) = todo.pop() {
        let to = cx.snapshot.code.tied.iter().filter(|(f, _)| *f == from).map(|(_, to)| *to);
        todo.extend(to.filter(|to| found.insert(*to)).collect::<Vec<_>>());
    }
    found.retain(|oid| cx.snapshot.relation_code.get(oid).is_some_and(|code| code.before_rows));
    if found.is_empty() {
        return vec![];
    }
    cx.snapshot.relations.values().filter(|r| found.contains(&r.oid)).cloned().collect()
}

/// `None`: it can't return rows.
pub fn plan(statement: &NodeEnum, relation: &Relation, cx: &Context) -> Result<Option<Compared>> {
    let mut all = statement.clone();
    let (target, returning) = match &mut all {
        NodeEnum::InsertStmt(s) => (&s.relation, &mut s.returning_clause),
        NodeEnum::UpdateStmt(s) => (&s.relation, &mut s.returning_clause),
        NodeEnum::DeleteStmt(s) => (&s.relation, &mut s.returning_clause),
        NodeEnum::MergeStmt(s) if cx.snapshot.server_version >= MERGE_RETURNS => (&s.relation, &mut s.returning_clause),
        _ => return Ok(None),
    };
    let alias = target.as_ref().and_then(|rv| rv.alias.as_ref());
    let shown = alias.map_or(relation.name.clone(), |a| a.aliasname.clone());
    let columns = relation.columns.iter().map(|c| build::target(build::column(&[&shown, &c.name]), None));
    returning.get_or_insert_default().exprs.extend(columns);
    let by_triggers = cx.snapshot.relation_code.get(&relation.oid).is_some_and(|code| code.before_reads);
    Ok(Some(Compared { text: cx.text(all)?, by_triggers }))
}
