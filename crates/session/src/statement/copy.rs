//! COPY: its table or query is found out, and the executor does it, again with a fresh catalog if what was known proves stale.
//! It does not know formats, nor where rows go.

use std::time::Instant;
use wire::sqlstate;

use exec::{ExecError, Forwarded, Request};
use sql::NodeEnum;
use sql::ast;

use crate::anew::Written;
use crate::client_io::binary;
use crate::metrics::CountedAs;
use crate::pg_temp::Made;
use crate::session::{Result, Session};

impl Session {
    pub(super) async fn copy(&mut self, c: &ast::CopyStmt, sql: &str) -> Result<Forwarded> {
        let started = Instant::now();
        let mut copy = c.clone();
        let bulk = exec::BulkCopy::take(&mut copy)?;
        if let Some(encoding) = self.io.encoding() {
            if option(c, "format").is_some_and(|arg| matches!(&arg, NodeEnum::String(s) if s.sval == "binary")) {
                return Err(binary("COPY data", encoding));
            }
            self.io.copy_begins(option(c, "encoding").is_some());
        }
        // Nothing of this transaction can have made or truncated its table.
        let alone = !self.transaction.is_active();
        let mut retry = self.retry();
        let result = loop {
            let e = match self.copy_once(&copy, sql, bulk).await {
                Ok(f) if !f.stale => break Ok(f),
                Ok(_) => ExecError::Stale,
                Err(e) => e,
            };
            if let Err(e) = self.begin_anew(e, &mut retry, Written { sql, bound: None }).await {
                break Err(e);
            }
        };
        self.router.metrics.statement(CountedAs::Copy, started.elapsed());
        match result {
            Ok(f) => Ok(f),
            Err(e) if alone && self.freezes_shards(c, &e) => Err(ExecError::sql(
                sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot perform COPY FREEZE because the table was not created or truncated in the current subtransaction",
            )),
            Err(e) => Err(Box::pin(exec::restore_error(&self.router.herd, &self.epoch.snapshot, e)).await),
        }
    }

    /// A node says that it can't FREEZE the rows of a table which is partitioned there, but for its users is not (`CopyFrom` in copyfrom.c).
    fn freezes_shards(&self, c: &ast::CopyStmt, e: &ExecError) -> bool {
        let cx = plan::Context::new(&self.epoch.snapshot, &self.search_path, &self.temporary);
        let table = c.relation.as_ref().and_then(|rv| cx.relation(rv)).and_then(|r| r.distribution());
        e.code() == sqlstate::FEATURE_NOT_SUPPORTED
            && e.to_fields().get(b'R') == Some("CopyFrom")
            && plan::copy_from::has_option(c, "freeze")
            && table.is_some_and(|d| d.partitions.is_none())
    }

    /// Planned and run once.
    async fn copy_once(&mut self, c: &ast::CopyStmt, sql: &str, bulk: exec::BulkCopy) -> Result<Forwarded> {
        if let Some(rv) = c.relation.as_ref().filter(|rv| rv.schemaname == "pg_temp") {
            self.need_in_pg_temp(&rv.relname)?;
        }
        let herd_reads = bulk.is_any() || (self.bulk.upsert && c.is_from);
        let relation = c.relation.as_ref().and_then(|rv| {
            let (schema, name) = sql::names::table(rv);
            if schema.is_none() && self.temporary.iter().any(|t| t == name) {
                return None;
            }
            self.epoch.snapshot.resolve(schema, name, &self.search_path).cloned()
        });
        if c.is_from {
            let cx = plan::Context::new(&self.epoch.snapshot, &self.search_path, &self.temporary);
            plan::copy_from::refuse_code(c, relation.as_deref(), &cx)?;
        } else {
            self.work().tables_as_it_began(relation.iter()).await?;
        }
        let relation = relation.filter(|r| r.distribution().is_some() || r.is_reference() || herd_reads);
        let query = match c.query.as_deref().and_then(|q| q.node.as_ref()) {
            Some(NodeEnum::InsertStmt(_)) if self.bulk.upsert => {
                return Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    "COPY of an INSERT with herd.upsert is not supported",
                )
                .hint("Run the INSERT by itself, or set herd.upsert = off."));
            }
            Some(q) => {
                let text = sql::deparse(q)?;
                let tree = sql::parse(&text, true)?.pop().ok_or_else(|| ExecError::internal("empty query"))?;
                let query = self.compile(&tree, &text).await?;
                self.work().may_by_rule(&query, &Request::simple(&text)).await?;
                Some(query)
            }
            None => None,
        };
        // As any other statement: who has a table on some nodes and waits for it on others is in a change's way.
        let of_query = query.iter().flat_map(|q| q.relations().map(|r| r.oid).chain(q.plan.whole().others.clone()));
        let tables = relation.iter().map(|r| r.oid).chain(of_query).collect();
        let writes = c.is_from || query.iter().any(|q| q.plan.whole().writes);
        if self.begins_with(tables, writes).await? {
            return Box::pin(self.copy_once(c, sql, bulk)).await;
        }
        self.work().copy(c, sql, relation, query, bulk).await
    }

    /// The connection it would go to may have had a pg_temp for somebody else.
    fn need_in_pg_temp(&self, table: &str) -> Result<()> {
        if self.pg_temp.made == Made::No {
            return Err(ExecError::sql(sqlstate::INVALID_SCHEMA_NAME, "schema \"pg_temp\" does not exist"));
        }
        if !self.pg_temp.told.names.iter().any(|(name, _)| name == table) {
            let message = format!("relation \"pg_temp.{table}\" does not exist");
            return Err(ExecError::sql(sqlstate::UNDEFINED_TABLE, message));
        }
        Ok(())
    }
}

/// What an option of a COPY says.
fn option(c: &ast::CopyStmt, name: &str) -> Option<NodeEnum> {
    c.options.iter().find_map(|option| match &option.node {
        Some(NodeEnum::DefElem(d)) if d.defname == name => d.arg.as_deref()?.node.clone(),
        _ => None,
    })
}
