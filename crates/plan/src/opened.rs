//! Views that no node can read by itself are replaced by their queries before anything is planned: temporary ones over distributed and
//! reference tables, and those over distributed and local tables, which only home has (there nobody reads them by their names,
//! `sql/src/read_whole.rs`), and those whose queries run code that uses tables of several nodes: what can be done with a call in a statement is
//! done with theirs.
//!
//! Their tables are read with the rights of who asks. Of a temporary one that must be its owner; another's query asks for the right to the
//! view besides, and what could show more (or less) than the view does is refused. It does not know other views (`views.rs`), nor
//! how these are made (`ddl/create.rs`).

mod whole_rows;

pub use whole_rows::of_any_row;

use std::sync::Arc;

use catalog::{Relation, RelationKind, TemporaryView};
use sql::ast::{self, RangeVar};
use sql::{NodeEnum, build, names, own, read_whole, relations, search, weight};
use wire::sqlstate;

use crate::{Context, Refusal, Result, views};

/// Views within views.
const DEPTH_MAX: usize = 64;
/// Views put into one statement, and their texts together, in bytes.
const EXPANSIONS_MAX: usize = 1000;
const BYTES_MAX: usize = 16 << 20;
/// What reading them may take, in bytes.
const WEIGHT_MAX: usize = 512 << 20;
/// What a view is called where it is named for the right to it alone.
const ASKED: &str = "herd: asked for the right to it";

/// The temporary view over the herd's tables that a name means.
pub fn temporary<'a>(rv: &RangeVar, cx: &Context<'a>) -> Option<&'a Arc<TemporaryView>> {
    let mut views = cx.temporary.iter().filter(|t| t.view.is_some());
    let found = match rv.schemaname.as_str() {
        "" => views.find(|t| **t == *rv.relname),
        "pg_temp" => views.find(|t| t.name == rv.relname),
        _ => None,
    };
    found?.view.as_ref()
}

/// The permanent view of these that a name means.
fn permanent<'a>(rv: &RangeVar, cx: &Context<'a>) -> Option<&'a Arc<Relation>> {
    let relation = cx.relation(rv).filter(|r| r.kind == RelationKind::View && r.through.is_none())?;
    let runs_code = || cx.snapshot.relation_code.get(&relation.oid).is_some_and(|code| code.read.herd && !code.marked);
    let opens =
        relation.view.as_ref().is_some_and(|v| read_whole::may_be(&v.query)) || cx.snapshot.reaches && runs_code();
    (opens && !is_asked(rv)).then_some(relation)
}

/// The name stands there for the right to the view.
pub fn is_asked(rv: &RangeVar) -> bool {
    rv.alias.as_ref().is_some_and(|a| a.aliasname == ASKED)
}

/// The statement with their queries in their places, and the names of those that are not temporary; `None`: it names none.
pub fn views(statement: &NodeEnum, cx: &Context) -> Result<Option<(NodeEnum, Vec<String>)>> {
    let own = cx.temporary.iter().any(|t| t.view.is_some());
    let is = |rv: &&RangeVar| own && temporary(rv, cx).is_some() || permanent(rv, cx).is_some();
    if own {
        refuse_written(statement, cx)?;
    }
    if !relations::of(statement).iter().any(is) {
        return Ok(None);
    }
    if is_sampled(statement, &is) {
        return Err(Refusal::bare("TABLESAMPLE clause can only be applied to tables and materialized views"));
    }
    let mut open = Open { cx, put: 0, bytes: 0, weight: 0, permanent: vec![], of_owner: false };
    let mut tree = statement.clone();
    open.replace(&mut tree, 0)?;
    // It may have been the target of a write.
    Ok((open.put > 0).then_some((tree, open.permanent)))
}

/// Whether one of these is to give a sample of its rows: as PostgreSQL says it of any view.
fn is_sampled(statement: &NodeEnum, is: &dyn Fn(&&RangeVar) -> bool) -> bool {
    search::any(statement, |n| match n {
        NodeEnum::RangeTableSample(s) => match s.relation.as_deref().and_then(|r| r.node.as_ref()) {
            Some(NodeEnum::RangeVar(rv)) => is(&rv),
            _ => false,
        },
        _ => false,
    })
}

/// What is to be run in the place of a statement that names such views, step by step, and its text; `None`: it names none.
pub fn to_run(statement: &NodeEnum, cx: &Context) -> Result<Option<(NodeEnum, String)>> {
    let Some((tree, _)) = views(statement, cx)? else { return Ok(None) };
    let text = sql::deparse(&alone(&tree).unwrap_or(tree))?;
    Ok(sql::parse(&text, true)?.pop().map(|tree| (tree, text)))
}

/// `SELECT * FROM (query) AS v (…)`, and nothing else, is the query.
fn alone(statement: &NodeEnum) -> Option<NodeEnum> {
    let NodeEnum::SelectStmt(select) = statement else { return None };
    let [ast::Node { node: Some(NodeEnum::RangeSubselect(sub)) }] = &select.from_clause[..] else { return None };
    let Some(NodeEnum::SelectStmt(query)) = sub.subquery.as_deref().and_then(|q| q.node.as_ref()) else { return None };
    let mut bare = build::select();
    bare.target_list = vec![build::target(build::star(), None)];
    let mut rest = (**select).clone();
    rest.from_clause = vec![];
    if sql::deparse(&NodeEnum::SelectStmt(Box::new(rest))).ok()?
        != sql::deparse(&NodeEnum::SelectStmt(Box::new(bare))).ok()?
    {
        return None;
    }
    let mut query = query.clone();
    let columns = sub.alias.as_ref().map(|a| names::strings(&a.colnames)).unwrap_or_default();
    // ORDER BY may name what it is called.
    let by_name = !query.sort_clause.is_empty() || !query.group_clause.is_empty() || query.larg.is_some();
    if columns.len() != query.target_list.len() {
        return None;
    }
    for (target, name) in query.target_list.iter_mut().zip(columns) {
        let Some(NodeEnum::ResTarget(t)) = &mut target.node else { return None };
        let own = if t.name.is_empty() { t.val.as_deref().map(names::figure_column)? } else { t.name.clone() };
        if own != name && by_name {
            return None;
        }
        t.name = name.to_string();
    }
    Some(NodeEnum::SelectStmt(query))
}

fn refuse_written(statement: &NodeEnum, cx: &Context) -> Result<()> {
    let target = |n: &NodeEnum| {
        use NodeEnum::{DeleteStmt, InsertStmt, MergeStmt, UpdateStmt};
        let rv = match n {
            InsertStmt(s) => s.relation.as_ref(),
            UpdateStmt(s) => s.relation.as_ref(),
            DeleteStmt(s) => s.relation.as_ref(),
            MergeStmt(s) => s.relation.as_ref(),
            _ => None,
        };
        rv.filter(|rv| temporary(rv, cx).is_some()).map(|rv| rv.relname.clone())
    };
    match target(statement).or_else(|| search::find(statement, target)) {
        Some(name) => Err(Refusal::new(
            format!(
                "writing through temporary view \"{name}\", which is over distributed or reference tables, is not supported"
            ),
            "Write to the table itself, or make a view that is not temporary.",
        )),
        None => Ok(()),
    }
}

struct Open<'a> {
    cx: &'a Context<'a>,
    put: usize,
    bytes: usize,
    /// What reading their texts takes, in bytes.
    weight: usize,
    permanent: Vec<String>,
    /// What is put in place is within a view whose owner may be anybody: the right to it is that owner's affair.
    of_owner: bool,
}

impl Open<'_> {
    fn replace(&mut self, statement: &mut NodeEnum, depth: usize) -> Result<()> {
        let mut outcome = Ok(());
        let (before, mut put) = (statement.clone(), vec![]);
        relations::replace(statement, &mut |node| {
            let Some(NodeEnum::RangeVar(rv)) = &mut node.node else { return };
            if outcome.is_err() {
                return;
            }
            if depth > 0 && rv.schemaname.is_empty() {
                rv.schemaname = self.schema(&rv.relname).into();
            }
            match self.opened(rv, depth) {
                Ok(Some((query, alias))) => {
                    put.push((
                        alias.aliasname,
                        names::strings(&alias.colnames).into_iter().map(str::to_string).collect(),
                    ));
                    *node = query;
                }
                Ok(None) => {}
                Err(e) => outcome = Err(e),
            }
        });
        outcome.and_then(|()| whole_rows::refuse(&before, &put))
    }

    /// Where a view's query finds what it names without a schema: its text was printed for who looks in these two, in this order.
    fn schema(&self, name: &str) -> &'static str {
        let own = self.cx.temporary.iter().any(|t| t.name == name);
        if own && !name.starts_with("pg_") { "pg_temp" } else { "pg_catalog" }
    }

    fn opened(&mut self, rv: &RangeVar, depth: usize) -> Result<Option<(ast::Node, ast::Alias)>> {
        if let Some(view) = temporary(rv, self.cx) {
            return self.temporary(rv, view, depth).map(Some);
        }
        permanent(rv, self.cx).map(|view| self.permanent(rv, view, depth)).transpose()
    }

    fn temporary(&mut self, rv: &RangeVar, view: &TemporaryView, depth: usize) -> Result<(ast::Node, ast::Alias)> {
        if let Some(owner) = &view.of_another {
            return Err(Refusal::new(
                format!(
                    "temporary view \"{}\", which is over distributed or reference tables, is read by its owner only",
                    rv.relname
                ),
                format!("SET ROLE {}, or make a view of the role that reads it.", catalog::quote_ident(owner)),
            ));
        }
        let query = sql::parse(&view.query, true)?.pop();
        let Some(query) = query else { return Err(unreadable(rv)) };
        if let Some(schema) = views::another_equality(std::slice::from_ref(&query), self.cx) {
            return Err(Refusal::new(
                format!(
                    "temporary view \"{}\" compares by an = that its text does not show, and schema \"{schema}\" of the search path has one of its own",
                    rv.relname
                ),
                "Take that schema out of search_path.",
            ));
        }
        let NodeEnum::SelectStmt(query) = query else { return Err(unreadable(rv)) };
        let query = self.inside(rv, *query, &view.query, depth)?;
        Ok(put(query, called(rv, view.columns.iter())))
    }

    fn permanent(&mut self, rv: &RangeVar, view: &Relation, depth: usize) -> Result<(ast::Node, ast::Alias)> {
        if self.cx.snapshot.locked.contains(&view.oid) {
            return Err(Refusal::locked(&view.name));
        }
        if let Some(refusal) = views::must_be_whole(view, self.cx) {
            return Err(refusal);
        }
        let text = view.view.as_ref().map_or("", |v| &v.query);
        let definition = sql::parse(text, true)?.pop().ok_or_else(|| unreadable(rv))?;
        let query = match &definition {
            NodeEnum::SelectStmt(whole) => read_whole::query(&definition).map_or(&**whole, |(query, _)| query),
            _ => return Err(unreadable(rv)),
        };
        let asks = !std::mem::replace(&mut self.of_owner, true);
        let query = self.inside(rv, query.clone(), text, depth);
        self.of_owner = !asks;
        let mut query = query?;
        if asks {
            query = views::asking(query, view, Some(ASKED)).ok_or_else(|| unreadable(rv))?;
            self.permanent.push(view.name.clone());
        }
        Ok(put(query, called(rv, view.columns.iter().map(|c| &c.name))))
    }

    /// A view's query, and what it names.
    fn inside(&mut self, rv: &RangeVar, query: ast::SelectStmt, text: &str, depth: usize) -> Result<ast::SelectStmt> {
        self.put += 1;
        self.bytes += text.len();
        self.weight += weight::of(text, true).made;
        let heavy = self.bytes > BYTES_MAX || self.weight > WEIGHT_MAX;
        if depth >= DEPTH_MAX || self.put > EXPANSIONS_MAX || heavy {
            return Err(Refusal {
                sqlstate: sqlstate::STATEMENT_TOO_COMPLEX,
                message: "stack depth limit exceeded".into(),
                hint: Some("Views that only home has are nested too deeply, or too long together, to be read over several nodes.".into()),
            });
        }
        let mut query = NodeEnum::SelectStmt(Box::new(query));
        self.replace(&mut query, depth + 1)?;
        own::qualify(&mut query);
        match query {
            NodeEnum::SelectStmt(query) => Ok(*query),
            _ => Err(unreadable(rv)),
        }
    }
}

fn unreadable(rv: &RangeVar) -> Refusal {
    Refusal::bare(format!("the definition of view {} could not be read", rv.relname))
}

/// In a view's place, with what it is called there.
fn put(query: ast::SelectStmt, called: ast::Alias) -> (ast::Node, ast::Alias) {
    (build::subselect(query, Some(called.clone()), false), called)
}

/// What a view is called in FROM, with the names of all its columns.
fn called<'c>(rv: &RangeVar, columns: impl Iterator<Item = &'c String>) -> ast::Alias {
    let mut alias = rv.alias.clone().unwrap_or_else(|| build::alias(&rv.relname));
    let named = alias.colnames.len();
    alias.colnames.extend(columns.skip(named).map(|c| build::string(c)));
    alias
}
