//! Functions that say how large a table is, whose value is what `herd.table_sizes` has: `herd.table_size()` of any table, and
//! PostgreSQL's own of a distributed table, of which a node would tell its own part, or nothing. What a view keeps calls PostgreSQL's as ever.
//!
//! PostgreSQL's are understood where the argument is a constant or a parameter. Of columns they are left alone: queries of the catalogs
//! (psql's `\dP+`) add up a table and its partitions themselves. What the view's rows are is not known here.

use catalog::Relation;
use sql::ast::{FuncCall, Node, a_const::Val};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, names, relations, search};

use crate::admin::split_name;
use crate::router_views::RouterView;
use crate::{Context, decide, needs, rewrite};

/// What a call asks of the view.
struct Asked<'c> {
    /// A term over the view's columns.
    bytes: &'static str,
    argument: &'c Node,
    /// PostgreSQL's own function, which answers for what the view has no distributed table of.
    own: bool,
}

/// Whether a statement calls such a function.
pub fn are_asked(statement: &NodeEnum, cx: &Context) -> bool {
    let kept = decide::keeps_query(statement);
    search::any(statement, |n| matches!(n, NodeEnum::FuncCall(f) if asked(f, cx).is_some_and(|a| !(kept && a.own))))
}

/// The tables that a statement asks for, where nothing else of the view is read by it. `None`: it may be any.
pub fn only<'c>(statement: &NodeEnum, cx: &'c Context) -> Option<Vec<&'c Relation>> {
    if relations::of(statement).into_iter().any(|rv| RouterView::meant(rv, cx) == Some(RouterView::TableSizes)) {
        return None;
    }
    let mut found = Some(vec![]);
    search::each(statement, |n| {
        if let NodeEnum::FuncCall(f) = n
            && let Some(call) = asked(f, cx)
        {
            let named = constant(call.argument, cx);
            found = found.take().zip(named).map(|(mut all, one)| {
                all.push(one);
                all
            });
        }
    });
    found
}

/// Puts what the view says in place of each call. Columns keep the names that they would have.
pub fn put(statement: &mut NodeEnum, cx: &Context) {
    walk::below_mut(statement, &mut Put { cx });
}

struct Put<'c> {
    cx: &'c Context<'c>,
}

impl VisitMut for Put<'_> {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        match n {
            NodeEnum::ResTarget(t) if t.name.is_empty() => {
                if let Some(NodeEnum::FuncCall(f)) = t.val.as_deref().and_then(|v| v.node.as_ref())
                    && asked(f, self.cx).is_some()
                {
                    t.name = names::last(&f.funcname).to_string();
                }
                true
            }
            // In FROM only a function can stand.
            NodeEnum::RangeFunction(_) => false,
            _ => true,
        }
    }

    fn leave(&mut self, n: &mut NodeEnum) {
        let value = match &*n {
            NodeEnum::FuncCall(f) => asked(f, self.cx).and_then(|call| said(&call, n)),
            _ => None,
        };
        if let Some(value) = value {
            *n = value;
        }
    }
}

/// The call as a value of the view. The argument stands outside of the subquery, whose columns would hide others of their names.
fn said(call: &Asked, own: &NodeEnum) -> Option<NodeEnum> {
    let argument = sql::deparse_expr(call.argument).ok()?;
    let which = if call.own { " WHERE kind OPERATOR(pg_catalog.=) 'distributed'" } else { "" };
    let found = format!(
        "((SELECT pg_catalog.jsonb_object_agg(relid::pg_catalog.text, {}) FROM herd.table_sizes{which}) \
         OPERATOR(pg_catalog.->>) ({argument})::pg_catalog.regclass::pg_catalog.oid::pg_catalog.text)::pg_catalog.int8",
        call.bytes
    );
    let text = match call.own {
        true => format!("SELECT COALESCE({found}, {})", sql::deparse_expr(&sql::build::node(own.clone())).ok()?),
        false => format!("SELECT {found}"),
    };
    let NodeEnum::SelectStmt(s) = sql::parse(&text, true).ok()?.pop()? else { return None };
    s.target_list.first().and_then(rewrite::target_value)?.node.clone()
}

/// The functions that are understood, with PostgreSQL's own.
pub const NAMES: [&str; 5] =
    ["table_size", "pg_total_relation_size", "pg_table_size", "pg_indexes_size", "pg_relation_size"];

fn asked<'c>(f: &'c FuncCall, cx: &Context) -> Option<Asked<'c>> {
    let (schema, name) = names::qualified(&f.funcname);
    let argument = match &f.args[..] {
        [argument] => argument,
        // The file of rows itself; of the others nothing is known here.
        [argument, fork] if name == "pg_relation_size" && is_main(fork) => argument,
        _ => return None,
    };
    if (schema, name) == (Some("herd"), "table_size") {
        return Some(Asked { bytes: "total_bytes", argument, own: false });
    }
    let bytes = match name {
        "pg_total_relation_size" => "total_bytes",
        "pg_table_size" => "table_bytes OPERATOR(pg_catalog.+) toast_bytes",
        "pg_indexes_size" => "index_bytes",
        "pg_relation_size" => "main_bytes",
        _ => return None,
    };
    let shadowed = || cx.functions(&f.funcname).any(|f| f.schema != "pg_catalog");
    if !matches!(schema, None | Some("pg_catalog")) || shadowed() {
        return None;
    }
    let distributed = || constant(argument, cx).is_some_and(|r| r.distribution().is_some());
    // What a parameter names is known when it runs: where all tables are home's, home says it.
    let unknown = || is_parameter(argument) && !cx.snapshot.groups.is_empty();
    (unknown() || distributed()).then_some(Asked { bytes, argument, own: true })
}

/// Other types than text cut it short.
fn is_main(fork: &Node) -> bool {
    match &fork.node {
        Some(NodeEnum::TypeCast(t)) => {
            let is_text = t.type_name.as_ref().is_some_and(|of| names::last(&of.names) == "text");
            is_text && t.arg.as_deref().is_some_and(is_main)
        }
        _ => needs::constant(fork) == Some("main"),
    }
}

fn is_parameter(node: &Node) -> bool {
    match &node.node {
        Some(NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::TypeCast(t)) => t.arg.as_deref().is_some_and(is_parameter),
        _ => false,
    }
}

/// The table that a constant names, or has the number of.
fn constant<'c>(node: &Node, cx: &'c Context) -> Option<&'c Relation> {
    match node.node.as_ref()? {
        NodeEnum::TypeCast(t) => constant(t.arg.as_deref()?, cx),
        NodeEnum::AConst(c) => match c.val.as_ref()? {
            Val::Ival(i) => by_number(u32::try_from(i.ival).ok()?, cx),
            Val::Sval(s) => match s.sval.parse() {
                Ok(oid) => by_number(oid, cx),
                Err(_) => {
                    let (schema, name) = split_name(&s.sval).ok()?;
                    cx.snapshot.resolve(schema.as_deref(), &name, cx.search_path).map(|r| &**r)
                }
            },
            _ => None,
        },
        _ => None,
    }
}

fn by_number<'c>(oid: u32, cx: &'c Context) -> Option<&'c Relation> {
    cx.snapshot.relations.values().find(|r| r.oid == oid).map(|r| &**r)
}
