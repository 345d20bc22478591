//! Tables that their owners have partitioned, and each of whose partitions is distributed by the same key.
//!
//! A partition is distributed as any table is: it is detached on home, distributed with its parent's group, and attached on all
//! nodes. That goes for those a table has when it is distributed, and for one that is made or attached later. What is planned for
//! one table is not known here (`catalog/src/distribute`), nor which statements make partitions (`plan/src/ddl/partition.rs`).

use std::collections::HashSet;
use std::sync::Arc;
use wire::sqlstate;

use catalog::{Definition, DistributeRequest, DistributionPlan, NodeId, Oid, Relation, Snapshot};
use plan::code::{Broken, PlacementKind};
use plan::ddl::{NodeSteps, Partition, Step};

use super::kind::{Change, broken_as};
use crate::client::Client;
use crate::ddl::Locks;
use crate::error::{ExecError, Result};
use crate::route::Forwarded;
use crate::router::herd::{catalog_error, refused};
use crate::work::Work;

/// Under which bounds are written and read.
const PLAIN: [(&str, &str); 4] =
    [("timezone", "UTC"), ("datestyle", "ISO, MDY"), ("intervalstyle", "postgres"), ("extra_float_digits", "1")];

/// A partition as home has it.
#[derive(Clone, Debug)]
struct Part {
    schema: String,
    name: String,
    kind: String,
    /// As SQL.
    bound: String,
    oid: Oid,
    /// Whose it is, if not its table's owner's.
    other: Option<String>,
    /// Who owns the table.
    owner: String,
    /// As whom the session runs.
    asker: String,
}

impl Part {
    fn name(&self) -> (&str, &str) {
        (&self.schema, &self.name)
    }
}

fn name(r: &Relation) -> (&str, &str) {
    (&r.schema, &r.name)
}

impl<C: Client> Work<'_, C> {
    /// `create_distributed_table` of a partitioned table, whose locks are there.
    pub(super) async fn distribute_partitioned(&mut self, change: &Change<'_>) -> Result<()> {
        let parent = &change.table;
        let parts = self.parts_of(parent.oid).await?;
        parts.iter().try_for_each(refuse_kind)?;
        parts.iter().try_for_each(refuse_owner)?;
        let broken = broken_by(&change.snapshot, parent, &parts, PlacementKind::Distributed).await;
        if let Some(broken) = self.refused_of(broken).await? {
            return Err(broken.refusal.into());
        }
        if !parts.is_empty() {
            self.measure(parent, &[change.snapshot.home]).await?;
        }
        self.detach_on_home(parent, &parts).await?;
        let (plan, key) = self.plan_partitioned(change).await?;
        self.run_plan(&plan, None).await?;
        self.distribute_parts(parent, &key, &parts, change.shards).await?;
        self.rest_has_changed(&[parent.oid]).await
    }

    /// `undistribute_table` of a partitioned table, whose locks are there. `plan`: of the table without its partitions.
    pub(super) async fn undistribute_partitioned(
        &mut self,
        change: &Change<'_>,
        plan: &DistributionPlan,
    ) -> Result<()> {
        let parent = &change.table;
        let parts = self.parts_of(parent.oid).await?;
        parts.iter().try_for_each(refuse_owner)?;
        let broken = broken_by(&change.snapshot, parent, &parts, PlacementKind::Local).await;
        if let Some(broken) = self.refused_of(broken).await? {
            return Err(broken.refusal.into());
        }
        let nodes: Vec<NodeId> = change.snapshot.nodes.iter().map(|n| n.id).collect();
        if !parts.is_empty() {
            self.measure(parent, &nodes).await?;
        }
        for node in nodes {
            self.run_on(node, parts.iter().map(|part| catalog::detach(name(parent), part.name()))).await?;
        }
        for part in &parts {
            let (snapshot, definition) = self.part_now(part).await?;
            let plan = catalog::plan_undistribute(&snapshot, &definition).map_err(|r| refused(&r))?;
            self.run_plan(&plan, None).await?;
        }
        self.run_plan(plan, None).await?;
        let home = change.snapshot.home;
        let before = self.set_plain(home).await?;
        let attach = parts.iter().map(|part| catalog::attach_as_owner(name(parent), part.name(), &part.bound));
        self.run_on(home, attach).await?;
        self.set_back(home, before).await
    }

    /// The catalog, and what the partition is, by now.
    async fn part_now(&mut self, part: &Part) -> Result<(Arc<Snapshot>, Definition)> {
        let snapshot = self.snapshot_now().await?;
        let mut p = self.lane(snapshot.home).await?;
        let definition = catalog::read_definition(&mut p.lane, &part.schema, &part.name).await.map_err(catalog_error);
        self.put_back(p).await;
        Ok((snapshot, definition?))
    }

    /// A statement that makes something a partition of a distributed table: on home in the client's words, or the router's own, and
    /// what has become one is distributed, and attached on the other nodes.
    pub(crate) async fn new_partition(&mut self, new: &Partition, of_client: bool) -> Result<Forwarded> {
        self.may_change_kinds().await?;
        let known = self.epoch.snapshot.clone();
        let find = |snapshot: &Snapshot, (schema, name): &(String, String)| {
            snapshot.relations.get(&(schema.clone(), name.clone())).cloned().ok_or(ExecError::Stale)
        };
        let before = find(&known, &new.parent)?;
        let attached = new.distributed.as_ref().map(|name| find(&known, name)).transpose()?;
        let referenced = self.referenced(&before, &known).await?;
        self.take_locks(&Locks::of_kind(&before, &referenced).and(attached.as_deref())).await?;
        let snapshot = self.snapshot_now().await?;
        let parent = find(&snapshot, &new.parent)?;
        let same = |then: &Relation, now: &Relation| then.oid == now.oid && alike(&before, now);
        if !same(&before, &parent) || !parent.distribution().is_some_and(|d| d.is_partitioned()) {
            return Err(ExecError::Stale);
        }
        if let Some(attached) = &attached
            && !same(attached, &*find(&snapshot, &name_of(attached))?)
        {
            return Err(ExecError::Stale);
        }
        let old: HashSet<Oid> = self.parts_of(parent.oid).await?.into_iter().map(|part| part.oid).collect();
        let on_home = NodeSteps { node: self.home(), steps: vec![Step::new(new.sql.as_str())] };
        let forwarded = self.at_home(on_home, of_client, true).await?;
        let mut parts = self.parts_of(parent.oid).await?;
        parts.retain(|part| !old.contains(&part.oid));
        self.raises_epoch();
        match attached {
            Some(attached) => {
                parts.retain(|part| part.oid == attached.oid);
                parts.iter().try_for_each(refuse_owner)?;
                self.attach(&parent, &parts, true).await?;
            }
            None => {
                parts.iter().try_for_each(refuse_kind)?;
                self.give_to_owner(&mut parts).await?;
                self.refuse_views_over(&parts).await?;
                self.detach_on_home(&parent, &parts).await?;
                self.distribute_parts(&parent, &key_of(&parent), &parts, 0).await?;
            }
        }
        self.rest_has_changed(&[parent.oid]).await?;
        Ok(forwarded)
    }

    /// What is made for a table of another's is its owner's.
    async fn give_to_owner(&mut self, parts: &mut [Part]) -> Result<()> {
        let made = parts.iter_mut().filter(|part| part.other.as_ref() == Some(&part.asker));
        let passed: Vec<String> = made
            .map(|part| {
                part.other = None;
                let (table, owner) = (catalog::qualified(&part.schema, &part.name), catalog::quote_ident(&part.owner));
                format!("ALTER TABLE {table} OWNER TO {owner}")
            })
            .collect();
        parts.iter().try_for_each(refuse_owner)?;
        self.run_on(self.home(), passed.into_iter()).await
    }

    /// Of a table that is attached: its views' locks come before its own.
    async fn refuse_views_over(&mut self, parts: &[Part]) -> Result<()> {
        let oids: Vec<Oid> = parts.iter().map(|part| part.oid).collect();
        let Some(view) = self.views_over(&oids).await?.into_iter().next() else { return Ok(()) };
        let message = format!("view \"{}\" is over a table that is to be a partition", view.name);
        Err(ExecError::sql(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .hint("Distribute the table first, with colocate_with => the table whose partition it is to be: that takes its views along."))
    }

    /// A table's partitions, by their numbers.
    pub(super) async fn part_oids(&mut self, parent: Oid) -> Result<Vec<Oid>> {
        Ok(self.parts_of(parent).await?.into_iter().map(|part| part.oid).collect())
    }

    async fn parts_of(&mut self, parent: Oid) -> Result<Vec<Part>> {
        let home = self.home();
        let before = self.set_plain(home).await?;
        let rows = self.ask_home(&catalog::PARTITIONS.replace("{}", &parent.to_string())).await?;
        self.set_back(home, before).await?;
        let part = |row: catalog::Row| {
            let mut cells = row.into_iter();
            let mut next = || cells.next().flatten();
            let mut text = || next().unwrap_or_default();
            let (schema, name, kind, bound) = (text(), text(), text(), text());
            let oid = text().parse().ok()?;
            let other = next();
            let (owner, asker) = (next()?, next()?);
            Some(Part { schema, name, kind, bound, oid, other, owner, asker })
        };
        Ok(rows.into_iter().filter_map(part).collect())
    }

    async fn detach_on_home(&mut self, parent: &Relation, parts: &[Part]) -> Result<()> {
        let home = self.home();
        self.run_on(home, parts.iter().map(|part| catalog::detach(name(parent), part.name()))).await
    }

    /// Distributes partitions that are detached, as their parent is, and attaches them everywhere.
    async fn distribute_parts(&mut self, parent: &Relation, key: &[String], parts: &[Part], shards: i32) -> Result<()> {
        for part in parts {
            self.distribute_part(parent, key, part, shards).await?;
        }
        self.attach(parent, parts, false).await
    }

    async fn distribute_part(&mut self, parent: &Relation, key: &[String], part: &Part, shards: i32) -> Result<()> {
        let (snapshot, definition) = self.part_now(part).await?;
        let mut request = DistributeRequest {
            schema: part.schema.clone(),
            name: part.name.clone(),
            columns: key.to_vec(),
            colocate_with: Some(catalog::qualified(&parent.schema, &parent.name)),
            ..DistributeRequest::default()
        };
        for plain_names in [true, false] {
            request.prefix = self.new_prefix(&part.name, plain_names).await?;
            let plan = catalog::plan_distribution(&snapshot, &definition, &request, shards).map_err(|r| refused(&r))?;
            if let Some(begun) = self.begin_if_names_are_free(&plan).await? {
                return self.run_plan(&plan, Some(begun)).await;
            }
        }
        Err(ExecError::sql(sqlstate::DUPLICATE_TABLE, format!("no names are left for the shards of \"{}\"", part.name)))
    }

    /// `attached`: home has done so already.
    async fn attach(&mut self, parent: &Relation, parts: &[Part], attached: bool) -> Result<()> {
        let snapshot = self.snapshot_now().await?;
        for node in snapshot.nodes.iter().map(|n| n.id) {
            let before = self.set_plain(node).await?;
            let attach = parts.iter().map(|part| catalog::attach_as_owner(name(parent), part.name(), &part.bound));
            let attach: Vec<String> = attach.filter(|_| !attached || node != snapshot.home).collect();
            let again = parts.iter().flat_map(|part| shards_again(&snapshot, parent, part, node));
            self.run_on(node, attach.into_iter().chain(again)).await?;
            self.set_back(node, before).await?;
        }
        Ok(())
    }

    pub(crate) async fn run_on(&mut self, node: NodeId, statements: impl Iterator<Item = String>) -> Result<()> {
        let mut p = self.lane(node).await?;
        p.wrote = true;
        let mut done = Ok(());
        for sql in statements {
            done = p.lane.run(&sql).await.map(drop);
            if done.is_err() {
                break;
            }
        }
        self.put_back(p).await;
        Ok(done?)
    }

    async fn set_plain(&mut self, node: NodeId) -> Result<Vec<String>> {
        let mut before = Vec::new();
        for (name, value) in PLAIN {
            before.push(self.set_on(node, name, value).await?);
        }
        Ok(before)
    }

    async fn set_back(&mut self, node: NodeId, before: Vec<String>) -> Result<()> {
        for ((name, _), value) in PLAIN.into_iter().zip(before) {
            self.set_on(node, name, &value).await?;
        }
        Ok(())
    }
}

fn name_of(r: &Relation) -> (String, String) {
    (r.schema.clone(), r.name.clone())
}

fn key_of(r: &Relation) -> Vec<String> {
    plan::ddl::place::key_columns(r).into_iter().map(str::to_owned).collect()
}

/// A table that is attached becomes one with its parent's identity columns, but its own partitions do not, and DETACH fails of that
/// (`ATExecDropIdentity` in tablecmds.c): they are attached once more.
fn shards_again(snapshot: &Snapshot, parent: &Relation, part: &Part, node: NodeId) -> Vec<String> {
    if parent.columns.iter().all(|c| c.identity == 0) {
        return vec![];
    }
    let table = snapshot.relations.get(&(part.schema.clone(), part.name.clone()));
    let Some(d) = table.and_then(|r| r.distribution()) else { return vec![] };
    let table = catalog::qualified(&part.schema, &part.name);
    let here = d.group.shards.iter().filter(|shard| shard.node == node);
    let both = here.map(|shard| {
        let (shard, bound) = (d.partition(shard.number), catalog::shard_bound_sql(snapshot, &d.group, shard));
        format!("ALTER TABLE {table} DETACH PARTITION {shard}; ALTER TABLE {table} ATTACH PARTITION {shard} {bound}")
    });
    both.collect()
}

/// Distributed with one group, by columns of the same names.
fn alike(a: &Relation, b: &Relation) -> bool {
    let group = |r: &Relation| r.distribution().map(|d| d.group.id);
    group(a).is_some() && group(a) == group(b) && key_of(a) == key_of(b)
}

/// What nobody can split by the key.
fn refuse_kind(part: &Part) -> Result<()> {
    let what = match part.kind.as_str() {
        "r" => return Ok(()),
        "p" => "is partitioned itself",
        _ => "is no plain table",
    };
    let message = format!("partition \"{}\" {what}", part.name);
    Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .hint("Each partition of a distributed table is split by the key: use one level of plain tables."))
}

/// Partitions are attached as their table's owner, who could not.
fn refuse_owner(part: &Part) -> Result<()> {
    let Some(other) = &part.other else { return Ok(()) };
    let message = format!("partition \"{}\" belongs to \"{other}\", its table to \"{}\"", part.name, part.owner);
    let (table, owner) = (catalog::qualified(&part.schema, &part.name), catalog::quote_ident(&part.owner));
    Err(ExecError::sql(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .hint(&format!("ALTER TABLE {table} OWNER TO {owner}.")))
}

/// Code that works with the table, or one of its partitions, as they are.
async fn broken_by(snapshot: &Arc<Snapshot>, parent: &Relation, parts: &[Part], kind: PlacementKind) -> Vec<Broken> {
    let tables = std::iter::once(parent.oid).chain(parts.iter().map(|part| part.oid));
    broken_as(snapshot, tables.collect(), kind).await
}
