//! What an UPDATE that moves rows returns of other things than its new rows: of tables that it is joined with, and of its rows as they were.
//!
//! What such columns are is known where the rows are deleted, and what has become of the new rows where they are inserted. So the DELETE
//! returns these columns behind the new row's, and they go with it; the INSERT is one of the WITH queries of a statement that puts both side by
//! side, row by row, and computes what is returned. Rows of an INSERT … SELECT come back in the order in which they went. It does not
//! know where rows go.

use std::collections::HashMap;

use catalog::Relation;
use sql::ast::{self, Node};
use sql::{NodeEnum, build, names};

use super::values::{MOVED, parsed};
use crate::scope::{self, Scope};
use crate::{Refusal, Result, compose, rewrite, text};

/// The WITH query that inserts.
const PUT: &str = "herd put";
/// The columns by whose order rows belong together.
const NUMBER: &str = "n";

/// RETURNING taken apart.
pub struct Beside {
    /// What goes with the new rows, behind their columns.
    pub columns: Vec<Node>,
    /// What the INSERT returns.
    put: Vec<Node>,
    /// What the client gets of both.
    targets: Vec<Node>,
}

/// Takes a RETURNING apart that names more than new rows. `width`: so many columns new rows have.
pub fn beside(
    u: &ast::UpdateStmt,
    returning: &ast::ReturningClause,
    relation: &Relation,
    scope: &Scope,
    width: usize,
) -> Result<Beside> {
    if returning.exprs.iter().any(compose::has_sublink) {
        return Err(refusal("subqueries"));
    }
    let rv = u.relation.as_ref();
    let shown = rv.map_or("", |rv| rv.alias.as_ref().map_or(&rv.relname, |alias| &alias.aliasname));
    let mut columns =
        Columns { scope, shown, names: Names::of(returning), width, known: HashMap::new(), out: Beside::none() };
    for target in &returning.exprs {
        match rewrite::is_star(target) {
            true => columns.star(target, relation)?,
            false => columns.target(target)?,
        }
    }
    Ok(columns.out)
}

fn refusal(what: &str) -> Refusal {
    Refusal::new(
        format!(
            "changing the distribution key with RETURNING of other tables, old or new beside {what} is not supported"
        ),
        "Name the columns; or DELETE the row and INSERT it with its new key, in one transaction.",
    )
}

/// What RETURNING calls the rows before and after the change, from PostgreSQL 18 on.
struct Names {
    old: String,
    new: String,
}

impl Names {
    fn of(returning: &ast::ReturningClause) -> Self {
        let mut names = Names { old: "old".into(), new: "new".into() };
        for option in &returning.options {
            let Some(NodeEnum::ReturningOption(o)) = &option.node else { continue };
            match o.option == ast::ReturningOptionKind::ReturningOptionOld as i32 {
                true => names.old.clone_from(&o.value),
                false => names.new.clone_from(&o.value),
            }
        }
        names
    }
}

struct Columns<'u> {
    scope: &'u Scope<'u>,
    /// What the changed table is called.
    shown: &'u str,
    names: Names,
    width: usize,
    /// What stands for a reference.
    known: HashMap<Vec<String>, Node>,
    out: Beside,
}

/// Whose a column is.
enum Whose {
    New,
    /// The whole new row.
    Row,
    Old,
    Others,
}

impl Columns<'_> {
    fn star(&mut self, target: &Node, relation: &Relation) -> Result<()> {
        let Some(NodeEnum::ColumnRef(c)) = rewrite::target_value(target).and_then(|v| v.node.as_ref()) else {
            return Err(refusal("whole rows"));
        };
        let own = || relation.columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
        let all: Vec<(String, Vec<String>)> = match names::strings(&c.fields)[..] {
            [] if self.scope.merged.is_empty() && !self.scope.items.iter().any(|i| i.opaque) => {
                let others = self.scope.items.iter().skip(1);
                let named =
                    |i: &scope::Item| (i.alias.clone(), i.columns.iter().map(|(name, _)| name.clone()).collect());
                std::iter::once((self.shown.to_string(), own())).chain(others.map(named)).collect()
            }
            [table] => match self.item(table) {
                Some(0) => vec![(table.to_string(), own())],
                Some(at) if !self.scope.items[at].opaque => {
                    vec![(table.into(), self.scope.items[at].columns.iter().map(|(name, _)| name.clone()).collect())]
                }
                None if table == self.names.old || table == self.names.new => vec![(table.into(), own())],
                _ => return Err(refusal("all columns of what is no table")),
            },
            _ => return Err(refusal("all columns of joins and functions")),
        };
        for (table, columns) in all {
            for column in columns {
                let value = self.column(&[&table, &column])?;
                self.out.targets.push(build::target(value, None));
            }
        }
        Ok(())
    }

    fn target(&mut self, target: &Node) -> Result<()> {
        let mut select = build::select();
        select.target_list = vec![target.clone()];
        let mut tree = NodeEnum::SelectStmt(Box::new(select));
        let mut failed = None;
        sql::search::each_mut(&mut tree, |n| match n {
            // A place of a text, not a column.
            NodeEnum::ColumnRef(c) if text::is_mark(c) => false,
            NodeEnum::ColumnRef(c) => {
                let parts = names::strings(&c.fields);
                let value = match parts.len() == c.fields.len() {
                    true => self.column(&parts),
                    false => Err(refusal("whole rows")),
                };
                match value {
                    Ok(Node { node: Some(value) }) => *n = value,
                    Ok(_) => {}
                    Err(e) => failed = Some(e),
                }
                false
            }
            _ => true,
        });
        let NodeEnum::SelectStmt(select) = tree else { return Err(refusal("whole rows")) };
        self.out.targets.extend(select.target_list);
        failed.map_or(Ok(()), Err)
    }

    fn item(&self, alias: &str) -> Option<usize> {
        self.scope.items.iter().position(|i| i.alias == alias)
    }

    fn whose(&self, parts: &[&str]) -> Result<Whose> {
        if parts.last().is_some_and(|column| scope::is_system(column)) {
            return Err(refusal("system columns"));
        }
        match (parts, self.scope.place(parts)) {
            (_, Some((0, 0, _))) => Ok(Whose::New),
            (_, Some((0, ..))) => Ok(Whose::Others),
            ([column], None) if self.scope.merged.contains_key(*column) => Ok(Whose::Others),
            // Of what has columns that are not known, or nobody's, as home will say.
            ([name], None) if self.item(name).is_none() && *name != self.names.old && *name != self.names.new => {
                Ok(Whose::Others)
            }
            ([name], None) if self.item(name) == Some(0) && !self.scope.items.iter().any(|i| i.opaque) => {
                Ok(Whose::Row)
            }
            ([table, _], None) => match self.item(table) {
                Some(at) if at > 0 => Ok(Whose::Others),
                None if *table == self.names.old => Ok(Whose::Old),
                None if *table == self.names.new => Ok(Whose::New),
                _ => Err(refusal("what is no column of theirs")),
            },
            _ => Err(refusal("whole rows")),
        }
    }

    /// What stands for a column.
    fn column(&mut self, parts: &[&str]) -> Result<Node> {
        let name: Vec<String> = parts.iter().map(|p| p.to_string()).collect();
        if let Some(known) = self.known.get(&name) {
            return Ok(known.clone());
        }
        let own = |shown: &str| build::column(&[shown, parts.last().copied().unwrap_or_default()]);
        let value = match self.whose(parts)? {
            Whose::New => self.put(own(self.shown)),
            Whose::Row => self.put(build::column(&[self.shown])),
            Whose::Old => self.carried(own(self.shown)),
            Whose::Others => self.carried(build::column(parts)),
        };
        self.known.insert(name, value.clone());
        Ok(value)
    }

    fn put(&mut self, value: Node) -> Node {
        let name = format!("c{}", self.out.put.len());
        self.out.put.push(build::target(value, Some(&name)));
        build::column(&[PUT, &name])
    }

    fn carried(&mut self, value: Node) -> Node {
        let name = format!("c{}", self.width + self.out.columns.len());
        self.out.columns.push(value);
        build::column(&[MOVED, &name])
    }
}

impl Beside {
    fn none() -> Self {
        Beside { columns: vec![], put: vec![], targets: vec![] }
    }

    /// The statement that inserts child 0's rows, of so many columns, and gives what is returned. `insert`: with its own rows.
    pub fn statement(mut self, mut insert: ast::InsertStmt, width: usize) -> Result<NodeEnum> {
        if self.put.is_empty() {
            // Something has to come back of each row.
            self.put.push(build::target(build::integer(0), Some("c0")));
        }
        let mut source = build::select();
        let given = |i: usize| build::target(build::column(&[MOVED, &format!("c{i}")]), None);
        source.target_list = (0..width).map(given).collect();
        source.from_clause = vec![build::range_var("", MOVED, None)];
        insert.select_stmt = Some(Box::new(build::node(NodeEnum::SelectStmt(Box::new(source)))));
        insert.returning_clause = Some(ast::ReturningClause { exprs: self.put, ..Default::default() });
        let numbered =
            |of: &str| format!("(SELECT *, pg_catalog.row_number() OVER () AS {NUMBER} FROM \"{of}\") AS \"{of}\"");
        let mut whole = parsed(&format!(
            "WITH \"{MOVED}\" AS MATERIALIZED (SELECT 1), \"{PUT}\" AS (SELECT 1) SELECT FROM {} JOIN {} \
             ON \"{MOVED}\".{NUMBER} OPERATOR(pg_catalog.=) \"{PUT}\".{NUMBER} ORDER BY \"{MOVED}\".{NUMBER}",
            numbered(MOVED),
            numbered(PUT)
        ))?;
        let rows = NodeEnum::SelectStmt(Box::new(text::rows(0)));
        if let NodeEnum::SelectStmt(select) = &mut whole {
            select.target_list = self.targets;
            let queries = select.with_clause.iter_mut().flat_map(|w| &mut w.ctes);
            for (query, body) in queries.zip([rows, NodeEnum::InsertStmt(Box::new(insert))]) {
                if let Some(NodeEnum::CommonTableExpr(query)) = &mut query.node {
                    query.ctequery = Some(Box::new(build::node(body)));
                }
            }
        }
        Ok(whole)
    }
}
