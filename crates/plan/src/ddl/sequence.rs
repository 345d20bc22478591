//! CREATE and ALTER SEQUENCE. Values come from home alone; other nodes have the sequence, exhausted, so that defaults that
//! name it are valid there.

use catalog::{RelationKind, quote_literal};
use sql::ast::{self, Node};
use sql::{NodeEnum, names};

use super::place::{Cx, deparse, name_of, regclass_exists, text};
use super::steps::Step;
use super::{Ddl, Decided, column};

/// CREATE SEQUENCE: on home, and exhausted on the other nodes; a temporary one on home alone.
pub fn create(cx: &Cx, s: &ast::CreateSeqStmt) -> Decided {
    let Some(rv) = &s.sequence else { return Ok(Ddl::Home) };
    if rv.relpersistence == "t" {
        return Ok(Ddl::Home);
    }
    cx.not_made_in_ours(names::table(rv))?;
    let made = cx.made(rv);
    if s.if_not_exists && cx.is_taken(made) && cx.find(made).is_none_or(|r| r.kind != RelationKind::Sequence) {
        // By what only home has, perhaps: home says so. A sequence that is there may be made on nodes that lack it.
        return Ok(Ddl::Home);
    }
    // An owner that is a local table is on home only.
    let options = s
        .options
        .iter()
        .filter(|o| owner(o).is_none_or(|column| column.len() > 1 && owned_everywhere(cx, &column)))
        .cloned()
        .collect();
    // One of that name may be left of a local table's column, whose drop only home saw.
    let elsewhere = deparse(NodeEnum::CreateSeqStmt(ast::CreateSeqStmt { options, if_not_exists: true, ..s.clone() }))?;
    let exhaust = column::exhaust(&quote_literal(&text(names::table(rv))));
    let mut spread = cx.home_and(vec![Step::new(cx.sql)], vec![Step::new(elsewhere), Step::new(exhaust)]);
    spread.unqualified = rv.schemaname.is_empty();
    Ok(Ddl::Nodes(Box::new(spread)))
}

/// Only who owns it matters elsewhere.
pub fn alter(cx: &Cx, s: &ast::AlterSeqStmt) -> Decided {
    let Some(rv) = &s.sequence else { return Ok(Ddl::Home) };
    let name = names::table(rv);
    cx.not_ours(name)?;
    let owned_by = s.options.iter().filter_map(owner).rfind(|column| owned_everywhere(cx, column));
    let (Some(column), Some(_)) = (owned_by, cx.find(name)) else { return Ok(Ddl::Home) };
    let column = match &column[..] {
        [none] if none == "none" => "NONE".to_string(),
        parts => parts.iter().map(|p| catalog::quote_ident(p)).collect::<Vec<_>>().join("."),
    };
    let elsewhere = format!("ALTER SEQUENCE {} OWNED BY {column}", text(name));
    Ok(Ddl::Nodes(Box::new(
        cx.home_and(vec![Step::new(cx.sql)], vec![Step::guarded(regclass_exists(name), elsewhere)]),
    )))
}

/// The column of OWNED BY, or `none`.
fn owner(option: &Node) -> Option<Vec<String>> {
    let Some(NodeEnum::DefElem(d)) = &option.node else { return None };
    let Some(NodeEnum::List(l)) = d.arg.as_deref()?.node.as_ref() else { return None };
    (d.defname == "owned_by").then(|| names::strings(&l.items).into_iter().map(str::to_string).collect())
}

/// Every node has the table, or there is none.
fn owned_everywhere(cx: &Cx, column: &[String]) -> bool {
    let parts: Vec<&str> = column.iter().map(String::as_str).collect();
    match parts.split_last() {
        Some((_, [])) => true,
        Some((_, table)) => name_of(table).is_some_and(|t| cx.herd(t).is_some()),
        None => false,
    }
}
