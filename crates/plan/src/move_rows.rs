//! An UPDATE that may change a row's key: the row is deleted where it is and inserted where it belongs, in one transaction.
//!
//! PostgreSQL does the same between partitions of one server (ExecCrossPartitionUpdate in nodeModifyTable.c), but there it
//! is still an UPDATE to triggers, foreign keys and policies. So tables whose triggers are users' own are refused, and what home says of
//! foreign keys and policies is for the executor to judge; as is what a DELETE … RETURNING can't compute. It does not know where rows go.

mod values;

use std::sync::Arc;

use catalog::Relation;
use sql::ast::{self, Node};
use sql::{NodeEnum, build, names, search};

use crate::insert::column_target;
use crate::rewrite;
use crate::text;
use crate::tree::{Part, Recipients};
use crate::types::{InsertRows, MoveRows};
use crate::{Context, Refusal, Result};

const HINT: &str = "DELETE the row and INSERT it with its new key, in one transaction.";

/// The name of the key column that the UPDATE may change, if it may.
pub fn changed_key<'u>(u: &'u ast::UpdateStmt, relation: &Relation) -> Option<&'u str> {
    let d = relation.distribution()?;
    let rv = u.relation.as_ref();
    let shown = rv.map(|rv| rv.alias.as_ref().map_or(rv.relname.as_str(), |alias| alias.aliasname.as_str()));
    u.target_list.iter().find_map(|target| {
        let Some(NodeEnum::ResTarget(t)) = &target.node else { return None };
        let key = d.key.iter().any(|k| relation.columns.get(*k).is_some_and(|c| c.name == t.name));
        // A column of that name of another table in FROM is another value.
        let same = t.val.as_deref().and_then(names::column).is_some_and(|c| match c[..] {
            [column] => column == t.name,
            [table, column] => column == t.name && Some(table) == shown,
            _ => false,
        });
        (key && !same).then_some(t.name.as_str())
    })
}

/// How the rows move.
/// `found`: the uses of tables that say where the rows are.
pub fn plan(
    u: &ast::UpdateStmt,
    relation: &Arc<Relation>,
    key: &str,
    found: Recipients,
    cx: &Context,
) -> Result<MoveRows> {
    let refuse = |why: &str| Refusal::new(format!("changing the distribution key \"{key}\" {why}"), HINT);
    if relation.triggers || relation.statement_triggers {
        return Err(refuse("of a table with triggers is not supported"));
    }
    if uses_cursor(u) {
        return Err(refuse("WHERE CURRENT OF a cursor is not supported"));
    }
    let Some(range) = &u.relation else { return Err(Refusal::bare("a write without a table")) };
    let mut statement = NodeEnum::UpdateStmt(Box::new(u.clone()));
    rewrite::replace_now(&mut statement);
    let NodeEnum::UpdateStmt(u) = statement else { return Err(Refusal::bare("not an UPDATE")) };
    let shown = range.alias.as_ref().map_or(&range.relname, |a| &a.aliasname).clone();
    let columns: Vec<usize> = (0..relation.columns.len()).filter(|i| !relation.columns[*i].generated).collect();
    let set = columns.iter().copied().filter(|i| values::set(&u, &relation.columns[*i].name).is_some()).collect();
    if let Some(returning) = &u.returning_clause
        && (!u.from_clause.is_empty() || !returning.options.is_empty() || names_old_or_new(returning))
    {
        return Err(refuse("with RETURNING of other tables, old or new is not supported"));
    }
    let mut delete = values::deleted(&u, relation, &columns)?;
    rewrite::replace_now(&mut delete);
    let mut table = build::range_var(&relation.schema, &relation.name, Some(&shown));
    let Some(NodeEnum::RangeVar(table)) = table.node.take() else { return Err(Refusal::bare("not a table")) };
    let insert = ast::InsertStmt {
        relation: Some(table),
        cols: columns.iter().map(|i| column_target(&relation.columns[*i].name)).collect(),
        select_stmt: Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(text::rows(0)))))),
        returning_clause: u.returning_clause.clone(),
        r#override: ast::OverridingKind::OverridingSystemValue as i32,
        ..Default::default()
    };
    Ok(MoveRows {
        delete: Part { text: cx.text(delete)?, target: found, columns: None },
        insert: InsertRows::of(&NodeEnum::InsertStmt(Box::new(insert)))?,
        columns,
        set,
        relation: relation.clone(),
    })
}

fn uses_cursor(u: &ast::UpdateStmt) -> bool {
    matches!(u.where_clause.as_deref(), Some(Node { node: Some(NodeEnum::CurrentOfExpr(_)) }))
}

/// PostgreSQL 18's `old` and `new` mean something else in an INSERT.
fn names_old_or_new(returning: &ast::ReturningClause) -> bool {
    let mut select = build::select();
    select.target_list = returning.exprs.clone();
    search::any(&select, |n| match n {
        NodeEnum::ColumnRef(c) => {
            c.fields.len() > 1 && matches!(names::strings(&c.fields).first(), Some(&("old" | "new")))
        }
        _ => false,
    })
}
