//! Which reads leave nothing in their transaction and ask nothing of it: in READ COMMITTED each may be a transaction of its own.
//!
//! Such a read is one SELECT of distributed tables that locks no rows, reads no clock, calls nothing but immutable functions of
//! PostgreSQL's own, and compares and computes by its operators alone. Judged by the tree, and only what is known passes. What the
//! transaction has done before, the session knows.

use catalog::{RelationKind, Volatility};
use sql::ast;
use sql::walk::{self, Visit};
use sql::{NodeEnum, names, relations};

use crate::Context;
use crate::tree::Finish;
use crate::types::{Planned, Sequences};
use wire::type_oid;

/// Operators that PostgreSQL has for its own types, none of which is volatile.
const OPERATORS: [&str; 19] = [
    "=",
    "<>",
    "!=",
    "<",
    ">",
    "<=",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "~~",
    "!~~",
    "~~*",
    "!~~*",
    "BETWEEN",
    "NOT BETWEEN",
];
/// Types that are written without their schema.
const TYPES: [&str; 8] = ["text", "uuid", "date", "timestamptz", "bytea", "json", "jsonb", "name"];

/// Whether the statement is such a read, as it was planned.
pub fn of(statement: &NodeEnum, plan: &Planned, cx: &Context) -> bool {
    let (Planned::Query { whole, tree }, NodeEnum::SelectStmt(select)) = (plan, statement) else { return false };
    let by_itself = match tree {
        Ok(Finish::Statement(s)) => !s.reads_home && !s.as_described && s.lookups.iter().all(Vec::is_empty),
        Ok(Finish::PassOn { .. } | Finish::Merge(_) | Finish::AddUp(_)) => true,
        Err(_) => false,
    };
    let untouched = !whole.writes && !whole.needs_home && !whole.local && !whole.unread && whole.others.is_empty();
    by_itself
        && untouched
        && whole.clock.is_none()
        && whole.sequences == Sequences::None
        && select.with_clause.is_none()
        && select.locking_clause.is_empty()
        && select.into_clause.is_none()
        && relations::of(statement).into_iter().all(|rv| is_plain_table(rv, cx))
        && is_plain(statement, cx)
}

/// Rows of PostgreSQL's own types, which nothing hides.
fn is_plain_table(rv: &ast::RangeVar, cx: &Context) -> bool {
    let own = |c: &catalog::Column| c.type_oid < type_oid::FIRST_NORMAL_OBJECT_ID;
    cx.relation(rv).is_some_and(|r| {
        r.kind == RelationKind::Table && r.distribution().is_some() && !r.row_security && r.columns.iter().all(own)
    })
}

fn is_plain(statement: &NodeEnum, cx: &Context) -> bool {
    struct Look<'c, 'a> {
        cx: &'c Context<'a>,
        plain: bool,
        selects: usize,
    }
    impl<'a> Visit<'a> for Look<'_, '_> {
        fn node(&mut self, n: &'a NodeEnum) -> bool {
            self.plain &= match n {
                NodeEnum::SubLink(_) | NodeEnum::RangeFunction(_) | NodeEnum::RangeTableSample(_) => false,
                NodeEnum::SqlvalueFunction(_) => false,
                NodeEnum::AExpr(e) => match &names::strings(&e.name)[..] {
                    [name] | ["pg_catalog", name] => {
                        OPERATORS.contains(name) && !self.cx.snapshot.operators.contains_key(*name)
                    }
                    _ => false,
                },
                NodeEnum::FuncCall(f) => {
                    let mut overloads = self.cx.functions(&f.funcname).peekable();
                    overloads.peek().is_some()
                        && overloads.all(|o| {
                            o.volatility == Volatility::Immutable && o.schema == "pg_catalog" && !o.returns_set
                        })
                }
                _ => true,
            };
            self.plain
        }
        fn type_name(&mut self, t: &'a ast::TypeName) {
            self.plain &= match &names::strings(&t.names)[..] {
                ["pg_catalog", _] => true,
                [one] => TYPES.contains(one),
                _ => false,
            };
        }
        fn select(&mut self, _: &'a ast::SelectStmt) -> bool {
            self.selects += 1;
            self.plain
        }
    }
    let mut look = Look { cx, plain: true, selects: 0 };
    walk::below(statement, &mut look);
    // The statement itself is seen, too.
    look.plain && look.selects <= 1
}
