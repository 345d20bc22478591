//! Code of users' own, read once: bodies are parsed when they are first seen, and kept by their text for later snapshots.
//!
//! Also what a statement in front of the client needs of it: whether home's part alone was touched by text nobody knew.

use wire::sqlstate;

use plan::Refusal;
use plan::code::{Broken, Graph, Scope};
use sql::body::Body;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::compiled::Epoch;
use crate::work::Work;
use crate::work::made::{self, Made};

/// What a change breaks, if anything, that was not broken in any of the catalogs `before` it.
pub fn refuse_change(before: &[&Epoch], after: &Epoch) -> Option<Broken> {
    let before: Vec<Graph> = before.iter().map(|e| Graph::new(&e.snapshot, &e.bodies)).collect();
    Graph::new(&after.snapshot, &after.bodies).new_refusal(&before)
}

/// What DO or CALL must not do, if it can be known; otherwise whether it must be watched.
pub fn judge_at_home(
    statement: &sql::NodeEnum,
    text: &str,
    epoch: &Epoch,
    path: &[String],
) -> std::result::Result<bool, Refusal> {
    let (what, body) = match statement {
        sql::NodeEnum::DoStmt(_) => ("a DO block", Body::of_definition(text)),
        _ => ("a procedure", Body::of_statement(statement)),
    };
    let graph = Graph::new(&epoch.snapshot, &epoch.bodies);
    let scope = Scope::of_text(text, path);
    match graph.refuse_at_home(&format!("{what}, which runs on home,"), &body, &scope) {
        Some(refusal) => Err(refusal),
        None => Ok(graph.is_dynamic(&body, &scope)),
    }
}

/// Code in pg_temp is in no catalog a router reads: nobody would know what it uses.
pub fn refuse_temporary_code(statement: &sql::NodeEnum) -> std::result::Result<(), Refusal> {
    let name = match statement {
        sql::NodeEnum::CreateFunctionStmt(f) => &f.funcname,
        sql::NodeEnum::DefineStmt(d) => &d.defnames,
        _ => return Ok(()),
    };
    match plan::ddl::in_pg_temp(name) {
        true => Err(Refusal::new(
            "functions, procedures, aggregates and operators in pg_temp are not supported through the router",
            "Make it in a schema of its own, and drop it when it is no longer needed; or use a DO block.",
        )),
        false => Ok(()),
    }
}

/// A temporary table's or view's query runs on home.
pub fn judge_temporary(statement: &sql::NodeEnum, epoch: &Epoch, path: &[String]) -> std::result::Result<(), Refusal> {
    use sql::NodeEnum::{CreateTableAsStmt, SelectStmt, ViewStmt};
    let what = match statement {
        ViewStmt(_) => "a temporary view",
        sql::NodeEnum::CreateDomainStmt(_) => "a temporary domain",
        CreateTableAsStmt(_) | SelectStmt(_) => "a temporary table's query",
        _ => return Ok(()),
    };
    let body = Body::of_statement(statement);
    let graph = Graph::new(&epoch.snapshot, &epoch.bodies);
    match graph.refuse_at_home(&format!("{what}, which runs on home,"), &body, &Scope::Path(path)) {
        Some(refusal) => Err(Refusal {
            hint: Some("Create the temporary table first, then use INSERT … SELECT; for a view, make one that is not temporary.".into()),
            ..refusal
        }),
        None => Ok(()),
    }
}

/// What was so before code ran that is watched.
pub struct Watch {
    pub made: Made,
    /// `max_parallel_workers`
    workers: String,
}

/// Locks a transaction keeps to its end: of shards, whatever it did there, and of reference tables that it wrote.
const TOUCHED: &str = "SELECT c.relname FROM pg_catalog.pg_locks l \
    JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation \
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
    LEFT JOIN herd.relation r ON r.schema OPERATOR(pg_catalog.=) n.nspname AND r.name OPERATOR(pg_catalog.=) c.relname \
    WHERE l.locktype OPERATOR(pg_catalog.=) 'relation' AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() \
      AND l.database OPERATOR(pg_catalog.=) \
          (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) \
      AND (n.nspname OPERATOR(pg_catalog.=) 'herd_shards' OR r.kind OPERATOR(pg_catalog.=) 'd' OR r.kind OPERATOR(pg_catalog.=) 'r' \
           AND l.mode OPERATOR(pg_catalog.<>) 'AccessShareLock' AND l.mode OPERATOR(pg_catalog.<>) 'RowShareLock') \
    ORDER BY r.name IS NULL LIMIT 1";

impl<C: Client> Work<'_, C> {
    /// What the client hears of it: nothing of relations that he could not look into himself.
    pub async fn told_of(&mut self, broken: Broken) -> Result<Refusal> {
        let names: Vec<String> = broken.names.iter().map(|oid| oid.to_string()).collect();
        let sql = format!(
            "SELECT 1 FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.oid[]) AND NOT \
                 (pg_catalog.pg_has_role(c.relowner, 'USAGE') OR pg_catalog.has_table_privilege(c.oid, 'SELECT')) LIMIT 1",
            names.join(",")
        );
        if self.ask_home(&sql).await?.is_empty() {
            return Ok(broken.refusal);
        }
        Ok(Refusal::new(
            "by this change, code on a table of another role's could use what its nodes do not have",
            "Make it under another name, which nobody's code uses.",
        ))
    }

    /// Before text that nobody knew runs on home: a table of the herd that this transaction has touched there, and what is so
    /// before. Parallel workers, whose locks end with them, do not run it.
    pub async fn watch_home(&mut self) -> Result<(Option<String>, Watch)> {
        let ask = "pg_catalog.current_setting('max_parallel_workers'), pg_catalog.set_config('max_parallel_workers', '0', true)";
        let rows = self.ask_home(&format!("SELECT {}, {ask}, ({TOUCHED})", made::question())).await?;
        let mut row = rows.into_iter().next().unwrap_or_default();
        let made = Made::of(&row);
        let touched = row.pop().flatten();
        row.pop();
        Ok((touched, Watch { made, workers: row.pop().flatten().unwrap_or_default() }))
    }

    /// After it: a table that it has touched, and what it has made.
    pub async fn watched_home(&mut self, before: &Watch) -> Result<(Option<String>, Made)> {
        let workers = format!(
            "CASE WHEN pg_catalog.current_setting('max_parallel_workers') OPERATOR(pg_catalog.=) '0' \
             THEN pg_catalog.set_config('max_parallel_workers', {}, true) END",
            catalog::quote_literal(&before.workers)
        );
        let rows = self.ask_home(&format!("SELECT {}, {workers}, ({TOUCHED})", made::question())).await?;
        let mut row = rows.into_iter().next().unwrap_or_default();
        Ok((row.pop().flatten(), Made::of(&row)))
    }
}

/// Code has run that may have used a part of a table.
pub fn touched(table: &str) -> ExecError {
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!("code that runs on home has used \"{table}\", a table of the herd, by a statement it put together"),
    )
    .hint("It would have seen and changed home's part alone: send such statements through the router one by one.")
}

/// Nobody could look at what it has touched before its rows are the client's.
pub fn unwatched() -> ExecError {
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        "code that puts statements together can't run here: what it touches could not be seen in time",
    )
    .hint("Run the query by itself, without a cursor; or first, in a statement of its own, and pass its values.")
}

/// The same can't be told of a transaction that has used them already.
pub fn touched_before(table: &str) -> ExecError {
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!("code that puts statements together can't run in a transaction that has used \"{table}\", a table of the herd"),
    )
    .hint("Run it in a transaction of its own.")
}
