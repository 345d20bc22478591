//! Bind: a portal for a prepared statement, planned for today's catalog, and its parameters. What is wrong with them PostgreSQL says by
//! running it.

use std::sync::Arc;

use exec::{Bound, ExecError};
use wire::backend::{self, Field};
use wire::sqlstate;
use wire::{Frame, frontend};

use plan::kind::Kind;
use sql::NodeEnum;

use crate::apart::LARGE;
use crate::client_io::{How, binary, how};
use crate::prepared::{Parsed, Portal, Prepared, still_told};
use crate::session::{Result, Session};

/// A portal takes so much at least: its values keep what they were read into.
const PORTAL: usize = 4 << 10;

impl Session {
    pub(super) async fn bind(&mut self, frame: &Frame) -> Result<()> {
        let b =
            frontend::bind(frame.body()).map_err(|e| ExecError::sql(sqlstate::PROTOCOL_VIOLATION, e.to_string()))?;
        let prepared = self.prepared(b.statement)?;
        self.parsed_when_failed(&prepared.parsed)?;
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
        if let Some(encoding) = self.io.encoding() {
            if columns_go(prepared.fields.as_deref().unwrap_or_default(), &b.result_formats).is_none() {
                return Err(binary("values of such types", encoding));
            }
            let unread = |(i, v): (usize, &Option<&[u8]>)| {
                b.format(i) == 1 && v.is_some_and(|v| !v.is_ascii()) && how(prepared.params[i], 1) != Some(How::AsItIs)
            };
            if b.values.iter().enumerate().any(unread) {
                return Err(binary("texts in parameters", encoding));
            }
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
            values: b.values.iter().map(|v| v.map(slice)).collect(),
            tail: slice(b.tail),
            tables: None,
            formats: b.formats,
            result_formats: b.result_formats,
        };
        // What is looked up each time it runs may give other columns than before.
        let bound = match prepared.parsed {
            Parsed::Planned(_) if columns > 0 => bound.of_columns(columns),
            _ => bound,
        };
        if !b.portal.is_empty() && self.portals.contains(b.portal) {
            return Err(ExecError::sql(sqlstate::DUPLICATE_CURSOR, format!("cursor \"{}\" already exists", b.portal)));
        }
        self.large_values |= frame.body().len() >= LARGE;
        let _taken = if b.portal.is_empty() { None } else { Some(self.memory.take(frame.raw.len().max(PORTAL))?) };
        let before = self.portals.insert(b.portal, Portal { prepared, bound, state: None, _taken });
        self.forget_portal(before);
        backend::bind_complete(self.out());
        Ok(())
    }

    fn reads_temporary(&self, tree: &NodeEnum) -> bool {
        let cx = self.names();
        sql::relations::of(tree).iter().any(|rv| rv.schemaname.starts_with("pg_temp") || cx.is_temporary(rv))
    }

    /// The statement as planned for today's catalog: planned anew if the catalog has changed since Parse.
    pub(crate) async fn current(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Prepared>> {
        match self.is_current(prepared) {
            true => Ok(prepared.clone()),
            false => Box::pin(self.planned_anew(prepared)).await,
        }
    }

    fn is_current(&self, prepared: &Prepared) -> bool {
        let same = prepared.epoch == self.epoch.serial && prepared.context == self.context;
        match &prepared.parsed {
            Parsed::Empty => true,
            Parsed::Planned(_) => same,
            // What it reads is looked up each time it runs; temporary tables change behind the catalog's back.
            Parsed::Tree(tree) => !Kind::of(tree).planned || same && !self.reads_temporary(tree),
        }
    }

    async fn planned_anew(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Prepared>> {
        // The types of parameters stay as the client was told them: it sends their bytes by these.
        let again = Prepared {
            declared: prepared.declared.clone(),
            at: prepared.at,
            ..self.prepare(&prepared.sql, prepared.params.to_vec()).await?
        };
        still_told(prepared.fields.as_deref(), again.fields.as_deref())?;
        let again = Arc::new(again);
        for kept in self.statements.values_mut() {
            if Arc::ptr_eq(kept, prepared) {
                *kept = again.clone();
            }
        }
        Ok(again)
    }
}

/// How columns go to a client that speaks another character set than UTF8; `None`: one can't.
pub(crate) fn columns_go(fields: &[Field], formats: &[i16]) -> Option<Vec<How>> {
    let format = |n: usize| if let [one] = formats { *one } else { formats.get(n).copied().unwrap_or(0) };
    fields.iter().enumerate().map(|(n, field)| how(field.type_oid, format(n))).collect()
}
