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
            let roles = self.roles(node, &missing).await?;
            if roles.is_empty() {
                continue;
            }
            let mut admin = self.herd.admin(&self.epoch.snapshot, node).await?;
            admin.simple(&format!("GRANT CREATE ON SCHEMA herd_shards TO {}", roles.join(", "))).await?;
        }
        Ok(())
    }

    /// Takes the right from roles that are to be dropped and own no table any more, on every node: it would keep them there until the
    /// router's next round (`herd.settle()`).
    pub(super) async fn take_rights(&mut self, roles: &[String]) -> Result<()> {
        let nodes: Vec<NodeId> = self.epoch.snapshot.nodes.iter().map(|n| n.id).collect();
        let idle = idle(roles);
        for node in nodes {
            let roles = self.roles(node, &idle).await?;
            if roles.is_empty() {
                continue;
            }
            let mut admin = self.herd.admin(&self.epoch.snapshot, node).await?;
            let revoke = format!("REVOKE CREATE ON SCHEMA herd_shards FROM {} CASCADE", roles.join(", "));
            if let Err(error) = admin.simple(&revoke).await {
                // Another router does so at this moment; if not, DROP ROLE says what is left.
                tracing::debug!(%error, node, "a role that is to be dropped keeps its right among the shards");
            }
        }
        Ok(())
    }

    /// The roles that a node names in answer to the client, as SQL has their names.
    async fn roles(&mut self, node: NodeId, question: &str) -> Result<Vec<String>> {
        let rows = self.ask_node(node, question).await?;
        Ok(rows.into_iter().flatten().flatten().map(|name| quote_ident(&name)).collect())
    }
}

/// Which of these roles have the right and own no table any more, of those that the client may drop.
fn idle(roles: &[String]) -> String {
    let names: Vec<String> = roles.iter().map(|r| quote_literal(r)).collect();
    format!(
        "SELECT r.rolname FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a, pg_catalog.pg_roles r \
         WHERE n.nspname OPERATOR(pg_catalog.=) 'herd_shards' AND a.privilege_type OPERATOR(pg_catalog.=) 'CREATE' \
         AND r.oid OPERATOR(pg_catalog.=) a.grantee AND r.rolname OPERATOR(pg_catalog.=) ANY (ARRAY[{}]::pg_catalog.name[]) \
         AND pg_catalog.pg_has_role(r.oid, 'MEMBER WITH ADMIN OPTION') \
         AND NOT EXISTS (SELECT FROM herd.shard_tables s JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.parent \
         WHERE c.relowner OPERATOR(pg_catalog.=) r.oid)",
        names.join(", ")
    )
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
