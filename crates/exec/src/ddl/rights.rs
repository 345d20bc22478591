//! The right to make indexes on shards, and to own them. PostgreSQL asks for CREATE on the schema an index or its owner is
//! in; owners of distributed tables have that on their table's own schema, but nobody has it on the schema of the shards:
//! whoever does could put a table where a shard is going to be. So owners get it, from the router, when they need it.

use catalog::{NodeId, quote_ident, quote_literal};

use plan::ddl::Rights;

use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Asks each node, in the client's name, who is missing the right, and grants it.
    pub(super) async fn grant_rights(&mut self, rights: &Rights, nodes: impl Iterator<Item = NodeId>) -> Result<()> {
        let missing = missing(rights);
        for node in nodes {
            let mut p = self.lane(node).await?;
            let roles = p.lane.rows(&missing).await;
            self.put_back(p).await;
            let roles: Vec<String> = roles?.into_iter().flatten().flatten().map(|r| quote_ident(&r)).collect();
            if roles.is_empty() {
                continue;
            }
            let mut admin = self.herd.admin(&self.epoch.snapshot, node).await?;
            admin.simple(&format!("GRANT CREATE ON SCHEMA herd_shards TO {}", roles.join(", "))).await?;
        }
        Ok(())
    }
}

/// Only for the owner of a table that the herd has distributed, and for roles the owner could hand it to.
fn missing(rights: &Rights) -> String {
    let new_owner = rights.new_owner.as_deref().map_or("NULL".to_string(), quote_literal);
    format!(
        "SELECT r.rolname FROM pg_catalog.pg_class t, pg_catalog.pg_roles r \
         WHERE t.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass({}) AND pg_catalog.pg_has_role(t.relowner, 'USAGE') \
         AND (r.rolname OPERATOR(pg_catalog.=) current_user OR r.rolname OPERATOR(pg_catalog.=) {new_owner}) AND pg_catalog.pg_has_role(r.oid, 'MEMBER') \
         AND NOT pg_catalog.has_schema_privilege(r.oid, 'herd_shards', 'CREATE')",
        quote_literal(&rights.table)
    )
}
