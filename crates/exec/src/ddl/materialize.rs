//! CREATE and REFRESH MATERIALIZED VIEW over distributed tables: the rows go into a table that lasts as long as the transaction, and
//! home's own REFRESH takes them from there (`catalog/src/schema/materialized.sql`). It does not know what the query reads.

use catalog::{TemporaryRelation, quote_ident, quote_literal};
use plan::ddl::Materialized;
use sql::materialized::Column;
use wire::sqlstate;

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::route::Forwarded;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    pub(super) async fn materialize(
        &mut self,
        view: &Materialized,
        temporary: &[TemporaryRelation],
    ) -> Result<Forwarded> {
        if view.create.is_none() {
            self.refuse_other_owner(&view.view).await?;
            self.refuse_lasting(view, temporary).await?;
            self.ask_home(&view.lock()).await?;
            self.same_view(view).await?;
            self.refuse_lending(&view.view, &view.query).await?;
        }
        self.ask_home(&view.create_rows).await?;
        let columns = self.columns_of_rows(&view.rows).await?;
        if let Some(create) = view.create_view(&columns)? {
            self.ask_home(&create).await?;
            self.raises_epoch();
        }
        let mut tag = "CREATE MATERIALIZED VIEW".to_string();
        if let Some(refresh) = &view.refresh {
            if view.create.is_some() {
                self.refuse_lending(&view.view, &view.query).await?;
            }
            let filled = self.fill(&view.fill_rows(), temporary).await?;
            tag = if view.create.is_some() { filled.tag } else { "REFRESH MATERIALIZED VIEW".to_string() };
            self.ask_home(&source(&format!("{}::pg_catalog.regclass::pg_catalog.oid", quote_literal(&view.rows))))
                .await?;
            self.ask_home(refresh).await?;
            self.ask_home(&source("''")).await?;
        }
        self.ask_home(&format!("DROP TABLE {}", view.rows)).await?;
        Ok(Forwarded { tag, ..Forwarded::default() })
    }

    /// The view's query is its owner's code: whoever else runs it, through the router, would lend it his rights.
    async fn refuse_other_owner(&mut self, view: &str) -> Result<()> {
        let owner = format!(
            "SELECT pg_catalog.pg_get_userbyid(c.relowner), pg_catalog.pg_get_userbyid(c.relowner) OPERATOR(pg_catalog.=) CURRENT_USER \
             FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass",
            quote_literal(view)
        );
        match self.ask_home(&owner).await?.pop().as_deref() {
            Some([Some(owner), Some(is_owner)]) if is_owner == "f" => {
                // SET ROLE would be of no use.
                self.lends(view).await?;
                Err(ExecError::sql(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    format!("materialized view {view} over distributed tables can be refreshed by its owner only"),
                )
                .hint(&format!("SET ROLE {} first.", quote_ident(owner))))
            }
            _ => Ok(()),
        }
    }

    /// PostgreSQL undoes what a view's query does to the session, and lets it change no role; here nothing would.
    async fn refuse_lasting(&mut self, view: &Materialized, temporary: &[TemporaryRelation]) -> Result<()> {
        let tree = sql::parse(&view.query, true)?.pop().ok_or_else(|| ExecError::internal("no query"))?;
        let search_path = self.schemas().await?;
        let cx = plan::Context::new(&self.epoch.snapshot, &search_path, temporary);
        match plan::special::special(&tree, &cx).leaves == Default::default() {
            true => Ok(()),
            false => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!(
                    "materialized view {} over distributed tables can't be refreshed: its query runs code that may change the \
                     session's settings or role",
                    view.view
                ),
            )),
        }
    }

    /// The name may have come to mean another view before it was locked.
    async fn same_view(&mut self, view: &Materialized) -> Result<()> {
        self.refuse_other_owner(&view.view).await?;
        let definition = format!(
            "SELECT pg_catalog.pg_get_viewdef({}::pg_catalog.regclass) OPERATOR(pg_catalog.=) {}",
            quote_literal(&view.view),
            quote_literal(view.definition.as_deref().unwrap_or_default())
        );
        match self.ask_home(&definition).await?.pop().and_then(|row| row.into_iter().next().flatten()).as_deref() {
            Some("t") => Ok(()),
            _ => Err(ExecError::sql(
                sqlstate::T_R_SERIALIZATION_FAILURE,
                format!("materialized view {} has become another one meanwhile", view.view),
            )),
        }
    }

    async fn columns_of_rows(&mut self, rows: &str) -> Result<Vec<Column>> {
        let columns = format!(
            "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), \
                    CASE WHEN a.attcollation OPERATOR(pg_catalog.<>) t.typcollation THEN n.nspname END, c.collname \
             FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid \
             LEFT JOIN pg_catalog.pg_collation c ON c.oid OPERATOR(pg_catalog.=) a.attcollation \
             LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.collnamespace \
             WHERE a.attrelid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass AND a.attnum OPERATOR(pg_catalog.>) 0 ORDER BY a.attnum",
            quote_literal(rows)
        );
        let columns: Vec<Column> = self
            .ask_home(&columns)
            .await?
            .into_iter()
            .filter_map(|row| match &row[..] {
                [Some(name), Some(type_name), schema, collation] => Some(Column {
                    name: quote_ident(name),
                    type_name: type_name.clone(),
                    collation: schema.as_deref().zip(collation.as_deref()).map(|(s, c)| catalog::qualified(s, c)),
                }),
                _ => None,
            })
            .collect();
        match columns.is_empty() {
            true => Err(ExecError::sql(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "a materialized view without columns over distributed tables is not supported",
            )),
            false => Ok(columns),
        }
    }
}

/// Says, for the rest of the transaction, which table has the rows.
fn source(table: &str) -> String {
    format!("SELECT pg_catalog.set_config('herd.materialized_rows', {table}::pg_catalog.text, true)")
}
