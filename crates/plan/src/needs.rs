//! What an expression's code needs beside its arguments: tables of one node alone, the session's sequences, or parts of the
//! herd's tables. The catalog was told of each function, operator and domain (`code.rs`); here they are found in trees.
//! Names are taken widely: of several of one name nobody knows here which is meant.

use catalog::Snapshot;
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use crate::refuse::Refusal;

/// What a node of an expression needs, `what` in the user's words.
pub struct Need {
    pub what: String,
    /// Uses distributed tables or writes reference tables.
    pub herd: bool,
    /// Uses what only home has.
    pub home: bool,
}

/// Of this very node, not of what is below it.
pub fn of(node: &NodeEnum, snapshot: &Snapshot) -> Option<Need> {
    match node {
        NodeEnum::FuncCall(call) => of_call(call, snapshot),
        NodeEnum::AExpr(e) => operators(e).find_map(|name| of_operator(name, snapshot)),
        NodeEnum::SubLink(s) => of_operator(names::last(&s.oper_name), snapshot),
        NodeEnum::TypeCast(t) => {
            let name = t.type_name.as_ref().map(|t| names::last(&t.names))?;
            let n = snapshot.domains.get(name)?;
            Some(Need { what: format!("domain {name}"), herd: n.herd, home: n.home })
        }
        _ => None,
    }
}

fn of_call(call: &ast::FuncCall, snapshot: &Snapshot) -> Option<Need> {
    let name = names::last(&call.funcname);
    let own = snapshot.functions.get(name).into_iter().flatten();
    let (herd, home) =
        own.fold((false, is_of_home(name)), |(herd, home), f| (herd | f.reads_herd_tables, home | f.needs_home));
    (herd || home).then(|| Need { what: format!("{name}()"), herd, home })
}

fn of_operator(name: &str, snapshot: &Snapshot) -> Option<Need> {
    let n = snapshot.operators.get(name)?;
    Some(Need { what: format!("operator {name}"), herd: n.herd, home: n.home })
}

/// The operators an expression calls: some stand for two.
fn operators(e: &ast::AExpr) -> impl Iterator<Item = &str> {
    use ast::AExprKind::*;
    let between = matches!(
        ast::AExprKind::try_from(e.kind),
        Ok(AexprBetween | AexprNotBetween | AexprBetweenSym | AexprNotBetweenSym)
    );
    let compared: &[&str] = if between { &["<=", ">=", "<", ">"] } else { &[] };
    std::iter::once(names::last(&e.name)).chain(compared.iter().copied())
}

/// Functions whose answer is about the server or session they run in.
fn is_of_home(name: &str) -> bool {
    matches!(name, "nextval" | "currval" | "lastval" | "setval" | "pg_notify")
        || name.starts_with("pg_advisory")
        || name.starts_with("pg_try_advisory")
        || name.starts_with("lo_")
}

/// The first in an expression, its subqueries included, that passes the test.
pub fn find(node: &Node, snapshot: &Snapshot, test: fn(&Need) -> bool) -> Option<Need> {
    struct Find<'s> {
        snapshot: &'s Snapshot,
        test: fn(&Need) -> bool,
        found: Option<Need>,
    }
    impl<'a> Visit<'a> for Find<'_> {
        fn node(&mut self, node: &'a NodeEnum) -> bool {
            if self.found.is_none() {
                self.found = of(node, self.snapshot).filter(self.test);
            }
            self.found.is_none()
        }
    }
    let mut find = Find { snapshot, test, found: None };
    walk::walk(node, &mut find);
    find.found
}

impl Need {
    /// On one node it would see, or change, a part only.
    pub fn refuse_herd(&self) -> Refusal {
        Refusal::new(
            format!(
                "{} uses distributed tables or writes reference tables, which code inside a statement can't do",
                self.what
            ),
            "Run its statements through the router, one by one.",
        )
    }
}
