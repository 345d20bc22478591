//! What is moved from where to where: a shard of each table of a group, as it was when the move began.

use std::sync::Arc;

use catalog::{NodeId, Oid, Placement, Relation, Snapshot, qualified, quote_literal};

use super::changes::changed;
use crate::error::Result;

/// A shard that is moved, with those colocated with it.
pub struct Move {
    pub group: i32,
    pub shard: i32,
    pub from: NodeId,
    pub to: NodeId,
    /// Tables after those that their foreign keys refer to.
    pub tables: Vec<Table>,
    /// Chance, in all names that this move gives.
    pub tag: String,
    pub snapshot: Arc<Snapshot>,
}

/// One of the tables.
pub struct Table {
    pub relation: Arc<Relation>,
    pub prefix: String,
    /// The copy's name among the shards, until it is one.
    pub copy: String,
    /// What `herd.move_facts` says of the shard, and some of it.
    pub facts: String,
    pub mark: String,
    pub part: Oid,
    /// Its owner is a superuser: what he wrote may run as the router.
    pub trusted: bool,
    pub unlogged: bool,
    /// By itself.
    pub published: bool,
    /// Without indexes.
    pub bytes: u64,
    /// Those that rows have, and those they are found by; quoted.
    pub columns: Vec<String>,
    pub key: Vec<String>,
}

impl Table {
    /// The shard, quoted and qualified.
    pub fn part_name(&self, shard: i32) -> String {
        qualified("herd_shards", &format!("{}_{shard}", self.prefix))
    }

    /// The copy, quoted and qualified.
    pub fn fresh(&self) -> String {
        qualified("herd_shards", &self.copy)
    }

    /// The table itself, as a regclass.
    pub fn parent(&self) -> String {
        format!("{}::pg_catalog.regclass", quote_literal(&qualified(&self.relation.schema, &self.relation.name)))
    }

    /// Calls one of the catalog's functions about the copy.
    pub fn call(&self, function: &str, more: &str) -> String {
        let (copy, facts) = (quote_literal(&self.copy), quote_literal(&self.facts));
        format!("SELECT {function}({}, {copy}, {facts}::pg_catalog.jsonb{more})", self.parent())
    }
}

impl Move {
    /// The names of what the move makes on the shard's node: plain ones, which need no quotes.
    pub fn slot(&self) -> String {
        format!("herd_move_{}", self.tag)
    }

    /// See [`slot`](Self::slot).
    pub fn publication(&self) -> String {
        self.slot()
    }

    /// By home's object ids.
    pub fn oids(&self) -> Vec<Oid> {
        self.tables.iter().map(|t| t.relation.oid).collect()
    }

    /// All tables of the group.
    pub fn relations(&self) -> Vec<Arc<Relation>> {
        self.tables.iter().map(|t| t.relation.clone()).collect()
    }

    /// The group is made of the same tables, of the same names, in the same places.
    pub fn is_still(&self, now: &Snapshot) -> Result<()> {
        let mut members = group_of(now, self.group);
        let found = self.tables.iter().all(|t| {
            let same = |r: &Arc<Relation>| {
                let prefix = r.distribution().is_some_and(|d| d.prefix == t.prefix);
                (r.oid, &r.schema, &r.name) == (t.relation.oid, &t.relation.schema, &t.relation.name) && prefix
            };
            members.iter().position(same).map(|at| members.swap_remove(at)).is_some()
        });
        let nodes = |snapshot: &Snapshot| -> Vec<NodeId> {
            snapshot.groups.get(&self.group).map(|g| g.shards.iter().map(|s| s.node).collect()).unwrap_or_default()
        };
        let same = found && members.is_empty() && nodes(now) == nodes(&self.snapshot);
        if same && now.node(self.to).is_some() { Ok(()) } else { Err(changed()) }
    }
}

/// The tables of a group, by name.
pub fn group_of(snapshot: &Snapshot, group: i32) -> Vec<Arc<Relation>> {
    let of = |r: &&Arc<Relation>| matches!(&r.placement, Placement::Distributed(d) if d.group.id == group);
    let mut members: Vec<_> = snapshot.relations.values().filter(of).cloned().collect();
    members.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
    members
}
