//! What an expression's code needs beside its arguments: tables of one node alone, the session's sequences, or parts of the
//! herd's tables. The catalog was told of each function, operator and domain (`code.rs`); here they are found in trees.
//! A name means what is in its schema, or in the schemas of the search path; of several of one name there nobody knows here
//! which is meant.

use catalog::code::{Harm, can_mean};
use sql::ast::{self, Node};
use sql::walk::{self, Visit};
use sql::{NodeEnum, names};

use crate::Context;
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
pub fn of(node: &NodeEnum, cx: &Context) -> Option<Need> {
    match node {
        NodeEnum::FuncCall(call) => of_call(call, cx),
        NodeEnum::AExpr(e) => operators(e).find_map(|name| of_operator(name, cx)),
        NodeEnum::SubLink(s) => of_operator(names::qualified(&s.oper_name), cx),
        NodeEnum::TypeCast(t) => {
            let name = names::qualified(&t.type_name.as_ref()?.names);
            meant(cx.snapshot.domains.get(name.1)?, name, cx, "domain")
        }
        _ => None,
    }
}

fn of_call(call: &ast::FuncCall, cx: &Context) -> Option<Need> {
    let name = names::last(&call.funcname);
    let (herd, home) = cx
        .functions(&call.funcname)
        .fold((false, is_of_home(name)), |(herd, home), f| (herd | f.reads_herd_tables, home | f.needs_home));
    (herd || home).then(|| Need { what: format!("{name}()"), herd, home })
}

fn of_operator(name: Name, cx: &Context) -> Option<Need> {
    meant(cx.snapshot.operators.get(name.1)?, name, cx, "operator")
}

/// What those of one name need that it can mean.
fn meant(all: &[Harm], (schema, name): Name, cx: &Context, kind: &str) -> Option<Need> {
    let meant = all.iter().filter(|h| can_mean(schema, cx.search_path, &h.schema));
    let (herd, home) = meant.fold((false, false), |(herd, home), h| (herd | h.needs.herd, home | h.needs.home));
    (herd || home).then(|| Need { what: format!("{kind} {name}"), herd, home })
}

/// Schema, if given, and name.
type Name<'n> = (Option<&'n str>, &'n str);

/// The operators an expression calls: some stand for two.
fn operators(e: &ast::AExpr) -> impl Iterator<Item = Name<'_>> {
    use ast::AExprKind::*;
    let between = matches!(
        ast::AExprKind::try_from(e.kind),
        Ok(AexprBetween | AexprNotBetween | AexprBetweenSym | AexprNotBetweenSym)
    );
    let compared: &[&str] = if between { &["<=", ">=", "<", ">"] } else { &[] };
    std::iter::once(names::qualified(&e.name)).chain(compared.iter().map(|name| (None, *name)))
}

/// Functions whose answer is about the server or session they run in.
fn is_of_home(name: &str) -> bool {
    matches!(name, "nextval" | "currval" | "lastval" | "setval" | "pg_notify")
        || name.starts_with("pg_advisory")
        || name.starts_with("pg_try_advisory")
        || name.starts_with("lo_")
}

/// The first in an expression, its subqueries included, that passes the test.
pub fn find(node: &Node, cx: &Context, test: fn(&Need) -> bool) -> Option<Need> {
    struct Find<'s> {
        cx: &'s Context<'s>,
        test: fn(&Need) -> bool,
        found: Option<Need>,
    }
    impl<'a> Visit<'a> for Find<'_> {
        fn node(&mut self, node: &'a NodeEnum) -> bool {
            if self.found.is_none() {
                self.found = of(node, self.cx).filter(self.test);
            }
            self.found.is_none()
        }
    }
    let mut find = Find { cx, test, found: None };
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
