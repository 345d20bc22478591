//! Views over distributed and reference tables are replaced by their queries, so that planning sees the tables.
//!
//! Views over local tables and system views are left as they are. A view's names are those its maker meant: the catalog has them
//! qualified, so nothing of the statement around it, its WITH queries and search path least of all, changes what they mean.

use sql::ast;
use sql::{NodeEnum, build, names, relations};

use catalog::{Placement, Relation, RelationKind};

use crate::refuse::Refusal;
use crate::{Context, Result};

/// Views within views.
const DEPTH_MAX: usize = 64;
/// Views put into one statement: each use of a view that names another twice doubles them.
const EXPANSIONS_MAX: usize = 1000;

/// Replaces them; true if there was one.
pub fn expand(statement: &mut NodeEnum, cx: &Context) -> Result<bool> {
    let mut v = Expand { cx, expansions: 0 };
    // The target of a write is never replaced: writing through views is refused by the planners.
    v.replace(statement, 0)
}

struct Expand<'a> {
    cx: &'a Context<'a>,
    expansions: usize,
}

impl Expand<'_> {
    fn replace(&mut self, statement: &mut NodeEnum, depth: usize) -> Result<bool> {
        let mut outcome = Ok(false);
        relations::replace(statement, &mut |node| {
            let Some(NodeEnum::RangeVar(rv)) = &node.node else { return };
            if outcome.is_err() {
                return;
            }
            match self.expansion(rv, depth) {
                Ok(None) => {}
                Ok(Some(new)) => {
                    *node = new;
                    outcome = Ok(true);
                }
                Err(e) => outcome = Err(e),
            }
        });
        outcome
    }

    fn expansion(&mut self, rv: &ast::RangeVar, depth: usize) -> Result<Option<ast::Node>> {
        let Some(relation) = named(rv, self.cx, depth) else { return Ok(None) };
        let Some(text) = relation.view.as_deref().filter(|_| relation.kind == RelationKind::View) else {
            return Ok(None);
        };
        if !reads_herd(text, self.cx) {
            return Ok(None);
        }
        self.expansions += 1;
        if depth >= DEPTH_MAX || self.expansions > EXPANSIONS_MAX {
            return Err(Refusal {
                sqlstate: "54001",
                message: "stack depth limit exceeded".into(),
                hint: Some("Views are nested too deeply to be read over several nodes.".into()),
            });
        }
        let unreadable = || Refusal::bare(format!("the definition of view {} could not be read", relation.name));
        let mut query = sql::parse(text, true)?.pop().ok_or_else(unreadable)?;
        self.replace(&mut query, depth + 1)?;
        qualify(&mut query);
        let NodeEnum::SelectStmt(select) = query else { return Err(unreadable()) };
        let alias = rv.alias.clone().unwrap_or_else(|| build::alias(&relation.name));
        Ok(Some(build::subselect(*select, Some(alias), false)))
    }
}

/// What a name means: in the statement itself (`depth` 0) by its search path, in a view, whose names are qualified, by itself.
fn named<'a>(rv: &ast::RangeVar, cx: &'a Context, depth: usize) -> Option<&'a Relation> {
    let (schema, name) = names::table(rv);
    let temporary = depth == 0 && schema.is_none() && cx.temporary.iter().any(|t| t == name);
    let path = if depth == 0 { cx.search_path } else { &[] };
    if temporary { None } else { cx.snapshot.resolve(schema, name, path).map(|r| r.as_ref()) }
}

/// What a view's text leaves unqualified is PostgreSQL's own.
fn qualify(query: &mut NodeEnum) {
    relations::replace(query, &mut |node| {
        if let Some(NodeEnum::RangeVar(rv)) = &mut node.node
            && rv.schemaname.is_empty()
        {
            rv.schemaname = "pg_catalog".into();
        }
    });
}

/// The view's query names a distributed or reference table, itself or through other views.
pub fn reads_herd(view: &str, cx: &Context) -> bool {
    let mut seen = std::collections::HashSet::new();
    let mut texts = vec![view];
    while let Some(text) = texts.pop() {
        let Ok(statements) = sql::parse(text, true) else { return true };
        for rv in statements.iter().flat_map(relations::of) {
            let Some(relation) = named(rv, cx, 1).filter(|r| seen.insert(r.oid)) else { continue };
            match (&relation.placement, &relation.view) {
                (Placement::Local, Some(view)) => texts.push(view),
                (Placement::Local, None) => {}
                _ => return true,
            }
        }
    }
    false
}
