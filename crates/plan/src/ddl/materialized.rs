//! Materialized views over distributed tables, which are on home: the router reads their rows, and home's own REFRESH takes them
//! (`sql/src/materialized.rs`). It does not know how rows get there.

use catalog::{Relation, Snapshot, quote_ident};
use sql::ast;
use sql::{NodeEnum, materialized, names};

use super::facts::{Facts, NAME_BYTES_MAX, truncated};
use super::place::{Cx, Name, text};
use super::{Ddl, Decided};
use crate::Refusal;

/// How such a view is made, or filled anew.
#[derive(Clone, Debug)]
pub struct Materialized {
    /// The table that has its rows until the transaction ends. Nobody can guess its name, and have it before.
    pub rows: String,
    /// Makes that table, empty, with the columns of the view.
    pub create_rows: String,
    /// The view's query.
    pub query: String,
    /// CREATE MATERIALIZED VIEW, whose query is to be put in.
    pub create: Option<Box<ast::CreateTableAsStmt>>,
    /// The view as SQL names it; REFRESH for a view that is to be filled.
    pub view: String,
    pub refresh: Option<String>,
    /// For REFRESH what the view was made of when that was looked at.
    pub definition: Option<String>,
}

impl Materialized {
    /// Fills the table.
    pub fn fill_rows(&self) -> String {
        format!("INSERT INTO {} {}", self.rows, self.query)
    }

    /// Who refreshes the view waits for others who do, and for nobody who reads it. (LOCK takes no such view. Nobody can have set this
    /// parameter, which TOAST tables have not; the lock is that of its name.)
    pub fn lock(&self) -> String {
        format!("ALTER MATERIALIZED VIEW {} RESET (toast.fillfactor)", self.view)
    }

    /// CREATE MATERIALIZED VIEW without data, for a view of these columns.
    pub fn create_view(&self, columns: &[materialized::Column]) -> Result<Option<String>, Refusal> {
        let Some(create) = &self.create else { return Ok(None) };
        let definition = sql::parse(&materialized::definition(columns, &self.query), true)?.pop();
        let mut create = create.clone();
        create.query = Some(Box::new(ast::Node { node: definition }));
        super::create::without_data(&create).map(Some)
    }
}

/// CREATE MATERIALIZED VIEW.
pub fn create(cx: &Cx, s: &ast::CreateTableAsStmt) -> Decided {
    let (Some(into), Some(query)) = (s.into.as_deref(), s.query.as_deref().and_then(|q| q.node.as_ref())) else {
        return Ok(Ddl::Home);
    };
    let Some(rv) = &into.rel else { return Ok(Ddl::Home) };
    // Whatever the path finds before it.
    let view = cx.made(rv);
    let columns = names::strings(&into.col_names).iter().map(|c| quote_ident(c)).collect();
    let query = sql::deparse(query)?;
    Ok(Ddl::Materialize(Box::new(Materialized {
        create: Some(Box::new(s.clone())),
        refresh: (!into.skip_data).then(|| format!("REFRESH MATERIALIZED VIEW {}", text(view))),
        ..filled(view, columns, query, cx.facts)
    })))
}

/// The view over distributed tables that a statement fills anew.
pub fn refreshed<'s>(statement: &NodeEnum, snapshot: &'s Snapshot, facts: &Facts) -> Option<&'s Relation> {
    let NodeEnum::RefreshMatViewStmt(s) = statement else { return None };
    let (schema, name) = names::table(s.relation.as_ref().filter(|_| !s.skip_data)?);
    let view = snapshot.resolve(schema, name, &facts.search_path)?;
    view.view.as_ref().is_some_and(|v| v.filled_by_router).then_some(view)
}

/// REFRESH MATERIALIZED VIEW.
pub fn refresh(cx: &Cx) -> Decided {
    let Some(view) = refreshed(cx.statement, cx.snapshot, cx.facts) else { return Ok(Ddl::Home) };
    let Some(definition) = &cx.facts.definition else { return Ok(Ddl::Home) };
    let tree = sql::parse(definition, true)?.pop();
    let Some(query) = tree.as_ref().and_then(materialized::query) else { return Ok(Ddl::Home) };
    let columns = view.columns.iter().map(|c| quote_ident(&c.name)).collect();
    let query = sql::deparse(&NodeEnum::SelectStmt(Box::new(query.clone())))?;
    Ok(Ddl::Materialize(Box::new(Materialized {
        refresh: Some(cx.sql.to_string()),
        definition: Some(definition.clone()),
        ..filled((Some(&view.schema), &view.name), columns, query, cx.facts)
    })))
}

fn filled(view: Name, columns: Vec<String>, query: String, facts: &Facts) -> Materialized {
    let (schema, name) = view;
    let rows = text((schema, &rows_of(name, facts.unguessed)));
    let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    let create_rows = format!("CREATE UNLOGGED TABLE {rows}{columns} AS ({query}) WITH NO DATA");
    Materialized { rows, create_rows, query, create: None, view: text(view), refresh: None, definition: None }
}

/// The name of the table of a view's rows.
fn rows_of(view: &str, unguessed: u64) -> String {
    let unguessed = format!(" {unguessed:016x}");
    let name = format!("herd: rows of {view}");
    truncated(&name, NAME_BYTES_MAX - unguessed.len()).to_string() + &unguessed
}
