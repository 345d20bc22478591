//! What nodes look at behind or in front of statements that name a distributed table: is it still the one that was planned for?

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use catalog::{NodeId, Relation};
use txn::Look;

/// The fence of statements that name a distributed table and not a partition: on each node, a partition of every such
/// table must still have the name it had when the statement was planned (`ddl/renew.rs` says when it has not). It is only
/// parsed, behind the statement, in its transaction: the statement's lock keeps the table's name what it is until then.
#[derive(Clone, Debug, Default)]
pub struct Looks(Option<Arc<HashMap<NodeId, Arc<Look>>>>);

impl Looks {
    /// One partition of each distributed table on every node that has any; tables of other kinds have none.
    pub fn of_tables<'r>(tables: impl Iterator<Item = &'r Arc<Relation>>) -> Self {
        let mut partitions: HashMap<NodeId, BTreeSet<String>> = HashMap::new();
        for relation in tables {
            let Some(d) = relation.distribution() else { continue };
            let mut nodes = HashSet::new();
            for shard in d.group.shards.iter().filter(|s| nodes.insert(s.node)) {
                if let Some(partition) = d.looked_at(shard.number) {
                    partitions.entry(shard.node).or_default().insert(partition);
                }
            }
        }
        let text = |names: BTreeSet<String>| {
            let each = names.into_iter().map(|name| format!("SELECT FROM {name}")).collect::<Vec<_>>();
            Arc::new(Look::new(each.join(" UNION ALL ")))
        };
        Looks(Some(Arc::new(partitions.into_iter().map(|(node, names)| (node, text(names))).collect())))
    }

    /// What to look at behind a statement on this node; `None`: there is nothing.
    pub fn of(&self, node: NodeId) -> Option<Arc<Look>> {
        self.0.as_ref()?.get(&node).cloned()
    }

    /// In front of a COPY, whose rows nobody sends twice: it fails before it asks for any. PREPARE keeps a lock on the
    /// partition to the end of the transaction, so its name, and with it the table's, stays what it is.
    pub fn in_front(&self, node: NodeId, sql: &str) -> String {
        match self.alone(node) {
            Some(look) => format!("{look}; {sql}"),
            None => sql.to_string(),
        }
    }

    /// The same, before what is asked in a transaction.
    pub fn alone(&self, node: NodeId) -> Option<String> {
        self.of(node).map(|look| format!("PREPARE herd_look AS {}; DEALLOCATE herd_look", look.sql))
    }
}
