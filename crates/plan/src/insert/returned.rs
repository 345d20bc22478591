//! What an INSERT returns of rows that have been added to all copies of a reference table: a query over those rows. RETURNING calls
//! them `new`, too, and `old` what was there before, which is nothing. It does not know how rows are added.

use catalog::{Column, Relation};
use sql::ast::{self, Node, ReturningOptionKind as Kind};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names};

use crate::reads::parse_expression;
use crate::text::{self, Text};
use crate::{Result, rewrite};

/// RETURNING as a query over child 0.
pub(super) fn returned(insert: &ast::InsertStmt, r: &ast::ReturningClause, relation: &Relation) -> Result<Text> {
    let shown = insert.relation.as_ref().and_then(|rv| rv.alias.as_ref()).map_or(&relation.name, |a| &a.aliasname);
    let colnames = relation.columns.iter().map(|c| build::string(&c.name)).collect();
    let alias = ast::Alias { aliasname: shown.clone(), colnames };
    let mut select = build::select();
    select.target_list = old_and_new(r, shown, relation);
    select.from_clause = vec![build::subselect(text::rows(0), Some(alias), false)];
    let mut statement = NodeEnum::SelectStmt(Box::new(select));
    rewrite::replace_now(&mut statement);
    Text::of(&statement)
}

fn old_and_new(r: &ast::ReturningClause, shown: &str, relation: &Relation) -> Vec<Node> {
    let called = |kind: Kind, own: &str| {
        let given = r.options.iter().find_map(|o| match &o.node {
            Some(NodeEnum::ReturningOption(o)) if o.option == kind as i32 => Some(o.value.clone()),
            _ => None,
        });
        given.or_else(|| (shown != own && relation.column(own).is_none()).then(|| own.to_string()))
    };
    let old = called(Kind::ReturningOptionOld, "old");
    let new = called(Kind::ReturningOptionNew, "new");
    let mut named = Named { old, new, shown, relation };
    let mut list = vec![];
    for target in &r.exprs {
        let Some(NodeEnum::ResTarget(t)) = &target.node else { continue };
        if let Some(NodeEnum::ColumnRef(c)) = t.val.as_deref().and_then(|v| v.node.as_ref())
            && names::has_star(c)
            && named.is_old(c)
        {
            list.extend(relation.columns.iter().filter_map(|c| Some(build::target(nothing(c)?, Some(&c.name)))));
            continue;
        }
        let mut changed = target.clone();
        walk::walk_mut(&mut changed, &mut named);
        if let Some(NodeEnum::ResTarget(c)) = &mut changed.node
            && t.name.is_empty()
            && c.val != t.val
            && !rewrite::is_star(target)
        {
            // It is called what it was called.
            c.name = t.val.as_deref().map(names::figure_column).unwrap_or_default();
        }
        list.push(changed);
    }
    list
}

/// A column of a row that is not there.
fn nothing(column: &Column) -> Option<Node> {
    parse_expression(&format!("NULL::{}", column.type_name))
}

/// Puts the rows in the place of `new`, and nothing in that of `old`.
struct Named<'r> {
    old: Option<String>,
    new: Option<String>,
    shown: &'r str,
    relation: &'r Relation,
}

impl Named<'_> {
    fn is_old(&self, c: &ast::ColumnRef) -> bool {
        names::strings(&c.fields).first().is_some_and(|first| self.old.as_deref() == Some(first))
    }

    fn of_old(&self, c: &ast::ColumnRef) -> Option<Node> {
        match names::strings(&c.fields).get(1) {
            Some(name) => nothing(&self.relation.columns[self.relation.column(name)?]),
            None => {
                parse_expression(&format!("NULL::{}", catalog::qualified(&self.relation.schema, &self.relation.name)))
            }
        }
    }
}

impl VisitMut for Named<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        let NodeEnum::ColumnRef(c) = n else { return true };
        if self.is_old(c) {
            if let Some(node) = self.of_old(c).and_then(|n| n.node) {
                *n = node;
            }
        } else if let Some(NodeEnum::String(first)) = c.fields.first_mut().and_then(|f| f.node.as_mut())
            && self.new.as_deref() == Some(&*first.sval)
        {
            first.sval = self.shown.to_string();
        }
        false
    }
}
