//! INSERT into a reference table: the same rows on every node. It does not know how copies are kept the same (`same.rs`).

use std::sync::Arc;

use catalog::Relation;
use sql::ast;
use sql::body::Body;
use sql::{NodeEnum, build, relations};

use super::{list_items, marks_default, through_router};
use crate::levels::Analysis;
use crate::reads::{holds_moments, names_clock};
use crate::refuse::Refusal;
use crate::text::{self, Text};
use crate::types::*;
use crate::{Context, Result, modify, order, rewrite, same};

pub(super) fn reference(
    insert: &ast::InsertStmt,
    a: &Analysis,
    source: Option<&ast::SelectStmt>,
    relation: &Arc<Relation>,
    columns: &[usize],
    values: bool,
    cx: &Context,
) -> Result<Plan> {
    if !a.uses.is_empty() {
        let Some(source) = source.filter(|_| !values) else {
            return Err(Refusal::new(
                "subqueries over distributed tables in INSERT … VALUES are not supported",
                "Use INSERT … SELECT.",
            ));
        };
        return through_router(insert, source, relation.clone(), columns.to_vec(), cx);
    }
    let width = source.and_then(|s| s.values_lists.first()).map(|l| list_items(l).len()).unwrap_or(columns.len());
    let given: Vec<usize> = if source.is_none() { vec![] } else { columns.iter().copied().take(width).collect() };
    let computed =
        relation.columns.iter().enumerate().any(|(i, c)| !given.contains(&i) && same::default_differs(cx.snapshot, c));
    let mut statement = NodeEnum::InsertStmt(Box::new(insert.clone()));
    let marks_default = marks_default(source) || names_clock(&statement) && relation.columns.iter().any(holds_moments);
    rewrite::replace_now(&mut statement);
    let volatile = a.levels.iter().any(|l| l.volatile) || a.needs_home.is_some();
    let differs =
        same::differs(cx.snapshot, cx.search_path, &Body::of_statement(&modify::without_returning(&statement)));
    let nothing =
        insert.on_conflict_clause.as_ref().is_some_and(|c| c.action == ast::OnConflictAction::OnconflictNothing as i32);
    // Of several rows with one key the first is kept.
    let first = nothing && !values && source.is_some();
    let ordered = first
        || a.levels.iter().any(|l| l.limit)
        || order::depends(&modify::without_returning(&statement), cx).is_some();
    // Rows that are written out come in one order.
    let one_order = values || source.is_none_or(|s| s.from_clause.is_empty() && s.larg.is_none());
    let code = cx.snapshot.relation_code.get(&relation.oid).copied().unwrap_or_default();
    let row_by_row = code.by_rows && !one_order || code.by_tied_rows && insert.on_conflict_clause.is_some();
    // What others commit meanwhile one node has and another has not yet: what is read there is read once.
    let reads = source.is_some_and(|s| !relations::of_select(s).is_empty()) || insert.with_clause.is_some();
    let reads = reads && (nothing || insert.on_conflict_clause.is_none());
    let everywhere = if row_by_row {
        Err(Refusal::new(
            format!(
                "INSERT … SELECT into reference table \"{}\", whose triggers or policies read what is inserted, is not supported: each node has an order of its own",
                relation.name
            ),
            "Write the rows out in VALUES; or mark the trigger's function STABLE: it sees the table as it was before.",
        ))
    } else if reads || computed || volatile || marks_default || ordered || differs.is_some() {
        Err(Refusal::new(
            "this INSERT into a reference table computes values that could differ from node to node",
            "Give the values, or leave out ON CONFLICT.",
        ))
    } else {
        cx.text(statement.clone())
    };
    let by_rows = match (&everywhere, &insert.on_conflict_clause) {
        (Err(_), _) if row_by_row => None,
        (Err(_), None) => Some(returning_all(statement, relation, cx)?),
        // What is returned is what was added.
        (Err(_), Some(_)) if nothing => Some(returning_all(statement, relation, cx)?),
        _ => None,
    };
    let returned = insert.returning_clause.as_ref().map(|r| returned(insert, r, relation)).transpose()?;
    let write = ReferenceWrite { relation: relation.clone(), everywhere, by_rows, returned };
    Ok(Plan::Insert { whole: Whole::on_home(true), rows: Insert::Copies(write), share: None })
}

/// The INSERT with all columns of its rows returned, in their order.
fn returning_all(statement: NodeEnum, relation: &Relation, cx: &Context) -> Result<Text> {
    let NodeEnum::InsertStmt(mut insert) = statement else { return Err(Refusal::bare("not an INSERT")) };
    let exprs = relation.columns.iter().map(|c| build::target(build::column(&[&c.name]), None)).collect();
    insert.returning_clause = Some(ast::ReturningClause { exprs, ..Default::default() });
    cx.text(NodeEnum::InsertStmt(insert))
}

/// RETURNING as a query over such rows.
fn returned(insert: &ast::InsertStmt, r: &ast::ReturningClause, relation: &Relation) -> Result<Text> {
    let shown = insert.relation.as_ref().and_then(|rv| rv.alias.as_ref()).map_or(&relation.name, |a| &a.aliasname);
    let colnames = relation.columns.iter().map(|c| build::string(&c.name)).collect();
    let alias = ast::Alias { aliasname: shown.clone(), colnames };
    let mut select = build::select();
    select.target_list = r.exprs.clone();
    select.from_clause = vec![build::subselect(text::rows(0), Some(alias), false)];
    let mut statement = NodeEnum::SelectStmt(Box::new(select));
    rewrite::replace_now(&mut statement);
    Text::of(&statement)
}
