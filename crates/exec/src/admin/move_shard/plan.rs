//! What is moved from where to where, and what becomes of it: a shard of each table of a group, or two that are merged, as they were when
//! the move began.

use std::sync::Arc;

use catalog::{NodeId, Oid, Placement, Relation, Snapshot, qualified, quote_literal};

use key::Bound;

use super::changes::{KeyColumn, changed};
use crate::admin::job::Entry;
use crate::error::Result;

/// A shard that is moved, split, or merged with another one, with those colocated with it.
pub struct Move {
    pub group: i32,
    /// Those that leave, all on one node; the first is what the job is about.
    pub shards: Vec<i32>,
    pub from: NodeId,
    pub to: NodeId,
    /// What there is instead, on the same node, where it is not the shard itself: its halves, or one of two.
    pub into: Option<Vec<catalog::NewShard>>,
    /// Those that have shards: tables after those that their foreign keys refer to.
    pub tables: Vec<Table>,
    /// Those whose rows are in others of them: partitioned by time.
    pub wholes: Vec<Arc<Relation>>,
    /// Chance, in all names that this move gives.
    pub tag: String,
    pub snapshot: Arc<Snapshot>,
}

/// One of the tables.
pub struct Table {
    pub relation: Arc<Relation>,
    pub prefix: String,
    /// The name among the shards of what rows are copied into. It becomes the shard, or its partitions become shards.
    pub copy: String,
    /// Its shards that leave, in the order of [`Move::shards`].
    pub parts: Vec<Part>,
}

/// A shard of one of the tables.
pub struct Part {
    /// Quoted and qualified.
    pub name: String,
    /// What `herd.move_facts` says of it, and some of it.
    pub facts: String,
    pub mark: String,
    pub oid: Oid,
    /// Its owner is a superuser: what he wrote may run as the router.
    pub trusted: bool,
    pub unlogged: bool,
    /// By itself.
    pub published: bool,
    /// Without indexes.
    pub bytes: u64,
    /// It has constraints that may be held against a transaction's end only: its rows alone, one after the other, need not satisfy them.
    pub deferrable: bool,
    /// Those that rows have, and those they are found by; quoted.
    pub columns: Vec<String>,
    pub key: Vec<KeyColumn>,
    /// Those that each node makes by itself; quoted.
    pub generated: Vec<String>,
    pub identity: Identity,
}

/// What a table's replica identity has of generated columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// None that count.
    Plain,
    /// Some that have to be published for rows to be changed.
    Stored,
    /// Some that can't be.
    Untold,
}

impl Table {
    /// A shard, quoted and qualified.
    pub fn part_name(&self, shard: i32) -> String {
        qualified("herd_shards", &format!("{}_{shard}", self.prefix))
    }

    /// Those that rows have, quoted, as COPY and ROW list them.
    pub fn columns(&self) -> String {
        self.parts.first().map(|part| part.columns.join(", ")).unwrap_or_default()
    }

    /// What its owner wrote may run as the router.
    pub fn trusted(&self) -> bool {
        self.parts.iter().all(|part| part.trusted)
    }

    /// Without indexes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// The copy, quoted and qualified.
    pub fn fresh(&self) -> String {
        qualified("herd_shards", &self.copy)
    }

    /// The table itself, as a regclass.
    pub fn parent(&self) -> String {
        format!("{}::pg_catalog.regclass", quote_literal(&qualified(&self.relation.schema, &self.relation.name)))
    }

    /// Calls one of the catalog's functions about what a shard is to be made of.
    pub fn call(&self, function: &str, piece: &Piece, more: &str) -> String {
        // Of two that are merged, what is made is like the first.
        let facts = self.parts.first().map(|part| &*part.facts).unwrap_or_default();
        let (copy, facts) = (quote_literal(&piece.copy), quote_literal(facts));
        let bound = piece.bound.as_ref().map_or_else(String::new, |bound| {
            let bound = quote_literal(bound);
            format!(" OPERATOR(pg_catalog.||) pg_catalog.jsonb_build_object('bound', {bound}::pg_catalog.text)")
        });
        format!("SELECT {function}({}, {copy}, {facts}::pg_catalog.jsonb{bound}{more})", self.parent())
    }
}

/// A shard that there will be, of one of the tables.
pub struct Piece {
    pub number: i32,
    /// Its name until it is one.
    pub copy: String,
    /// None: the shard's own.
    pub bound: Option<String>,
}

impl Move {
    /// The shard that the job is about.
    pub fn shard(&self) -> i32 {
        self.shards.first().copied().unwrap_or_default()
    }

    /// All that leave, each with its table.
    pub fn parts(&self) -> Vec<(&Table, &Part)> {
        self.tables.iter().flat_map(|t| t.parts.iter().map(move |part| (t, part))).collect()
    }

    /// What there is of a table afterwards: the shard itself, on another node, or what it is made into.
    pub fn pieces(&self, table: &Table) -> Vec<Piece> {
        let Some(into) = &self.into else {
            return vec![Piece { number: self.shard(), copy: table.copy.clone(), bound: None }];
        };
        let piece = |(at, new): (char, &catalog::NewShard)| {
            let copy = format!("{}_{at}", table.copy);
            Piece { number: new.number, copy, bound: Some(new.bound.clone()) }
        };
        ('a'..).zip(into).map(piece).collect()
    }

    /// Among the shards, whatever is made on the way.
    pub fn copies(&self) -> Vec<String> {
        let of = |t: &Table| {
            let whole = self.into.is_some().then(|| t.copy.clone());
            whole.into_iter().chain(self.pieces(t).into_iter().map(|piece| piece.copy)).collect::<Vec<_>>()
        };
        self.tables.iter().flat_map(of).collect()
    }

    /// What `herd.jobs` calls it, and what it says it is about.
    fn about(&self) -> (&'static str, String) {
        let is_part = |r: &Relation| r.distribution().is_some_and(|d| d.is_part);
        let relations = self.relations();
        let names: Vec<&str> = relations.iter().filter(|r| !is_part(r)).map(|r| &*r.name).collect();
        let name = |node| self.snapshot.node(node).map_or_else(String::new, |n| n.name.clone());
        let all =
            |numbers: &mut dyn Iterator<Item = i32>| numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(" and ");
        let plural = if self.shards.len() > 1 { "s" } else { "" };
        let shard = format!("shard{plural} {} of {}", all(&mut self.shards.iter().copied()), names.join(", "));
        match &self.into {
            Some(into) => {
                let kind = if self.shards.len() > 1 { "merge" } else { "split" };
                (kind, format!("{shard} on {} into {}", name(self.from), all(&mut into.iter().map(|new| new.number))))
            }
            None => ("move", format!("{shard} from {} to {}", name(self.from), name(self.to))),
        }
    }

    /// As what it is noted.
    pub fn entry(&self) -> Entry {
        let (kind, about) = self.about();
        let copies: Vec<String> = self.copies().iter().map(|copy| quote_literal(copy)).collect();
        let arguments = format!(
            "jsonb_build_object('from', {}, 'to', {}, 'name', {}, 'copies', ARRAY[{}]::text[], 'made', {}, 'shard', {})",
            self.from,
            self.to,
            quote_literal(&self.slot()),
            copies.join(", "),
            self.into.iter().flatten().next_back().map_or_else(|| "NULL".to_string(), |new| new.number.to_string()),
            self.shard(),
        );
        Entry { kind, about, group: Some(self.group), arguments }
    }

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
        self.relations().iter().map(|r| r.oid).collect()
    }

    /// All tables of the group.
    pub fn relations(&self) -> Vec<Arc<Relation>> {
        self.tables.iter().map(|t| &t.relation).chain(&self.wholes).cloned().collect()
    }

    /// The partitions, of those that are moved, of a table that is partitioned by time.
    pub fn parts_of(&self, whole: &Relation) -> impl Iterator<Item = &Table> {
        let prefixes = whole.distribution().and_then(|d| d.partitions.clone()).unwrap_or_default();
        self.tables.iter().filter(move |t| prefixes.contains(&t.prefix))
    }

    /// The group is made of the same tables, of the same names, in the same places.
    pub fn is_still(&self, now: &Snapshot) -> Result<()> {
        let mut members = group_of(now, self.group);
        let found = self.relations().iter().all(|was| {
            let prefix = |r: &Relation| r.distribution().map(|d| d.prefix.clone());
            let same = |r: &Arc<Relation>| {
                (r.oid, &r.schema, &r.name, prefix(r)) == (was.oid, &was.schema, &was.name, prefix(was))
            };
            members.iter().position(same).map(|at| members.swap_remove(at)).is_some()
        });
        let shards = |snapshot: &Snapshot| -> Vec<(i32, NodeId, Bound)> {
            let group = snapshot.groups.get(&self.group);
            group.iter().flat_map(|g| &g.shards).map(|s| (s.number, s.node, s.bound.clone())).collect()
        };
        let same = found && members.is_empty() && shards(now) == shards(&self.snapshot);
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
