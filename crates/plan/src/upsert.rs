//! `herd.upsert`: an INSERT's rows replace those with their primary key, columns that are not given included.
//!
//! It becomes INSERT … ON CONFLICT (primary key) DO UPDATE SET every other column = EXCLUDED's. PostgreSQL refuses to
//! touch a row twice in one statement, so where several rows could have the same key they are made a SELECT, of whose
//! equal rows the last is taken: on home in the statement itself, elsewhere by whoever sends the rows.
//! It does not know how rows travel.

use std::collections::HashSet;

use catalog::{Column, Relation, RelationKind};
use sql::ast::{self, Node};
use sql::{NodeEnum, search};

use crate::insert::{column_target, list_items, output_width, parts, target_columns, through_router};
use crate::keys;
use crate::refuse::Refusal;
use crate::types::{Insert, KeyExpr, LiteralKind, Planned};
use crate::{Context, Result};
use wire::type_oid;

/// The plan of an INSERT whose rows replace others; `None`: it is an INSERT like any other.
pub fn plan(insert: &ast::InsertStmt, cx: &Context) -> Result<Option<Planned>> {
    // Who says ON CONFLICT has said what he wants.
    let (None, Some(rv)) = (&insert.on_conflict_clause, &insert.relation) else { return Ok(None) };
    let Some(relation) = cx.relation(rv).cloned() else { return Ok(None) };
    let Some(clause) = on_conflict(&relation)? else { return Ok(None) };
    if insert.returning_clause.is_some() && clause.ends_with("DO NOTHING") {
        return Err(off(
            "RETURNING with herd.upsert from a table of key columns alone is not supported",
            "Write ON CONFLICT yourself",
        ));
    }
    if insert.r#override == ast::OverridingKind::OverridingUserValue as i32 {
        return Err(off("OVERRIDING USER VALUE with herd.upsert is not supported", "Leave the column out"));
    }
    let mut new = insert.clone();
    new.on_conflict_clause = parsed_clause(&clause)?;
    let source = match insert.select_stmt.as_deref().and_then(|s| s.node.as_ref()) {
        Some(NodeEnum::SelectStmt(s)) => Some(s.as_ref()),
        _ => None,
    };
    let mut columns = target_columns(insert, &relation)?;
    if !parts::of(insert, &columns).is_empty() {
        return Err(off("giving parts of values with herd.upsert is not supported", "Give whole values"));
    }
    let rows = source.filter(|s| !s.values_lists.is_empty() && s.sort_clause.is_empty() && s.limit_count.is_none());
    let lists: Option<Vec<Vec<Node>>> = rows.map(|s| s.values_lists.iter().map(list_items).collect());
    let alone = match &lists {
        Some(lists) => lists.len() == 1 || are_distinct(lists, &columns, &relation),
        None => source.is_none(),
    };
    if alone {
        let plan = as_written(new.clone(), cx)?;
        // Copies of a reference table get finished rows, where PostgreSQL would compute some for each copy.
        let computed = matches!(&plan, Planned::Insert { rows: Insert::Copies(w), .. } if w.everywhere.is_err());
        if !computed || lists.is_none() {
            return Ok(Some(plan));
        }
    }
    if let Some(lists) = &lists {
        let width = lists[0].len();
        if width > columns.len() || lists.iter().any(|l| l.len() != width) {
            // PostgreSQL says what is wrong with it.
            return as_written(new, cx).map(Some);
        }
        columns.truncate(width);
        let mut lists = lists.clone();
        for i in computed_by_nodes(&columns, &relation) {
            columns.push(i);
            lists.iter_mut().for_each(|l| l.push(sql::build::node(NodeEnum::SetToDefault(Box::default()))));
        }
        new.select_stmt = Some(Box::new(sql::build::node(values_select(&lists, &columns, &relation)?)));
    } else if insert.cols.is_empty()
        && let Some(width) = source.and_then(|s| output_width(s, cx))
    {
        columns.truncate(width);
    }
    new.cols = columns.iter().map(|c| column_target(&relation.columns[*c].name)).collect();
    // What is wrong with the statement itself is found here.
    let plain = as_written(new.clone(), cx)?;
    if matches!(plain, Planned::Forward(_)) {
        return on_home(new, &columns, &relation, cx).map(Some);
    }
    if lists.is_none_or(|l| l.len() > 1) {
        key_is_given(&columns, &relation)?;
    }
    if let Some(i) = computed_by_nodes(&columns, &relation).first() {
        return Err(off(
            format!(
                "herd.upsert needs a value for column \"{}\", whose default could differ from copy to copy",
                relation.columns[*i].name
            ),
            "Give the value",
        ));
    }
    let mut plan = match plain {
        Planned::Insert { rows: Insert::Select(_), .. } => plain,
        _ => {
            let Some(NodeEnum::SelectStmt(s)) = new.select_stmt.as_deref().and_then(|s| s.node.clone()) else {
                return Err(Refusal::bare("internal: an INSERT without a source"));
            };
            through_router(&new, &s, relation.clone(), columns, cx)?
        }
    };
    if let Planned::Insert { rows: Insert::Select(select), .. } = &mut plan {
        select.upsert = true;
    }
    plan.whole_mut().rewritten = None;
    Ok(Some(plan))
}

/// `ON CONFLICT (…) DO …` for rows that replace others; `None` without a primary key.
pub fn on_conflict(relation: &Relation) -> Result<Option<String>> {
    if relation.kind == RelationKind::View || relation.kind == RelationKind::ForeignTable {
        return Err(off(
            format!("herd.upsert does not reach through \"{}\", which is not a table", relation.name),
            "INSERT into the table itself",
        ));
    }
    let Some(key) = relation.unique.iter().find(|u| u.primary) else { return Ok(None) };
    if relation.triggers || relation.statement_triggers {
        return Err(off(
            format!("herd.upsert for table \"{}\", which has triggers or rules, is not supported", relation.name),
            "Write ON CONFLICT yourself",
        ));
    }
    let name = |c: &Column| catalog::quote_ident(&c.name);
    let keys: Vec<String> = key.columns.iter().map(|c| name(&relation.columns[*c])).collect();
    let others: Vec<&Column> = relation
        .columns
        .iter()
        .enumerate()
        .filter(|(i, c)| !key.columns.contains(i) && !c.generated)
        .map(|(_, c)| c)
        .collect();
    if let Some(always) = others.iter().find(|c| c.identity == b'a') {
        return Err(off(
            format!("herd.upsert can't replace column \"{}\", which is GENERATED ALWAYS AS IDENTITY", always.name),
            "Make it GENERATED BY DEFAULT, or write ON CONFLICT yourself",
        ));
    }
    let keys = keys.join(", ");
    Ok(Some(match others.is_empty() {
        true => format!("ON CONFLICT ({keys}) DO NOTHING"),
        false => {
            let sets: Vec<String> = others.iter().map(|c| format!("{0} = excluded.{0}", name(c))).collect();
            format!("ON CONFLICT ({keys}) DO UPDATE SET {}", sets.join(", "))
        }
    }))
}

/// INSERTs inside WITH are not looked into.
pub fn refuse_nested(statement: &NodeEnum) -> Result<()> {
    let plain = |n: &NodeEnum| matches!(n, NodeEnum::InsertStmt(i) if i.on_conflict_clause.is_none());
    match search::any(statement, plain) {
        true => Err(off("herd.upsert with an INSERT inside another statement is not supported", "Run it by itself")),
        false => Ok(()),
    }
}

fn off(message: impl Into<String>, instead: &str) -> Refusal {
    Refusal::new(message, format!("{instead}, or set herd.upsert = off."))
}

fn parsed_clause(clause: &str) -> Result<Option<Box<ast::OnConflictClause>>> {
    match sql::parse(&format!("INSERT INTO t DEFAULT VALUES {clause}"), true)?.pop() {
        Some(NodeEnum::InsertStmt(i)) => Ok(i.on_conflict_clause),
        _ => Err(Refusal::bare("internal: ON CONFLICT could not be written")),
    }
}

/// The statement itself, planned as if the client had written it so.
fn as_written(insert: ast::InsertStmt, cx: &Context) -> Result<Planned> {
    let text = sql::deparse(&NodeEnum::InsertStmt(Box::new(insert)))?;
    let tree = sql::parse(&text, true)?.pop().ok_or_else(|| Refusal::bare("internal: an empty statement"))?;
    let mut plan = crate::plan(&tree, &text, cx)?;
    let whole = plan.whole_mut();
    (whole.template, whole.share, whole.rewritten) = (false, None, Some(text));
    Ok(plan)
}

/// All of it on home, in one statement.
fn on_home(mut insert: ast::InsertStmt, columns: &[usize], relation: &Relation, cx: &Context) -> Result<Planned> {
    let Some(mut source) = insert.select_stmt.take() else { return as_written(insert, cx) };
    // WITH belongs to the source, which is not the whole of the statement any more.
    if let (Some(with), Some(NodeEnum::SelectStmt(s))) = (insert.with_clause.take(), &mut source.node) {
        match &mut s.with_clause {
            Some(own) => {
                own.recursive |= with.recursive;
                own.ctes.splice(0..0, with.ctes);
            }
            None => s.with_clause = Some(with),
        }
    }
    let Some(source) = source.node else { return as_written(insert, cx) };
    let source = sql::deparse(&source)?;
    let key = relation.unique.iter().find(|u| u.primary).map(|u| &u.columns[..]).unwrap_or_default();
    let given: Option<Vec<String>> =
        key.iter().map(|k| columns.iter().position(|c| c == k).map(|i| format!("c{i}"))).collect();
    if given.is_none() && !key.iter().any(|k| !columns.contains(k) && relation.columns[*k].sequence.is_some()) {
        key_is_given(columns, relation)?;
    }
    let all: Vec<String> = (0..columns.len()).map(|i| format!("c{i}")).collect();
    let all = all.join(", ");
    let cast = |(i, c): (usize, &usize)| {
        format!("s.c{i}::{} AS c{i}", catalog::without_modifier(&relation.columns[*c].type_name))
    };
    let casts: Vec<String> = columns.iter().enumerate().map(cast).collect();
    let rows =
        format!("SELECT {}, pg_catalog.row_number() OVER () AS o FROM ({source}) AS s ({all})", casts.join(", "));
    // A key with a column from a sequence is there once.
    let rows = match given {
        Some(key) => {
            let key = key.join(", ");
            format!("SELECT DISTINCT ON ({key}) * FROM ({rows}) AS r ORDER BY {key}, o DESC")
        }
        None => rows,
    };
    let select = sql::parse(&format!("SELECT {all} FROM ({rows}) AS p ORDER BY o"), true)?.pop();
    insert.select_stmt = select.map(|s| Box::new(sql::build::node(s)));
    as_written(insert, cx)
}

/// Equal rows can be told only if their keys are known before PostgreSQL fills in defaults.
fn key_is_given(columns: &[usize], relation: &Relation) -> Result<()> {
    let key = relation.unique.iter().find(|u| u.primary).map(|u| &u.columns[..]).unwrap_or_default();
    let missing = |k: &&usize| {
        let c = &relation.columns[**k];
        !columns.contains(*k) && c.sequence.is_none() && c.default.is_some()
    };
    match key.iter().find(missing) {
        None => Ok(()),
        Some(k) => Err(off(
            format!("herd.upsert needs a value for key column \"{}\" in each row", relation.columns[*k].name),
            "Give the value",
        )),
    }
}

/// Columns left out whose default each copy of a reference table would compute by itself.
fn computed_by_nodes(columns: &[usize], relation: &Relation) -> Vec<usize> {
    let computed = |c: &Column| {
        let expression = c.default.as_deref().filter(|_| c.sequence.is_none());
        expression.is_some_and(|d| !matches!(sql::parse(&format!("SELECT {d}"), true), Ok(s) if is_constant(&s)))
    };
    let left_out = (0..relation.columns.len()).filter(|i| !columns.contains(i));
    left_out.filter(|i| relation.is_reference() && computed(&relation.columns[*i])).collect()
}

fn is_constant(statements: &[NodeEnum]) -> bool {
    fn constant(node: Option<&Node>) -> bool {
        match node.and_then(|n| n.node.as_ref()) {
            Some(NodeEnum::AConst(_)) => true,
            Some(NodeEnum::TypeCast(t)) => constant(t.arg.as_deref()),
            _ => false,
        }
    }
    let [NodeEnum::SelectStmt(s)] = statements else { return false };
    constant(s.target_list.first().and_then(crate::rewrite::target_value))
}

/// Rows of VALUES as a SELECT whose columns have the target's types; DEFAULT becomes what it stands for.
fn values_select(lists: &[Vec<Node>], columns: &[usize], relation: &Relation) -> Result<NodeEnum> {
    let mut rows = Vec::with_capacity(lists.len());
    for list in lists {
        let mut values = Vec::with_capacity(list.len());
        for (value, column) in list.iter().zip(columns) {
            let c = &relation.columns[*column];
            let text = match (&value.node, &c.sequence, &c.default) {
                (Some(NodeEnum::SetToDefault(_)), Some(s), _) => {
                    format!("pg_catalog.nextval({}::pg_catalog.regclass)", catalog::quote_literal(s))
                }
                (Some(NodeEnum::SetToDefault(_)), None, Some(default)) => match crate::reads::parse_expression(default)
                {
                    Some(default) => sql::deparse_expr(&default)?,
                    None => return Err(Refusal::bare("internal: a default could not be read")),
                },
                (Some(NodeEnum::SetToDefault(_)), None, None) => "NULL".into(),
                _ => sql::deparse_expr(value)?,
            };
            values.push(format!("({text})::{}", catalog::without_modifier(&c.type_name)));
        }
        rows.push(format!("({})", values.join(", ")));
    }
    let names: Vec<String> = (0..columns.len()).map(|i| format!("c{i}")).collect();
    let names = names.join(", ");
    let text = format!("SELECT {names} FROM (VALUES {}) AS v ({names})", rows.join(", "));
    sql::parse(&text, true)?.pop().ok_or_else(|| Refusal::bare("internal: VALUES could not be rewritten"))
}

/// No two rows have the same key, as far as one can see without a server: some key column is a different constant in each.
fn are_distinct(lists: &[Vec<Node>], columns: &[usize], relation: &Relation) -> bool {
    let key = relation.unique.iter().find(|u| u.primary).map(|u| &u.columns[..]).unwrap_or_default();
    key.iter().filter_map(|k| columns.iter().position(|c| c == k)).any(|at| {
        let column = &relation.columns[columns[at]];
        let mut seen = HashSet::with_capacity(lists.len());
        lists.iter().all(|l| l.get(at).and_then(|v| constant(v, column)).is_some_and(|v| seen.insert(v)))
    })
}

/// A constant in a form in which equal values of the column's type are equal.
fn constant(value: &Node, column: &Column) -> Option<String> {
    match keys::constant(value)? {
        KeyExpr::Literal { cast: Some(cast), .. } if !keys::is_kept(cast, column.type_oid) => None,
        KeyExpr::Literal { text, kind, .. } if type_oid::is_integer(column.type_oid) => match kind {
            LiteralKind::Number | LiteralKind::String => text.trim().parse::<i64>().ok().map(|n| n.to_string()),
        },
        KeyExpr::Literal { text, kind: LiteralKind::String, .. }
            if column.type_oid == type_oid::TEXT && column.collation_is_bytes =>
        {
            Some(text)
        }
        _ => None,
    }
}
