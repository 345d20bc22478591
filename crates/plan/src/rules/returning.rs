//! RETURNING of a write to a view by a rule: what the rule's own RETURNING gives for the view's columns, in the statement's words.

use catalog::Relation;
use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, search};

use super::read::{is_whole, of_row};
use super::{position, refusal};
use crate::{Refusal, Result};

/// The statement that it is of.
pub struct Of<'s> {
    pub verb: &'static str,
    /// What the view is called in it.
    pub called: &'s str,
    /// It names no other tables.
    pub alone: bool,
    /// The rows that are given are not there any more where the rule's action returns something.
    pub beside: bool,
}

/// The statement's, by the rule's.
pub fn put(
    wanted: &Option<ast::ReturningClause>,
    given: &mut Option<ast::ReturningClause>,
    view: &Relation,
    of: Of<'_>,
) -> Result<()> {
    let Some(wanted) = wanted else {
        *given = None;
        return Ok(());
    };
    let refuse = |why: &str| refusal(&view.name, why);
    let Some(given) = given else {
        return Err(Refusal::new(
            format!("cannot perform {} RETURNING on relation \"{}\"", of.verb, view.name),
            format!("You need an unconditional ON {} DO INSTEAD rule with a RETURNING clause.", of.verb),
        ));
    };
    let values: Option<Vec<Node>> = given.exprs.iter().map(value).collect();
    let values =
        values.filter(|v| v.len() == view.columns.len() && wanted.options.is_empty() && given.options.is_empty());
    let values = values.ok_or_else(|| refuse("with such a RETURNING"))?;
    let row = |n: &NodeEnum| of_row(n).is_some() || is_whole(n);
    if of.beside && given.exprs.iter().any(|e| search::any(e, row)) {
        return Err(refuse("whose RETURNING names NEW, of several rows"));
    }
    let mut exprs = vec![];
    for wanted in &wanted.exprs {
        let Some(NodeEnum::ResTarget(t)) = &wanted.node else { return Err(refuse("with such a RETURNING")) };
        let Some(own) = t.val.as_deref() else { return Err(refuse("with such a RETURNING")) };
        if let Some(NodeEnum::ColumnRef(c)) = &own.node
            && names::has_star(c)
        {
            if !of.alone || c.fields.len() > 1 && !of.is_view(&names::strings(&c.fields)) {
                return Err(refuse("with RETURNING * beside other tables"));
            }
            exprs.extend(values.iter().zip(&view.columns[..]).map(|(v, c)| build::target(v.clone(), Some(&c.name))));
            continue;
        }
        let name = match (&*t.name, names::column(own).and_then(|parts| of.column(&parts, view))) {
            ("", Some(at)) => view.columns[at].name.clone(),
            ("", None) => return Err(refuse("with a RETURNING of expressions without names")),
            (name, _) => name.to_string(),
        };
        if search::any(own, |n| matches!(n, NodeEnum::SubLink(_))) {
            return Err(refuse("with subqueries in RETURNING"));
        }
        let mut own = own.clone();
        let mut put = Put { of: &of, view, values: &values, strange: false };
        walk::walk_mut(&mut own, &mut put);
        if put.strange {
            return Err(refuse("with a RETURNING of anything but the view's columns"));
        }
        exprs.push(build::target(own, Some(&name)));
    }
    given.exprs = exprs;
    Ok(())
}

fn value(target: &Node) -> Option<Node> {
    let Some(NodeEnum::ResTarget(t)) = &target.node else { return None };
    let value = t.val.as_deref()?;
    match &value.node {
        Some(NodeEnum::ColumnRef(c)) if names::has_star(c) => None,
        _ => Some(value.clone()),
    }
}

impl Of<'_> {
    fn is_view(&self, parts: &[&str]) -> bool {
        matches!(parts, [one] if *one == self.called)
    }

    /// The view's column that is meant.
    fn column(&self, parts: &[&str], view: &Relation) -> Option<usize> {
        match parts {
            [column] if self.alone => position(view, column),
            [of, column] if self.is_view(&[of]) => position(view, column),
            _ => None,
        }
    }
}

struct Put<'p> {
    of: &'p Of<'p>,
    view: &'p Relation,
    values: &'p [Node],
    strange: bool,
}

impl VisitMut for Put<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        let NodeEnum::ColumnRef(c) = n else { return true };
        let at = if names::has_star(c) { None } else { self.of.column(&names::strings(&c.fields), self.view) };
        match at.and_then(|at| self.values[at].node.clone()) {
            Some(value) => *n = value,
            None => self.strange = true,
        }
        false
    }
}
