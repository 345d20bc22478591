//! INSERT into a reference table: the same rows on every node. It does not know how copies are kept the same (`same.rs`).

use std::sync::Arc;

use catalog::{Column, Relation};
use sql::ast;
use sql::body::Body;
use sql::{NodeEnum, build, relations};

use super::returned::returned;
use super::{list_items, marks_default, through_router};
use crate::levels::Analysis;
use crate::refuse::Refusal;
use crate::text::Text;
use crate::types::*;
use crate::{Context, Result, by_key, clock_text, compared, modify, order, rewrite, same};

pub(super) fn reference(
    insert: &ast::InsertStmt,
    a: &Analysis,
    source: Option<&ast::SelectStmt>,
    relation: &Arc<Relation>,
    columns: &[usize],
    values: bool,
    cx: &Context,
) -> Result<Planned> {
    if !a.uses.is_empty() {
        let Some(source) = source.filter(|_| !values) else {
            return Err(Refusal::new(
                "subqueries over distributed tables in INSERT … VALUES are not supported",
                "Use INSERT … SELECT.",
            ));
        };
        return through_router(insert, source, relation.clone(), columns.to_vec(), cx);
    }
    let mut statement = NodeEnum::InsertStmt(Box::new(insert.clone()));
    let computed = takes_defaults(&statement, source, relation, columns, cx);
    rewrite::replace_now(&mut statement);
    let marks_default = marks_default(source);
    let written = modify::without_returning(&statement);
    let volatile = a.levels.iter().any(|l| l.volatile) || a.needs_home.is_some();
    let differs = same::differs(cx.snapshot, cx.search_path, &Body::of_statement(&written))
        .or_else(|| clock_text::read(&written, cx));
    let nothing =
        insert.on_conflict_clause.as_ref().is_some_and(|c| c.action == ast::OnConflictAction::OnconflictNothing as i32);
    // Of several rows with one key the first is kept.
    let first = nothing && !values && source.is_some();
    let ordered = first || order::depends(&written, cx).is_some();
    // Rows that are written out come in one order.
    let one_order = values || source.is_none_or(|s| s.from_clause.is_empty() && s.larg.is_none());
    let code = cx.snapshot.relation_code.get(&relation.oid).copied().unwrap_or_default();
    let row_by_row = code.by_rows && !one_order || code.by_tied_rows && insert.on_conflict_clause.is_some();
    // What others commit meanwhile one node has and another has not yet: what is read there is read once.
    let reads = source.is_some_and(|s| !relations::of_select(s).is_empty()) || insert.with_clause.is_some();
    let reads = reads && (nothing || insert.on_conflict_clause.is_none());
    let everywhere = if row_by_row {
        Err(own_order(relation))
    } else if reads || computed || volatile || marks_default || ordered || differs.is_some() {
        Err(computes())
    } else {
        cx.text(statement.clone())
    };
    let reads_others = by_key::reads_others(&statement, cx);
    let once = !row_by_row && (everywhere.is_err() || reads_others || clock_text::has_parameters(&statement));
    let moments = clock_text::parameters(&statement, cx);
    // What is returned is what was added: of what was there before, it is not all.
    let changes = insert.on_conflict_clause.is_some() && !nothing;
    let by_key = match once && changes {
        true => by_key::plan(&statement, relation, cx)?.map(Box::new),
        false => None,
    };
    let whole = statement.clone();
    let by_rows = if once && !changes { Some(returning_all(statement, relation, cx)?) } else { None };
    let source = source.filter(|_| by_rows.is_some() && insert.returning_clause.is_none() && !marks_default);
    let unread = source.and_then(|s| match through_router(insert, s, relation.clone(), columns.to_vec(), cx) {
        Ok(Planned::Insert { rows: Insert::Select(select), .. }) => Some(select),
        _ => None,
    });
    let returned = insert.returning_clause.as_ref().map(|r| returned(insert, r, relation)).transpose()?;
    let reads_others = reads_others && changes;
    let triggers = compared::has_triggers(relation, cx);
    let compares = everywhere.is_ok() && (reads_others && !relation.row_security || triggers);
    let compared = if compares { compared::plan(&whole, relation, cx)?.map(Box::new) } else { None };
    let tied = compared::tied(&whole, relation, cx);
    let relation = relation.clone();
    let write = ReferenceWrite {
        relation,
        everywhere,
        reads_others,
        chooses: reads_others,
        moments,
        by_key,
        by_rows,
        unread,
        returned,
        compared,
        tied,
    };
    Ok(Planned::Insert { whole: Whole::on_home(true), rows: Insert::Copies(write), share: None })
}

/// Columns get defaults that each node would compute for itself.
fn takes_defaults(
    statement: &NodeEnum,
    source: Option<&ast::SelectStmt>,
    relation: &Relation,
    columns: &[usize],
    cx: &Context,
) -> bool {
    let width = source.and_then(|s| s.values_lists.first()).map(|l| list_items(l).len()).unwrap_or(columns.len());
    let given: Vec<usize> = if source.is_none() { vec![] } else { columns.iter().copied().take(width).collect() };
    let set = modify::defaults_set(statement);
    let takes_default = |(i, c): &(usize, &Column)| !given.contains(i) || set.contains(&c.name.as_str());
    let mut taken = relation.columns.iter().enumerate().filter(takes_default);
    taken.any(|(_, c)| same::default_differs(cx.snapshot, c))
}

fn own_order(relation: &Relation) -> Refusal {
    Refusal::new(
        format!(
            "INSERT … SELECT into reference table \"{}\", whose triggers or policies read what is inserted, is not supported: each node has an order of its own",
            relation.name
        ),
        "Write the rows out in VALUES; or mark the trigger's function STABLE: it sees the table as it was before.",
    )
}

fn computes() -> Refusal {
    Refusal::new(
        "this INSERT into a reference table computes values that could differ from node to node",
        "Give the values, or leave out ON CONFLICT; or give the table a unique key that the statement leaves alone, and no triggers: then it is computed once.",
    )
}

/// The INSERT with all columns of its rows returned, in their order.
fn returning_all(statement: NodeEnum, relation: &Relation, cx: &Context) -> Result<Text> {
    let NodeEnum::InsertStmt(mut insert) = statement else { return Err(Refusal::bare("not an INSERT")) };
    let exprs = relation.columns.iter().map(|c| build::target(build::column(&[&c.name]), None)).collect();
    insert.returning_clause = Some(ast::ReturningClause { exprs, ..Default::default() });
    cx.text(NodeEnum::InsertStmt(insert))
}
