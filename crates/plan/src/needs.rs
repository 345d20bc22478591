//! What an expression's code needs beside its arguments: tables of one node alone, the session's sequences, or parts of the
//! herd's tables. The catalog was told of each function, operator, domain and view (`code.rs`); here they are found in trees.
//! A name means what is in its schema, or in the schemas of the search path; of several of one name there nobody knows here
//! which is meant.

use std::collections::HashMap;

use catalog::code::{Harm, TAKE_TYPES, WHOLE_SCHEMAS, can_mean, is_temporary};
use catalog::{Oid, Placement};
use sql::ast::{self, Node};
use sql::{NodeEnum, names, relations, search};

use crate::refuse::Refusal;
use crate::{Context, Result, opened};

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
        // A parameter is a value of its type before anything runs.
        NodeEnum::ParamRef(p) => {
            let declared = usize::try_from(p.number).ok()?.checked_sub(1)?;
            of_parameter(*cx.parameters.get(declared)?, cx)
        }
        // A row's function may be written as if it were a column of it.
        NodeEnum::ColumnRef(c) if c.fields.len() > 1 => of_field(names::last(&c.fields), cx),
        NodeEnum::AIndirection(i) => names::strings(&i.indirection).into_iter().find_map(|name| of_field(name, cx)),
        NodeEnum::CaseExpr(c) if c.arg.is_some() => of_operator((None, "="), cx),
        NodeEnum::JoinExpr(j) if j.is_natural || !j.using_clause.is_empty() => of_operator((None, "="), cx),
        _ => None,
    }
    .or_else(|| of_types(node, false, cx))
}

/// Of the types that stand in a node.
fn of_types(node: &NodeEnum, definitions: bool, cx: &Context) -> Option<Need> {
    if cx.snapshot.domains.is_empty() {
        return None;
    }
    search::types_of(node, definitions).into_iter().find_map(|t| of_type(names::qualified(&t.names), cx))
}

fn of_type(name: Name, cx: &Context) -> Option<Need> {
    meant(cx.snapshot.domains.get(name.1)?, name, cx, "domain")
}

/// A type that code names needs more than values.
pub fn type_needs_more((schema, name): &(Option<String>, String), cx: &Context) -> bool {
    of_type((schema.as_deref(), name), cx).is_some()
}

/// Of a parameter's type, by its object id on home.
fn of_parameter(oid: Oid, cx: &Context) -> Option<Need> {
    if cx.snapshot.domains.is_empty() {
        return None;
    }
    let ty = cx.snapshot.types.get(&oid)?;
    of_type((Some(&ty.schema), &ty.name), cx)
}

/// The type of which a function makes a value because it is told to ([`TAKE_TYPES`]).
pub enum Told {
    /// As it is written: the parts of its name.
    Type(Vec<String>),
    /// Any, as far as is known here.
    Any,
}

/// What a call is told, if it is of such a function.
pub fn told(call: &ast::FuncCall, cx: &Context) -> Option<Told> {
    let name = names::last(&call.funcname);
    let takes = TAKE_TYPES.contains(&name) && cx.functions(&call.funcname).any(|f| f.schema == "pg_catalog");
    takes.then(|| call.args.get(1).and_then(constant).and_then(type_written).map_or(Told::Any, Told::Type))
}

/// `'text'`, `'text'::regtype`
pub fn constant(node: &Node) -> Option<&str> {
    match node.node.as_ref()? {
        NodeEnum::AConst(ast::AConst { val: Some(ast::a_const::Val::Sval(s)), .. }) => Some(&s.sval),
        NodeEnum::TypeCast(t) => constant(t.arg.as_deref()?),
        _ => None,
    }
}

fn type_written(text: &str) -> Option<Vec<String>> {
    let statements = sql::parse(&format!("SELECT NULL::{text}"), true).ok()?;
    let [NodeEnum::SelectStmt(select)] = &statements[..] else { return None };
    let [target] = &select.target_list[..] else { return None };
    let Some(NodeEnum::TypeCast(t)) = crate::rewrite::target_value(target)?.node.as_ref() else { return None };
    // Nothing but the type: `int4, f()` names none.
    let bare = matches!(t.arg.as_deref()?.node, Some(NodeEnum::AConst(_))) && select.from_clause.is_empty();
    let parts = names::strings(&t.type_name.as_ref()?.names);
    bare.then(|| parts.into_iter().map(str::to_string).collect())
}

/// Of the type that a function is told.
fn of_told(call: &ast::FuncCall, cx: &Context) -> Option<Need> {
    if cx.snapshot.domains.is_empty() {
        return None;
    }
    match told(call, cx)? {
        Told::Type(name) => of_type(parts(&name), cx),
        Told::Any => {
            types_need_more(cx).then(|| Need { what: names::last(&call.funcname).into(), herd: false, home: true })
        }
    }
}

fn parts(name: &[String]) -> Name<'_> {
    match name {
        [.., schema, name] => (Some(schema), name),
        [name] => (None, name),
        [] => (None, ""),
    }
}

/// Types whose code needs more than its arguments: what may make a value of any is watched on home.
fn types_need_more(cx: &Context) -> bool {
    cx.snapshot.domains.values().flatten().any(|h| h.needs.herd || h.needs.home || h.needs.dynamic)
}

fn of_call(call: &ast::FuncCall, cx: &Context) -> Option<Need> {
    let name = names::last(&call.funcname);
    let (herd, home) = cx.functions(&call.funcname).fold((false, is_of_home(name)), |(herd, home), f| {
        (herd | f.reads_herd_tables, home | f.needs_home | f.dynamic)
    });
    let told = of_told(call, cx);
    let (herd, home) = told.iter().fold((herd, home), |(herd, home), t| (herd | t.herd, home | t.home));
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
    if is_in_pg_temp(name) {
        return Some(Need { what: format!("operator {}", name.1), herd: false, home: true });
    }
    meant(cx.snapshot.operators.get(name.1)?, name, cx, "operator")
}

/// The session alone has it, and nothing is known of it.
fn is_in_pg_temp((schema, _): Name) -> bool {
    schema.is_some_and(is_temporary)
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

/// Functions whose answer is about the server or session they run in. Those that are given an object's name find on other nodes only what is
/// distributed, and nothing of what home alone has.
fn is_of_home(name: &str) -> bool {
    matches!(
        name,
        "nextval"
            | "currval"
            | "lastval"
            | "setval"
            | "pg_notify"
            | "row_security_active"
            | "obj_description"
            | "col_description"
            | "pg_relation_size"
            | "pg_table_size"
            | "pg_indexes_size"
            | "pg_total_relation_size"
    ) || name.starts_with("to_reg")
        || name.starts_with("has_") && name.ends_with("_privilege")
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
    // A parameter need stand nowhere.
    let declared = || cx.parameters.iter().find_map(|oid| of_parameter(*oid, cx).filter(|need| need.herd));
    match search::find(statement, |n| of(n, cx).filter(|need| need.herd)).or_else(declared) {
        Some(need) => Err(need.refuse_herd()),
        None => Ok(()),
    }
}

/// The same of a temporary table that is made or changed, and of the types that its columns are to have: it is in no catalog by
/// which code is judged (`code.rs`).
pub fn refuse_temporary(statement: &NodeEnum, cx: &Context) -> Result<()> {
    let table = match statement {
        NodeEnum::CreateStmt(s) => s.relation.as_ref(),
        NodeEnum::AlterTableStmt(s) => s.relation.as_ref(),
        _ => None,
    };
    let is_temporary =
        |rv: &&ast::RangeVar| rv.relpersistence == "t" || rv.schemaname.starts_with("pg_temp") || cx.is_temporary(rv);
    if table.is_none_or(|rv| !is_temporary(&rv)) || !cx.snapshot.reaches {
        return Ok(());
    }
    refuse_called(statement, cx)?;
    let mut need = of_types(statement, true, cx);
    // LIKE a composite type.
    search::each_relation(statement, |rv| need = need.take().or_else(|| of_type(names::table(rv), cx)));
    need.filter(|need| need.herd).map_or(Ok(()), |need| Err(need.refuse_herd()))
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
    if opened::is_asked(rv) {
        return None;
    }
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
    let operator = |name: Name| is_in_pg_temp(name) || harms(&cx.snapshot.operators, name);
    let field = |name: &str| {
        let all = cx.snapshot.functions.get(name).into_iter().flatten();
        all.into_iter().any(|f| f.of_row && f.dynamic && can_mean(None, cx.search_path, &f.schema))
    };
    match node {
        NodeEnum::FuncCall(f) => {
            cx.functions(&f.funcname).any(|f| f.dynamic)
                || types_need_more(cx) && matches!(told(f, cx), Some(Told::Any))
        }
        NodeEnum::AExpr(e) => operators(e).any(operator),
        NodeEnum::SubLink(s) => operator(compares_by(s)),
        NodeEnum::CaseExpr(_) | NodeEnum::JoinExpr(_) => operator((None, "=")),
        NodeEnum::ColumnRef(c) if c.fields.len() > 1 => field(names::last(&c.fields)),
        NodeEnum::AIndirection(i) => names::strings(&i.indirection).into_iter().any(field),
        _ if cx.snapshot.domains.is_empty() => false,
        node => {
            let types = search::types_of(node, false);
            types.into_iter().any(|t| harms(&cx.snapshot.domains, names::qualified(&t.names)))
        }
    }
}

/// Whether writing to a table may run code of the types of its columns, of which nothing is known here: it is temporary.
pub fn temporary_runs_text(rv: &ast::RangeVar, cx: &Context) -> bool {
    (rv.schemaname.starts_with("pg_temp") || cx.is_temporary(rv)) && types_need_more(cx)
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

/// The temporary relation that code names which runs when a table is written. Whatever the session's path finds first, code may find it.
pub fn hides<'c>(rv: &ast::RangeVar, cx: &Context<'c>) -> Option<&'c str> {
    own_of(cx.snapshot.named_by_code.get(&cx.relation(rv)?.oid)?, cx)
}

/// The same of a function that is called.
pub fn call_hides<'c>(f: &ast::FuncCall, cx: &Context<'c>) -> Option<&'c str> {
    own_of(cx.snapshot.named_by_calls.get(names::last(&f.funcname))?, cx)
}

/// The same of what a view calls.
pub fn view_hides<'c>(rv: &ast::RangeVar, cx: &Context<'c>) -> Option<&'c str> {
    own_of(cx.snapshot.named_by_views.get(&cx.relation(rv)?.oid)?, cx)
}

fn own_of<'c>(names: &'c [String], cx: &Context) -> Option<&'c str> {
    names.iter().find(|name| cx.temporary.iter().any(|t| t.name == **name)).map(String::as_str)
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
