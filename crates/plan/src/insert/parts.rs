//! INSERT of elements, slices and fields: `(list[1], list[2], place.street)`. It does not know where rows go.

use catalog::Relation;
use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, search};

use super::column_target;
use crate::reads::parse_expression;
use crate::text::Text;
use crate::{Context, Refusal, Result, needs};

/// The columns of which a part is given. `columns`: those that are named.
pub fn of(insert: &ast::InsertStmt, columns: &[usize]) -> Vec<usize> {
    let is_part = |n: &Node| matches!(&n.node, Some(NodeEnum::ResTarget(t)) if !t.indirection.is_empty());
    insert.cols.iter().zip(columns).filter(|(target, _)| is_part(target)).map(|(_, column)| *column).collect()
}

/// The list of columns: `width` of them as the client has named them, the others by their names.
pub fn targets(insert: &ast::InsertStmt, columns: &[usize], width: usize, relation: &Relation) -> Vec<Node> {
    let named = insert.cols.iter().take(width);
    let filled = columns.iter().skip(named.len()).map(|c| column_target(&relation.columns[*c].name));
    named.cloned().chain(filled).collect()
}

/// Subscripts that nodes would compute from what only some of them have.
pub fn refuse_subscripts(insert: &ast::InsertStmt, cx: &Context) -> Result<()> {
    for part in
        insert.cols.iter().filter(|n| matches!(&n.node, Some(NodeEnum::ResTarget(t)) if !t.indirection.is_empty()))
    {
        let reads = search::any(part, |n| matches!(n, NodeEnum::SubLink(_)));
        let code = needs::find(part, cx, |n| n.home || n.herd).map(|need| need.what);
        if let Some(what) = reads.then(|| "a subquery".to_string()).or(code) {
            return Err(Refusal::new(
                format!("{what} in the subscript of a column that an INSERT gives a part of is not supported"),
                "Select the value first and pass it as a parameter.",
            ));
        }
    }
    Ok(())
}

/// The refusal of a part where the whole value is needed.
pub fn refusal(relation: &Relation, column: usize) -> Refusal {
    Refusal::new(
        format!("giving a part of a value to column \"{}\" is not supported here", relation.columns[column].name),
        "Give the whole value: ARRAY[…], ROW(…), jsonb_build_object(…).",
    )
}

/// The list of columns as it is written in a statement.
pub fn written(cols: &[Node]) -> Result<Text> {
    if cols.is_empty() {
        return Ok(Text::default());
    }
    let insert = ast::InsertStmt {
        relation: Some(ast::RangeVar {
            relname: "t".into(),
            inh: true,
            relpersistence: "p".into(),
            ..Default::default()
        }),
        cols: cols.to_vec(),
        r#override: ast::OverridingKind::OverridingNotSet as i32,
        ..Default::default()
    };
    let sql = sql::deparse(&NodeEnum::InsertStmt(Box::new(insert)))?;
    let list = sql.strip_prefix("INSERT INTO t (").and_then(|rest| rest.strip_suffix(") DEFAULT VALUES"));
    Text::cut(list.ok_or_else(|| Refusal::bare("internal: a list of columns could not be read"))?, true)
}

/// Expressions of the types that parts have, by their places among `columns`.
pub fn types(insert: &ast::InsertStmt, columns: &[usize], relation: &Relation) -> Result<Vec<(usize, String)>> {
    let mut parts = vec![];
    for (at, (target, column)) in insert.cols.iter().zip(columns).enumerate() {
        let Some(NodeEnum::ResTarget(t)) = &target.node else { continue };
        if t.indirection.is_empty() {
            continue;
        }
        let whole =
            parse_expression(&format!("NULL::{}", catalog::without_modifier(&relation.columns[*column].type_name)));
        let mut part = build::node(NodeEnum::AIndirection(Box::new(ast::AIndirection {
            arg: whole.map(Box::new),
            indirection: t.indirection.clone(),
        })));
        walk::walk_mut(&mut part, &mut AnyPlace);
        parts.push((at, sql::deparse_expr(&part)?));
    }
    Ok(parts)
}

/// Which element it is does not matter for its type.
struct AnyPlace;

impl VisitMut for AnyPlace {
    fn node(&mut self, n: &mut NodeEnum) -> bool {
        if let NodeEnum::AIndices(i) = n {
            for place in [&mut i.lidx, &mut i.uidx].into_iter().flatten() {
                **place = build::integer(1);
            }
        }
        true
    }
}
