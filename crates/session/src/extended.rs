//! The extended protocol: Parse, Bind, Describe, Execute, Close, Sync.
//!
//! Statements are described once, on home, and the answer is kept with the plan; Bind is answered at once and its values
//! travel with Execute. All statements up to a Sync share one implicit transaction, unless there is just one.

mod execute;

use std::sync::Arc;
use std::time::Instant;
use wire::sqlstate;

use exec::{Bound, ExecError};
use wire::backend::{self, Field};
use wire::{Frame, frontend};

use crate::apart::LARGE;
use crate::locked::is_locked;
use crate::prepared::{Parsed, Portal, PortalState, Prepared};
use crate::router_settings::RouterSettings;
use crate::session::{Result, Session};
use crate::simple::in_failed_transaction;

/// Prepared statements a session may keep.
const STATEMENTS_MAX: usize = 10_000;

impl Session {
    pub async fn extended(&mut self, frame: &Frame) -> Result<()> {
        let bad = |e: wire::WireError| ExecError::sql(sqlstate::PROTOCOL_VIOLATION, e.to_string());
        match frame.tag() {
            b'P' => {
                let p = frontend::parse(frame.body()).map_err(bad)?;
                self.parse_message(p.name, p.sql, p.types).await
            }
            b'B' => self.bind(frame).await,
            b'D' => {
                let d = frontend::named(frame.body()).map_err(bad)?;
                self.describe(d.kind, d.name).await
            }
            b'E' => {
                let e = frontend::execute(frame.body()).map_err(bad)?;
                self.execute(e.portal, e.rows_max).await
            }
            _ => {
                let c = frontend::named(frame.body()).map_err(bad)?;
                match c.kind {
                    b'S' => {
                        self.statements.remove(c.name);
                    }
                    b'P' => {
                        self.portals.remove(c.name);
                    }
                    other => {
                        return Err(ExecError::sql(
                            sqlstate::PROTOCOL_VIOLATION,
                            format!("invalid CLOSE message subtype {other}"),
                        ));
                    }
                }
                backend::close_complete(self.out());
                Ok(())
            }
        }
    }

    async fn parse_message(&mut self, name: &str, sql: &str, types: Vec<u32>) -> Result<()> {
        if !name.is_empty() && self.statements.contains_key(name) {
            return Err(ExecError::sql(
                sqlstate::DUPLICATE_PSTATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        if self.statements.len() >= STATEMENTS_MAX {
            return Err(ExecError::sql(
                sqlstate::CONFIGURATION_LIMIT_EXCEEDED,
                format!("a session can keep {STATEMENTS_MAX} prepared statements"),
            )
            .hint("Close those that are no longer used."));
        }
        if name.is_empty() {
            self.statements.remove("");
        }
        self.newest_epoch().await?;
        let prepared = self.prepare(sql, types).await?;
        self.statements.insert(name.to_string(), Arc::new(prepared));
        backend::parse_complete(self.out());
        Ok(())
    }

    /// Plans and describes a statement.
    pub async fn prepare(&mut self, sql: &str, declared: Vec<u32>) -> Result<Prepared> {
        let taken = crate::budget::take(&self.allowance, sql.len())?;
        self.large_statements |= sql.len() >= LARGE;
        let begun = Instant::now();
        let parsed = loop {
            match self.parse(sql, &declared).await {
                Err(e) if is_locked(&e) => Box::pin(self.wait_for_definition(e, begun)).await?,
                parsed => break parsed,
            }
        };
        let parsed = match parsed {
            Ok(p) => p,
            Err(e)
                if e.code() == sqlstate::SYNTAX_ERROR
                    && !e.to_fields().message().starts_with("cannot insert multiple") =>
            {
                return Err(Box::pin(self.nodes_error(sql)).await);
            }
            Err(e) => return Err(e),
        };
        if self.transaction.has_failed() {
            match &parsed {
                Parsed::Tree(tree) => self.allowed_when_failed(tree)?,
                Parsed::Empty => {}
                Parsed::Planned(_) => {
                    return Err(in_failed_transaction());
                }
            }
        }
        let mut params = declared.clone();
        let mut fields = None;
        let mut deferred = None;
        match &parsed {
            Parsed::Empty => {}
            Parsed::Planned(compiled) => {
                let compiled = compiled.clone();
                let d = self.work().described(&compiled, &declared).await;
                let d = match d {
                    Ok(d) => d,
                    Err(e) => {
                        return Err(Box::pin(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e)).await);
                    }
                };
                (params, fields) = (d.params.clone(), d.fields.clone());
            }
            Parsed::Tree(tree) => {
                let tree = tree.clone();
                match self.describe_tree(&tree, sql, &declared).await {
                    Ok(d) => (params, fields) = d,
                    Err(e @ ExecError::Client(_)) => return Err(e),
                    Err(e) if is_analyzed(&tree) => return Err(e),
                    Err(e) => deferred = Some(Box::new(e.to_fields())),
                }
            }
        }
        Ok(Prepared {
            sql: sql.to_string(),
            taken,
            declared,
            params,
            fields,
            parsed,
            deferred,
            epoch: self.epoch.snapshot.epoch,
            context: self.context,
        })
    }

    async fn bind(&mut self, frame: &Frame) -> Result<()> {
        let b =
            frontend::bind(frame.body()).map_err(|e| ExecError::sql(sqlstate::PROTOCOL_VIOLATION, e.to_string()))?;
        let Some(prepared) = self.statements.get(b.statement).cloned() else {
            return Err(match b.statement {
                "" => ExecError::sql(sqlstate::INVALID_SQL_STATEMENT_NAME, "unnamed prepared statement does not exist"),
                name => ExecError::sql(
                    sqlstate::INVALID_SQL_STATEMENT_NAME,
                    format!("prepared statement \"{name}\" does not exist"),
                ),
            });
        };
        if self.transaction.has_failed() {
            match &prepared.parsed {
                Parsed::Tree(tree) => self.allowed_when_failed(tree)?,
                Parsed::Empty => {}
                Parsed::Planned(_) => {
                    return Err(in_failed_transaction());
                }
            }
        }
        if b.values.len() != prepared.params.len() {
            return Err(ExecError::sql(
                sqlstate::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                    b.values.len(),
                    b.statement,
                    prepared.params.len()
                ),
            ));
        }
        if b.formats.len() > 1 && b.formats.len() != b.values.len() {
            return Err(ExecError::sql(
                sqlstate::PROTOCOL_VIOLATION,
                format!("bind message has {} parameter formats but {} parameters", b.formats.len(), b.values.len()),
            ));
        }
        let columns = prepared.fields.as_ref().map_or(0, Vec::len);
        if b.result_formats.len() > 1 && b.result_formats.len() != columns && prepared.fields.is_some() {
            return Err(ExecError::sql(
                sqlstate::PROTOCOL_VIOLATION,
                format!("bind message has {} result formats but query has {columns} columns", b.result_formats.len()),
            ));
        }
        if let Some(f) = b.formats.iter().chain(&b.result_formats).find(|f| !matches!(f, 0 | 1)) {
            return Err(ExecError::sql(sqlstate::INVALID_PARAMETER_VALUE, format!("unsupported format code: {f}")));
        }
        for (i, value) in b.values.iter().enumerate() {
            if let Some(v) = value {
                crate::values::check(i + 1, b.format(i), prepared.params[i], v)?;
            }
        }
        self.take_epoch();
        self.settle_path().await?;
        let prepared = if self.transaction.has_failed() { prepared } else { self.current(&prepared).await? };
        let slice = |v: &[u8]| frame.raw.slice_ref(v);
        let bound = Bound {
            types: prepared.params.clone(),
            formats: b.formats.clone(),
            values: b.values.iter().map(|v| v.map(slice)).collect(),
            result_formats: b.result_formats.clone(),
            tail: slice(b.tail),
        };
        if !b.portal.is_empty() && self.portals.contains_key(b.portal) {
            return Err(ExecError::sql(sqlstate::DUPLICATE_CURSOR, format!("cursor \"{}\" already exists", b.portal)));
        }
        let _taken = if b.portal.is_empty() { None } else { Some(self.memory.take(frame.raw.len())?) };
        self.portals.insert(b.portal.to_string(), Portal { prepared, bound, state: PortalState::New, _taken });
        backend::bind_complete(self.out());
        Ok(())
    }

    async fn describe(&mut self, kind: u8, name: &str) -> Result<()> {
        match kind {
            b'S' => {
                let Some(prepared) = self.statements.get(name).cloned() else {
                    return Err(match name {
                        "" => ExecError::sql(
                            sqlstate::INVALID_SQL_STATEMENT_NAME,
                            "unnamed prepared statement does not exist",
                        ),
                        name => ExecError::sql(
                            sqlstate::INVALID_SQL_STATEMENT_NAME,
                            format!("prepared statement \"{name}\" does not exist"),
                        ),
                    });
                };
                if let Some(e) = &prepared.deferred {
                    return Err(ExecError::Sql(e.clone()));
                }
                backend::parameter_description(self.out(), &prepared.params);
                self.put_fields(prepared.fields.as_deref(), &[]);
                Ok(())
            }
            b'P' => {
                if !self.portals.contains_key(name) && self.cursors.contains_key(name) {
                    // A cursor of SQL's own DECLARE.
                    let sql = format!("FETCH 0 FROM {}", catalog::quote_ident(name));
                    let fields = self.describe_fetch(name, &sql, &[]).await?;
                    self.put_fields(fields.as_deref(), &[]);
                    return Ok(());
                }
                let Some(portal) = self.portals.get(name) else {
                    return Err(ExecError::sql(
                        sqlstate::INVALID_CURSOR_NAME,
                        format!("portal \"{name}\" does not exist"),
                    ));
                };
                let (prepared, formats) = (portal.prepared.clone(), portal.bound.result_formats.clone());
                if let Some(e) = &prepared.deferred {
                    return Err(ExecError::Sql(e.clone()));
                }
                if let Parsed::Tree(tree) = &prepared.parsed
                    && matches!(**tree, sql::NodeEnum::FetchStmt(_))
                {
                    let (_, fields) = self.describe_tree(tree, &prepared.sql, &prepared.declared).await?;
                    self.put_fields(fields.as_deref(), &formats);
                    return Ok(());
                }
                self.put_fields(prepared.fields.as_deref(), &formats);
                Ok(())
            }
            other => {
                Err(ExecError::sql(sqlstate::PROTOCOL_VIOLATION, format!("invalid DESCRIBE message subtype {other}")))
            }
        }
    }

    /// Parameters and columns of a statement that goes by its tree.
    async fn describe_tree(
        &mut self,
        tree: &Arc<sql::NodeEnum>,
        sql: &str,
        declared: &[u32],
    ) -> Result<(Vec<u32>, Option<Vec<Field>>)> {
        use sql::NodeEnum as N;
        if let Some(call) = exec::recognise(tree) {
            let call = call?;
            return Ok((declared.to_vec(), Some(call.columns())));
        }
        let described = match tree.as_ref() {
            N::VariableShowStmt(s) if RouterSettings::canonical(&s.name.to_ascii_lowercase()).is_some() => {
                return Ok((vec![], Some(vec![Field::text(&s.name)])));
            }
            N::ExplainStmt(_) | N::VariableShowStmt(_) => self.work().describe_text(sql, declared).await?,
            N::ExecuteStmt(e) => {
                let text = self.executed_text(e).await?;
                return Ok((vec![], self.work().describe_text(&text, &[]).await?.fields));
            }
            // As PostgreSQL: a cursor that is not there yet is looked for again when the portal is described.
            N::FetchStmt(f)
                if !self.cursors.contains_key(&f.portalname) && !self.portals.contains_key(&f.portalname) =>
            {
                return Ok((vec![], None));
            }
            N::FetchStmt(f) => {
                return Ok((vec![], self.describe_fetch(&f.portalname, sql, declared).await?));
            }
            N::SelectStmt(_)
            | N::InsertStmt(_)
            | N::UpdateStmt(_)
            | N::DeleteStmt(_)
            | N::MergeStmt(_)
            | N::CallStmt(_)
            | N::DeclareCursorStmt(_)
            | N::CreateTableAsStmt(_) => self.work().describe_text(sql, declared).await?,
            _ => return Ok((declared.to_vec(), None)),
        };
        Ok((described.params, described.fields))
    }

    fn put_fields(&mut self, fields: Option<&[Field]>, formats: &[i16]) {
        match fields {
            None => backend::no_data(self.out()),
            Some(fields) => {
                let formatted: Vec<Field> = fields
                    .iter()
                    .enumerate()
                    .map(|(i, f)| Field { format: frontend::format_of(formats, i), ..f.clone() })
                    .collect();
                backend::row_description(self.out(), &formatted);
            }
        }
    }

    /// The statement as planned for today's catalog: planned anew if the catalog has changed since Parse.
    async fn current(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Prepared>> {
        if prepared.epoch == self.epoch.snapshot.epoch && prepared.context == self.context {
            return Ok(prepared.clone());
        }
        if let Parsed::Tree(_) | Parsed::Empty = prepared.parsed {
            return Ok(prepared.clone());
        }
        let again = self.prepare(&prepared.sql, prepared.declared.clone()).await?;
        let types = |f: &Option<Vec<Field>>| f.as_ref().map(|f| f.iter().map(|f| f.type_oid).collect::<Vec<_>>());
        if types(&again.fields) != types(&prepared.fields) {
            return Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, "cached plan must not change result type"));
        }
        let again = Arc::new(again);
        for kept in self.statements.values_mut() {
            if Arc::ptr_eq(kept, prepared) {
                *kept = again.clone();
            }
        }
        Ok(again)
    }

    pub async fn sync(&mut self) -> Result<()> {
        self.batch = false;
        let failed = self.transaction.has_failed();
        if let Err(e) = self.finish_implicit(failed).await {
            Box::pin(self.failed(e)).await?;
        }
        if !self.transaction.is_active() {
            self.portals.clear();
        }
        self.ready();
        Ok(())
    }
}

/// Statements whose meaning PostgreSQL looks at when it is told of them (analyze.c, `transformStmt`): what is wrong with them
/// is said then, before anybody binds parameters.
fn is_analyzed(tree: &sql::NodeEnum) -> bool {
    use sql::NodeEnum as N;
    matches!(
        tree,
        N::SelectStmt(_)
            | N::InsertStmt(_)
            | N::UpdateStmt(_)
            | N::DeleteStmt(_)
            | N::MergeStmt(_)
            | N::CreateTableAsStmt(_)
            | N::DeclareCursorStmt(_)
            | N::ExplainStmt(_)
            | N::CallStmt(_)
    )
}
