//! `herd.move_shard(table, shard, node)`: a shard, and those of the tables colocated with it, on another node, reads and writes going on; and
//! `herd.split_shard(table, shard)`, the same on its own node, where a table of two partitions takes the rows; and
//! `herd.merge_shards(table, shard, other)`, where two shards leave and a table of one partition takes their rows. Which splits make a
//! shard of one key is `isolate.rs`'s.
//!
//! 1. `plan.rs`, and here: what is moved, and into what it is split (`split.rs`), or merged (`merge.rs`); what can't be is refused before anything is done
//! 2. `../job.rs`: the job is entered; what follows can be undone by whichever router looks
//! 3. `stream.rs`: a publication, a slot, tables beside the shards of the other node, rows, indexes; `follow.rs`: changes (`changes.rs`)
//! 4. `switch.rs`: all locks, the last changes, and the change of the catalog, in one transaction over all nodes (foreign keys to the table itself: `self_references.rs`)
//!
//! Until 4 is committed the herd is what it was, and nothing has to be done but to take away what 3 has made. The router's own role
//! does all of that; 4 is done in the client's name.

mod changes;
mod facts;
mod follow;
mod goal;
mod isolate;
mod merge;
mod pace;
mod plan;
mod self_references;
mod split;
mod stream;
mod switch;
mod weights;

pub use goal::{Goal, next as goal_next};
pub use isolate::Isolation;
pub use merge::Merging;
pub(super) use plan::group_of;
pub use split::Split;
pub use weights::{Measured, Measures, Next, measured, move_call, plan_columns, units};

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::plan::admin::{AdminCall, AdminFunction};
use catalog::{Colocation, NodeId, Relation, Snapshot, quote_literal};
use wire::sqlstate;

use self::facts::table;
use self::plan::{Identity, Move, Piece};
use self::stream::Stream;
use super::job::Job;
use super::named;
use crate::client::Client;
use crate::counters::Counters;
use crate::error::{ExecError, Result};
use crate::router::unfinished::wait_for_changes;
use crate::work::Work;

/// How long what a cancelled move has asked of nodes is waited for: it makes tables, and may wait for who changes the shard.
const PREPARED_MAX: Duration = Duration::from_secs(10);

/// A shard as a call names it.
struct Named {
    group: i32,
    node: NodeId,
    table: Arc<Relation>,
}

impl<C: Client> Work<'_, C> {
    /// The job's number. A transaction that makes the change is left to be committed.
    pub async fn move_shard(&mut self, call: &AdminCall, search_path: &[String]) -> Result<i64> {
        self.move_as_known(call, search_path).await.map_err(met_a_change)
    }

    async fn move_as_known(&mut self, call: &AdminCall, search_path: &[String]) -> Result<i64> {
        self.may_begin_job(call).await?;
        let (number, name) = call.shard_and_node()?;
        let shard = self.shard_of(call, number, search_path)?;
        let to = self.node_called(&name)?;
        if shard.node == to {
            // In the course of a job: a router that died has done it.
            if let Some(job) = self.client.job() {
                self.need_transaction();
                return Ok(job);
            }
            let (table, node) = (&shard.table.name, self.epoch.snapshot.node(to).map_or("", |n| &n.name));
            return Err(ExecError::sql(
                sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("shard {number} of table \"{table}\" is on node \"{node}\" already"),
            ));
        }
        let of = self.plan_move(shard.group, vec![number], shard.node, to).await?;
        self.run_job(of).await
    }

    /// What the call of a job needs, whatever it is.
    pub async fn may_begin_job(&mut self, call: &AdminCall) -> Result<()> {
        if self.transaction.is_active() {
            let message = format!("{}() cannot run inside a transaction block", call.shown());
            let error = ExecError::sql(sqlstate::ACTIVE_SQL_TRANSACTION, message);
            return Err(error.hint("It is long, and commits by itself."));
        }
        self.may_change_kinds().await?;
        // What a change has named anew is looked for by that name.
        wait_for_changes(self.herd, &self.epoch.snapshot).await;
        Ok(())
    }

    async fn run_job(&mut self, of: Move) -> Result<i64> {
        let bytes = self.may_move_shard(&of).await?;
        let counters = Counters::start();
        counters.add_total(bytes);
        let mut job = Job::begin(self.herd, &of.entry(), counters.clone(), self.client.job()).await?;
        let done = self.work_on(&of, &mut job, counters).await;
        match done {
            Ok(()) => Ok(job.id),
            Err(e) => {
                job.fail(self.herd, &of.snapshot, &e).await;
                // It is not for the session to try all of it again.
                Err(ExecError::Partial(Box::new(e.to_fields())))
            }
        }
    }

    async fn work_on(&mut self, of: &Move, job: &mut Job, counters: Arc<Counters>) -> Result<()> {
        let herd = self.herd.clone();
        self.client.waits();
        let mut preparing = pin!(prepare(&herd, of));
        let given_up = tokio::select! {
            biased;
            () = self.client.cancelled() => Some(ExecError::cancelled()),
            why = job.watch() => Some(why),
            prepared = &mut preparing => prepared.map(|()| None)?,
        };
        if let Some(why) = given_up {
            // What a node has been asked to make would be there behind the cleaning up.
            let _ = tokio::time::timeout(PREPARED_MAX, preparing).await;
            return Err(why);
        }
        txn::failpoint::reached("move.prepared").await;
        let copied = async {
            let mut stream = Stream::open(&herd, of, counters).await?;
            stream.copy_all(of).await?;
            txn::failpoint::reached("move.copied").await;
            stream.follow().await?;
            txn::failpoint::reached("move.followed").await;
            Ok::<_, ExecError>(stream)
        };
        let mut stream = tokio::select! {
            biased;
            () = self.client.cancelled() => return Err(ExecError::cancelled()),
            why = job.watch() => return Err(why),
            stream = copied => stream?,
        };
        self.switch(of, &mut stream, job).await
    }

    /// Whether there is what a call in the background is about.
    ///
    /// `now`: the catalog in which tables that are to be of another kind are looked for.
    pub fn may_be_asked_of(&self, call: &AdminCall, now: &Snapshot, search_path: &[String]) -> Result<()> {
        match call.function {
            AdminFunction::MoveShard => {
                let (number, node) = call.shard_and_node()?;
                self.shard_of(call, number, search_path)?;
                self.node_called(&node)?;
            }
            AdminFunction::SplitShard => {
                let (number, node, _) = call.shard_node_and_bound()?;
                self.shard_of(call, number, search_path)?;
                node.map(|node| self.node_called(&node)).transpose()?;
            }
            AdminFunction::MergeShards => {
                self.to_be_merged(call, search_path)?;
            }
            AdminFunction::IsolateTenant => {
                call.key()?;
                call.key_node()?.map(|node| self.node_called(&node)).transpose()?;
                self.distributed(call, search_path)?;
            }
            AdminFunction::AddColumnCopy => self.may_be_copied(call, search_path)?,
            AdminFunction::Cluster => {
                call.index()?;
                self.distributed(call, search_path)?;
            }
            function if function.changes_kind() => {
                let relation = named(now, &call.table()?, search_path)?;
                if function == AdminFunction::CreateDistributedTable {
                    call.distribute_request(&relation.schema, &relation.name, |column| {
                        relation.column(column).is_some()
                    })?;
                }
            }
            _ => {
                self.distributed(call, search_path)?;
            }
        }
        Ok(())
    }

    /// The table that a call is about, with its colocation group.
    fn distributed(&self, call: &AdminCall, search_path: &[String]) -> Result<(Arc<Relation>, Arc<Colocation>)> {
        let relation = named(&self.epoch.snapshot, &call.table()?, search_path)?;
        let d = relation.distribution().ok_or_else(|| {
            ExecError::sql(sqlstate::WRONG_OBJECT_TYPE, format!("table \"{}\" is not distributed", relation.name))
                .hint("herd.shards shows what has shards.")
        })?;
        Ok((relation.clone(), d.group.clone()))
    }

    /// The shard that a call is about.
    fn shard_of(&self, call: &AdminCall, number: i32, search_path: &[String]) -> Result<Named> {
        let (table, group) = self.distributed(call, search_path)?;
        let found = group.shards.iter().find(|s| s.number == number).ok_or_else(|| {
            ExecError::sql(sqlstate::UNDEFINED_OBJECT, format!("table \"{}\" has no shard {number}", table.name))
                .hint("herd.shards shows them.")
        })?;
        Ok(Named { group: group.id, node: found.node, table })
    }

    /// By its name or id.
    pub(super) fn node_called(&self, name: &str) -> Result<NodeId> {
        let node = self.epoch.snapshot.nodes.iter().find(|n| n.name == name || n.id.to_string() == name);
        node.map(|n| n.id).ok_or_else(|| {
            ExecError::sql(sqlstate::UNDEFINED_OBJECT, format!("node \"{name}\" is not part of the herd"))
                .hint("herd.nodes shows them.")
        })
    }

    /// What is to be moved where, with what the shards' node says of them.
    async fn plan_move(&mut self, group: i32, shards: Vec<i32>, from: NodeId, to: NodeId) -> Result<Move> {
        let snapshot = self.epoch.snapshot.clone();
        let tag = format!("{:016x}", rand::random::<u64>());
        let (members, wholes) = self.in_order(group_of(&snapshot, group)).await?;
        let mut of =
            Move { group, shards, from, to, into: None, tables: vec![], wholes, tag, snapshot: snapshot.clone() };
        self_references::may_be_added_again(self.herd, &of, &members).await?;
        let mut source = self.herd.admin(&snapshot, from).await?;
        for (at, relation) in members.into_iter().enumerate() {
            of.tables.push(table(&mut source, relation, &of, at).await?);
        }
        Ok(of)
    }

    /// Tables after those that their foreign keys refer to; apart from them those that are partitioned by time, whose partitions have
    /// the rows.
    async fn in_order(&mut self, members: Vec<Arc<Relation>>) -> Result<(Vec<Arc<Relation>>, Vec<Arc<Relation>>)> {
        let snapshot = self.epoch.snapshot.clone();
        let is_whole = |r: &Arc<Relation>| r.distribution().is_some_and(|d| d.is_partitioned());
        if let Some(r) = members.iter().find(|r| r.refers_to_itself && is_whole(r)) {
            return Err(unsupported(r, "is partitioned, and has a foreign key to itself").hint(self_references::HINT));
        }
        let (wholes, members): (Vec<_>, Vec<_>) = members.into_iter().partition(is_whole);
        let mut waiting = Vec::new();
        for r in members {
            // A partition's foreign keys name the whole that they refer to, which stands for its partitions.
            let referenced = self.referenced(&r, &snapshot).await?;
            let parts = |w: &Relation| w.distribution().and_then(|d| d.partitions.clone()).unwrap_or_default();
            let prefixes: Vec<String> = referenced.iter().flat_map(|w| parts(w).to_vec()).collect();
            waiting.push((r, referenced.iter().map(|r| r.oid).collect::<HashSet<u32>>(), prefixes));
        }
        let mut ordered: Vec<Arc<Relation>> = Vec::new();
        while !waiting.is_empty() {
            let refers = |from: &(Arc<Relation>, HashSet<u32>, Vec<String>), to: &Relation| {
                from.1.contains(&to.oid) || to.distribution().is_some_and(|d| d.is_part && from.2.contains(&d.prefix))
            };
            let free = waiting.iter().position(|from| !waiting.iter().any(|(to, ..)| refers(from, to)));
            let Some(at) = free else {
                return Err(unsupported(&waiting[0].0, "is in a circle of foreign keys"));
            };
            ordered.push(waiting.remove(at).0);
        }
        Ok((ordered, wholes))
    }

    /// Whether the client owns all tables of a group, each by its object id.
    pub(super) async fn owns_all(&mut self, tables: &[u32]) -> Result<()> {
        let oids: Vec<String> = tables.iter().map(u32::to_string).collect();
        let foreign = format!(
            "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.oid[]) \
             AND NOT pg_catalog.pg_has_role(c.relowner, 'USAGE')",
            oids.join(",")
        );
        if let Some(name) = self.ask_home(&foreign).await?.into_iter().flatten().flatten().next() {
            return Err(ExecError::sql(sqlstate::INSUFFICIENT_PRIVILEGE, format!("must be owner of table {name}"))
                .hint("Colocated tables are moved, split, merged and repaired together."));
        }
        Ok(())
    }

    /// Whether it can be done, and the client may; how many bytes it is.
    async fn may_move_shard(&mut self, of: &Move) -> Result<u64> {
        self.owns_all(&of.oids()).await?;
        let mut source = self.herd.admin(&of.snapshot, of.from).await?;
        let rows = source.simple("SHOW wal_level").await?;
        let level = rows.first().and_then(|row| row.first()?.as_deref()).unwrap_or_default();
        let node = |id: NodeId| of.snapshot.node(id).map_or("", |n| &n.name);
        if level != "logical" {
            let message = format!(
                "moving, splitting or merging shards needs wal_level = logical on its node \"{}\", which has {level}",
                node(of.from)
            );
            return Err(ExecError::sql(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .hint("ALTER SYSTEM SET wal_level = logical there, and restart that server."));
        }
        let mut bytes = 0;
        for (t, part) in of.parts() {
            if part.unlogged {
                return Err(unsupported(&t.relation, "is unlogged, and nothing tells of its changes")
                    .hint("ALTER TABLE … SET LOGGED, or undistribute_table() and create_distributed_table()."));
            }
            if part.published {
                return Err(
                    unsupported(&t.relation, "has a shard that is published by itself").hint("Publish the table.")
                );
            }
            if part.key.is_empty() {
                return Err(unsupported(&t.relation, "has no primary key, nor another replica identity by an index")
                    .hint("Add a primary key, or ALTER TABLE … REPLICA IDENTITY USING INDEX."));
            }
            if part.identity == Identity::Untold {
                return Err(unsupported(
                    &t.relation,
                    "has generated columns in its replica identity that are in no log",
                )
                .hint("ALTER TABLE … REPLICA IDENTITY DEFAULT, or USING INDEX of columns that are not generated."));
            }
            bytes += part.bytes;
        }
        Ok(bytes)
    }
}

/// Another name of a shard is another placement: as if it had been seen a moment later.
fn met_a_change(e: ExecError) -> ExecError {
    if e.to_fields().misses_relation_in("herd_shards") { changes::changed() } else { e }
}

fn unsupported(table: &Relation, why: &str) -> ExecError {
    let message = format!("moving, splitting or merging shards of table \"{}\" is not supported: it {why}", table.name);
    ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
}

/// What the copies need before there are rows: the publication first, as a slot passes over what was written before there was one.
async fn prepare(herd: &crate::router::herd::Herd, of: &Move) -> Result<()> {
    let mut source = herd.admin(&of.snapshot, of.from).await?;
    let parts: Vec<String> = of.parts().iter().map(|(_, part)| format!("ONLY {}", part.name)).collect();
    // A table that is partitioned by time may have no partitions yet.
    let of_tables = if parts.is_empty() { String::new() } else { format!(" FOR TABLE {}", parts.join(", ")) };
    // Or nobody could change rows as long as there is the publication.
    let stored = of.parts().iter().any(|(_, part)| part.identity == Identity::Stored);
    let with = if stored { " WITH (publish_generated_columns = stored)" } else { "" };
    source.simple(&format!("CREATE PUBLICATION {}{of_tables}{with}", of.publication())).await?;
    let mut copy = herd.admin(&of.snapshot, of.to).await?;
    for t in &of.tables {
        let pieces = of.pieces(t);
        for piece in &pieces {
            copy.simple(&t.call("herd.move_make", piece, "")).await?;
        }
        if of.into.is_some() {
            let list = |of: &dyn Fn(&Piece) -> String| {
                pieces.iter().map(|piece| quote_literal(&of(piece))).collect::<Vec<_>>().join(", ")
            };
            copy.simple(&format!(
                "SELECT herd.split_make({}, {}, ARRAY[{}], ARRAY[{}])",
                t.parent(),
                quote_literal(&t.copy),
                list(&|piece| piece.copy.clone()),
                list(&|piece| piece.bound.clone().unwrap_or_default()),
            ))
            .await?;
        }
    }
    Ok(())
}
