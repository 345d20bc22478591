//! What a level's expressions hold: subqueries, calls, code of users' own.

use std::rc::Rc;

use catalog::FunctionKind;
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use super::{Analysis, Pending};
use crate::needs;
use crate::scope::Scope;
use crate::{Result, Steps};

impl<'a> Analysis<'a> {
    /// Looks through expressions for subqueries, aggregates and functions.
    pub fn expressions(
        &mut self,
        nodes: impl Iterator<Item = &'a Node>,
        level: usize,
        scope: &Rc<Scope<'a>>,
        upper: bool,
    ) -> Result<()> {
        let own =
            !self.cx.snapshot.operators.is_empty() || !self.cx.snapshot.domains.is_empty() || self.cx.snapshot.row_code;
        let mut finder = Finder { own, seen: 0, found: vec![] };
        nodes.for_each(|n| walk::walk(n, &mut finder));
        if !self.cx.take(finder.seen) {
            return Err(Steps::refusal());
        }
        for found in finder.found {
            match found {
                Found::Sub(select, sublink) => {
                    let test = sublink.and_then(|s| {
                        if self.passed.contains(&std::ptr::from_ref(s)) {
                            self.var(s.testexpr.as_deref()?, scope)
                        } else {
                            None
                        }
                    });
                    let array = sublink.is_some_and(|s| s.sub_link_type == ast::SubLinkType::ArraySublink as i32);
                    self.pending.push(Pending { select, test, scope: scope.clone(), level, upper, array });
                }
                Found::Json(node) => self.json_aggregate(node, level, scope),
                Found::Code(node) => self.code(node, level, upper)?,
                Found::Call(call) => self.function(call, level, scope),
            }
        }
        Ok(())
    }

    /// Code of the level: on home alone where it uses what is nowhere else.
    fn code(&mut self, node: &'a NodeEnum, level: usize, upper: bool) -> Result<()> {
        let Some(need) = needs::of(node, self.cx) else { return Ok(()) };
        if need.herd {
            return Err(need.refuse_herd());
        }
        self.needs_home.get_or_insert_with(|| need.what.clone());
        let l = &mut self.levels[level];
        // Of `t.f` only a column would come to home (see `fields.rs`).
        let comes = upper && !matches!(node, NodeEnum::ColumnRef(_));
        let on_home = if comes { &mut l.home_above } else { &mut l.home_below };
        on_home.get_or_insert(need.what);
        Ok(())
    }

    fn function(&mut self, call: &'a ast::FuncCall, level: usize, scope: &Rc<Scope<'a>>) {
        let name = names::last(&call.funcname);
        let overloads: Vec<_> = self.cx.functions(&call.funcname).collect();
        let aggregate = overloads.iter().any(|f| f.kind == FunctionKind::Aggregate);
        if call.over.is_none() && (aggregate || call.agg_star || call.agg_within_group) {
            self.aggregate(call, level, scope);
        }
        // Which of them is meant the types of arguments decide; of PostgreSQL's own, none of one name differ.
        let volatile = overloads.iter().any(|f| f.volatility == catalog::Volatility::Volatile);
        if volatile {
            self.levels[level].volatile = true;
            if overloads.iter().any(|f| f.user_defined) || !is_harmless(name) {
                self.writes = true;
            }
        }
    }
}

/// Volatile functions of PostgreSQL that change nothing.
fn is_harmless(name: &str) -> bool {
    matches!(
        name,
        "random"
            | "random_normal"
            | "clock_timestamp"
            | "timeofday"
            | "gen_random_uuid"
            | "uuidv4"
            | "uuidv7"
            | "uuid_generate_v4"
            | "pg_sleep"
            | "currval"
            | "lastval"
            | "pg_relation_size"
            | "pg_total_relation_size"
            | "pg_table_size"
            | "pg_database_size"
            | "pg_size_pretty"
            | "pg_backend_pid"
            | "setseed"
    )
}

enum Found<'a> {
    Sub(&'a ast::SelectStmt, Option<&'a ast::SubLink>),
    Call(&'a ast::FuncCall),
    /// What may run code of users' own.
    Code(&'a NodeEnum),
    /// JSON_ARRAYAGG or JSON_OBJECTAGG.
    Json(&'a NodeEnum),
}

struct Finder<'a> {
    /// There are operators, domains or functions of rows that need more than their arguments.
    own: bool,
    /// How many nodes it has looked at.
    seen: usize,
    found: Vec<Found<'a>>,
}

impl<'a> Visit<'a> for Finder<'a> {
    fn node(&mut self, n: &'a NodeEnum) -> bool {
        self.seen += 1;
        if self.own || matches!(n, NodeEnum::FuncCall(_)) {
            self.found.push(Found::Code(n));
        }
        match n {
            NodeEnum::SubLink(s) => {
                if let Some(test) = s.testexpr.as_deref() {
                    walk::walk(test, self);
                }
                if let Some(NodeEnum::SelectStmt(select)) = s.subselect.as_deref().and_then(|q| q.node.as_ref()) {
                    self.found.push(Found::Sub(select, Some(s)));
                }
                false
            }
            NodeEnum::FuncCall(c) => {
                self.found.push(Found::Call(c));
                true
            }
            NodeEnum::JsonArrayAgg(_) | NodeEnum::JsonObjectAgg(_) => {
                self.found.push(Found::Json(n));
                true
            }
            _ => true,
        }
    }

    fn select(&mut self, s: &'a ast::SelectStmt) -> bool {
        self.found.push(Found::Sub(s, None));
        false
    }
}
