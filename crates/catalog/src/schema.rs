//! The tables, views and functions a herd keeps on its nodes, and the scripts that make them.
//!
//! Scripts are for the simple query protocol (several statements in one message). They can run twice, and two
//! routers can run them at once: an advisory lock makes the second wait. Does not know how to reach a node.

use crate::{CatalogError, Query, quote_literal};

/// What every node gets; then, when everything is there, the grants.
const NODE: &str = concat!(
    include_str!("schema/node.sql"),
    include_str!("schema/functions.sql"),
    include_str!("schema/rights.sql"),
    include_str!("schema/owner.sql"),
    include_str!("schema/materialized.sql"),
    include_str!("schema/read_whole.sql"),
    include_str!("schema/cluster.sql"),
    include_str!("schema/move.sql"),
    include_str!("schema/repair.sql"),
    include_str!("schema/compare.sql"),
    include_str!("schema/admin.sql"),
    include_str!("schema/sizes.sql"),
);
const GRANTS: &str = include_str!("schema/grants.sql");
const HOME: &str = concat!(
    include_str!("schema/home.sql"),
    include_str!("schema/definitions.sql"),
    include_str!("schema/encoding.sql"),
    include_str!("schema/job.sql"),
    include_str!("schema/restore.sql"),
);
const HOME_GRANTS: &str = include_str!("schema/home_grants.sql");

/// Key of the transaction-level advisory lock that every change of the catalog takes on home: "herd" in ASCII.
pub const CATALOG_LOCK: i64 = 0x6865_7264;

/// A view that is made anew waits for whoever reads it, and others behind it for it: only so long.
const LOCKS_MAX: &str = "2s";

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

/// What makes a herd this herd.
#[derive(Clone, PartialEq, Eq)]
pub struct HerdKey {
    /// 64 random bits in hexadecimal. Anybody may know it.
    pub id: String,
    /// 256 bits in hexadecimal that only routers know, and nodes check: see `herd.decide()`.
    pub seal: String,
}

impl std::fmt::Debug for HerdKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HerdKey").field("id", &self.id).finish_non_exhaustive()
    }
}

fn begin() -> String {
    // NOTICE would tell about every "already exists, skipping".
    format!(
        "BEGIN;\nSET LOCAL search_path = pg_catalog, pg_temp;\nSET LOCAL client_min_messages = warning;\n\
         SELECT pg_catalog.pg_advisory_xact_lock({CATALOG_LOCK});\nSET LOCAL lock_timeout = '{LOCKS_MAX}';\n"
    )
}

/// What the script leaves as the comment of schema herd: tells whether a node has what this version makes.
pub fn version() -> String {
    let step = |h: u64, b: u8| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    let scripts = NODE.bytes().chain(GRANTS.bytes()).chain(HOME.bytes()).chain(HOME_GRANTS.bytes());
    let mark = scripts.fold(0xcbf2_9ce4_8422_2325, step);
    format!("pgherd {} {mark:016x}: catalog of the herd", env!("CARGO_PKG_VERSION"))
}

/// `more` is what this node has besides.
fn script(more: &str, more_grants: &str) -> String {
    let version = quote_literal(&version());
    format!("{}{NODE}{more}{GRANTS}{more_grants}COMMENT ON SCHEMA herd IS {version};\n", begin())
}

/// Makes a server the home of a herd, with itself as node 1 and a new random herd id. Changes nothing where that has
/// been done before: the address of an existing home is left as it is, too.
pub fn bootstrap_home_sql(home: &NodeAddress) -> String {
    // gen_random_uuid() has fixed bits in its middle; the first and the last 8 digits are random.
    let mut script = script(HOME, HOME_GRANTS);
    script.push_str(
        "INSERT INTO herd.herd (id) SELECT left(u, 8) || right(u, 8) FROM (SELECT gen_random_uuid()::text) r (u) ON CONFLICT DO NOTHING;\n\
         INSERT INTO herd.seal (value) SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) \
         ON CONFLICT DO NOTHING;\n",
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

/// Makes a server ready to be a node of a herd, but for [`SEAL_NODE`]. Fails with SQLSTATE 55000 where it belongs to another one.
pub fn bootstrap_node_sql(herd_id: &str) -> String {
    let id = quote_literal(herd_id);
    let mut script = script("", "");
    script.push_str(&format!(
        "INSERT INTO herd.herd (id) VALUES ({id}) ON CONFLICT DO NOTHING;\n\
         DO $herd$ BEGIN\n    IF (SELECT id FROM herd.herd) <> {id} THEN\n        \
         RAISE EXCEPTION 'this server belongs to another herd (%)', (SELECT id FROM herd.herd)\n            \
         USING ERRCODE = 'object_not_in_prerequisite_state',\n                  \
         HINT = 'Remove it from that herd first, then DROP SCHEMA herd CASCADE on it.';\n    END IF;\nEND $herd$;\nCOMMIT;\n"
    ));
    script
}

/// Gives a node the herd's seal, its parameter, in hexadecimal: in no text, since servers log texts, and only when the server is
/// accepted as a node.
pub const SEAL_NODE: &str = "INSERT INTO herd.seal (value) VALUES (pg_catalog.decode($1, 'hex')) \
    ON CONFLICT (one) DO UPDATE SET value = excluded.value";

/// Runs [`bootstrap_home_sql`] on home, unless it is as this version makes it: the script waits for whoever reads the herd's
/// views, which anybody may for as long as he likes.
pub async fn bootstrap_home<Q: Query>(q: &mut Q, home: &NodeAddress) -> Result<HerdKey, CatalogError<Q::Error>> {
    const PRESENT: &str = "SELECT pg_catalog.obj_description(pg_catalog.to_regnamespace('herd')::pg_catalog.oid, 'pg_namespace') \
        WHERE pg_catalog.to_regclass('herd.node') IS NOT NULL AND pg_catalog.to_regclass('herd.seal') IS NOT NULL";
    let present = q.query(PRESENT).await.map_err(CatalogError::Query)?;
    if present.first().and_then(|row| row.first()?.as_deref()) == Some(&version()) {
        q.query(KNOWN_BY_NUMBER).await.map_err(CatalogError::Query)?;
        return read_key(q).await;
    }
    if let Err(error) = q.query(&bootstrap_home_sql(home)).await {
        // The script's BEGIN has left the session inside a failed transaction; the first error is the one that counts.
        let _ = q.query("ROLLBACK").await;
        return Err(CatalogError::Query(error));
    }
    read_key(q).await
}

/// A home that was restored from a dump has the herd's tables under other numbers.
const KNOWN_BY_NUMBER: &str = "UPDATE herd.relation SET oid = \
    pg_catalog.to_regclass(pg_catalog.quote_ident(schema) OPERATOR(pg_catalog.||) '.' OPERATOR(pg_catalog.||) pg_catalog.quote_ident(name)) \
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) relation.oid)";

/// The herd's key, from home. Only the owner of schema herd may read it.
pub async fn read_key<Q: Query>(q: &mut Q) -> Result<HerdKey, CatalogError<Q::Error>> {
    let sql = "SELECT h.id, pg_catalog.encode(s.value, 'hex') FROM herd.herd h, herd.seal s";
    let rows = q.query(sql).await.map_err(CatalogError::Query)?;
    let mut cells = rows.into_iter().flatten().flatten();
    match (cells.next(), cells.next()) {
        (Some(id), Some(seal)) => Ok(HerdKey { id, seal }),
        _ => Err(CatalogError::Corrupt("herd.herd or herd.seal has no row".into())),
    }
}
