//! An UPDATE that sets a key, and may find that it sets it to what it is: as programs do that write all columns of a row by its id.
//!
//! Then no row moves, and the statement is like any other, whatever hangs on the table. So where rows can't be moved it is tried in place,
//! with a condition that fails where a row's key would change: what it finds is what PostgreSQL looks at once more where it has waited
//! for a row, so nobody need be held off. It does not know what the refusal is that such a failure stands for.

use catalog::Relation;
use sql::ast::{self, Node};
use sql::{NodeEnum, build};

use super::values;
use crate::levels::Analysis;
use crate::{Result, compose, rewrite};

/// What is no boolean: PostgreSQL's error has it.
pub const KEY_CHANGES: &str = "herd: the distribution key changes ";

/// The statement with that condition; `None`: what it sets the key to is not to be evaluated more than once.
pub fn in_place(u: &ast::UpdateStmt, relation: &Relation, a: &Analysis) -> Result<Option<NodeEnum>> {
    let Some(d) = relation.distribution() else { return Ok(None) };
    if a.levels.iter().any(|l| l.volatile) || super::uses_cursor(u) {
        return Ok(None);
    }
    let shown = u.relation.as_ref().map_or("", |rv| rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname));
    let mut same = vec![];
    for column in d.key.iter().filter_map(|k| relation.columns.get(*k)) {
        let Some((_, set)) = values::set(u, &column.name) else { continue };
        let Some(value) = values::alone(set) else { return Ok(None) };
        if matches!(value.node, Some(NodeEnum::SetToDefault(_))) || compose::has_sublink(value) {
            return Ok(None);
        }
        let value = rewrite::cast(value, &catalog::without_modifier(&column.type_name))?;
        let key = || build::column(&[shown, &column.name]);
        let nulls = build::and(vec![is_null(key()), is_null(value.clone())]);
        same.push(build::or(vec![build::own_operator("=", key(), value), nulls]));
    }
    let all = build::and(same);
    // It depends on the row, so that nobody evaluates it before there is one.
    let fails = build::cast(build::own_call("concat", vec![build::text(KEY_CHANGES), all.clone()]), "bool");
    let truth = |word: &str| build::cast(build::text(word), "bool");
    let guard = otherwise(all, truth("true"), fails);
    let mut u = u.clone();
    let found = u.where_clause.take().map(|condition| *condition);
    let condition = match found {
        None => guard,
        // Only of rows that it finds: conditions are looked at in any order.
        Some(found) => build::and(vec![found.clone(), otherwise(found, guard, truth("false"))]),
    };
    u.where_clause = Some(Box::new(condition));
    let mut statement = NodeEnum::UpdateStmt(Box::new(u));
    rewrite::replace_now(&mut statement);
    Ok(Some(statement))
}

fn is_null(value: Node) -> Node {
    build::node(NodeEnum::NullTest(Box::new(ast::NullTest {
        arg: Some(Box::new(value)),
        nulltesttype: ast::NullTestType::IsNull as i32,
        location: -1,
        ..Default::default()
    })))
}

/// `CASE WHEN condition THEN value ELSE other END`
fn otherwise(condition: Node, value: Node, other: Node) -> Node {
    let mut case = build::when(condition, value);
    if let NodeEnum::CaseExpr(case) = &mut case {
        case.defresult = Some(Box::new(other));
    }
    build::node(case)
}
