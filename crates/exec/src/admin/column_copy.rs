//! `herd.add_column_copy` and `herd.drop_column_copy`: rows of `herd.column_copy` on all nodes, written in one transaction. Stores beside
//! the nodes follow what these say (crate `column`), and statements are planned by them; neither is known here, nor who waits for stores
//! (`fill_column_copy.rs`).

use std::sync::Arc;

use catalog::{ColumnCopy, NodeId, Relation, qualified};
use plan::admin::AdminCall;
use wire::sqlstate;

use super::named;
use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::router::unfinished::wait_for_changes;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// The copy's number.
    pub async fn add_column_copy(&mut self, call: &AdminCall, search_path: &[String]) -> Result<i64> {
        self.need_transaction();
        self.may_change_kinds().await?;
        let (table, columns, order_by) = self.to_be_copied(call, search_path)?;
        self.can_be_published(&table).await?;
        let nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        for node in &nodes {
            self.can_be_followed(*node).await?;
        }
        let number = self.ask_home("SELECT pg_catalog.nextval('herd.column_copy_number')").await?;
        let number: i64 = number
            .first()
            .and_then(|row| row.first()?.as_deref()?.parse().ok())
            .ok_or_else(|| ExecError::internal("a column copy got no number"))?;
        self.note_column_copy(number).await?;
        let copy = ColumnCopy { id: number, columns, order_by, indexed: vec![] };
        let insert = copy.listed(&qualified(&table.schema, &table.name));
        self.raises_epoch();
        for node in nodes {
            self.write_column_copy(node, &insert).await.map_err(|e| match &*e.code() {
                sqlstate::UNIQUE_VIOLATION => {
                    let message = format!("table \"{}\" has a column copy already", table.name);
                    ExecError::sql(sqlstate::DUPLICATE_OBJECT, message).hint("herd.drop_column_copy() first.")
                }
                _ => e,
            })?;
        }
        Ok(number)
    }

    /// The table, and the columns that its copy is to have, with those that it is sorted by.
    fn to_be_copied(
        &self,
        call: &AdminCall,
        search_path: &[String],
    ) -> Result<(Arc<Relation>, Vec<String>, Vec<String>)> {
        let (columns, order_by) = call.column_copy()?;
        let table = named(&self.epoch.snapshot, &call.table()?, search_path)?;
        let columns = copied_columns(&table, columns, &order_by)?;
        Ok((table, columns, order_by))
    }

    /// Whether it can be added, and be waited for.
    pub(super) fn may_be_copied(&self, call: &AdminCall, search_path: &[String]) -> Result<()> {
        let (table, ..) = self.to_be_copied(call, search_path)?;
        self.has_stores(&table)
    }

    /// Wherever nodes say that there is one.
    pub(super) async fn drop_column_copy(&mut self, call: &AdminCall, search_path: &[String]) -> Result<()> {
        self.need_transaction();
        self.may_change_kinds().await?;
        let copy = match self.client.job() {
            // In the course of a job it is undone what that has done, whatever the table is called by now.
            Some(job) => {
                // It may be listed on some nodes, and be about to be on others.
                wait_for_changes(self.herd, &self.epoch.snapshot).await;
                self.noted_column_copy(job).await?
            }
            None => {
                let table = named(&self.epoch.snapshot, &call.table()?, search_path)?;
                let copy = table.column_copy.as_ref().map(|copy| copy.id);
                Some(copy.ok_or_else(|| {
                    let message = format!("table \"{}\" has no column copy", table.name);
                    ExecError::sql(sqlstate::UNDEFINED_OBJECT, message)
                })?)
            }
        };
        let Some(copy) = copy else { return Ok(()) };
        let delete = ColumnCopy::unlisted(copy);
        let nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        self.raises_epoch();
        for node in nodes {
            self.write_column_copy(node, &delete).await?;
        }
        Ok(())
    }

    async fn write_column_copy(&mut self, node: NodeId, sql: &str) -> Result<()> {
        let mut p = self.lane(node).await?;
        p.wrote = true;
        let done = p.lane.run(sql).await;
        self.put_back(p).await;
        done?;
        Ok(())
    }

    /// Nobody could change its rows otherwise (pub_contains_invalid_column in PostgreSQL's publicationcmds.c).
    async fn can_be_published(&mut self, table: &Relation) -> Result<()> {
        if !table.columns.iter().any(|c| c.generated) {
            return Ok(());
        }
        let asked = format!(
            "SELECT c.relreplident OPERATOR(pg_catalog.=) 'f' AND pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 180000 \
               FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) {}",
            table.oid
        );
        let rows = self.ask_home(&asked).await?;
        if rows.first().and_then(|row| row.first()?.as_deref()) != Some("t") {
            return Ok(());
        }
        let message = format!(
            "column copies of table \"{}\" are not supported: its REPLICA IDENTITY is FULL, and it has generated columns",
            table.name
        );
        Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .hint("ALTER TABLE … REPLICA IDENTITY DEFAULT first."))
    }

    /// A store follows what the node's log tells, and orders texts by their bytes in UTF8.
    async fn can_be_followed(&mut self, node: NodeId) -> Result<()> {
        const ASKED: &str =
            "SELECT pg_catalog.current_setting('wal_level'), pg_catalog.current_setting('server_encoding')";
        let rows = self.ask_node(node, ASKED).await?;
        let is = |n: usize, value: &str| rows.first().and_then(|row| row.get(n)?.as_deref()) == Some(value);
        let name = self.epoch.snapshot.node(node).map_or("", |n| &n.name);
        let refused = |message: String, hint: &str| {
            Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message).hint(hint))
        };
        if !is(0, "logical") {
            let message = format!("node \"{name}\" does not write what a column copy needs into its log");
            return refused(message, "Set wal_level = logical there, and restart it.");
        }
        if !is(1, "UTF8") {
            let message = format!("node \"{name}\" has another encoding than UTF8, which column copies have");
            return refused(message, "Rows serve all queries.");
        }
        Ok(())
    }
}

/// The columns that a copy is to have, if the table can have one.
fn copied_columns(table: &Relation, asked: Vec<String>, order_by: &[String]) -> Result<Vec<String>> {
    let name = &table.name;
    let refused = |code, message: String, hint: &str| Err(ExecError::sql(code, message).hint(hint));
    match table.distribution() {
        None if !table.is_reference() => {
            let message = format!(
                "table \"{name}\" is not distributed, and only distributed and reference tables have column copies"
            );
            let hint = "create_distributed_table() or create_reference_table() first.";
            return refused(sqlstate::FEATURE_NOT_SUPPORTED, message, hint);
        }
        Some(d) if d.is_partitioned() || d.is_part => {
            let message =
                format!("table \"{name}\" is partitioned by its owner: column copies of it are not supported");
            return refused(sqlstate::FEATURE_NOT_SUPPORTED, message, "Its rows serve all queries.");
        }
        _ => {}
    }
    let Some(key) = table.unique.iter().find(|index| index.primary) else {
        let message = format!("table \"{name}\" has no primary key, by which a column copy finds its rows");
        return refused(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message, "ALTER TABLE … ADD PRIMARY KEY.");
    };
    let mut columns = asked;
    if columns.is_empty() {
        columns = table.columns.iter().filter(|c| !c.generated).map(|c| c.name.clone()).collect();
    }
    for column in columns.iter().chain(order_by) {
        let Some(at) = table.column(column) else {
            let message = format!("column \"{column}\" of relation \"{name}\" does not exist");
            return Err(ExecError::sql(sqlstate::UNDEFINED_COLUMN, message));
        };
        if table.columns[at].generated {
            let message = format!("column \"{column}\" is generated, and in no log");
            return refused(sqlstate::FEATURE_NOT_SUPPORTED, message, "Leave it out: queries that need it read rows.");
        }
    }
    for needed in key.columns.iter().map(|at| &table.columns[*at].name).chain(order_by) {
        if !columns.contains(needed) {
            let message = format!("a column copy of \"{name}\" needs column \"{needed}\"");
            return refused(
                sqlstate::INVALID_PARAMETER_VALUE,
                message,
                "Its primary key and what it is sorted by are part of it.",
            );
        }
    }
    Ok(columns)
}
