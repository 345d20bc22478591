//! The connection by which a router loads the catalog: its own, and it stays, so that the plans of what is asked each time are
//! kept there. It does not know what is asked.

use catalog::Row;
use pool::{Conn, PoolError};

/// The router's connection for questions about the catalog.
pub struct Desk(pub Conn);

impl catalog::Query for Desk {
    type Error = PoolError;

    async fn query(&mut self, sql: &str) -> Result<Vec<Row>, PoolError> {
        let answer = self.0.kept_all(&[sql.to_string()]).await.pop();
        answer.unwrap_or_else(|| Err(self.0.gone()))
    }

    async fn query_all(&mut self, sqls: &[String]) -> Vec<Result<Vec<Row>, PoolError>> {
        self.0.kept_all(sqls).await
    }
}
