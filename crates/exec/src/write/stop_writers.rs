//! Others that write a table, or lock its rows, wait for the transaction's end, before they have a snapshot; readers do not.
//!
//! It does not know what for.

use std::collections::BTreeSet;

use catalog::{NodeId, Relation};

use crate::client::Client;
use crate::error::Result;
use crate::work::Work;

impl<C: Client> Work<'_, C> {
    /// Home goes first, so that two who do this meet there. Who has prepared a commit holds his locks until it is done on the node:
    /// behind this, what others have written is there on each of the nodes or on none.
    pub(super) async fn stop_writers(&mut self, relation: &Relation, mut nodes: BTreeSet<NodeId>) -> Result<()> {
        let home = self.home();
        nodes.remove(&home);
        let sql = format!("LOCK TABLE {} IN EXCLUSIVE MODE", catalog::qualified(&relation.schema, &relation.name));
        for node in std::iter::once(home).chain(nodes) {
            let mut p = self.lane(node).await?;
            let locked = p.lane.run(&sql).await;
            p.locked = true;
            self.put_back(p).await;
            locked?;
        }
        Ok(())
    }

    /// PostgreSQL lets lock a table who may change all columns of it, or delete its rows (`LockTableAclCheck` in lockcmds.c).
    pub(super) async fn may_stop_writers(&mut self, relation: &Relation) -> Result<bool> {
        let sql = format!(
            "SELECT pg_catalog.has_table_privilege('{}'::pg_catalog.oid, 'UPDATE, DELETE, TRUNCATE')",
            relation.named_oid()
        );
        let rows = self.ask_home(&sql).await?;
        Ok(rows.first().and_then(|r| r.first()).is_some_and(|v| v.as_deref() == Some("t")))
    }
}
