//! Whether what stands above FROM and WHERE notices how often a row comes: DISTINCT, groups, and aggregates that take each value once do not.
//! Then a part may give each of its rows once.
//!
//! It does not know which rows are the same: those of one value in every column are meant, to the last digit.

use catalog::FunctionKind;
use sql::ast;
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use crate::levels::Analysis;

/// Aggregates that give the same however often a value comes.
const OF_ANY_NUMBER: [&str; 7] = ["min", "max", "bool_and", "bool_or", "every", "bit_and", "bit_or"];

/// Of the statement that runs over a part's rows. What it computes of a row must be the same each time.
pub fn go_unnoticed(upper: &ast::SelectStmt, a: &Analysis) -> bool {
    if a.levels.iter().any(|level| level.volatile) {
        return false;
    }
    let mut calls = Calls { a, aggregates: false, counts: false };
    walk::select_stmt(upper, &mut calls);
    let groups = calls.aggregates || !upper.group_clause.is_empty() || upper.having_clause.is_some();
    !calls.counts && (groups || !upper.distinct_clause.is_empty())
}

struct Calls<'l, 'a> {
    a: &'l Analysis<'a>,
    aggregates: bool,
    /// One that notices, or may.
    counts: bool,
}

impl Visit<'_> for Calls<'_, '_> {
    fn node(&mut self, n: &NodeEnum) -> bool {
        if let NodeEnum::AExpr(e) = n {
            // What somebody's own operator gives may be another value each time.
            self.counts |= self.a.cx.snapshot.own_operators.contains_key(names::qualified(&e.name).1);
        }
        if matches!(n, NodeEnum::JsonArrayAgg(_) | NodeEnum::JsonObjectAgg(_)) {
            (self.aggregates, self.counts) = (true, true);
        }
        let NodeEnum::FuncCall(f) = n else { return true };
        let mut known = false;
        let (mut aggregate, mut own) = (false, true);
        for overload in self.a.cx.functions(&f.funcname) {
            known = true;
            aggregate |= overload.kind != FunctionKind::Function;
            own &= overload.schema == "pg_catalog";
        }
        let once = f.agg_distinct || OF_ANY_NUMBER.contains(&names::qualified(&f.funcname).1);
        self.aggregates |= aggregate;
        self.counts |= !known || f.over.is_some() || f.agg_within_group || (aggregate && !(own && once && !f.agg_star));
        true
    }
}
