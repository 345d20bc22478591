//! MERGE over several nodes whose ON does not say where its INSERT puts rows: it is made in two statements. The source is read once, and
//! with each of its rows whether any row of the target, on whichever node, meets it. Those that one meets go to all nodes, with the
//! arms for rows that match, or that the source does not have; the others go to the nodes of the keys that their arm inserts, with
//! the arms that insert, where nothing can match them.
//!
//! Both see the target as it was read, as nobody else may write it meanwhile (where there are both), and no row is in both. It does not
//! know how rows travel.

use std::sync::Arc;

use catalog::{Column, Relation};
use sql::ast::{self, Node};
use sql::{NodeEnum, build, search};

use super::clauses::{Clauses, expressions_mut, from_mut};
use super::{Broadcast, ChangeFrom, Keys, Made};
use crate::alike::selects;
use crate::levels::{Analysis, From};
use crate::merge_inserts::{self, arms, is_insert, is_volatile};
use crate::reads::parse_expression;
use crate::refuse::Refusal;
use crate::tree::{Part, Recipients, To};
use crate::{Result, rewrite};

/// A MERGE in two.
#[derive(Clone, Debug)]
pub struct InTwo {
    /// Of rows that match, on each node of the target; `None`: nothing is done to such rows.
    pub matched: Option<Part>,
    /// Of rows that match nothing, on the nodes of the keys they get.
    pub inserts: Part,
    pub relation: Arc<Relation>,
}

/// The arms for rows of the source that find none of the target.
fn takes_unmatched(arm: &ast::MergeWhenClause) -> bool {
    arm.match_kind == ast::MergeMatchKind::MergeWhenNotMatchedByTarget as i32
}

/// The plan of such a MERGE. `refused`: why it is not planned in one.
pub(super) fn plan<'a>(
    a: &Analysis<'a>,
    statement: &'a NodeEnum,
    level: usize,
    refused: &Refusal,
) -> Result<ChangeFrom> {
    let (NodeEnum::MergeStmt(m), Some(clauses)) = (statement, Clauses::of(statement)) else {
        return Err(refused.clone());
    };
    let Some(From::Use(target)) = a.levels[level].from.first() else { return Err(refused.clone()) };
    let relation = a.uses[*target].relation.clone();
    let named = a.scopes.get(&level).is_some_and(|scope| scope.items.len() == 2);
    // What triggers see of the first statement in the second one would be seen in no one statement.
    if !named
        || !comes_out_alike(a, m.join_condition.as_deref())
        || merge_inserts::changes_key(m, &relation, (a, level))
        || relation.triggers && takes_others(m)
    {
        return Err(refused.clone());
    }
    merge_inserts::refuse_sequences(statement, &relation)?;
    let keys = inserted(a, m, &relation).ok_or_else(|| refused.clone())?;
    let mut b = Broadcast::new(a, statement, level, (&clauses, Some(*target)), vec![], refused)?;
    let mut out = statement.clone();
    b.with_queries(clauses.with, sql::clauses::with_mut(&mut out).and_then(Option::as_mut))?;
    let Clauses { from, expressions, .. } = clauses;
    for (item, out) in from.iter().zip(from_mut(&mut out)) {
        let keys =
            Keys { keys: keys.clone(), unmatched: Some(unmatched(m)), relation: relation.clone(), everywhere: true };
        b.split(item, out, keys)?;
    }
    b.expressions(&expressions, expressions_mut(&mut out))?;
    b.used.rename(&mut out);
    let matched = with_arms(&out, |arm| !takes_unmatched(arm));
    let mut inserts = with_arms(&out, takes_unmatched);
    if let NodeEnum::MergeStmt(m) = &mut inserts {
        m.join_condition = parse_expression("false").map(Box::new);
    }
    let part = |b: &Broadcast, mut statement: NodeEnum, target| -> Result<Part> {
        b.each_can(&statement, refused)?;
        rewrite::replace_now(&mut statement);
        Ok(Part { text: a.cx.text(statement)?, target, columns: None })
    };
    let found = Recipients::Shards(vec![*target]);
    let matched = if takes_others(m) { Some(part(&b, matched, found.clone())?) } else { None };
    let inserts = part(&b, inserts, found)?;
    let made = Made::InTwo(Box::new(InTwo { matched, inserts, relation }));
    Ok(ChangeFrom { reads: b.reads, to: To::Broadcast, made, split: b.split })
}

/// A condition that is asked twice of the same rows says the same.
fn comes_out_alike(a: &Analysis, condition: Option<&Node>) -> bool {
    let Some(condition) = condition else { return true };
    let level = |s: &ast::SelectStmt| a.by_node.get(&std::ptr::from_ref(s)).map(|level| &a.levels[*level]);
    let open = |n: &NodeEnum| match n {
        NodeEnum::SubLink(s) => match s.subselect.as_deref().and_then(|q| q.node.as_ref()) {
            Some(NodeEnum::SelectStmt(body)) => selects(body).into_iter().any(|s| level(s).is_none_or(|l| l.is_open())),
            _ => true,
        },
        _ => false,
    };
    !is_volatile(a, condition) && !search::any(condition, open)
}

/// It does something to rows of the target.
fn takes_others(m: &ast::MergeStmt) -> bool {
    let nothing = ast::CmdType::CmdNothing as i32;
    arms(m).any(|arm| !takes_unmatched(arm) && arm.command_type != nothing)
}

fn with_arms(statement: &NodeEnum, keeps: impl Fn(&ast::MergeWhenClause) -> bool) -> NodeEnum {
    let mut statement = statement.clone();
    if let NodeEnum::MergeStmt(m) = &mut statement {
        m.merge_when_clauses.retain(|arm| matches!(&arm.node, Some(NodeEnum::MergeWhenClause(arm)) if keeps(arm)));
    }
    statement
}

/// Whether no row of the target meets a row of the source.
fn unmatched(m: &ast::MergeStmt) -> Node {
    let mut query = build::select();
    query.from_clause = m.relation.iter().map(|rv| build::node(NodeEnum::RangeVar(rv.clone()))).collect();
    query.where_clause = m.join_condition.clone();
    build::not_exists(query)
}

/// The key that a row of the source gets, column by column; `None`: it can't be told before.
fn inserted(a: &Analysis, m: &ast::MergeStmt, relation: &Relation) -> Option<Vec<Node>> {
    let arms: Vec<_> = arms(m).filter(|arm| takes_unmatched(arm)).collect();
    let key = relation.distribution()?.key.iter();
    key.map(|k| {
        let column = &relation.columns[*k];
        let mut whens = Vec::with_capacity(arms.len());
        for arm in &arms {
            let value = if is_insert(arm) { value(arm, *k, column)? } else { parse_expression("NULL")? };
            let condition = match arm.condition.as_deref() {
                Some(condition) => condition.clone(),
                None => parse_expression("true")?,
            };
            if [&value, &condition].into_iter().any(|e| is_volatile(a, e)) {
                return None;
            }
            let when = ast::CaseWhen {
                expr: Some(Box::new(condition)),
                result: Some(Box::new(value)),
                location: -1,
                ..Default::default()
            };
            whens.push(build::node(NodeEnum::CaseWhen(Box::new(when))));
        }
        let case = ast::CaseExpr { args: whens, location: -1, ..Default::default() };
        rewrite::cast(&build::node(NodeEnum::CaseExpr(Box::new(case))), &column.type_name).ok()
    })
    .collect()
}

/// What an arm gives the key column, of its type.
fn value(arm: &ast::MergeWhenClause, at: usize, column: &Column) -> Option<Node> {
    let given = merge_inserts::value_of(arm, at, &column.name);
    let passed_over = column.identity != 0 && arm.r#override == ast::OverridingKind::OverridingUserValue as i32;
    let value = match given.and_then(|v| Some((v, v.node.as_ref()?))) {
        Some((_, NodeEnum::SetToDefault(_))) | None => parse_expression(column.default.as_deref().unwrap_or("NULL"))?,
        Some(_) if passed_over => return None,
        Some((value, _)) => value.clone(),
    };
    rewrite::cast(&value, &column.type_name).ok()
}
