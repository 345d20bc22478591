//! WITH queries that nobody names: PostgreSQL never runs them, so what they read need not be where the statement runs.
//!
//! They are taken out of the texts for nodes where they read what only home has. A mistake in them is PostgreSQL's to notice all the
//! same: home is told the whole statement before any node is asked (`Whole::unread`). It does not know levels.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::{Placement, Relation};
use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, clauses, names, relations, search};

use crate::views::reads_herd;
use crate::{Context, Refusal};

/// Takes them out; true if that was needed.
pub fn drop_unread(statement: &mut NodeEnum, cx: &Context) -> bool {
    match without_unread(statement, cx) {
        Some((changed, true)) => {
            *statement = changed;
            true
        }
        _ => false,
    }
}

/// The statement without them, and whether one reads what only home has; `None`: it has none.
pub fn without_unread(statement: &NodeEnum, cx: &Context) -> Option<(NodeEnum, bool)> {
    dropped(statement, cx).map(|(changed, drop)| (changed, drop.reads_home))
}

/// What is read by those that are named, but by nobody who is read: where PostgreSQL does not put them into those who name them, it plans
/// them, and so asks for the right to it.
pub fn planned(statement: &NodeEnum, cx: &Context) -> Result<Vec<Arc<Relation>>, Refusal> {
    match dropped(statement, cx) {
        Some((_, drop)) if drop.planned.unknown => Err(Refusal::new(
            "a WITH query with locks, views or functions of users' own that only others name which nobody reads is not supported over several \
             nodes: nobody would ask for the rights that it takes",
            "Take it out of the statement.",
        )),
        Some((_, drop)) => Ok(drop.planned.tables),
        None => Ok(vec![]),
    }
}

fn dropped<'c>(statement: &NodeEnum, cx: &'c Context<'c>) -> Option<(NodeEnum, Drop<'c>)> {
    if relations::unread(statement).is_empty() {
        return None;
    }
    let mut changed = statement.clone();
    let mut times = HashMap::new();
    search::each_relation(statement, |rv| {
        if rv.schemaname.is_empty() {
            *times.entry(rv.relname.clone()).or_default() += 1;
        }
    });
    let planned = Planned { times, tables: vec![], unknown: false };
    let mut drop = Drop { cx, unread: HashSet::new(), reads_home: false, named: false, planned };
    let mut any = false;
    loop {
        // Without one, another one may be named by nobody. A write in WITH runs, whoever names it.
        drop.unread =
            relations::unread(&changed).into_iter().filter(|cte| !changes_data(cte)).map(std::ptr::from_ref).collect();
        let before = drop.unread.len();
        drop.in_statement(&mut changed);
        walk::below_mut(&mut changed, &mut drop);
        if drop.unread.len() == before {
            break;
        }
        any = true;
        drop.named = true;
    }
    drop.unread.clear();
    any.then_some((changed, drop))
}

/// Of WITH queries around a query those that it names, and those that these name.
pub fn needed(with: &ast::WithClause, query: &ast::SelectStmt) -> ast::WithClause {
    let mut names: HashSet<&str> = unqualified(query).collect();
    let mut needed = HashSet::new();
    loop {
        let new = with.ctes.iter().enumerate().filter_map(|(i, cte)| match &cte.node {
            Some(NodeEnum::CommonTableExpr(c)) if names.contains(&*c.ctename) && needed.insert(i) => Some(&**c),
            _ => None,
        });
        let bodies: Vec<_> = new.filter_map(body).collect();
        if bodies.is_empty() {
            break;
        }
        names.extend(bodies.into_iter().flat_map(unqualified));
    }
    let mut numbers = 0..;
    let mut out = with.clone();
    out.ctes.retain(|_| numbers.next().is_some_and(|i| needed.contains(&i)));
    out
}

fn unqualified(query: &ast::SelectStmt) -> impl Iterator<Item = &str> {
    relations::of_select(query).into_iter().filter(|rv| rv.schemaname.is_empty()).map(|rv| &*rv.relname)
}

fn body(cte: &ast::CommonTableExpr) -> Option<&ast::SelectStmt> {
    match cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) {
        Some(NodeEnum::SelectStmt(select)) => Some(&**select),
        _ => None,
    }
}

struct Drop<'c> {
    cx: &'c Context<'c>,
    unread: HashSet<*const ast::CommonTableExpr>,
    reads_home: bool,
    /// Those of now were named before.
    named: bool,
    planned: Planned,
}

/// What those read that PostgreSQL plans, though nobody reads them.
struct Planned {
    /// How often a name is there without a schema.
    times: HashMap<String, usize>,
    tables: Vec<Arc<Relation>>,
    /// More than a right to read may be asked for.
    unknown: bool,
}

impl Planned {
    fn add(&mut self, cte: &ast::CommonTableExpr, query: &NodeEnum, cx: &Context) {
        use ast::CteMaterialize::{Always, Never};
        let locks = search::any(query, |n| matches!(n, NodeEnum::LockingClause(_)));
        let apart = match ast::CteMaterialize::try_from(cte.ctematerialized) {
            Ok(Always) => true,
            // Only one that is recursive.
            Ok(Never) => relations::of(query).iter().any(|rv| rv.schemaname.is_empty() && rv.relname == cte.ctename),
            _ => self.times.get(&cte.ctename).is_some_and(|n| *n > 1),
        };
        if !apart && !locks {
            return;
        }
        let own =
            |n: &NodeEnum| matches!(n, NodeEnum::FuncCall(f) if cx.functions(&f.funcname).any(|f| f.user_defined));
        self.unknown |= locks || search::any(query, own);
        for relation in relations::of(query).into_iter().filter_map(|rv| cx.relation(rv)) {
            self.unknown |= relation.view.is_some();
            self.tables.push(relation.clone());
        }
    }
}

impl Drop<'_> {
    fn from(&mut self, with: &mut Option<ast::WithClause>) {
        let Some(clause) = with else { return };
        clause.ctes.retain(|cte| !self.is_unread(cte));
        if clause.ctes.is_empty() {
            *with = None;
        }
    }

    fn is_unread(&mut self, cte: &Node) -> bool {
        let Some(NodeEnum::CommonTableExpr(cte)) = &cte.node else { return false };
        let unread = self.unread.remove(&std::ptr::from_ref(&**cte));
        if unread && let Some(query) = cte.ctequery.as_deref().and_then(|q| q.node.as_ref()) {
            self.reads_home |= relations::of(query).into_iter().any(|rv| self.is_on_home(rv));
            if self.named {
                self.planned.add(cte, query, self.cx);
            }
        }
        unread
    }

    fn is_on_home(&self, rv: &ast::RangeVar) -> bool {
        self.cx.is_temporary(rv) || self.cx.relation(rv).is_some_and(|r| self.has_home(r))
    }

    /// Views over the herd's tables alone are on every node.
    fn has_home(&self, relation: &Relation) -> bool {
        // Many views may name one.
        let (mut seen, mut todo) = (HashSet::from([relation.oid]), vec![relation]);
        while let Some(relation) = todo.pop() {
            let Some(view) = relation.view.as_ref().filter(|v| !v.materialized && reads_herd(&v.query, self.cx)) else {
                match relation.placement {
                    Placement::Local => return true,
                    _ => continue,
                }
            };
            let Ok(query) = sql::parse(&view.query, true) else { return true };
            for rv in query.iter().flat_map(relations::of) {
                let (schema, name) = names::table(rv);
                todo.extend(self.cx.snapshot.resolve(schema, name, &[]).filter(|r| seen.insert(r.oid)).map(|r| &**r));
            }
        }
        false
    }

    fn in_statement(&mut self, statement: &mut NodeEnum) {
        if let Some(with) = clauses::with_mut(statement) {
            self.from(with);
        }
    }
}

impl VisitMut for Drop<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        self.in_statement(n);
        true
    }

    fn select(&mut self, s: &mut ast::SelectStmt) -> bool {
        self.from(&mut s.with_clause);
        true
    }
}

fn changes_data(cte: &ast::CommonTableExpr) -> bool {
    body(cte).is_none_or(|select| {
        search::any(select, |n| {
            matches!(
                n,
                NodeEnum::InsertStmt(_) | NodeEnum::UpdateStmt(_) | NodeEnum::DeleteStmt(_) | NodeEnum::MergeStmt(_)
            )
        })
    })
}
