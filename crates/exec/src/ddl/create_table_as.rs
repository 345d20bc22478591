//! CREATE TABLE AS: the empty table, then its rows as the INSERT … SELECT they are.

use crate::client::Client;
use crate::error::{ExecError, Result};
use crate::request::Request;
use crate::route::{Forwarded, Ids, forward};
use crate::work::Work;
use crate::work::own_catalog::load_own;
use crate::work::planned::planned;
use catalog::TemporaryRelation;

impl<C: Client> Work<'_, C> {
    /// The empty table, then its rows as an INSERT … SELECT of the transaction's own schema.
    pub(super) async fn create_table_as(
        &mut self,
        create: &str,
        insert: &str,
        temporary: &[TemporaryRelation],
    ) -> Result<Forwarded> {
        let home = self.home();
        let mut p = self.lane(home).await?;
        let made = async {
            p.lane.put_query(create);
            p.lane.conn.flush().await?;
            forward(&mut p.lane, self.client, false, Ids::Home).await
        }
        .await;
        self.put_back(p).await;
        made?;
        let inserted = self.fill(insert, temporary).await?;
        self.raises_epoch();
        Ok(inserted)
    }

    /// Rows for a table that the transaction has made, by an INSERT … SELECT. The tag counts them.
    pub(super) async fn fill(&mut self, insert: &str, temporary: &[TemporaryRelation]) -> Result<Forwarded> {
        let epoch = load_own(self).await?;
        let search_path = self.schemas().await?;
        let mut work = self.with_epoch(&epoch, true);
        let statement = sql::parse(insert, true)?.pop().ok_or_else(|| ExecError::internal("no statement"))?;
        let compiled = planned(&epoch, statement, insert, &search_path, temporary, &[], None).await?;
        let inserted = work.run(&compiled, &Request::simple(insert)).await?;
        Ok(Forwarded { tag: format!("SELECT {}", wire::backend::rows_of_tag(&inserted.tag)), ..inserted })
    }

    /// Where home looks for names without a schema now.
    pub(super) async fn schemas(&mut self) -> Result<Vec<String>> {
        let schemas = self.ask_home("SELECT pg_catalog.unnest(pg_catalog.current_schemas(true))").await?;
        Ok(schemas.into_iter().flatten().flatten().collect())
    }
}
