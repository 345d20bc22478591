//! An outer join that keeps rows of tables which every node has: a row that finds no other on a node is there, padded with NULLs,
//! although another node may have found one. Aggregates that pass over NULLs don't notice, and the rows' own columns are the same
//! everywhere; so each node may aggregate what it has. What could notice is left to others.
//!
//! It does not know how aggregates are split (`aggregate.rs`).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use sql::ast::{self, Node};
use sql::{NodeEnum, names, search};

use crate::classes::Var;
use crate::expression;
use crate::levels::{Analysis, From};
use crate::local::Whereabouts;
use crate::scope::Scope;

/// Which columns rows that are padded have of their own.
pub struct Padded<'p, 'a> {
    a: &'p Analysis<'a>,
    scope: Rc<Scope<'a>>,
    /// In these they may have anything.
    padded: HashSet<Var>,
    /// These are NULL, and nothing else has their names.
    null: HashSet<Var>,
}

/// What is found going down the joins.
#[derive(Default)]
struct Columns {
    null: HashSet<Var>,
    /// Of tables that are joined with what may be NULL, and are there whatever is found.
    open: HashSet<Var>,
}

impl<'p, 'a> Padded<'p, 'a> {
    /// Of a level which nodes could answer but for such rows; `None`: it is no such level, or something but its aggregates sees them.
    pub fn of(a: &'p Analysis<'a>, s: &ast::SelectStmt, level: usize) -> Option<Self> {
        let l = &a.levels[level];
        let scope = a.scopes.get(&level)?.clone();
        if l.refusal.is_some() || !l.sublinks.is_empty() || a.deep_home(level).is_some() || l.volatile || l.locking {
            return None;
        }
        let mut columns = Columns::default();
        let mut joins = 0;
        for from in &l.from {
            if !a.is_everywhere(from) {
                kept(a, from, &mut columns)?;
                joins += 1;
            }
        }
        let mut times: HashMap<Var, usize> = HashMap::new();
        scope.items.iter().flat_map(|i| &i.columns).filter_map(|c| c.1).for_each(|v| *times.entry(v).or_default() += 1);
        let padded = columns.null.union(&columns.open).copied().collect();
        let null = columns.null.into_iter().filter(|v| times.get(v) == Some(&1)).collect();
        let this = Padded { a, scope, padded, null };
        let passes = s.where_clause.as_deref().is_none_or(|w| this.is_own(w));
        (joins == 1 && passes).then_some(this)
    }

    /// It says the same of a row, whether it is padded or not.
    pub fn is_own(&self, node: &Node) -> bool {
        !search::any(node, |n| match n {
            NodeEnum::ColumnRef(c) => {
                let var = Some(c)
                    .filter(|c| !names::has_star(c))
                    .and_then(|c| self.scope.resolve(&names::strings(&c.fields)));
                var.is_none_or(|v| self.padded.contains(&v))
            }
            NodeEnum::SubLink(_) => true,
            _ => false,
        })
    }

    /// It is NULL in rows that are padded.
    fn is_null(&self, node: &Node) -> bool {
        let known = |n: &Node| expression::type_of(n, self.a, &self.scope).is_some();
        match &node.node {
            Some(NodeEnum::ColumnRef(c)) => {
                self.scope.resolve(&names::strings(&c.fields)).is_some_and(|v| self.null.contains(&v))
            }
            Some(NodeEnum::TypeCast(t)) => {
                t.arg.as_deref().is_some_and(|arg| known(node) && known(arg) && self.is_null(arg))
            }
            Some(NodeEnum::AExpr(e)) if e.kind == ast::AExprKind::AexprOp as i32 => {
                let mut sides = [e.lexpr.as_deref(), e.rexpr.as_deref()].into_iter().flatten();
                known(node) && sides.any(|side| self.is_null(side))
            }
            _ => false,
        }
    }

    /// The aggregate, which passes over NULLs, is what it is without the rows that are padded where they should not be. `idempotent`: it is
    /// the same of a value that comes twice.
    pub fn is_passed_over(&self, f: &ast::FuncCall, idempotent: bool) -> bool {
        let [arg] = &f.args[..] else { return false };
        self.is_null(arg) || (idempotent && f.agg_filter.is_none() && self.is_own(arg))
    }
}

/// Goes down the joins to the one that keeps rows that are everywhere: where the others' rows are.
fn kept(a: &Analysis, from: &From, columns: &mut Columns) -> Option<Whereabouts> {
    let From::Join { kind, on, left, right, .. } = from else { return None };
    let (stays, other) = match kind {
        ast::JoinType::JoinLeft => (left, right),
        ast::JoinType::JoinRight => (right, left),
        _ => return None,
    };
    let rows = a.spread_item(other)?;
    if a.is_everywhere(stays) {
        columns.null.extend(a.left_out(*on)?);
        return rows;
    }
    let below = kept(a, stays, columns)?;
    let together = |rows: &Whereabouts| {
        let same = |k: &crate::local::Key| rows.keys.iter().any(|r| a.same_vars(&k.columns, &r.columns, *on));
        rows.group == below.group && below.keys.iter().any(same)
    };
    match rows {
        Some(rows) if !together(&rows) => return None,
        Some(_) => columns.null.extend(a.left_out(*on)?),
        // Of what is everywhere padded rows may find others than they should.
        None => columns.open.extend(a.left_out(*on).into_iter().flatten()),
    }
    Some(below)
}
