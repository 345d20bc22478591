//! What an expression's code needs beside its arguments: tables of one node alone, the session's sequences, or parts of the
//! herd's tables. The catalog was told of each function, operator, domain and view (`code.rs`); here they are found in trees.
//! A name means what is in its schema, or in the schemas of the search path; of several of one name there nobody knows here
//! which is meant.

use catalog::code::{Harm, WHOLE_SCHEMAS, can_mean};
use std::collections::HashMap;

use catalog::Placement;
use sql::ast::{self, Node};
use sql::{NodeEnum, names, relations, search};

use crate::refuse::Refusal;
use crate::{Context, Result};

/// What a node of an expression needs, `what` in the user's words.
pub struct Need {
    pub what: String,
    /// Uses distributed tables or writes reference tables.
    pub herd: bool,
    /// Uses what only home has, or runs text that the session watches there.
    pub home: bool,
}

/// Of this very node, not of what is below it.
pub fn of(node: &NodeEnum, cx: &Context) -> Option<Need> {
    match node {
        NodeEnum::FuncCall(call) => of_call(call, cx),
        NodeEnum::AExpr(e) => operators(e).find_map(|name| of_operator(name, cx)),
        NodeEnum::SubLink(s) => of_operator(compares_by(s), cx),
        NodeEnum::TypeCast(t) => {
            let name = names::qualified(&t.type_name.as_ref()?.names);
            meant(cx.snapshot.domains.get(name.1)?, name, cx, "domain")
        }
        // A row's function may be written as if it were a column of it.
        NodeEnum::ColumnRef(c) if c.fields.len() > 1 => of_field(names::last(&c.fields), cx),
        NodeEnum::AIndirection(i) => names::strings(&i.indirection).into_iter().find_map(|name| of_field(name, cx)),
        NodeEnum::CaseExpr(c) if c.arg.is_some() => of_operator((None, "="), cx),
        NodeEnum::JoinExpr(j) if j.is_natural || !j.using_clause.is_empty() => of_operator((None, "="), cx),
        _ => None,
    }
}

fn of_call(call: &ast::FuncCall, cx: &Context) -> Option<Need> {
    let name = names::last(&call.funcname);
    let (herd, home) = cx.functions(&call.funcname).fold((false, is_of_home(name)), |(herd, home), f| {
        (herd | f.reads_herd_tables, home | f.needs_home | f.dynamic)
    });
    (herd || home).then(|| Need { what: format!("{name}()"), herd, home })
}

fn of_field(name: &str, cx: &Context) -> Option<Need> {
    let own = cx.snapshot.functions.get(name)?.iter();
    let (herd, home) = own
        .filter(|f| f.of_row && can_mean(None, cx.search_path, &f.schema))
        .fold((false, false), |(herd, home), f| (herd | f.reads_herd_tables, home | f.needs_home | f.dynamic));
    (herd || home).then(|| Need { what: format!("{name}()"), herd, home })
}

fn of_operator(name: Name, cx: &Context) -> Option<Need> {
    meant(cx.snapshot.operators.get(name.1)?, name, cx, "operator")
}

/// What those of one name need that it can mean.
fn meant(all: &[Harm], (schema, name): Name, cx: &Context, kind: &str) -> Option<Need> {
    let meant = all.iter().filter(|h| can_mean(schema, cx.search_path, &h.schema));
    let (herd, home) =
        meant.fold((false, false), |(herd, home), h| (herd | h.needs.herd, home | h.needs.home | h.needs.dynamic));
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

/// IN has no operator in the tree.
fn compares_by(link: &ast::SubLink) -> Name<'_> {
    let written = names::qualified(&link.oper_name);
    if written.1.is_empty() { (None, "=") } else { written }
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
    search::find(node, |n| of(n, cx).filter(test))
}

/// Refuses what must not run inside a statement, wherever it stands: what it names itself, and what its views run.
pub fn refuse_reached(statement: &NodeEnum, cx: &Context) -> Result<()> {
    if !cx.snapshot.reaches {
        return refuse_whole_schemas(statement, cx);
    }
    match relations::of(statement).into_iter().find_map(|rv| of_relation(rv, cx).filter(|n| n.herd)) {
        Some(need) => Err(need.refuse_herd()),
        None => refuse_called(statement, cx),
    }
}

/// The same of what it names in expressions alone.
pub fn refuse_called(statement: &NodeEnum, cx: &Context) -> Result<()> {
    refuse_whole_schemas(statement, cx)?;
    if !cx.snapshot.reaches {
        return Ok(());
    }
    match search::find(statement, |n| of(n, cx).filter(|need| need.herd)) {
        Some(need) => Err(need.refuse_herd()),
        None => Ok(()),
    }
}

/// What asks PostgreSQL for all tables of a schema is not told of distributed ones. Which schema, a parameter may say.
fn refuse_whole_schemas(statement: &NodeEnum, cx: &Context) -> Result<()> {
    let whole = |n: &NodeEnum| match n {
        NodeEnum::FuncCall(f) => WHOLE_SCHEMAS.iter().find(|name| **name == names::last(&f.funcname)).copied(),
        _ => None,
    };
    match search::find(statement, whole) {
        Some(name) if cx.snapshot.relations.values().any(|r| matches!(r.placement, Placement::Distributed(_))) => {
            Err(Refusal::new(
                format!("{name}() leaves out distributed tables, which are partitioned on their nodes"),
                "Use table_to_xml() by table for local and reference ones; SELECT the rows of distributed ones.",
            ))
        }
        _ => Ok(()),
    }
}

fn of_relation(rv: &ast::RangeVar, cx: &Context) -> Option<Need> {
    let needs = cx.snapshot.relation_code.get(&cx.relation(rv)?.oid)?.read;
    Some(Need { what: format!("\"{}\"", rv.relname), herd: needs.herd, home: needs.home | needs.dynamic })
}

/// Whether this very node may run text that somebody puts together. Names mean what the search path gives them: somebody's function
/// in a schema of his own is nothing to those who do not look there.
pub fn runs_text(node: &NodeEnum, cx: &Context) -> bool {
    let harms = |of: &HashMap<String, Vec<Harm>>, (schema, name): Name| {
        let all = of.get(name).into_iter().flatten();
        all.into_iter().any(|h| h.needs.dynamic && can_mean(schema, cx.search_path, &h.schema))
    };
    let operator = |name: Name| harms(&cx.snapshot.operators, name);
    let field = |name: &str| {
        let all = cx.snapshot.functions.get(name).into_iter().flatten();
        all.into_iter().any(|f| f.of_row && f.dynamic && can_mean(None, cx.search_path, &f.schema))
    };
    match node {
        NodeEnum::FuncCall(f) => cx.functions(&f.funcname).any(|f| f.dynamic),
        NodeEnum::AExpr(e) => operators(e).any(operator),
        NodeEnum::SubLink(s) => operator(compares_by(s)),
        NodeEnum::CaseExpr(_) | NodeEnum::JoinExpr(_) => operator((None, "=")),
        NodeEnum::TypeCast(t) => {
            t.type_name.as_ref().is_some_and(|t| harms(&cx.snapshot.domains, names::qualified(&t.names)))
        }
        NodeEnum::ColumnRef(c) if c.fields.len() > 1 => field(names::last(&c.fields)),
        NodeEnum::AIndirection(i) => names::strings(&i.indirection).into_iter().any(field),
        _ => false,
    }
}

/// The same of a query, whatever it names.
pub fn statement_runs_text(statement: &NodeEnum, cx: &Context) -> bool {
    let mut named = false;
    search::each_relation(statement, |rv| named |= relation_runs_text(rv, false, cx));
    named || search::any(statement, |n| runs_text(n, cx))
}

/// The same of using a relation, in a statement that writes or does not.
pub fn relation_runs_text(rv: &ast::RangeVar, writes: bool, cx: &Context) -> bool {
    let code = cx.relation(rv).and_then(|r| cx.snapshot.relation_code.get(&r.oid));
    code.is_some_and(|code| code.read.dynamic || writes && code.written_dynamic)
}

/// Whether nobody may use a relation until its code is mended.
pub fn is_marked(rv: &ast::RangeVar, cx: &Context) -> bool {
    let code = cx.relation(rv).and_then(|r| cx.snapshot.relation_code.get(&r.oid));
    code.is_some_and(|code| code.marked)
}

/// Whether it writes to a table whose code runs such text where errors are caught.
pub fn catches(node: &NodeEnum, cx: &Context) -> bool {
    use NodeEnum::*;
    let of = |rv: &ast::RangeVar| {
        let code = cx.relation(rv).and_then(|r| cx.snapshot.relation_code.get(&r.oid));
        code.is_some_and(|code| code.written_catches)
    };
    let target = match node {
        InsertStmt(s) => s.relation.as_ref(),
        UpdateStmt(s) => s.relation.as_ref(),
        DeleteStmt(s) => s.relation.as_ref(),
        MergeStmt(s) => s.relation.as_ref(),
        CopyStmt(s) => s.relation.as_ref().filter(|_| s.is_from),
        AlterTableStmt(s) => s.relation.as_ref(),
        TruncateStmt(s) => {
            return s.relations.iter().any(|n| matches!(&n.node, Some(RangeVar(rv)) if of(rv)));
        }
        _ => None,
    };
    target.is_some_and(of)
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
