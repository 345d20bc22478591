//! Temporary views over distributed and reference tables are replaced by their queries before anything is planned: only home has them, and
//! nobody reads them there (`sql/src/read_whole.rs`). Their tables are read with the rights of the session's role, which is their owner.
//!
//! What they are made of the session has read. It does not know permanent views (`views.rs`), nor how temporary ones are made
//! (`ddl/create.rs`).

use std::sync::Arc;

use catalog::TemporaryView;
use sql::ast::RangeVar;
use sql::{NodeEnum, build, own, relations, search};
use wire::sqlstate;

use crate::{Context, Refusal, Result};

/// Views within views.
const DEPTH_MAX: usize = 64;
/// Views put into one statement, and their texts together, in bytes.
const EXPANSIONS_MAX: usize = 1000;
const BYTES_MAX: usize = 16 << 20;

/// The view over the herd's tables that a name means.
pub fn named<'a>(rv: &RangeVar, cx: &Context<'a>) -> Option<&'a Arc<TemporaryView>> {
    let temporary = matches!(rv.schemaname.as_str(), "" | "pg_temp");
    let found = cx.temporary.iter().find(|t| t.view.is_some() && **t == *rv.relname);
    found.filter(|_| temporary)?.view.as_ref()
}

/// The statement with their queries in their places; `None`: it names none.
pub fn expand(statement: &NodeEnum, cx: &Context) -> Result<Option<NodeEnum>> {
    if cx.temporary.iter().all(|t| t.view.is_none()) {
        return Ok(None);
    }
    refuse_written(statement, cx)?;
    let mut e = Expand { cx, put: 0, bytes: 0 };
    let mut tree = statement.clone();
    e.replace(&mut tree, 0)?;
    Ok((e.put > 0).then_some(tree))
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
        rv.filter(|rv| named(rv, cx).is_some()).map(|rv| rv.relname.clone())
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

struct Expand<'a> {
    cx: &'a Context<'a>,
    put: usize,
    bytes: usize,
}

impl Expand<'_> {
    fn replace(&mut self, statement: &mut NodeEnum, depth: usize) -> Result<()> {
        let mut outcome = Ok(());
        relations::replace(statement, &mut |node| {
            let Some(NodeEnum::RangeVar(rv)) = &mut node.node else { return };
            if outcome.is_err() {
                return;
            }
            if depth > 0 && rv.schemaname.is_empty() {
                rv.schemaname = self.schema(&rv.relname).into();
            }
            let Some(view) = named(rv, self.cx) else { return };
            match self.query(rv, view, depth) {
                Ok(query) => *node = query,
                Err(e) => outcome = Err(e),
            }
        });
        outcome
    }

    /// Where a view's query finds what it names without a schema: its text was printed for who looks in these two, in this order.
    fn schema(&self, name: &str) -> &'static str {
        let own = self.cx.temporary.iter().any(|t| t == name);
        if own && !name.starts_with("pg_") { "pg_temp" } else { "pg_catalog" }
    }

    fn query(&mut self, rv: &RangeVar, view: &TemporaryView, depth: usize) -> Result<sql::ast::Node> {
        if let Some(owner) = &view.of_another {
            return Err(Refusal::new(
                format!(
                    "temporary view \"{}\", which is over distributed or reference tables, is read by its owner only",
                    rv.relname
                ),
                format!("SET ROLE {}, or make a view of the role that reads it.", catalog::quote_ident(owner)),
            ));
        }
        self.put += 1;
        self.bytes += view.query.len();
        if depth >= DEPTH_MAX || self.put > EXPANSIONS_MAX || self.bytes > BYTES_MAX {
            return Err(Refusal {
                sqlstate: sqlstate::STATEMENT_TOO_COMPLEX,
                message: "stack depth limit exceeded".into(),
                hint: Some("Temporary views are nested too deeply to be read over several nodes.".into()),
            });
        }
        let unreadable = || Refusal::bare(format!("the definition of view {} could not be read", rv.relname));
        let mut query = sql::parse(&view.query, true)?.pop().ok_or_else(unreadable)?;
        self.replace(&mut query, depth + 1)?;
        own::qualify(&mut query);
        let NodeEnum::SelectStmt(query) = query else { return Err(unreadable()) };
        let mut alias = rv.alias.clone().unwrap_or_else(|| build::alias(&rv.relname));
        let named = alias.colnames.len();
        alias.colnames.extend(view.columns.iter().skip(named).map(|c| build::string(c)));
        Ok(build::subselect(*query, Some(alias), false))
    }
}
