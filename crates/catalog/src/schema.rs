//! The tables, views and functions a herd keeps on its nodes, and the scripts that make them.
//!
//! Scripts are for the simple query protocol (several statements in one message). They can run twice, and two
//! routers can run them at once: an advisory lock makes the second wait. Does not know how to reach a node.

use crate::{CatalogError, Query, quote_literal};

const NODE: &str = include_str!("schema/node.sql");
const HOME: &str = include_str!("schema/home.sql");

/// Key of the transaction-level advisory lock that every change of the catalog takes on home: "herd" in ASCII.
pub const CATALOG_LOCK: i64 = 0x6865_7264;

/// What a NOTIFY tells routers: the catalog has a new epoch.
pub const EPOCH_CHANNEL: &str = "herd_epoch";

/// How other nodes and routers reach home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    pub name: String,
    pub host: String,
    pub port: u16,
    pub database: String,
}

fn begin() -> String {
    // NOTICE would tell about every "already exists, skipping".
    format!("BEGIN;\nSET LOCAL client_min_messages = warning;\nSELECT pg_advisory_xact_lock({CATALOG_LOCK});\n")
}

/// Makes a server the home of a herd, with itself as node 1 and a new random herd id. Changes nothing where that has
/// been done before: the address of an existing home is left as it is, too (see [`set_node_address_sql`]).
pub fn bootstrap_home_sql(home: &NodeAddress) -> String {
    // gen_random_uuid() has fixed bits in its middle; the first and the last 8 digits are random.
    let mut script = begin() + NODE + HOME;
    script.push_str(
        "INSERT INTO herd.herd (id) SELECT left(u, 8) || right(u, 8) FROM (SELECT gen_random_uuid()::text) r (u) ON CONFLICT DO NOTHING;\n",
    );
    script.push_str(&format!(
        "INSERT INTO herd.node (id, name, host, port, database, is_home)\n    \
         SELECT 1, {}, {}, {}, {}, true WHERE NOT EXISTS (SELECT FROM herd.node);\nCOMMIT;\n",
        quote_literal(&home.name),
        quote_literal(&home.host),
        home.port,
        quote_literal(&home.database),
    ));
    script
}

/// Makes a server ready to be a node of the herd `herd_id`. Fails with SQLSTATE 55000 where it belongs to another herd.
pub fn bootstrap_node_sql(herd_id: &str) -> String {
    let id = quote_literal(herd_id);
    let mut script = begin() + NODE;
    script.push_str(&format!("INSERT INTO herd.herd (id) VALUES ({id}) ON CONFLICT DO NOTHING;\n"));
    script.push_str(&format!(
        "DO $herd$ BEGIN\n    IF (SELECT id FROM herd.herd) <> {id} THEN\n        \
         RAISE EXCEPTION 'this server belongs to another herd (%)', (SELECT id FROM herd.herd)\n            \
         USING ERRCODE = 'object_not_in_prerequisite_state',\n                  \
         HINT = 'Remove it from that herd first, then DROP SCHEMA herd CASCADE on it.';\n    END IF;\nEND $herd$;\nCOMMIT;\n"
    ));
    script
}

/// Tells routers where a node is now, after its server moved.
pub fn set_node_address_sql(id: crate::NodeId, host: &str, port: u16, database: &str) -> String {
    format!(
        "UPDATE herd.node SET host = {}, port = {port}, database = {} WHERE id = {id}",
        quote_literal(host),
        quote_literal(database)
    )
}

/// Runs [`bootstrap_home_sql`] on home and returns the herd's id.
pub async fn bootstrap_home<Q: Query>(q: &mut Q, home: &NodeAddress) -> Result<String, CatalogError<Q::Error>> {
    if let Err(error) = q.query(&bootstrap_home_sql(home)).await {
        // The script's BEGIN has left the session inside a failed transaction; the first error is the one that counts.
        let _ = q.query("ROLLBACK").await;
        return Err(CatalogError::Query(error));
    }
    let rows = q.query("SELECT id FROM herd.herd").await.map_err(CatalogError::Query)?;
    match rows.into_iter().next().and_then(|row| row.into_iter().next().flatten()) {
        Some(id) => Ok(id),
        None => Err(CatalogError::Corrupt("herd.herd has no row".into())),
    }
}
