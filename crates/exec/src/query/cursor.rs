//! A cursor over rows that the router holds: home's, over arrays that are its parameters, so that it needs no table, and every
//! direction PostgreSQL knows works. It does not know which rows they are, nor where more than fit into arrays go.

use wire::backend;

use crate::client::Client;
use crate::error::Result;
use crate::kept_rows::KeptRows;

use crate::render::{self, NodeStatement};
use crate::text_arrays::Arrays;
use crate::work::Work;
use crate::work::rows;

/// What it reads: held rows of these types, under these names.
pub fn query_over_held<'n>(types: &[String], names: impl Iterator<Item = &'n str>) -> String {
    let list = names.enumerate().map(|(i, name)| format!("h.c{i} AS {}", catalog::quote_ident(name)));
    format!("SELECT {} FROM (SELECT {}) h", list.collect::<Vec<_>>().join(", "), render::unnest(1, types))
}

impl<C: Client> Work<'_, C> {
    /// Opens it: `declare` is DECLARE … FOR [`query_over_held`].
    pub async fn declare_over_held(&mut self, declare: String, width: usize, held: &KeptRows) -> Result<()> {
        let mut arrays = Arrays::new(width);
        for row in held.iter() {
            arrays.push(&backend::parse_data_row(&row[wire::frame::HEADER_LEN..])?)?;
        }
        let statement = NodeStatement::over_arrays(declare, arrays.finish());
        let home = self.home();
        let mut p = self.lane(home).await?;
        rows::send_statement(&mut p.lane, None, &statement, false, &[]);
        let done = async {
            p.lane.conn.flush().await?;
            rows::drain(&mut p.lane).await
        }
        .await;
        self.put_back(p).await;
        done
    }

    /// Whether the transaction may make a temporary table on home.
    pub async fn may_make_temporary(&mut self) -> Result<bool> {
        let sql = "SELECT pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'off' \
                   AND pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY')";
        let rows = self.ask_home(sql).await?;
        Ok(rows.first().is_some_and(|row| row[0].as_deref() == Some("t")))
    }
}
