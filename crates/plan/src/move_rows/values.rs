//! What an UPDATE gives each column, as expressions that a DELETE of the same rows can return.
//!
//! What gives several columns at once is evaluated once for each row: DELETE returns it as one record, which is taken apart outside. It
//! does not know where rows go, nor which of the columns is a key.

use catalog::{Column, Relation};
use sql::ast::{self, Node};
use sql::{NodeEnum, build};

use crate::reads::parse_expression;
use crate::{Refusal, Result, rewrite};

/// The name of the DELETE where its records are taken apart, and what its columns' names begin with.
pub const MOVED: &str = "herd moved";

/// One column of the new row.
enum Value {
    /// An expression over the old row.
    One(Box<Node>),
    /// So many columns into that record.
    Field { record: usize, at: usize },
}

/// New rows in the making.
struct NewRows<'u> {
    u: &'u ast::UpdateStmt,
    values: Vec<Value>,
    types: Vec<String>,
    records: Vec<Record<'u>>,
}

/// What gives several columns.
struct Record<'u> {
    /// Where in SET its first column is.
    first: usize,
    source: &'u Node,
    /// The types of its columns, in order: each of a column that is written, or none of a generated one.
    types: Vec<Option<String>>,
}

/// `DELETE … RETURNING` the new values of these columns, and what goes with them.
pub fn deleted(u: &ast::UpdateStmt, relation: &Relation, columns: &[usize], beside: &[Node]) -> Result<NodeEnum> {
    let mut rows = NewRows { u, values: vec![], types: vec![], records: vec![] };
    for column in columns.iter().map(|i| &relation.columns[*i]) {
        let value = rows.value(column, relation)?;
        rows.values.push(value);
        rows.types.push(catalog::without_modifier(&column.type_name));
    }
    rows.values.extend(beside.iter().map(|value| Value::One(Box::new(value.clone()))));
    rows.statement()
}

/// What SET says of a column, and where it says so.
pub fn set<'u>(u: &'u ast::UpdateStmt, column: &str) -> Option<(usize, &'u ast::ResTarget)> {
    let targets = u.target_list.iter().enumerate();
    targets.filter_map(|(i, t)| Some((i, target(t)?))).find(|(_, t)| t.name == column)
}

/// What SET gives a column, where it says so of this column alone and gives all of it.
pub fn alone(t: &ast::ResTarget) -> Option<&Node> {
    let value = t.val.as_deref().filter(|_| t.indirection.is_empty())?;
    match value.node.as_ref()? {
        NodeEnum::MultiAssignRef(m) => match m.source.as_deref()?.node.as_ref()? {
            NodeEnum::RowExpr(row) if !row.args.iter().any(is_star) => row.args.get(usize::try_from(m.colno - 1).ok()?),
            _ => None,
        },
        _ => Some(value),
    }
}

fn target(node: &Node) -> Option<&ast::ResTarget> {
    match &node.node {
        Some(NodeEnum::ResTarget(t)) => Some(t),
        _ => None,
    }
}

impl<'u> NewRows<'u> {
    fn value(&mut self, column: &Column, relation: &Relation) -> Result<Value> {
        let shown = self.u.relation.as_ref().map_or("", |rv| rv.alias.as_ref().map_or(&rv.relname, |a| &a.aliasname));
        let Some((at, set)) = set(self.u, &column.name) else {
            return Ok(Value::One(Box::new(build::column(&[shown, &column.name]))));
        };
        if !set.indirection.is_empty() {
            return Err(Refusal::new(
                format!("setting a part of \"{}\" where the distribution key changes is not supported", column.name),
                "Set the whole value: ARRAY[…], ROW(…), jsonb_set(…).",
            ));
        }
        let value = set.val.as_deref();
        let Some(NodeEnum::MultiAssignRef(m)) = value.and_then(|v| v.node.as_ref()) else {
            return Ok(Value::One(Box::new(given(value, column)?)));
        };
        let place = usize::try_from(m.colno - 1).unwrap_or(0);
        match m.source.as_deref() {
            Some(Node { node: Some(NodeEnum::RowExpr(row)) }) if !row.args.iter().any(is_star) => {
                // One that is missing is an error of PostgreSQL's.
                Ok(Value::One(Box::new(given(row.args.get(place), column)?)))
            }
            Some(source) => {
                let first = at.saturating_sub(place);
                let record = self.record(first, source, usize::try_from(m.ncolumns).unwrap_or(1), relation)?;
                Ok(Value::Field { record, at: place })
            }
            None => Ok(Value::One(Box::new(given(None, column)?))),
        }
    }

    /// The number of what gives several columns from the `first` on.
    fn record(&mut self, first: usize, source: &'u Node, width: usize, relation: &Relation) -> Result<usize> {
        if let Some(known) = self.records.iter().position(|r| r.first == first) {
            return Ok(known);
        }
        let of = |t: &Node| {
            let column = relation.columns.iter().find(|c| target(t).is_some_and(|t| t.name == c.name))?;
            (!column.generated).then(|| catalog::without_modifier(&column.type_name))
        };
        let types = self.u.target_list.iter().skip(first).take(width).map(of).collect();
        self.records.push(Record { first, source, types });
        Ok(self.records.len() - 1)
    }

    fn statement(self) -> Result<NodeEnum> {
        let mut exprs = Vec::with_capacity(self.values.len());
        for (i, value) in self.values.iter().enumerate() {
            if let Value::One(value) = value {
                exprs.push(build::target(
                    value.as_ref().clone(),
                    (!self.records.is_empty()).then_some(&format!("{MOVED} {i}")),
                ));
            }
        }
        for (i, record) in self.records.iter().enumerate() {
            exprs.push(build::target(record.whole()?, Some(&format!("{MOVED} r{i}"))));
        }
        let mut delete = ast::DeleteStmt {
            relation: self.u.relation.clone(),
            using_clause: self.u.from_clause.clone(),
            where_clause: self.u.where_clause.clone(),
            returning_clause: Some(ast::ReturningClause { exprs, ..Default::default() }),
            with_clause: self.u.with_clause.clone(),
        };
        if self.records.is_empty() {
            return Ok(NodeEnum::DeleteStmt(Box::new(delete)));
        }
        let mut with = delete.with_clause.take().unwrap_or_default();
        with.ctes.push(build::node(NodeEnum::CommonTableExpr(Box::new(ast::CommonTableExpr {
            ctename: MOVED.into(),
            ctematerialized: ast::CteMaterialize::Default as i32,
            ctequery: Some(Box::new(build::node(NodeEnum::DeleteStmt(Box::new(delete))))),
            location: -1,
            ..Default::default()
        }))));
        let mut outer = self.outer()?;
        if let NodeEnum::SelectStmt(select) = &mut outer {
            select.with_clause = Some(with);
        }
        Ok(outer)
    }

    /// The new rows of what DELETE returned: a record of named types is what `unnest` makes of it.
    fn outer(&self) -> Result<NodeEnum> {
        let value = |(i, value): (usize, &Value)| match value {
            Value::One(_) => format!("\"{MOVED}\".\"{MOVED} {i}\""),
            Value::Field { record, at } => format!("r{record}.f{at}"),
        };
        let values: Vec<_> = self.values.iter().enumerate().map(value).collect();
        let record = |(i, r): (usize, &Record)| {
            let fields: Vec<_> = r.fields().map(|(at, t)| format!("f{at} {t}")).collect();
            format!(", LATERAL pg_catalog.unnest(ARRAY[\"{MOVED}\".\"{MOVED} r{i}\"]) AS r{i} ({})", fields.join(", "))
        };
        let records: String = self.records.iter().enumerate().map(record).collect();
        parsed(&format!("SELECT {} FROM \"{MOVED}\"{records}", values.join(", ")))
    }
}

impl Record<'_> {
    fn fields(&self) -> impl Iterator<Item = (usize, &String)> {
        self.types.iter().enumerate().filter_map(|(i, t)| Some((i, t.as_ref()?)))
    }

    /// The record as one value.
    fn whole(&self) -> Result<Node> {
        let query = match &self.source.node {
            Some(NodeEnum::SubLink(s)) => match s.subselect.as_deref().and_then(|q| q.node.as_ref()) {
                Some(NodeEnum::SelectStmt(query)) => query.as_ref().clone(),
                _ => return Err(Refusal::bare("internal: a subquery without a query")),
            },
            // With all columns of a table among its values, PostgreSQL knows how many they are.
            Some(NodeEnum::RowExpr(row)) => {
                if row.args.iter().any(|arg| matches!(arg.node, Some(NodeEnum::SetToDefault(_)))) {
                    return Err(Refusal::new(
                        "DEFAULT beside all columns of a table in SET (…) = ROW(…) is not supported where the distribution key changes",
                        "Name the columns.",
                    ));
                }
                let mut query = build::select();
                query.target_list = row.args.iter().map(|arg| build::target(arg.clone(), None)).collect();
                query
            }
            _ => {
                return Err(Refusal::bare(
                    "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
                ));
            }
        };
        let names: Vec<_> = (0..self.types.len()).map(|i| format!("f{i}")).collect();
        let casts: Vec<_> = self.fields().map(|(at, t)| format!("q.f{at}::{t}")).collect();
        let text = format!("SELECT ROW({}) FROM (SELECT 1) AS q ({})", casts.join(", "), names.join(", "));
        let NodeEnum::SelectStmt(mut select) = parsed(&text)? else {
            return Err(Refusal::bare("internal: not a query"));
        };
        if let Some(NodeEnum::RangeSubselect(from)) = select.from_clause.first_mut().and_then(|n| n.node.as_mut()) {
            from.subquery = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(query)))));
        }
        Ok(build::node(NodeEnum::SubLink(Box::new(ast::SubLink {
            sub_link_type: ast::SubLinkType::ExprSublink as i32,
            subselect: Some(Box::new(build::node(NodeEnum::SelectStmt(select)))),
            location: -1,
            ..Default::default()
        }))))
    }
}

/// A value of the column's type; DEFAULT is what it stands for.
fn given(value: Option<&Node>, column: &Column) -> Result<Node> {
    let default;
    let value = match value {
        Some(Node { node: Some(NodeEnum::SetToDefault(_)) }) => {
            default = column.default.as_deref().map_or("NULL", |d| d);
            &parse_expression(default).ok_or_else(|| Refusal::bare("internal: a default could not be read"))?
        }
        Some(value) => value,
        None => &parse_expression("NULL").ok_or_else(|| Refusal::bare("internal: NULL could not be read"))?,
    };
    rewrite::cast(value, &catalog::without_modifier(&column.type_name))
}

/// `t.*`, as one of the values of a row.
fn is_star(value: &Node) -> bool {
    rewrite::is_star(&build::target(value.clone(), None))
}

/// The only statement of a text of the router's own.
pub fn parsed(text: &str) -> Result<NodeEnum> {
    sql::parse(text, true)?.pop().ok_or_else(|| Refusal::bare("internal: an empty statement"))
}
