//! Which relations a statement names: the one walk that knows that a WITH query hides tables and views of its name, and
//! where it does. It does not look names up.

use std::collections::HashMap;

use pg_query::NodeEnum;
use pg_query::protobuf::{self as ast, Node, RangeVar};

use crate::clauses;
use crate::walk::{self, Visit, VisitMut};

/// Every relation `statement` names outside of its WITH queries' reach, in the order of the walk. Targets of writes
/// included, which WITH queries never hide; not the names after FOR UPDATE OF, which are those of FROM.
pub fn of(statement: &NodeEnum) -> Vec<&RangeVar> {
    let mut v = Named::default();
    v.enter(statement);
    walk::below(statement, &mut v);
    v.found
}

/// Every relation a query names, but for names of its WITH queries.
pub fn of_select(select: &ast::SelectStmt) -> Vec<&RangeVar> {
    let mut v = Named::default();
    walk::select_stmt(select, &mut v);
    v.found
}

/// The WITH queries of a statement that neither the statement nor another one of them names.
pub fn unread(statement: &NodeEnum) -> Vec<&ast::CommonTableExpr> {
    let mut v = Named::default();
    v.enter(statement);
    walk::below(statement, &mut v);
    v.leave_with(with_of(statement));
    v.unread
}

/// Every relation an expression's subqueries name.
pub fn of_node(node: &Node) -> Vec<&RangeVar> {
    let mut v = Named::default();
    walk::walk(node, &mut v);
    v.found
}

/// Calls `f` with each node that names a relation in FROM; what `f` puts in its place is not looked at.
pub fn replace(statement: &mut NodeEnum, f: &mut dyn FnMut(&mut Node)) {
    let mut v = Replace { hidden: Hidden::default(), f };
    v.hidden.enter(with_of(statement));
    walk::below_mut(statement, &mut v);
}

/// The WITH clauses around a place in a statement, and how many of their queries can be seen there.
#[derive(Default)]
struct Hidden {
    frames: Vec<Frame>,
}

struct Frame {
    /// Each name with its place in the clause.
    names: HashMap<String, usize>,
    /// Which of the queries something names, but for themselves.
    named: Vec<bool>,
    recursive: bool,
    /// Outside of the WITH clause all of its names are seen; inside, those before; with RECURSIVE always all.
    seen: usize,
    /// The query entered next.
    next: usize,
    /// The query one is in.
    inside: Option<usize>,
}

impl Hidden {
    /// A name without schema is the innermost WITH query's that can be seen.
    fn hides(&mut self, rv: &RangeVar) -> bool {
        if !rv.schemaname.is_empty() {
            return false;
        }
        let seen = |f: &Frame| f.names.get(&rv.relname).copied().filter(|i| *i < f.seen);
        let Some((frame, query)) = self.frames.iter_mut().rev().find_map(|f| seen(f).map(|i| (f, i))) else {
            return false;
        };
        // A recursive query names itself.
        frame.named[query] |= frame.inside != Some(query);
        true
    }

    fn enter(&mut self, with: Option<&ast::WithClause>) {
        let Some(with) = with else { return };
        let names = with.ctes.iter().filter_map(|c| match &c.node {
            Some(NodeEnum::CommonTableExpr(c)) => Some(c.ctename.clone()),
            _ => None,
        });
        let names: HashMap<String, usize> = names.enumerate().map(|(i, n)| (n, i)).collect();
        let seen = with.ctes.len();
        self.frames.push(Frame {
            names,
            named: vec![false; seen],
            recursive: with.recursive,
            seen,
            next: 0,
            inside: None,
        });
    }

    /// Which of its queries something has named.
    fn leave(&mut self, with: Option<&ast::WithClause>) -> Vec<bool> {
        with.and_then(|_| self.frames.pop()).map(|f| f.named).unwrap_or_default()
    }

    fn enter_query(&mut self) {
        if let Some(f) = self.frames.last_mut() {
            f.seen = if f.recursive { usize::MAX } else { f.next };
            f.inside = Some(f.next);
            f.next += 1;
        }
    }

    fn leave_query(&mut self) {
        if let Some(f) = self.frames.last_mut() {
            (f.seen, f.inside) = (usize::MAX, None);
        }
    }
}

/// The WITH clause of a statement that is not a SELECT.
fn with_of(statement: &NodeEnum) -> Option<&ast::WithClause> {
    match statement {
        NodeEnum::SelectStmt(_) => None,
        other => clauses::with(other),
    }
}

#[derive(Default)]
struct Named<'a> {
    hidden: Hidden,
    /// Targets of the statements around this place.
    targets: Vec<*const RangeVar>,
    found: Vec<&'a RangeVar>,
    unread: Vec<&'a ast::CommonTableExpr>,
}

impl<'a> Named<'a> {
    fn leave_with(&mut self, with: Option<&'a ast::WithClause>) {
        let named = self.hidden.leave(with);
        let queries = with.into_iter().flat_map(|w| &w.ctes).zip(named);
        self.unread.extend(queries.filter_map(|(cte, named)| match &cte.node {
            Some(NodeEnum::CommonTableExpr(c)) if !named => Some(&**c),
            _ => None,
        }));
    }

    fn enter(&mut self, n: &'a NodeEnum) {
        self.hidden.enter(with_of(n));
        self.targets.extend(clauses::target(n).map(std::ptr::from_ref));
    }
}

impl<'a> Visit<'a> for Named<'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        match n {
            NodeEnum::LockingClause(_) => return false,
            NodeEnum::CommonTableExpr(_) => self.hidden.enter_query(),
            _ => self.enter(n),
        }
        true
    }

    fn leave(&mut self, n: &'a NodeEnum) {
        match n {
            NodeEnum::CommonTableExpr(_) => self.hidden.leave_query(),
            _ => {
                self.leave_with(with_of(n));
                if clauses::target(n).is_some() {
                    self.targets.pop();
                }
            }
        }
    }

    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        self.hidden.enter(s.with_clause.as_ref());
        true
    }

    fn leave_select(&mut self, s: &'a ast::SelectStmt) {
        self.leave_with(s.with_clause.as_ref());
    }

    fn range_var(&mut self, rv: &'a RangeVar) {
        let target = self.targets.last().is_some_and(|t| std::ptr::eq(*t, rv));
        if target || !self.hidden.hides(rv) {
            self.found.push(rv);
        }
    }
}

struct Replace<'f> {
    hidden: Hidden,
    f: &'f mut dyn FnMut(&mut Node),
}

impl VisitMut for Replace<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        match n {
            NodeEnum::LockingClause(_) => return false,
            NodeEnum::CommonTableExpr(_) => self.hidden.enter_query(),
            n => self.hidden.enter(with_of(n)),
        }
        true
    }

    fn leave(&mut self, n: &mut NodeEnum) {
        match n {
            NodeEnum::CommonTableExpr(_) => self.hidden.leave_query(),
            n => {
                self.hidden.leave(with_of(n));
            }
        }
    }

    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        self.hidden.enter(s.with_clause.as_ref());
        true
    }

    fn leave_select(&mut self, s: &mut ast::SelectStmt) {
        self.hidden.leave(s.with_clause.as_ref());
    }

    fn listed(&mut self, node: &mut Node) {
        if matches!(&node.node, Some(NodeEnum::RangeVar(rv)) if !self.hidden.hides(rv)) {
            (self.f)(node);
        }
    }
}
