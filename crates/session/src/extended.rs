//! The extended protocol: Parse, Bind, Describe, Execute, Close, Sync.
//!
//! Statements are described once, on home, and the answer is kept with the plan; Bind is answered at once and its values
//! travel with Execute. All statements up to a Sync share one implicit transaction, unless there is just one.

mod bind;
mod describe;
mod execute;

use std::sync::Arc;
use std::time::{Instant, SystemTime};
use wire::sqlstate;

use exec::ExecError;
use plan::kind::Kind;
use wire::backend;
use wire::{Frame, frontend};

use crate::apart::LARGE;
use crate::locked::is_locked;
use crate::prepared::{Parsed, Prepared};
use crate::session::{Result, Session};

/// Prepared statements a session may keep.
const STATEMENTS_MAX: usize = 10_000;

impl Session {
    /// Does what Parse, Bind, Describe, Execute or Close asks; any other tag is taken for Close.
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
                self.describe(d.kind, d.name).await?;
                self.io.all_is_told()
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
                        self.prepared.remove(c.name);
                    }
                    b'P' => {
                        let portal = self.portals.remove(c.name);
                        if !self.forget_portal(portal) && self.cursors.contains_key(c.name) {
                            self.close_as_portal(c.name).await?;
                        }
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
        let mut taken = crate::budget::take(&self.allowance, sql.len())?;
        self.large_statements |= sql.len() >= LARGE;
        let begun = Instant::now();
        let parsed = loop {
            match self.parse(sql, &declared).await {
                Err(e) if is_locked(&e) => Box::pin(self.wait_for_definition(e, begun)).await?,
                parsed => break parsed?,
            }
        };
        self.parsed_when_failed(&parsed)?;
        if matches!(parsed, Parsed::Tree(_)) {
            taken.grow_to(self.kept_bytes(sql))?;
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
                match Box::pin(self.describe_tree(&tree, sql, &declared)).await {
                    Ok(d) => (params, fields) = d,
                    Err(e @ ExecError::Client(_)) => return Err(e),
                    Err(e) if Kind::of(&tree).analyzed => return Err(e),
                    Err(e) => deferred = Some(Box::new(e.to_fields())),
                }
            }
        }
        crate::budget::grow(&mut taken, fields.as_deref(), declared.len() + params.len())?;
        Ok(Prepared {
            sql: sql.to_string(),
            taken,
            declared,
            params: params.into(),
            fields,
            parsed,
            deferred,
            at: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(),
            epoch: self.epoch.serial,
            context: self.context,
        })
    }

    fn prepared(&self, name: &str) -> Result<Arc<Prepared>> {
        self.statements.get(name).cloned().ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_string(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            ExecError::sql(sqlstate::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// Ends the implicit transaction of what came since the last Sync, and says ReadyForQuery.
    pub async fn sync(&mut self) -> Result<()> {
        self.batch = false;
        let failed = self.transaction.has_failed();
        if let Err(e) = self.finish_implicit(failed).await {
            Box::pin(self.failed(e)).await?;
        }
        if !self.transaction.is_active() {
            self.portals.clear();
            self.large_values = false;
        }
        self.ready();
        Ok(())
    }
}
