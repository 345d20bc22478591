//! Equalities, constants and limits drawn from conditions that are ANDed together.
//!
//! Part of `levels.rs`. It does not know which columns are keys.

use key::PartitionStrategy;
use sql::ast::{self, Node};
use sql::{NodeEnum, names};

use super::*;
use crate::keys;
use crate::table_keys::{KeyLimit, LimitEnd};
use crate::types::KeyExpr;
use wire::type_oid;

/// Looking for something in a list: so many are a step of work.
const LOOKS: usize = 16;

impl<'a> Analysis<'a> {
    /// Draws equalities from the conditions that are ANDed together and hold for the rows of `place`.
    pub fn conjuncts(&mut self, node: &'a Node, place: JoinDomain, scope: &Scope<'a>) {
        match node.node.as_ref() {
            Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::AndExpr as i32 => {
                b.args.iter().for_each(|a| self.conjuncts(a, place, scope));
            }
            Some(NodeEnum::BoolExpr(b)) if b.boolop == ast::BoolExprType::OrExpr as i32 => {
                let restricted = self.or_of_equals(b, scope);
                self.cx.lists.note(node, restricted.as_ref().and_then(|(v, _)| self.column_type(*v)));
                if let Some((v, values)) = restricted {
                    self.restrict(place, v, Some(values));
                }
            }
            // A row passes only where the test is true: NOT, IS NULL and OR are not looked into.
            Some(NodeEnum::SubLink(s))
                if s.sub_link_type == ast::SubLinkType::AnySublink as i32 && self.is_equality(&s.oper_name) =>
            {
                self.passed.insert(std::ptr::from_ref(s.as_ref()));
            }
            Some(NodeEnum::AExpr(e)) => {
                let kind = ast::AExprKind::try_from(e.kind).unwrap_or(ast::AExprKind::Undefined);
                let equality = self.is_equality(&e.name);
                if kind != ast::AExprKind::AexprOp {
                    let column = e.lexpr.as_deref().filter(|_| equality).and_then(|l| self.var(l, scope));
                    self.cx.lists.note(node, column.and_then(|v| self.column_type(v)));
                }
                if !equality {
                    self.comparison(e, kind, place, scope);
                    return;
                }
                let (Some(l), Some(r)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return };
                if keys::is_bare_null(l) || keys::is_bare_null(r) {
                    return;
                }
                let (lv, rv) = (self.var(l, scope), self.var(r, scope));
                match kind {
                    ast::AExprKind::AexprOp => match (lv, rv) {
                        (Some(a), Some(b)) => self.equate(place, a, b),
                        (Some(v), None) => self.restrict(place, v, keys::constant(r).map(|c| vec![c])),
                        (None, Some(v)) => self.restrict(place, v, keys::constant(l).map(|c| vec![c])),
                        _ => self.row_equality(l, r, place, scope),
                    },
                    ast::AExprKind::AexprIn | ast::AExprKind::AexprOpAny => {
                        if let Some(v) = lv {
                            self.restrict(place, v, keys::list(r));
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// `a > 1`, `a BETWEEN 1 AND 5`
    fn comparison(&mut self, e: &'a ast::AExpr, kind: ast::AExprKind, place: JoinDomain, scope: &Scope<'a>) {
        let (Some(l), Some(r)) = (e.lexpr.as_deref(), e.rexpr.as_deref()) else { return };
        match (kind, &r.node) {
            (ast::AExprKind::AexprBetween, Some(NodeEnum::List(bounds))) => {
                let ([low, high], Some(v)) = (&bounds.items[..], self.var(l, scope)) else { return };
                if [">=", "<="].into_iter().all(|name| self.cx.is_own_operator(name)) {
                    self.limit(place, v, (LimitEnd::Low, true), low);
                    self.limit(place, v, (LimitEnd::High, true), high);
                }
            }
            (ast::AExprKind::AexprOp, _) => {
                let (schema, name) = names::qualified(&e.name);
                let (mut end, inclusive) = match name {
                    "<" | "<=" => (LimitEnd::High, name == "<="),
                    ">" | ">=" => (LimitEnd::Low, name == ">="),
                    _ => return,
                };
                if !schema.map_or_else(|| self.cx.is_own_operator(name), |schema| schema == "pg_catalog") {
                    return;
                }
                let (v, value) = match (self.var(l, scope), self.var(r, scope)) {
                    (Some(v), None) => (v, r),
                    (None, Some(v)) => {
                        end = if end == LimitEnd::Low { LimitEnd::High } else { LimitEnd::Low };
                        (v, l)
                    }
                    _ => return,
                };
                self.limit(place, v, (end, inclusive), value);
            }
            _ => {}
        }
    }

    /// No row passes of which the column is NULL.
    fn limit(&mut self, place: JoinDomain, v: Var, (end, inclusive): (LimitEnd, bool), value: &'a Node) {
        self.need(place, v);
        let known = keys::constant_plus(value, &|name| self.cx.is_own_operator(name));
        if let Some((value, plus)) = known.filter(|(value, _)| *value != KeyExpr::Null) {
            self.classes.limit(place, v, KeyLimit { end, value, plus, inclusive });
        }
    }

    /// Between what the first key column of a table is whose shards are ranges of it. Texts that are equal may be ordered otherwise, by
    /// the collation of another column: of them only the key's own limits count.
    pub(super) fn limits(&self, used: &Use) -> Vec<KeyLimit> {
        let by_range = used.relation.distribution().is_some_and(|d| d.group.strategy == PartitionStrategy::Range);
        let Some(&key) = used.key.first().filter(|_| by_range) else { return vec![] };
        let alike = self.column_type(key).is_some_and(|ty| !type_oid::is_text(ty));
        let all = self.classes.limits(used.classes, key).into_iter();
        all.filter(|(of, _)| alike || *of == key).map(|(_, limit)| limit).collect()
    }

    /// `(a, b) = (1, 2)`
    fn row_equality(&mut self, l: &'a Node, r: &'a Node, place: JoinDomain, scope: &Scope<'a>) {
        let (Some(NodeEnum::RowExpr(l)), Some(NodeEnum::RowExpr(r))) = (&l.node, &r.node) else { return };
        for (l, r) in l.args.iter().zip(&r.args) {
            match (self.var(l, scope), self.var(r, scope)) {
                (Some(a), Some(b)) => self.equate(place, a, b),
                (Some(v), None) => self.restrict(place, v, keys::constant(r).map(|c| vec![c])),
                (None, Some(v)) => self.restrict(place, v, keys::constant(l).map(|c| vec![c])),
                _ => {}
            }
        }
    }

    /// Two columns of one type are equal. Other types (int4 = numeric) have other hashes: no conclusion is drawn
    /// for them, but for the integers, which PostgreSQL hashes alike.
    pub(super) fn equate(&mut self, place: JoinDomain, a: Var, b: Var) {
        self.need(place, a);
        self.need(place, b);
        if let (Some((x, _)), Some((y, _))) = (self.types[a], self.types[b])
            && (x == y
                || (type_oid::is_integer(x) && type_oid::is_integer(y))
                || (type_oid::is_text(x) && type_oid::is_text(y)))
        {
            self.classes.union(place, a, b);
            if let Some(outer) = self.outer.iter_mut().find(|o| o.on == place && !o.reduced) {
                outer.equal.push((a, b));
            }
        }
    }

    fn restrict(&mut self, place: JoinDomain, v: Var, values: Option<Vec<KeyExpr>>) {
        self.need(place, v);
        if let Some(values) = values {
            self.classes.restrict(place, v, values);
        }
    }

    /// An outer join whose rows are needed to have a column of the side that may be left out joins like an inner one.
    pub(super) fn reduce(&mut self) {
        loop {
            // What was needed before was looked for then.
            let fresh = std::mem::take(&mut self.fresh);
            let new: usize = self.outer.iter().filter(|o| !o.looked).map(|o| o.nullable.len()).sum();
            if !self.cx.take((new + self.outer.len() * (1 + fresh.len())) / LOOKS) {
                return;
            }
            for o in self.outer.iter_mut().filter(|o| !o.needed) {
                o.needed |= match o.looked {
                    false => o.nullable.iter().any(|v| self.needed.contains(&(o.place, *v))),
                    true => fresh.iter().any(|(place, v)| *place == o.place && o.nullable.contains(v)),
                };
                o.looked = true;
            }
            let Some(outer) = self.outer.iter_mut().find(|o| o.needed && !o.reduced) else { return };
            outer.reduced = true;
            let (place, equal) = (outer.place, std::mem::take(&mut outer.equal));
            for (a, b) in equal {
                self.equate(place, a, b);
            }
        }
    }

    /// The outer join with this condition joins like an inner one.
    pub fn is_reduced(&self, on: JoinDomain) -> bool {
        self.outer.iter().any(|o| o.on == on && o.reduced)
    }

    /// Columns of the side that the outer join with this condition may leave out.
    pub fn left_out(&self, on: JoinDomain) -> Option<&[Var]> {
        self.outer.iter().find(|o| o.on == on).map(|o| &o.nullable[..])
    }

    fn need(&mut self, place: JoinDomain, v: Var) {
        if self.needed.insert((place, v)) {
            self.fresh.push((place, v));
        }
    }

    /// PostgreSQL's own `=`: what is called so elsewhere may mean anything. IN and USING name none and mean that which `=` finds.
    pub(crate) fn is_equality(&self, name: &[Node]) -> bool {
        match names::strings(name)[..] {
            ["pg_catalog", "="] => true,
            ["="] | [] => !self.cx.snapshot.own_equality.iter().any(|s| self.cx.search_path.contains(s)),
            _ => false,
        }
    }

    fn or_of_equals(&self, b: &'a ast::BoolExpr, scope: &Scope<'a>) -> Option<(Var, Vec<KeyExpr>)> {
        let mut var = None;
        let mut values = Vec::new();
        for arg in &b.args {
            let Some(NodeEnum::AExpr(e)) = &arg.node else { return None };
            let plain = e.kind == ast::AExprKind::AexprOp as i32 && self.is_equality(&e.name);
            let within = e.kind == ast::AExprKind::AexprIn as i32 && self.is_equality(&e.name);
            let (l, r) = (e.lexpr.as_deref()?, e.rexpr.as_deref()?);
            let v = self.var(l, scope)?;
            if *var.get_or_insert(v) != v {
                return None;
            }
            match (plain, within) {
                (true, _) if keys::is_bare_null(r) => return None,
                (true, _) => values.push(keys::constant(r)?),
                (_, true) => values.extend(keys::list(r)?),
                _ => return None,
            }
        }
        Some((var?, values))
    }

    fn column_type(&self, v: Var) -> Option<u32> {
        self.types[v].map(|(oid, _)| oid)
    }

    /// The column an expression is; `None`: it is another expression, or the column is not known.
    pub fn var(&self, node: &Node, scope: &Scope<'a>) -> Option<Var> {
        let parts = names::column(node)?;
        let columns: usize = scope.items.iter().map(|i| 1 + i.columns.len()).sum();
        if !self.cx.take(columns / LOOKS) {
            return None;
        }
        scope.resolve(&parts)
    }
}
