//! INSERT into a view by a rule: the rule's row with the values that are given. Of one row they stand there as they were written, as often as the
//! rule names them, as in PostgreSQL, which evaluates them so; of several rows that must come to the same.

use std::collections::HashMap;

use catalog::Relation;
use sql::ast::{self, Node};
use sql::walk::{self, VisitMut};
use sql::{NodeEnum, build, names, search};

use super::read::{changes, is_whole, of_row, row};
use super::{Ruled, missing, of_column, position, refusal, returning};
use crate::{Context, Refusal, Result};

/// What is given for each of the view's columns.
type Given = HashMap<usize, Node>;

/// The rule's INSERT of what the statement gives.
pub fn by(s: &ast::InsertStmt, mut action: ast::InsertStmt, view: &Relation, cx: &Context) -> Result<Ruled> {
    if s.on_conflict_clause.is_some() {
        return Err(Refusal::bare(
            "INSERT with ON CONFLICT clause cannot be used with table that has INSERT or UPDATE rules",
        ));
    }
    if s.with_clause.is_some() || s.r#override > ast::OverridingKind::OverridingNotSet as i32 {
        return Err(refusal(&view.name, "with WITH queries or OVERRIDING"));
    }
    let Some(values) = row(&action) else { return Err(refusal(&view.name, "that INSERT something else than one row")) };
    if values.iter().any(|v| search::any(v, is_whole) || v.node.as_ref().is_some_and(is_whole)) {
        return Err(refusal(&view.name, "that use whole rows"));
    }
    let mut columns = vec![];
    for column in &s.cols {
        let Some(NodeEnum::ResTarget(t)) = &column.node else { return Ok(Ruled::Wrong) };
        if !t.indirection.is_empty() {
            return Err(refusal(&view.name, "that give parts of values"));
        }
        match position(view, &t.name).filter(|at| !columns.contains(at)) {
            Some(at) => columns.push(at),
            None => return Ok(Ruled::Wrong),
        }
    }
    let named = !columns.is_empty();
    if !named {
        columns = (0..view.columns.len()).collect();
    }
    let select = match s.select_stmt.as_deref().and_then(|n| n.node.as_ref()) {
        None => None,
        Some(NodeEnum::SelectStmt(select)) => Some(&**select),
        Some(_) => return Ok(Ruled::Wrong),
    };
    let rows = match select {
        None => Some(vec![vec![]]),
        Some(select) if is_values(select) => Some(select.values_lists.iter().map(items).collect::<Vec<_>>()),
        Some(_) => None,
    };
    let fits = |width: usize| if named { width == columns.len() } else { width <= columns.len() };
    let several = rows.as_ref().is_none_or(|rows| rows.len() > 1);
    let alias = s.relation.as_ref().and_then(|rv| rv.alias.as_ref());
    let called = alias.map_or(&*view.name, |a| &*a.aliasname);
    let of = returning::Of { verb: "INSERT", called, alone: true, beside: several };
    returning::put(&s.returning_clause, &mut action.returning_clause, view, of)?;
    match rows {
        Some(rows) => {
            if select.is_some() && !rows.iter().all(|row| fits(row.len())) {
                return Ok(Ruled::Wrong);
            }
            let mut lists = vec![];
            for row in &rows {
                let mut given = Given::new();
                for (at, value) in columns.iter().zip(row) {
                    if !matches!(value.node, Some(NodeEnum::SetToDefault(_))) {
                        if several && !is_constant(value) && !is_once(&values, view, *at) {
                            return Err(refusal(
                                &view.name,
                                "where several rows are given and a computed value is not just what the rule gives a column",
                            ));
                        }
                        given.insert(*at, of_column(value.clone(), view, *at, cx)?);
                    }
                }
                let list = ast::List { items: with_values(&values, view, &given, cx)? };
                lists.push(build::node(NodeEnum::List(list)));
                if let (Some(clause), false) = (&mut action.returning_clause, several) {
                    clause.exprs = with_values(&clause.exprs, view, &given, cx)?;
                }
            }
            if !values.is_empty() {
                let select = ast::SelectStmt { values_lists: lists, ..build::select() };
                action.select_stmt = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(select)))));
            }
        }
        None => {
            let Some(select) = select else { return Ok(Ruled::Wrong) };
            let width = if named {
                columns.len()
            } else {
                width(select).ok_or_else(|| refusal(&view.name, "from a SELECT whose columns are not counted"))?
            };
            if !fits(width) {
                return Ok(Ruled::Wrong);
            }
            if values.iter().any(|v| matches!(v.node, Some(NodeEnum::SetToDefault(_)))) {
                return Err(refusal(&view.name, "from a SELECT where a rule gives DEFAULT"));
            }
            if search::any(&NodeEnum::SelectStmt(Box::new(select.clone())), changes) || values.is_empty() {
                return Err(refusal(&view.name, "from WITH queries that change rows"));
            }
            let called: Vec<Node> = (0..width).map(|i| build::string(&format!("given {i}"))).collect();
            let alias = ast::Alias { aliasname: super::ROW.into(), colnames: called };
            let mut given = Given::new();
            for (i, at) in columns.iter().take(width).enumerate() {
                let value = build::column(&[super::ROW, &format!("given {i}")]);
                given.insert(*at, of_column(value, view, *at, cx)?);
            }
            let target_list = with_values(&values, view, &given, cx)?.into_iter().map(|v| build::target(v, None));
            let source = ast::SelectStmt {
                target_list: target_list.collect(),
                from_clause: vec![build::subselect(select.clone(), Some(alias), false)],
                ..build::select()
            };
            action.select_stmt = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(source)))));
        }
    }
    Ok(Ruled::Action(Box::new(NodeEnum::InsertStmt(Box::new(action)))))
}

fn is_values(select: &ast::SelectStmt) -> bool {
    let bare = ast::SelectStmt { values_lists: vec![], ..select.clone() };
    !select.values_lists.is_empty() && bare == ast::SelectStmt { limit_option: select.limit_option, ..build::select() }
}

fn items(row: &Node) -> Vec<Node> {
    match &row.node {
        Some(NodeEnum::List(row)) => row.items.clone(),
        _ => vec![],
    }
}

/// How many columns a query gives, as far as its text says.
fn width(select: &ast::SelectStmt) -> Option<usize> {
    if let Some(left) = &select.larg {
        return width(left);
    }
    if let Some(first) = select.values_lists.first() {
        return Some(items(first).len());
    }
    let star = |t: &Node| match &t.node {
        Some(NodeEnum::ResTarget(t)) => match t.val.as_deref().and_then(|v| v.node.as_ref()) {
            Some(NodeEnum::ColumnRef(c)) => names::has_star(c),
            Some(NodeEnum::AIndirection(_)) | None => true,
            _ => false,
        },
        _ => true,
    };
    (!select.target_list.iter().any(star)).then_some(select.target_list.len())
}

/// A constant or a parameter, perhaps cast.
fn is_constant(value: &Node) -> bool {
    match &value.node {
        Some(NodeEnum::AConst(_) | NodeEnum::ParamRef(_)) => true,
        Some(NodeEnum::TypeCast(c)) => c.arg.as_deref().is_some_and(is_constant),
        _ => false,
    }
}

/// The rule gives a column of NEW to one column, perhaps cast, and names it nowhere else: it is evaluated once for each row.
fn is_once(values: &[Node], view: &Relation, at: usize) -> bool {
    let is_it = |n: &NodeEnum| of_row(n).is_some_and(|(_, name)| position(view, name) == Some(at));
    let mut count = 0;
    for value in values.iter().filter_map(|v| v.node.as_ref()) {
        let mut each = |n: &NodeEnum| count += usize::from(is_it(n));
        each(value);
        search::each(value, &mut each);
    }
    count == 1 && values.iter().any(|value| below_casts(value).is_some_and(is_it))
}

fn below_casts(value: &Node) -> Option<&NodeEnum> {
    match value.node.as_ref()? {
        NodeEnum::TypeCast(c) => below_casts(c.arg.as_deref()?),
        other => Some(other),
    }
}

/// Expressions of the rule with values in the places of NEW's columns.
fn with_values(expressions: &[Node], view: &Relation, given: &Given, cx: &Context) -> Result<Vec<Node>> {
    struct Put<'p, 'c> {
        view: &'p Relation,
        given: &'p Given,
        cx: &'p Context<'c>,
        outcome: Result<()>,
    }
    impl Put<'_, '_> {
        fn value(&self, name: &str) -> Result<Node> {
            let at = position(self.view, name)
                .ok_or_else(|| refusal(&self.view.name, &format!("that name column \"{name}\"")))?;
            match self.given.get(&at) {
                Some(value) => Ok(value.clone()),
                None => of_column(missing(self.view, at)?, self.view, at, self.cx),
            }
        }
    }
    impl VisitMut for Put<'_, '_> {
        fn node(&mut self, n: &mut NodeEnum) -> bool {
            let Some((_, name)) = of_row(n) else { return true };
            match self.value(name).map(|v| v.node) {
                Ok(Some(value)) => *n = value,
                Ok(None) => {}
                Err(e) => self.outcome = Err(e),
            }
            false
        }
    }
    let mut put = Put { view, given, cx, outcome: Ok(()) };
    let mut expressions = expressions.to_vec();
    expressions.iter_mut().for_each(|e| walk::walk_mut(e, &mut put));
    put.outcome.map(|()| expressions)
}
