//! `t.f` where `f` is a function of the row `t` that home alone can run becomes `(t).f`, which means the same: the row is seen to be
//! needed, where a column of that name would be asked of nodes.
//!
//! It does not know levels, nor whether `f` is a column after all: of a row in parentheses, too, a column goes first.

use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, search};

use crate::{Context, needs};

/// Whether there is a `t.f` that is such a call.
pub fn has_call(statement: &NodeEnum, cx: &Context) -> bool {
    cx.snapshot.row_code && search::any(statement, |n| is_call(n, cx))
}

/// Replaces it; true if there was one.
pub fn replace(statement: &mut NodeEnum, cx: &Context) -> bool {
    if !has_call(statement, cx) {
        return false;
    }
    let tables: Vec<String> = {
        let mut tables = vec![];
        search::each(statement, |n| match n {
            NodeEnum::ColumnRef(c) if is_call(n, cx) => {
                tables.extend(names::strings(&c.fields).first().map(|t| t.to_string()))
            }
            _ => {}
        });
        tables
    };
    // What is called as a table is, as a column: in parentheses it would mean that.
    let column = |name: &String| {
        let has = |alias: &ast::Alias| names::strings(&alias.colnames).contains(&name.as_str());
        sql::relations::of(statement)
            .into_iter()
            .any(|rv| cx.relation(rv).is_some_and(|r| r.column(name).is_some()) || rv.alias.as_ref().is_some_and(has))
            || search::any(statement, |n| match n {
                NodeEnum::ResTarget(t) => {
                    t.name == *name
                        || (t.name.is_empty() && t.val.as_deref().is_some_and(|v| names::figure_column(v) == *name))
                }
                NodeEnum::RangeSubselect(s) => s.alias.as_ref().is_some_and(has),
                NodeEnum::RangeFunction(_) | NodeEnum::RangeTableFunc(_) | NodeEnum::JsonTable(_) => true,
                NodeEnum::CommonTableExpr(c) => names::strings(&c.aliascolnames).contains(&name.as_str()),
                NodeEnum::JoinExpr(j) => j.alias.as_ref().is_some_and(has),
                _ => false,
            })
    };
    if tables.iter().any(column) {
        return false;
    }
    walk::below_mut(statement, &mut Replace { cx });
    true
}

fn is_call(n: &NodeEnum, cx: &Context) -> bool {
    matches!(n, NodeEnum::ColumnRef(c) if c.fields.len() == 2)
        && needs::of(n, cx).is_some_and(|need| need.home && !need.herd)
}

struct Replace<'c> {
    cx: &'c Context<'c>,
}

impl VisitMut for Replace<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        if is_call(n, self.cx)
            && let NodeEnum::ColumnRef(c) = n
            && let Some(field) = c.fields.pop()
        {
            let row: Node = build::node(NodeEnum::ColumnRef(std::mem::take(c)));
            *n = NodeEnum::AIndirection(Box::new(ast::AIndirection {
                arg: Some(Box::new(row)),
                indirection: vec![field],
            }));
            return false;
        }
        true
    }
}
