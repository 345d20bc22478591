//! Code that runs on home, which has a part of the herd's tables only: whether it may, and, where that can't be told beforehand, what
//! it has touched. It does not know how bodies are read (`router/bodies.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::sqlstate;

use plan::Refusal;
use plan::code::{Broken, Graph, LookupPath, Watched};
use sql::body::{self, Body};

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::bodies;
use crate::router::compiled::Epoch;
use crate::work::Work;
use crate::work::made::{self, Made};

/// What a change breaks that was not broken in any of the catalogs `before` it.
pub async fn broken_by_change(before: &[&Arc<Epoch>], after: &Arc<Epoch>) -> Vec<Broken> {
    let long = bodies::takes_long(&after.snapshot) || before.iter().any(|e| bodies::takes_long(&e.snapshot));
    let (before, after): (Vec<Arc<Epoch>>, _) = (before.iter().map(|e| Arc::clone(e)).collect(), after.clone());
    let broken = move || {
        let before: Vec<Graph> = before.iter().map(|e| Graph::new(&e.snapshot, &e.bodies).unmarked()).collect();
        Graph::new(&after.snapshot, &after.bodies).unmarked().new_refusals(&before)
    };
    bodies::apart(long, broken).await
}

/// What DO or CALL must not do, if it can be known; otherwise what it must be watched for.
pub async fn judge_at_home(
    statement: &sql::NodeEnum,
    text: &str,
    epoch: &Arc<Epoch>,
    path: &[String],
) -> std::result::Result<Option<Watched>, Refusal> {
    let (what, body) = match statement {
        sql::NodeEnum::DoStmt(_) => ("a DO block", Body::of_definition(text)),
        _ => ("a procedure", Body { search_paths: body::search_paths(text), ..Body::of_statement(statement) }),
    };
    let path = path.to_vec();
    judged(epoch, move |graph| {
        let scope = LookupPath::of_statement(&body, &path);
        match graph.refuse_at_home(&format!("{what}, which runs on home,"), &body, &scope) {
            Some(refusal) => Err(refusal),
            None => match graph.watched(&body, &scope) {
                Some(Watched::Text) => graph.catches(&body, &scope).map_or(Ok(Some(Watched::Text)), Err),
                watched => Ok(watched),
            },
        }
    })
    .await
}

/// What a catalog's graph says, which is long to make where there is much code.
async fn judged<T: Send + 'static>(epoch: &Arc<Epoch>, judge: impl FnOnce(&Graph) -> T + Send + 'static) -> T {
    let (long, epoch) = (bodies::takes_long(&epoch.snapshot), epoch.clone());
    bodies::apart(long, move || judge(&Graph::new(&epoch.snapshot, &epoch.bodies))).await
}

/// Code in pg_temp is in no catalog a router reads: nobody would know what it uses. Functions and procedures are called where they
/// are named, and watched there; what others call may hang on nothing.
pub fn refuse_temporary_code(statement: &sql::NodeEnum) -> std::result::Result<(), Refusal> {
    use sql::NodeEnum::DefineStmt;
    if matches!(statement, DefineStmt(d) if plan::ddl::in_pg_temp(&d.defnames)) {
        return Err(Refusal::new(
            "aggregates and operators in pg_temp are not supported through the router",
            "Make it in a schema of its own, and drop it when it is no longer needed.",
        ));
    }
    match plan::ddl::uses_temporary_code(statement) {
        true => Err(Refusal::new(
            "a function in pg_temp is called by statements that name it, and by nothing that is made",
            "Make it in a schema of its own, and drop it when it is no longer needed.",
        )),
        false => Ok(()),
    }
}

/// A type in pg_temp comes before all others of its name, on home: other nodes would take the one it hides. (One that hides PostgreSQL's
/// own, or comes to hide another later, ends the session's use of other nodes.)
pub fn refuse_hiding_type(statement: &sql::NodeEnum, epoch: &Epoch) -> std::result::Result<(), Refusal> {
    let Some(name) = plan::ddl::temporary_type(statement) else { return Ok(()) };
    match epoch.snapshot.types.values().any(|t| t.name == name) {
        true => Err(Refusal::new(
            format!("a type in pg_temp that hides the type \"{name}\" is not supported through the router"),
            "Give it a name of its own.",
        )),
        false => Ok(()),
    }
}

/// A temporary table's or view's query runs on home.
pub async fn judge_temporary(
    statement: &sql::NodeEnum,
    epoch: &Arc<Epoch>,
    path: &[String],
) -> std::result::Result<(), Refusal> {
    use sql::NodeEnum::{CreateTableAsStmt, SelectStmt, ViewStmt};
    let what = match statement {
        ViewStmt(_) => "a temporary view",
        sql::NodeEnum::CreateDomainStmt(_) => "a temporary domain",
        CreateTableAsStmt(_) | SelectStmt(_) => "a temporary table's query",
        sql::NodeEnum::CreateStmt(_) => return refuse_conditions("a temporary table", statement, epoch, path).await,
        _ => return Ok(()),
    };
    if matches!(statement, sql::NodeEnum::CreateDomainStmt(_)) {
        refuse_conditions(what, statement, epoch, path).await?;
    }
    let (body, path) = (Body::of_statement(statement), path.to_vec());
    let subject = format!("{what}, which runs on home,");
    match judged(epoch, move |graph| graph.refuse_at_home(&subject, &body, &LookupPath::Path(&path))).await {
        Some(refusal) => Err(Refusal {
            hint: Some(
                "CREATE TABLE … AS makes one that is not temporary; a view can be one that is not temporary, too."
                    .into(),
            ),
            ..refusal
        }),
        None => Ok(()),
    }
}

/// What is temporary is in no catalog a router reads, and nobody watches whoever writes it.
async fn refuse_conditions(
    what: &str,
    statement: &sql::NodeEnum,
    epoch: &Arc<Epoch>,
    path: &[String],
) -> std::result::Result<(), Refusal> {
    let mut conditions = vec![];
    sql::search::find(statement, |n: &sql::NodeEnum| -> Option<()> {
        if let sql::NodeEnum::Constraint(c) = n {
            conditions.extend(c.raw_expr.as_deref().map(Body::of_expression));
        }
        None
    });
    if conditions.is_empty() {
        return Ok(());
    }
    let path = path.to_vec();
    let watched = move |graph: &Graph| conditions.iter().any(|c| graph.watched(c, &LookupPath::Path(&path)).is_some());
    match judged(epoch, watched).await {
        true => Err(Refusal::new(
            format!("{what} with conditions or defaults that run statements they put together is not supported"),
            "Write the statements out in place of EXECUTE.",
        )),
        false => Ok(()),
    }
}

/// What was so before code ran that is watched.
pub struct Watch {
    pub made: Made,
    how: Watched,
    touched: BTreeSet<String>,
    /// `max_parallel_workers`
    workers: String,
}

/// Locks a transaction keeps to its end: of shards, whatever it did there, and of reference tables that it wrote. Where all statements
/// are known, so are the rows they use: only locks of changes count then. A key that points to a reference table locks it, too.
fn touched_now(how: Watched) -> String {
    let counts = match how {
        Watched::Text => {
            "(n.nspname OPERATOR(pg_catalog.=) 'herd_shards' OR r.kind OPERATOR(pg_catalog.=) 'd' OR r.kind OPERATOR(pg_catalog.=) 'r' \
              AND l.mode OPERATOR(pg_catalog.<>) ALL ('{AccessShareLock,RowShareLock,ShareRowExclusiveLock}'::pg_catalog.text[]))"
        }
        Watched::Catalog => {
            "(n.nspname OPERATOR(pg_catalog.=) 'herd_shards' OR r.kind IS NOT NULL) \
             AND l.mode OPERATOR(pg_catalog.<>) ALL ('{AccessShareLock,RowShareLock,RowExclusiveLock}'::pg_catalog.text[]) \
             AND NOT (r.kind OPERATOR(pg_catalog.=) 'r' AND l.mode OPERATOR(pg_catalog.=) 'ShareRowExclusiveLock')"
        }
    };
    format!(
        "SELECT pg_catalog.string_agg(pg_catalog.concat(coalesce(r.name, c.relname), ' ', l.relation, l.mode), pg_catalog.chr(10) \
             ORDER BY r.name IS NULL) FROM pg_catalog.pg_locks l \
         LEFT JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) l.relation \
         LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
         LEFT JOIN herd.relation r ON r.oid OPERATOR(pg_catalog.=) l.relation \
              OR r.schema OPERATOR(pg_catalog.=) n.nspname AND r.name OPERATOR(pg_catalog.=) c.relname \
         WHERE l.locktype OPERATOR(pg_catalog.=) 'relation' AND l.pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid() \
           AND l.database OPERATOR(pg_catalog.=) \
               (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) \
           AND {counts}"
    )
}

impl<C: Client> Work<'_, C> {
    /// Of what a change breaks, what it is refused for: what is marked of others, who could not use the tables that their code names,
    /// holds up nobody.
    pub async fn refused_of(&mut self, broken: Vec<Broken>) -> Result<Option<Broken>> {
        for b in broken {
            if b.marks.is_empty() || !self.is_of_strangers(&b).await? {
                return Ok(Some(b));
            }
        }
        Ok(None)
    }

    /// No owner of what is marked may use any of the tables, and none is who makes the change.
    async fn is_of_strangers(&mut self, broken: &Broken) -> Result<bool> {
        let oids = |class: u8| {
            let found: Vec<String> =
                broken.marks.iter().filter(|o| o.class == class).map(|o| o.oid.to_string()).collect();
            format!("'{{{}}}'::pg_catalog.oid[]", found.join(","))
        };
        let other = |oid: &&catalog::Oid| !broken.marks.iter().any(|o| o.oid == **oid);
        let tables = broken.names.iter().take(broken.tables).filter(other);
        let names: Vec<String> = tables.map(|oid| oid.to_string()).collect();
        let sql = format!(
            "SELECT 1 FROM (SELECT c.relowner FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) ANY ({})                  UNION SELECT t.typowner FROM pg_catalog.pg_type t WHERE t.oid OPERATOR(pg_catalog.=) ANY ({})) o (owner)              JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) o.owner              WHERE r.rolsuper OR pg_catalog.pg_has_role(o.owner, 'MEMBER')                    AND NOT (SELECT me.rolsuper FROM pg_catalog.pg_roles me WHERE me.rolname OPERATOR(pg_catalog.=) current_user)                 OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.oid[])                    AND pg_catalog.has_schema_privilege(o.owner, c.relnamespace, 'USAGE')                    AND (pg_catalog.has_table_privilege(o.owner, c.oid, 'DELETE, TRUNCATE, TRIGGER')                         OR pg_catalog.has_any_column_privilege(o.owner, c.oid, 'SELECT, INSERT, UPDATE, REFERENCES'))) LIMIT 1",
            oids(b'r'),
            oids(b't'),
            names.join(",")
        );
        Ok(self.ask_home(&sql).await?.is_empty())
    }

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

    /// Before code runs on home that is watched: what is so. Parallel workers, whose locks end with them, do not run it.
    pub async fn watch_home(&mut self, how: Watched) -> Result<Watch> {
        let ask = "pg_catalog.current_setting('max_parallel_workers'), pg_catalog.set_config('max_parallel_workers', '0', true)";
        let rows = self.ask_home(&format!("SELECT {}, ({}), {ask}", made::question(), touched_now(how))).await?;
        let row = rows.into_iter().next().unwrap_or_default();
        let touched = touched(&row);
        if let (Watched::Text, Some(line)) = (how, touched.first()) {
            return Err(used_before(table_of(line)));
        }
        let workers = row.get(Made::COLUMNS + 1).cloned().flatten().unwrap_or_default();
        Ok(Watch { made: Made::of(&row), how, touched, workers })
    }

    /// After it: what it has made, if it has touched nothing that others have a part of.
    pub async fn watched_home(&mut self, before: &Watch) -> Result<Made> {
        let workers = format!(
            "CASE WHEN pg_catalog.current_setting('max_parallel_workers') OPERATOR(pg_catalog.=) '0' \
             THEN pg_catalog.set_config('max_parallel_workers', {}, true) END",
            catalog::quote_literal(&before.workers)
        );
        let rows =
            self.ask_home(&format!("SELECT {}, ({}), {workers}", made::question(), touched_now(before.how))).await?;
        let row = rows.into_iter().next().unwrap_or_default();
        match touched(&row).difference(&before.touched).next() {
            Some(line) => Err(used(before.how, table_of(line))),
            None => Ok(Made::of(&row)),
        }
    }
}

/// A line for each lock: the table's name first.
fn touched(row: &[Option<String>]) -> BTreeSet<String> {
    let lines = row.get(Made::COLUMNS).and_then(|c| c.as_deref()).unwrap_or_default();
    lines.lines().map(str::to_string).collect()
}

fn table_of(line: &str) -> &str {
    line.rsplit_once(' ').map_or(line, |(table, _)| table)
}

/// Code has run that may have used a part of a table.
fn used(how: Watched, table: &str) -> ExecError {
    let what = match how {
        Watched::Text => format!("has used \"{table}\", a table of the herd, by a statement it put together"),
        Watched::Catalog => format!("has changed \"{table}\", a table of the herd"),
    };
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, format!("code that runs on home {what}"))
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
fn used_before(table: &str) -> ExecError {
    ExecError::sql(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!("code that puts statements together can't run in a transaction that has used \"{table}\", a table of the herd"),
    )
    .hint("Run it in a transaction of its own.")
}
