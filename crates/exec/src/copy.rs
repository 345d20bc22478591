//! COPY: from the client to the nodes, split by key; from the nodes to the client.
//!
//! It does not know the formats (crate `copy`), nor how rows find their lanes (`sink`).

mod from;
pub mod home;
mod to;
pub mod upsert;

use std::sync::Arc;

use catalog::{Placement, Relation};
use sql::ast;
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::route::Forwarded;
use crate::router::compiled::Compiled;
use crate::work::Work;
use crate::write::bulk::BulkCopy;

impl<C: Client> Work<'_, C> {
    /// Runs a COPY statement. `relation`: the table it names, if it is distributed or a reference table, or local and loaded in bulk.
    pub async fn copy(
        &mut self,
        copy: &ast::CopyStmt,
        sql: &str,
        relation: Option<Arc<Relation>>,
        query: Option<Compiled>,
        bulk: BulkCopy,
    ) -> Result<Forwarded> {
        if bulk.is_any() && (copy.is_program || !copy.filename.is_empty() || relation.is_none()) {
            return Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "COPY with ROWS_PER_TRANSACTION or REPLACE is only supported FROM STDIN, into a table that is not temporary",
            ));
        }
        if copy.is_program || !copy.filename.is_empty() {
            if relation.is_some() || query.as_ref().is_some_and(|q| !q.plan.whole().tables.is_empty()) {
                return Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "COPY to or from a server's file or program is not supported for distributed and reference tables",
                )
                .hint("Use STDIN and STDOUT, or psql's \\copy."));
            }
            return self.copy_local(copy, sql).await;
        }
        match (relation, query) {
            (Some(r), _) if copy.is_from => self.copy_from(copy, r, bulk).await,
            (Some(r), _) => match &r.placement {
                Placement::Distributed(_) => self.copy_table_to(copy, &r).await,
                _ => self.copy_on(self.home(), sql, false, false).await,
            },
            (None, Some(query)) => self.copy_query_to(copy, sql, query).await,
            (None, None) => self.copy_local(copy, sql).await,
        }
    }
}

pub(crate) fn format_error(e: copy::CopyError) -> ExecError {
    let error = ExecError::sql(e.sqlstate(), e.to_string());
    match e.hint() {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

impl From<copy::CopyError> for ExecError {
    fn from(e: copy::CopyError) -> Self {
        format_error(e)
    }
}

/// Refuses data in another encoding than that of the values here.
fn need_utf8(options: &::copy::CopyOptions, what: &str) -> Result<()> {
    if options.is_utf8() {
        return Ok(());
    }
    let name = options.encoding.as_deref().unwrap_or_default();
    let message = format!("{what} is not supported in encoding \"{name}\"");
    Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message).hint("Use UTF8."))
}

/// The columns that a COPY names, none of them twice.
fn named_columns(copy: &ast::CopyStmt, relation: &Relation) -> Result<Vec<usize>> {
    let mut found = vec![];
    for name in sql::names::strings(&copy.attlist) {
        let Some(at) = relation.columns.iter().position(|c| c.name == name) else {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", relation.name);
            return Err(ExecError::sql(sqlstate::UNDEFINED_COLUMN, message));
        };
        if found.contains(&at) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(ExecError::sql(sqlstate::DUPLICATE_COLUMN, message));
        }
        found.push(at);
    }
    Ok(found)
}

/// A name as it is, from its spelling in SQL.
fn unquoted(name: &str) -> String {
    let inner = name.strip_prefix('"').and_then(|n| n.strip_suffix('"'));
    inner.map_or_else(|| name.to_owned(), |n| n.replace("\"\"", "\""))
}

/// The same COPY for a node, with these columns.
fn for_node(copy: &ast::CopyStmt, relation: &Relation, columns: &[String]) -> ast::CopyStmt {
    let mut c = copy.clone();
    if let Some(r) = &mut c.relation {
        r.schemaname.clone_from(&relation.schema);
        r.relname.clone_from(&relation.name);
    }
    c.attlist = columns.iter().map(|n| sql::build::string(&unquoted(n))).collect();
    c
}
