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
    /// The table's name with its schema, for people.
    pub table: String,
    pub columns: Vec<String>,
    pub order_by: Vec<String>,
}

/// More copies than that are not made.
const COPIES_MAX: usize = 1_000;

/// The list; empty where there is none. Tables and columns that are gone are not on it, whatever the node still says: a column that has another name
/// by now is one that is gone, too.
pub async fn read(conn: &mut Conn) -> Result<Vec<Wanted>> {
    let there = |names: &str| {
        format!(
            "to_json(ARRAY(SELECT l.name FROM unnest(k.{names}) WITH ORDINALITY l (name, place)
               WHERE EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = l.name AND a.attnum > 0 AND NOT a.attisdropped)
               ORDER BY l.place))"
        )
    };
    let sql = format!(
        "SELECT k.id, c.oid::int8, n.nspname || '.' || c.relname, {}, {} FROM herd.column_copy k JOIN pg_class c ON c.oid = k.relation
         JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY k.id",
        there("columns"),
        there("order_by")
    );
    let rows = match conn.simple(&sql).await {
        Err(PoolError::Server(e)) if matches!(e.code(), sqlstate::UNDEFINED_TABLE | sqlstate::INVALID_SCHEMA_NAME) => {
            return Ok(Vec::new());
        }
        rows => rows?,
    };
    let names = |text: &Option<String>| serde_json::from_str::<Vec<String>>(text.as_deref()?).ok();
    let one = |row: &catalog::Row| match row.as_slice() {
        [Some(id), Some(relation), Some(table), columns, order_by] => Some(Wanted {
            id: id.parse().ok().filter(|id| *id >= 0)?,
            relation: relation.parse().ok()?,
            table: table.clone(),
            columns: names(columns)?,
            order_by: names(order_by)?,
        }),
        _ => None,
    };
    let listed = rows.iter().take(COPIES_MAX).map(one).collect::<Option<Vec<_>>>();
    listed.ok_or_else(|| Error::surprise("herd.column_copy is not what it should be"))
}
