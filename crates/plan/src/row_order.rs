//! ORDER BY a row of values: by its values one after the other, as record_cmp (rowtypes.c) compares them. Rows themselves have no type by
//! which they could travel between nodes. It does not know how a statement is planned.

use sql::ast::{self, Node, SortByDir, SortByNulls};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, search};

use crate::rewrite;

/// Whether a query of it is sorted by a row.
pub fn any(statement: &NodeEnum) -> bool {
    search::any(statement, |n| matches!(n, NodeEnum::SortBy(s) if row(s).is_some()))
}

/// Takes apart the rows by which queries are sorted; whether there were any.
pub fn replace(statement: &mut NodeEnum) -> bool {
    if !any(statement) {
        return false;
    }
    let mut flatten = Flatten { changed: false };
    if let NodeEnum::SelectStmt(s) = statement {
        flatten.select(s);
    }
    walk::below_mut(statement, &mut flatten);
    flatten.changed
}

struct Flatten {
    changed: bool,
}

impl VisitMut for Flatten {
    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        // What DISTINCT keeps apart, and the columns of a set operation, are named by ORDER BY.
        if s.larg.is_none() && s.distinct_clause.is_empty() {
            let items: Vec<_> = s.sort_clause.iter().map(|item| by_values(item, s)).collect();
            if items.iter().any(Option::is_some) {
                self.changed = true;
                let sort = std::mem::take(&mut s.sort_clause);
                s.sort_clause = sort.into_iter().zip(items).flat_map(|(own, new)| new.unwrap_or(vec![own])).collect();
            }
        }
        true
    }
}

fn row(sort: &ast::SortBy) -> Option<&ast::RowExpr> {
    match sort.node.as_deref()?.node.as_ref()? {
        NodeEnum::RowExpr(row) => Some(row),
        _ => None,
    }
}

/// The items in place of one that is a row; `None`: it is none, or a value by itself would mean something else there.
fn by_values(item: &Node, s: &ast::SelectStmt) -> Option<Vec<Node>> {
    let Some(NodeEnum::SortBy(sort)) = &item.node else { return None };
    let row = row(sort)?;
    let descending = match SortByDir::try_from(sort.sortby_dir) {
        Ok(SortByDir::SortbyDefault | SortByDir::SortbyAsc) => false,
        Ok(SortByDir::SortbyDesc) => true,
        _ => return None,
    };
    // A row of NULLs is a value. Within it NULL is larger than anything else, wherever ORDER BY puts NULLs.
    let nulls = if descending { SortByNulls::SortbyNullsFirst } else { SortByNulls::SortbyNullsLast };
    let mut items = vec![];
    for value in &row.args {
        if !means_the_same(value, s) {
            return None;
        }
        let sort = ast::SortBy { node: Some(Box::new(value.clone())), sortby_nulls: nulls as i32, ..(**sort).clone() };
        let item = build::node(NodeEnum::SortBy(Box::new(sort)));
        match by_values(&item, s) {
            Some(inner) => items.extend(inner),
            None if matches!(value.node, Some(NodeEnum::RowExpr(_))) => return None,
            None => items.push(item),
        }
    }
    (!items.is_empty()).then_some(items)
}

/// By itself it is no position and no output column's name.
fn means_the_same(value: &Node, s: &ast::SelectStmt) -> bool {
    match &value.node {
        Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_)) => false,
        Some(NodeEnum::ColumnRef(c)) if names::has_star(c) => false,
        Some(NodeEnum::ColumnRef(c)) => match &names::strings(&c.fields)[..] {
            [name] => s.target_list.iter().filter(|t| !rewrite::is_star(t)).all(|t| {
                let Some(NodeEnum::ResTarget(target)) = &t.node else { return false };
                let Some(value) = target.val.as_deref() else { return false };
                let called = if target.name.is_empty() { names::figure_column(value) } else { target.name.clone() };
                called != *name || names::column(value).is_some_and(|c| c == [*name])
            }),
            _ => true,
        },
        _ => true,
    }
}
