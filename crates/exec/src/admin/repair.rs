//! `herd.repair(table)`: what was damaged past the routers, and has only one right answer, is put right; what has more than one is told, with what a
//! person has to decide. It is done piece by piece, each in a transaction of its own, as a session asks for the next (session
//! `statement/repair.rs`); first it is looked without locks, so that nobody waits where nothing is wrong, and what is found is told only if it is there under
//! them, too.
//!
//! 1. `leftovers.rs`: what jobs have left
//! 2. `made.rs`: tables and shards that are made otherwise on a node
//! 3. `rows.rs`: rows in shards that they do not belong to
//! 4. `copies.rs`: copies of reference tables that differ
//! 5. `sequences.rs`: sequences that are behind their columns
//! 6. `rights.rs`: what the view `herd.verify` says
//!
//! `herd.verify(table)` tells the same of one table, and nothing is changed.
//!
//! `dangling.rs` sees to it that no row loses what it refers to; `put.rs` brings rows to their shards.
//!
//! Here: which pieces there are, and how findings are told.

mod copies;
mod dangling;
mod leftovers;
mod made;
mod put;
mod rights;
mod rows;
mod sequences;

use std::collections::BTreeSet;
use std::sync::Arc;

use ::plan::admin::{AdminCall, AdminFunction};
use catalog::{NodeId, Oid, Placement, Relation, Snapshot, qualified, quote_literal};
use wire::backend::Field;
use wire::{sqlstate, type_oid};

use super::named;
use crate::client::{Answer, Client};
use crate::ddl::Locks;
use crate::error::{ExecError, Result};
use crate::route::Forwarded;
use crate::work::Work;

/// What a call asks for.
pub struct Repair {
    /// Of this table alone, by its object id, with those colocated with it.
    only: Option<Oid>,
    /// Whose rows of a reference table are right, whatever other nodes have.
    trusted: Option<NodeId>,
    /// It is only looked.
    dry_run: bool,
    pub pieces: Vec<Piece>,
}

/// One transaction of it.
#[derive(Clone)]
pub enum Piece {
    Leftovers,
    /// How these tables are made.
    Made(Vec<Arc<Relation>>),
    /// Of a colocation group.
    Rows(i32),
    /// Of a reference table.
    Copies(Arc<Relation>),
    Sequences(Arc<Relation>),
    Rights,
}

/// Something that was wrong, or is.
pub struct Finding {
    node: String,
    object: String,
    problem: String,
    mended: bool,
    /// What was done; or why nothing was, and what a person has to do.
    action: String,
}

impl<C: Client> Work<'_, C> {
    /// Who may not is told here, and which pieces there are.
    pub async fn begin_repair(&mut self, call: &AdminCall, search_path: &[String]) -> Result<Repair> {
        self.may_begin_job(call).await?;
        let (table, trusted, dry_run) = call.repair()?;
        let trusted = trusted.map(|name| self.node_called(&name)).transpose()?;
        let snapshot = self.epoch.snapshot.clone();
        let mut repair = Repair { only: None, trusted, dry_run, pieces: vec![] };
        let mut tables: Vec<Arc<Relation>> =
            snapshot.relations.values().filter(|r| !matches!(r.placement, Placement::Local)).cloned().collect();
        tables.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        if let Some(table) = table {
            let found = named(&snapshot, &table, search_path)?;
            if matches!(found.placement, Placement::Local) {
                let message = format!("table \"{}\" is neither distributed nor a reference table", found.name);
                return Err(ExecError::sql(sqlstate::WRONG_OBJECT_TYPE, message)
                    .hint("herd.tables shows what can be repaired; all other tables are home's alone."));
            }
            repair.only = Some(found.oid);
            let group = found.distribution().map(|d| d.group.id);
            tables.retain(|r| r.oid == found.oid || group.is_some() && r.distribution().map(|d| d.group.id) == group);
        } else {
            repair.pieces.push(Piece::Leftovers);
        }
        self.owns_all(&tables.iter().map(|r| r.oid).collect::<Vec<_>>()).await?;
        repair.pieces.push(Piece::Made(tables.clone()));
        let groups: BTreeSet<i32> = tables.iter().filter_map(|r| Some(r.distribution()?.group.id)).collect();
        repair.pieces.extend(groups.into_iter().map(Piece::Rows));
        let is_copied = |r: &&Arc<Relation>| matches!(r.placement, Placement::Reference);
        repair.pieces.extend(tables.iter().filter(is_copied).cloned().map(Piece::Copies));
        let counts = |r: &&Arc<Relation>| r.columns.iter().any(|c| c.sequence.is_some());
        repair.pieces.extend(tables.iter().filter(counts).cloned().map(Piece::Sequences));
        repair.pieces.push(Piece::Rights);
        Ok(repair)
    }

    /// Leaves a transaction to be committed where something was changed.
    pub async fn repair_piece(&mut self, repair: &Repair, piece: &Piece) -> Result<Vec<Finding>> {
        match piece {
            Piece::Leftovers => self.repair_leftovers(repair).await,
            Piece::Made(tables) => self.compare_made(tables).await,
            Piece::Rows(group) => self.repair_rows(repair, *group).await,
            Piece::Copies(table) => self.repair_copies(repair, table).await,
            Piece::Sequences(table) => self.repair_sequences(repair, table).await,
            Piece::Rights => self.repair_rights(repair).await,
        }
    }

    /// What a piece has come to that ended in an error: nothing of it was done.
    pub fn not_repaired(&self, piece: &Piece, error: &ExecError) -> Finding {
        let object = match piece {
            Piece::Leftovers => "jobs".to_string(),
            Piece::Made(tables) => tables.iter().map(|table| name(table)).collect::<Vec<_>>().join(", "),
            Piece::Rows(group) => {
                let members = super::move_shard::group_of(&self.epoch.snapshot, *group);
                members.iter().map(|r| qualified(&r.schema, &r.name)).collect::<Vec<_>>().join(", ")
            }
            Piece::Copies(table) | Piece::Sequences(table) => name(table),
            Piece::Rights => "rights".to_string(),
        };
        let fields = error.to_fields();
        let hint = fields.get(b'H').map_or_else(String::new, |hint| format!(" ({hint})"));
        Finding {
            node: String::new(),
            object,
            problem: "it could not be looked at, or not be repaired".into(),
            mended: false,
            action: format!("{}{hint}", fields.message()),
        }
    }

    /// Answers with all that was found.
    pub fn answer_findings(
        &mut self,
        call: &AdminCall,
        found: &[Finding],
        described: bool,
        format: impl Fn(usize) -> i16,
    ) -> Forwarded {
        let columns = columns(call);
        if described {
            self.client.tell(Answer::Columns(&columns));
        }
        for f in found {
            let mended: &[u8] = match (format(3), f.mended) {
                (0, true) => b"t",
                (0, false) => b"f",
                (_, true) => &[1],
                (_, false) => &[0],
            };
            let node = Some(f.node.as_bytes()).filter(|node| !node.is_empty());
            let (object, problem, action) = (f.object.as_bytes(), f.problem.as_bytes(), f.action.as_bytes());
            let row = [node, Some(object), Some(problem), Some(mended), Some(action)];
            self.client.tell(Answer::Row(&row[..columns.len()]));
        }
        Forwarded { tag: format!("SELECT {}", found.len()), ..Default::default() }
    }

    /// What was found without locks may have been between two moments: tables stay as they are from here on until the transaction ends. Nobody writes
    /// them, nor reads them where something is going to be changed. The catalog as it is then, in which shards may be elsewhere by now.
    async fn hold_still(&mut self, tables: &[Arc<Relation>], only_looks: bool) -> Result<Arc<Snapshot>> {
        self.transaction.begin("BEGIN ISOLATION LEVEL READ COMMITTED", false);
        let locks = Locks::of_group(tables, &[]);
        self.take_locks(&if only_looks { locks.of_writers() } else { locks }).await?;
        let now = self.snapshot_now().await?;
        let nodes = |of: &Snapshot| of.nodes.iter().map(|n| n.id).collect::<Vec<_>>();
        let is_same = |was: &Arc<Relation>| {
            now.relations.get(&(was.schema.clone(), was.name.clone())).is_some_and(|r| r.oid == was.oid)
        };
        match tables.iter().all(is_same) && nodes(&now) == nodes(&self.epoch.snapshot) {
            true => Ok(now),
            false => Err(changed()),
        }
    }

    /// Why code would run as who asks, or something else keeps from writing; None: nothing does. `part`: the table, or a shard of it.
    async fn keeps_from_writing(&mut self, node: NodeId, table: &Relation, part: &str) -> Result<Option<String>> {
        let columns = texts(table.columns.iter().filter(|c| !c.generated).map(|c| &c.name));
        let (parent, part) = (regclass(&name(table)), regclass(part));
        let said = self.ask_node(node, &format!("SELECT herd.keeps_from_writing({parent}, {part}, {columns})")).await?;
        Ok(said.into_iter().flatten().flatten().next())
    }

    pub(super) fn node_name(&self, node: NodeId) -> String {
        self.epoch.snapshot.node(node).map_or_else(String::new, |n| n.name.clone())
    }

    /// Asks a node something that writes there.
    async fn write_on(&mut self, node: NodeId, sql: &str) -> Result<Vec<catalog::Row>> {
        let mut p = self.lane(node).await?;
        p.wrote = true;
        let rows = p.lane.rows(sql).await;
        self.put_back(p).await;
        Ok(rows?)
    }
}

/// Of `herd.repair()`, and of `herd.verify()` those that say what is wrong.
pub fn columns(call: &AdminCall) -> Vec<Field> {
    let text = |name| Field::new(name, type_oid::TEXT, -1);
    let mut columns = vec![text("node"), text("object"), text("problem")];
    if call.function == AdminFunction::Repair {
        columns.extend([Field::new("mended", type_oid::BOOL, 1), text("action")]);
    }
    columns
}

/// A table's, quoted and qualified.
fn name(table: &Relation) -> String {
    qualified(&table.schema, &table.name)
}

/// As SQL.
fn regclass(name: &str) -> String {
    format!("{}::pg_catalog.regclass", quote_literal(name))
}

/// An array of texts, as SQL.
fn texts<S: AsRef<str>>(of: impl IntoIterator<Item = S>) -> String {
    let of: Vec<String> = of.into_iter().map(|text| quote_literal(text.as_ref())).collect();
    format!("ARRAY[{}]::pg_catalog.text[]", of.join(", "))
}

fn changed() -> ExecError {
    ExecError::sql(sqlstate::OBJECT_IN_USE, "a table was changed while it was looked at").hint("Repair again.")
}

/// Of what is renamed, or has gone, while it is looked at without locks.
fn is_between(error: &ExecError) -> bool {
    // What has gone since its name was read is told as a number, or not found by its number.
    [sqlstate::UNDEFINED_TABLE, sqlstate::SYNTAX_ERROR, sqlstate::INTERNAL_ERROR].contains(&error.code().as_str())
}

/// The one number of an answer.
fn number(rows: &[catalog::Row]) -> i64 {
    rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok()).unwrap_or(0)
}

/// Of one thing, or several.
fn counted(count: i64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
