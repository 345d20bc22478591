//! Tables of whose rows it only matters whether there is one: those of a subquery that is asked for any of its rows. Rows of the same values
//! are one then, and need not come to home again and again.
//!
//! It says what helps; a statement is right without.

use std::collections::HashSet;

use catalog::Relation;
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, build};
use wire::type_oid;

use crate::levels::{Analysis, Distinct};

/// Wider rows are rarely the same.
const COLUMNS_MAX: usize = 3;

/// The places where they are named.
pub struct Semi(HashSet<*const ast::RangeVar>);

impl Semi {
    /// Of a query that was analysed.
    pub fn of(a: &Analysis, select: &ast::SelectStmt) -> Self {
        let mut found = Found { a, tables: HashSet::new() };
        walk::select_stmt(select, &mut found);
        Semi(found.tables)
    }

    /// Has a part with these columns of the table named here give each row once.
    pub fn once(&self, rv: &ast::RangeVar, relation: &Relation, columns: &[usize], part: &mut ast::SelectStmt) {
        // A row itself is rarely the same as another.
        let has_row = part.target_list.len() > columns.len().max(1);
        if !self.0.contains(&std::ptr::from_ref(rv)) || has_row || columns.len() > COLUMNS_MAX {
            return;
        }
        let is_unique = relation.unique.iter().any(|index| index.columns.iter().all(|c| columns.contains(c)));
        if columns.is_empty() {
            part.limit_count = Some(Box::new(build::integer(1)));
            part.limit_option = ast::LimitOption::Count as i32;
        } else if !is_unique && columns.iter().all(|c| is_same(relation, *c)) {
            part.distinct_clause = vec![Node { node: None }];
        }
    }
}

/// Equal values of the column are the same in every way.
fn is_same(relation: &Relation, column: usize) -> bool {
    use type_oid::{BOOL, BYTEA, DATE, TIMESTAMP, TIMESTAMPTZ, UUID};
    let column = &relation.columns[column];
    let of = column.type_oid;
    let text = type_oid::is_text(of) && column.collation_deterministic;
    type_oid::is_integer(of) || text || matches!(of, BOOL | BYTEA | DATE | TIMESTAMP | TIMESTAMPTZ | UUID)
}

struct Found<'l, 'a> {
    a: &'l Analysis<'a>,
    tables: HashSet<*const ast::RangeVar>,
}

impl<'n> Visit<'n> for Found<'_, '_> {
    fn node(&mut self, n: &'n NodeEnum) -> bool {
        use ast::SubLinkType::{AllSublink, AnySublink, ExistsSublink};
        if let NodeEnum::SubLink(s) = n
            && [AllSublink, AnySublink, ExistsSublink].iter().any(|kind| s.sub_link_type == *kind as i32)
            && let Some(NodeEnum::SelectStmt(body)) = s.subselect.as_deref().and_then(|q| q.node.as_ref())
        {
            self.body(body);
        }
        true
    }
}

impl Found<'_, '_> {
    /// How often one of its rows is there does not matter.
    fn body(&mut self, s: &ast::SelectStmt) {
        let Some(level) = self.a.by_node.get(&std::ptr::from_ref(s)) else { return };
        let l = &self.a.levels[*level];
        let counts = l.aggregates || l.grouped || !l.windows.is_empty() || l.limit || l.volatile || l.locking;
        if !counts && l.arms.is_none() && l.distinct == Distinct::None {
            s.from_clause.iter().for_each(|item| self.item(item));
        }
    }

    fn item(&mut self, item: &Node) {
        match &item.node {
            Some(NodeEnum::RangeVar(rv)) => {
                self.tables.insert(std::ptr::from_ref(rv));
            }
            Some(NodeEnum::JoinExpr(join)) => join.larg.iter().chain(&join.rarg).for_each(|side| self.item(side)),
            _ => {}
        }
    }
}
