//! A view whose query stands in its place has rows of no named type there: what asks for their type is refused, and what says the same
//! of a row whatever its type is called is not. It does not know what the views are.

use std::collections::HashSet;

use sql::ast::{AExpr, AExprKind, ColumnRef, Node, SubLinkType, TypeCast};
use sql::{NodeEnum, names, search};

use crate::{Refusal, Result};

/// What says the same of a row whatever its type is called.
const OF_ANY_ROW: [&str; 12] = [
    "count",
    "row_to_json",
    "to_json",
    "to_jsonb",
    "json_agg",
    "jsonb_agg",
    "json_build_object",
    "jsonb_build_object",
    "json_build_array",
    "jsonb_build_array",
    "json_object_agg",
    "jsonb_object_agg",
];

/// The arguments of a call of one of these; none of other calls.
pub fn of_any_row(node: &NodeEnum) -> &[Node] {
    match node {
        NodeEnum::FuncCall(f) => match names::qualified(&f.funcname) {
            (None | Some("pg_catalog"), name) if OF_ANY_ROW.contains(&name) => &f.args,
            _ => &[],
        },
        _ => &[],
    }
}

/// Rows beside rows; a literal beside one is read by its type.
fn compares_rows(e: &AExpr) -> bool {
    let row = |side: &Option<Box<Node>>| {
        matches!(side.as_deref().and_then(|n| n.node.as_ref()), Some(NodeEnum::ColumnRef(_) | NodeEnum::RowExpr(_)))
    };
    let kinds = [AExprKind::AexprOp, AExprKind::AexprDistinct, AExprKind::AexprNotDistinct].map(|kind| kind as i32);
    let plain = matches!(names::strings(&e.name)[..], ["=" | "<>" | "<" | ">" | "<=" | ">="]);
    kinds.contains(&e.kind) && plain && row(&e.lexpr) && row(&e.rexpr)
}

fn is_text(cast: &TypeCast) -> bool {
    let to = cast.type_name.as_ref().filter(|t| t.array_bounds.is_empty()).map(|t| names::strings(&t.names));
    matches!(to.as_deref(), Some(["text"] | ["pg_catalog", "text"]))
}

/// A statement that asks for the type of rows of one of these views, each by its alias and its columns there.
pub fn refuse(statement: &NodeEnum, views: &[(String, Vec<String>)]) -> Result<()> {
    let mut fine: HashSet<*const ColumnRef> = HashSet::new();
    search::each(statement, |n| {
        let mut is = |node: Option<&Node>, star: bool| match node.and_then(|n| n.node.as_ref()) {
            Some(NodeEnum::ColumnRef(c)) if !star || names::has_star(c) => {
                fine.insert(std::ptr::from_ref(c));
            }
            _ => {}
        };
        match n {
            NodeEnum::NullTest(t) => is(t.arg.as_deref(), false),
            NodeEnum::SortBy(s) => is(s.node.as_deref(), false),
            NodeEnum::TypeCast(c) if is_text(c) => is(c.arg.as_deref(), false),
            NodeEnum::AIndirection(i) => is(i.arg.as_deref(), false),
            // All of its columns, one by one.
            NodeEnum::ResTarget(t) => is(t.val.as_deref(), true),
            NodeEnum::RowExpr(r) => r.args.iter().for_each(|a| is(Some(a), true)),
            NodeEnum::List(l) => l.items.iter().for_each(|a| is(Some(a), true)),
            // By which rows are compared, their columns are, whatever their type.
            NodeEnum::AExpr(e) if compares_rows(e) => {
                [&e.lexpr, &e.rexpr].into_iter().for_each(|side| is(side.as_deref(), false))
            }
            // Which columns it has nobody asks.
            NodeEnum::SubLink(s) if s.sub_link_type == SubLinkType::ExistsSublink as i32 => {
                if let Some(NodeEnum::SelectStmt(query)) = s.subselect.as_deref().and_then(|q| q.node.as_ref()) {
                    for target in &query.target_list {
                        if let Some(NodeEnum::ResTarget(t)) = &target.node {
                            is(t.val.as_deref(), false);
                        }
                    }
                }
            }
            n => of_any_row(n).iter().for_each(|a| is(Some(a), false)),
        }
    });
    let asks = |n: &NodeEnum| match n {
        NodeEnum::ColumnRef(c) if !fine.contains(&std::ptr::from_ref(c)) => {
            let parts = names::strings(&c.fields);
            let name = *parts.last().filter(|_| parts.len() == 1 || names::has_star(c))?;
            let (_, columns) = views.iter().find(|(alias, _)| alias == name)?;
            (names::has_star(c) || !columns.iter().any(|c| c == name)).then(|| name.to_string())
        }
        _ => None,
    };
    match search::find(statement, asks) {
        Some(name) => Err(Refusal::new(
            format!("a whole row of \"{name}\", a view that is read over several nodes, is not supported here"),
            format!("Name its columns, as ROW({name}.*) does."),
        )),
        None => Ok(()),
    }
}
