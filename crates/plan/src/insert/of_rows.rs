//! INSERT … SELECT whose rows come to the router, from wherever they are, and go where they belong. It does not know where that is.

use std::sync::Arc;

use catalog::Relation;
use sql::ast;
use sql::{NodeEnum, build, relations, search};

use super::{column_target, parts};
use crate::levels::Analysis;
use crate::refuse::Refusal;
use crate::tree::To;
use crate::types::*;
use crate::views::Views;
use crate::{Context, Result, rewrite, sequences, text};

/// The source is a query of its own; its rows go where they belong.
pub(crate) fn through_router(
    insert: &ast::InsertStmt,
    source: &ast::SelectStmt,
    relation: Arc<Relation>,
    mut columns: Vec<usize>,
    cx: &Context,
) -> Result<Planned> {
    if relation.is_reference()
        && let Some(column) = parts::of(insert, &columns).first()
    {
        return Err(parts::refusal(&relation, *column));
    }
    if relation.rules && relation.through.is_none() {
        return Err(Refusal::new(
            format!(
                "INSERT … SELECT of rows that several nodes have into \"{}\", a table with rules, is not supported",
                relation.name
            ),
            "Write the rows into a local or temporary table first.",
        ));
    }
    let given = parts::types(insert, &columns, &relation)?;
    let mut source = source.clone();
    let width = output_width(&source, cx);
    if insert.with_clause.is_some() {
        if source.with_clause.is_some() {
            // Each has names of its own.
            let inner = build::subselect(source, Some(build::alias("source")), false);
            let all = build::target(build::star(), None);
            source = ast::SelectStmt { target_list: vec![all], from_clause: vec![inner], ..build::select() };
        }
        source.with_clause = insert.with_clause.clone();
    }
    // Planned as a statement of its own, from its own words.
    let mut statement = NodeEnum::SelectStmt(Box::new(source));
    cx.views.fold(&mut statement);
    let source_sql = sql::deparse(&statement)?;
    let tree = sql::parse(&source_sql, true)?.pop().unwrap_or(statement);
    let names = Context { targets: &[], views: Views::default(), lists: Default::default(), ..*cx };
    let mut inner = crate::plan(&tree, &source_sql, &names)?.as_source()?;
    if insert.cols.is_empty()
        && let Some(width) = width
    {
        columns.truncate(width);
    }
    let returning = insert.returning_clause.is_some();
    if relation.distribution().is_some() {
        super::refuse_system_columns(insert)?;
    }
    let mut shell = insert.clone();
    shell.with_clause = None;
    if given.is_empty() {
        shell.cols = columns.iter().map(|c| column_target(&relation.columns[*c].name)).collect();
    }
    shell.select_stmt = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(text::rows(0))))));
    let mut statement = NodeEnum::InsertStmt(Box::new(shell));
    let (source_takes, target_uses) = (sequences::taken(&tree, cx), sequences::used(&statement, cx));
    let source_locks = search::any(&tree, |n| matches!(n, NodeEnum::LockingClause(_)));
    rewrite::replace_now(&mut statement);
    let to = To::of(&relation.placement);
    let insert = InsertRows::of(&statement)?;
    let temporary = |rv: &&ast::RangeVar| cx.is_temporary(rv);
    let reads_temporary = source_sql.contains("pg_temp") || relations::of(&tree).iter().any(temporary);
    let (search_path, temporary) = (cx.search_path.to_vec(), cx.temporary.to_vec());
    // They are read where what their functions do would not stay.
    if let Planned::Query { whole, tree } = &mut inner
        && whole.effect == Effect::MayWrite
        && whole.writes
        && tree.is_ok()
    {
        *tree = Err(Refusal::new(
            "INSERT … SELECT and CREATE TABLE AS of functions with side effects over rows of several nodes is not supported",
            "Call the functions in a query of their own, or filter every distributed table to one key value.",
        ));
    }
    let apart_views = inner.whole().apart_views.clone();
    let select = InsertSelect {
        relation,
        source: inner,
        source_sql,
        source_takes,
        source_locks,
        target_uses,
        search_path,
        temporary,
        reads_temporary,
        to,
        columns,
        parts: given,
        insert,
        returning,
        upsert: false,
    };
    let whole = Whole { template: false, apart_views, ..Whole::on_home(true) };
    Ok(Planned::Insert { whole, rows: Insert::Select(Box::new(select)), share: None })
}

pub(crate) fn output_width(source: &ast::SelectStmt, cx: &Context) -> Option<usize> {
    let mut a = Analysis::new(cx);
    let level = a.query(source).ok()?;
    a.levels[level].columns.as_ref().map(Vec::len)
}
