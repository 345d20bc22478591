//! UPDATE and DELETE of a view by a rule: the rule's action over the rows that the statement finds in the view, which are a subquery beside it.

use std::collections::{BTreeSet, HashMap};

use catalog::Relation;
use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, search};

use super::read::{Rule, is_whole, of_row};
use super::{ROW, Ruled, is_volatile, missing, of_column, position, refusal, returning};
use crate::{Context, Result};

/// What the statement finds.
struct Found<'s> {
    relation: &'s ast::RangeVar,
    from: &'s [Node],
    condition: Option<&'s Node>,
    /// The new values of columns that it sets.
    set: HashMap<usize, Node>,
}

/// The rule's UPDATE of what the statement finds.
pub fn update(
    s: &ast::UpdateStmt,
    rule: Rule,
    mut action: ast::UpdateStmt,
    view: &Relation,
    cx: &Context,
) -> Result<Ruled> {
    if s.with_clause.is_some() {
        return Err(refusal(&view.name, "with WITH queries"));
    }
    let mut set = HashMap::new();
    for target in &s.target_list {
        let Some(NodeEnum::ResTarget(t)) = &target.node else { return Ok(Ruled::Wrong) };
        let Some(value) = t.val.as_deref() else { return Ok(Ruled::Wrong) };
        if !t.indirection.is_empty() || matches!(value.node, Some(NodeEnum::MultiAssignRef(_))) {
            return Err(refusal(&view.name, "that give parts of values, or several at once,"));
        }
        let Some(at) = position(view, &t.name).filter(|at| !set.contains_key(at)) else { return Ok(Ruled::Wrong) };
        let value = match &value.node {
            Some(NodeEnum::SetToDefault(_)) => missing(view, at)?,
            Some(made) if is_volatile(made, cx) => {
                return Err(refusal(&view.name, "that set what may be another value each time"));
            }
            _ => value.clone(),
        };
        set.insert(at, of_column(value, view, at, cx)?);
    }
    let Some(relation) = &s.relation else { return Ok(Ruled::Wrong) };
    let found = Found { relation, from: &s.from_clause, condition: s.where_clause.as_deref(), set };
    returning::put(&s.returning_clause, &mut action.returning_clause, view, found.returned("UPDATE"))?;
    let (action, source, condition) = found.beside(rule, NodeEnum::UpdateStmt(Box::new(action)), view)?;
    let NodeEnum::UpdateStmt(mut action) = action else { return Ok(Ruled::Wrong) };
    action.from_clause.push(source);
    action.where_clause = all(action.where_clause, condition);
    Ok(Ruled::Action(Box::new(NodeEnum::UpdateStmt(action))))
}

/// The rule's DELETE of what the statement finds.
pub fn delete(s: &ast::DeleteStmt, rule: Rule, mut action: ast::DeleteStmt, view: &Relation) -> Result<Ruled> {
    if s.with_clause.is_some() {
        return Err(refusal(&view.name, "with WITH queries"));
    }
    let Some(relation) = &s.relation else { return Ok(Ruled::Wrong) };
    let set = HashMap::new();
    let found = Found { relation, from: &s.using_clause, condition: s.where_clause.as_deref(), set };
    returning::put(&s.returning_clause, &mut action.returning_clause, view, found.returned("DELETE"))?;
    let (action, source, condition) = found.beside(rule, NodeEnum::DeleteStmt(Box::new(action)), view)?;
    let NodeEnum::DeleteStmt(mut action) = action else { return Ok(Ruled::Wrong) };
    action.using_clause.push(source);
    action.where_clause = all(action.where_clause, condition);
    Ok(Ruled::Action(Box::new(NodeEnum::DeleteStmt(action))))
}

/// Both conditions.
fn all(own: Option<Box<Node>>, more: Option<Node>) -> Option<Box<Node>> {
    match (own, more) {
        (Some(own), Some(more)) => Some(Box::new(build::and(vec![*own, more]))),
        (own, more) => own.or(more.map(Box::new)),
    }
}

impl Found<'_> {
    /// What the view is called in the statement.
    fn called(&self) -> &str {
        self.relation.alias.as_ref().map_or(&*self.relation.relname, |a| &*a.aliasname)
    }

    fn returned(&self, verb: &'static str) -> returning::Of<'_> {
        returning::Of { verb, called: self.called(), alone: self.from.is_empty(), beside: false }
    }

    /// The action with columns of the subquery in the places of OLD's and NEW's, that subquery, and the rule's condition.
    fn beside(self, rule: Rule, mut action: NodeEnum, view: &Relation) -> Result<(NodeEnum, Node, Option<Node>)> {
        if !self.relation.inh {
            return Err(refusal(&view.name, "ONLY"));
        }
        let mut condition = rule.condition.map(|c| *c);
        let whole = |n: &Node| search::any(n, is_whole) || n.node.as_ref().is_some_and(is_whole);
        if search::any(&action, is_whole) || condition.as_ref().is_some_and(whole) {
            return Err(refusal(&view.name, "that use whole rows"));
        }
        if self.condition.is_some_and(|c| matches!(c.node, Some(NodeEnum::CurrentOfExpr(_)))) {
            return Err(refusal(&view.name, "under a cursor (WHERE CURRENT OF)"));
        }
        let mut put = Put { view, set: &self.set, used: BTreeSet::new(), strange: None };
        walk::below_mut(&mut action, &mut put);
        condition.iter_mut().for_each(|c| walk::walk_mut(c, &mut put));
        let (used, strange) = (put.used, put.strange);
        if let Some(name) = strange {
            return Err(refusal(&view.name, &format!("that name column \"{name}\"")));
        }
        let called = self.called().to_string();
        let targets = used.into_iter().map(|(is_new, at)| {
            let value = match self.set.get(&at).filter(|_| is_new) {
                Some(value) => value.clone(),
                None => build::column(&[&called, &view.columns[at].name]),
            };
            build::target(value, Some(&name(is_new, at)))
        });
        let target_list = targets.collect();
        let view_itself = build::node(NodeEnum::RangeVar(self.relation.clone()));
        let source = ast::SelectStmt {
            target_list,
            from_clause: std::iter::once(view_itself).chain(self.from.iter().cloned()).collect(),
            where_clause: self.condition.cloned().map(Box::new),
            ..build::select()
        };
        Ok((action, build::subselect(source, Some(build::alias(ROW)), false), condition))
    }
}

/// What a column of OLD or NEW is called in the subquery.
fn name(is_new: bool, at: usize) -> String {
    format!("{} {at}", if is_new { "new" } else { "old" })
}

struct Put<'p> {
    view: &'p Relation,
    set: &'p HashMap<usize, Node>,
    used: BTreeSet<(bool, usize)>,
    strange: Option<String>,
}

impl VisitMut for Put<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        let Some((is_new, column)) = of_row(n) else { return true };
        match position(self.view, column) {
            Some(at) => {
                // What is not set stays.
                let is_new = is_new && self.set.contains_key(&at);
                self.used.insert((is_new, at));
                if let Some(column) = build::column(&[ROW, &name(is_new, at)]).node {
                    *n = column;
                }
            }
            None => self.strange = Some(column.to_string()),
        }
        false
    }
}
