//! Describe, and what PostgreSQL says of statements that go by their tree. How rows come to have these columns is not known here.

use exec::ExecError;
use plan::{Own, Plan};
use wire::backend::{self, Field};
use wire::frontend;
use wire::sqlstate;

use crate::prepared::Parsed;
use crate::router_settings::RouterSettings;
use crate::session::{Result, Session};
use crate::simple::in_failed_transaction;

impl Session {
    pub(super) async fn describe(&mut self, kind: u8, name: &str) -> Result<()> {
        match kind {
            b'S' => {
                let prepared = self.prepared(name)?;
                if let Some(e) = &prepared.deferred {
                    return Err(ExecError::Sql(e.clone()));
                }
                self.may_tell_columns(prepared.fields.is_some())?;
                backend::parameter_description(self.out(), &prepared.params);
                self.put_fields(prepared.fields.as_deref(), &[]);
                Ok(())
            }
            b'P' => {
                if !self.portals.contains(name) && self.cursors.contains_key(name) {
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
                self.may_tell_columns(prepared.fields.is_some())?;
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

    /// PostgreSQL would have to look at its catalog for columns, which a failed transaction can't.
    fn may_tell_columns(&self, any: bool) -> Result<()> {
        if any && self.transaction.has_failed() { Err(in_failed_transaction()) } else { Ok(()) }
    }

    /// Parameters and columns of a statement that goes by its tree.
    pub(super) async fn describe_tree(
        &mut self,
        tree: &sql::NodeEnum,
        sql: &str,
        declared: &[u32],
    ) -> Result<(Vec<u32>, Option<Vec<Field>>)> {
        let decided = self.decide(tree, declared)?;
        let described = match decided.plan {
            Plan::Admin(call) => return Ok((declared.to_vec(), Some(exec::admin_columns(&call?)))),
            Plan::Session(Own::Show(s)) if RouterSettings::canonical(&s.name.to_ascii_lowercase()).is_some() => {
                return Ok((vec![], Some(vec![Field::text(&s.name)])));
            }
            Plan::Session(Own::Execute(e)) => {
                // As PostgreSQL: that there is none, and what is wrong with its arguments, is said when it runs.
                let Some(kept) = self.statements.get(&e.name).cloned() else { return Ok((vec![], None)) };
                return Ok((vec![], self.current(&kept).await?.fields.clone()));
            }
            // As PostgreSQL: a cursor that is not there yet is looked for again when the portal is described.
            Plan::Session(Own::Fetch(f))
                if !self.cursors.contains_key(&f.portalname) && !self.portals.contains(&f.portalname) =>
            {
                return Ok((vec![], None));
            }
            Plan::Session(Own::Fetch(f)) if f.ismove => return Ok((vec![], None)),
            Plan::Session(Own::Fetch(f)) => {
                return Ok((vec![], self.describe_fetch(&f.portalname, sql, declared).await?));
            }
            Plan::Session(Own::Show(_)) => self.work().describe_text(sql, declared).await?,
            _ if decided.kind.analyzed => match self.work().describe_text(sql, declared).await {
                Ok(described) => described,
                Err(e) if decided.kind.planned => {
                    return Err(Box::pin(self.refused_before(tree, sql, declared, e)).await);
                }
                Err(e) => return Err(e),
            },
            _ => return Ok((declared.to_vec(), None)),
        };
        Ok((described.params, described.fields))
    }

    /// Home has views of its own that nobody writes through there: that the herd does not write through them is said in its place.
    async fn refused_before(&mut self, tree: &sql::NodeEnum, sql: &str, declared: &[u32], e: ExecError) -> ExecError {
        if e.code() != sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE {
            return e;
        }
        self.compile_with(tree, sql, declared).await.err().unwrap_or(e)
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
}
