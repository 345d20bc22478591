//! Equalities and constants drawn from conditions that are ANDed together.
//!
//! Part of `levels.rs`. It does not know which columns are keys.

use sql::ast::{self, Node};
use sql::{NodeEnum, names};

use super::*;
use crate::keys;
use crate::types::KeyExpr;

impl<'a> Analysis<'a> {
    /// Draws equalities from the conditions that are ANDed together.
    pub fn conjuncts(&mut self, node: &'a Node, level: usize, scope: &Scope<'a>, certain: bool) {
        let classes = self.levels[level].classes;
        match node.node.as_ref() {
            Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::AndExpr as i32 => {
                b.args.iter().for_each(|a| self.conjuncts(a, level, scope, certain));
            }
            Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::OrExpr as i32 && certain => {
                if let Some((v, values)) = self.or_of_equals(b, scope) {
                    self.classes[classes].restrict(v, values);
                }
            }
            Some(NodeEnum::AExpr(e)) => {
                let kind = ast::AExprKind::try_from(e.kind).unwrap_or(ast::AExprKind::Undefined);
                if names::last(&e.name) != "=" || names::strings(&e.name).len() != 1 {
                    return;
                }
                let (Some(l), Some(r)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return };
                let (lv, rv) = (self.var(l, scope), self.var(r, scope));
                match kind {
                    ast::AExprKind::AexprOp => match (lv, rv) {
                        (Some(a), Some(b)) => self.equate(classes, a, b),
                        (Some(v), None) if certain => self.restrict(classes, v, keys::constant(r).map(|c| vec![c])),
                        (None, Some(v)) if certain => self.restrict(classes, v, keys::constant(l).map(|c| vec![c])),
                        _ => self.row_equality(l, r, level, scope, certain),
                    },
                    ast::AExprKind::AexprIn | ast::AExprKind::AexprOpAny if certain => {
                        if let Some(v) = lv {
                            self.restrict(classes, v, keys::list(r));
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// `(a, b) = (1, 2)`
    fn row_equality(&mut self, l: &'a Node, r: &'a Node, level: usize, scope: &Scope<'a>, certain: bool) {
        let (Some(NodeEnum::RowExpr(l)), Some(NodeEnum::RowExpr(r))) = (&l.node, &r.node) else { return };
        let classes = self.levels[level].classes;
        for (l, r) in l.args.iter().zip(&r.args) {
            match (self.var(l, scope), self.var(r, scope)) {
                (Some(a), Some(b)) => self.equate(classes, a, b),
                (Some(v), None) if certain => self.restrict(classes, v, keys::constant(r).map(|c| vec![c])),
                _ => {}
            }
        }
    }

    /// Two columns of one type are equal. Other types (int4 = numeric) have other hashes: no conclusion is drawn
    /// for them, but for the integers, which PostgreSQL hashes alike.
    fn equate(&mut self, classes: usize, a: Var, b: Var) {
        if let (Some((x, _)), Some((y, _))) = (self.types[a], self.types[b])
            && (x == y || (is_integer(x) && is_integer(y)) || (is_text(x) && is_text(y)))
        {
            self.classes[classes].union(a, b);
        }
    }

    fn restrict(&mut self, classes: usize, v: Var, values: Option<Vec<KeyExpr>>) {
        if let Some(values) = values {
            self.classes[classes].restrict(v, values);
        }
    }

    fn or_of_equals(&self, b: &'a ast::BoolExpr, scope: &Scope<'a>) -> Option<(Var, Vec<KeyExpr>)> {
        let mut var = None;
        let mut values = Vec::new();
        for arg in &b.args {
            let Some(NodeEnum::AExpr(e)) = &arg.node else { return None };
            let plain = e.kind == ast::AExprKind::AexprOp as i32 && names::strings(&e.name) == ["="];
            let within = e.kind == ast::AExprKind::AexprIn as i32 && names::strings(&e.name) == ["="];
            let (l, r) = (e.lexpr.as_deref()?, e.rexpr.as_deref()?);
            let v = self.var(l, scope)?;
            if *var.get_or_insert(v) != v {
                return None;
            }
            match (plain, within) {
                (true, _) => values.push(keys::constant(r)?),
                (_, true) => values.extend(keys::list(r)?),
                _ => return None,
            }
        }
        Some((var?, values))
    }

    pub fn var(&self, node: &Node, scope: &Scope<'a>) -> Option<Var> {
        scope.resolve(&names::column(node)?)
    }
}

/// text and varchar share hash and equality.
fn is_text(oid: u32) -> bool {
    matches!(oid, 25 | 1043)
}
