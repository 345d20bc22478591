//! Which copies are listed: the node's `herd.column_copy`. It does not know which there are.

use pool::{Conn, PoolError};
use wire::sqlstate;

use crate::error::{Error, Result};

/// A row of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub id: i64,
    /// The table's oid on this node.
    pub relation: u32,
    pub columns: Vec<String>,
    pub order_by: Vec<String>,
}

/// More copies than that are not made.
const COPIES_MAX: usize = 1_000;

/// The list; empty where there is none.
pub async fn read(conn: &mut Conn) -> Result<Vec<Wanted>> {
    let sql = "SELECT id, relation::oid::int8, to_json(columns), to_json(order_by) FROM herd.column_copy ORDER BY id";
    let rows = match conn.simple(sql).await {
        Err(PoolError::Server(e)) if matches!(e.code(), sqlstate::UNDEFINED_TABLE | sqlstate::INVALID_SCHEMA_NAME) => {
            return Ok(Vec::new());
        }
        rows => rows?,
    };
    let names = |text: &Option<String>| serde_json::from_str::<Vec<String>>(text.as_deref()?).ok();
    let one = |row: &catalog::Row| match row.as_slice() {
        [Some(id), Some(relation), columns, order_by] => Some(Wanted {
            id: id.parse().ok().filter(|id| *id >= 0)?,
            relation: relation.parse().ok()?,
            columns: names(columns)?,
            order_by: names(order_by)?,
        }),
        _ => None,
    };
    let listed = rows.iter().take(COPIES_MAX).map(one).collect::<Option<Vec<_>>>();
    listed.ok_or_else(|| Error::surprise("herd.column_copy is not what it should be"))
}
