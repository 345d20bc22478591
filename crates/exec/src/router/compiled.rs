//! Compiled statements and the cache of them. A plan is made once for a template (or a text) and a snapshot; a new
//! snapshot starts with an empty cache, so nothing stale is ever used.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use catalog::{NodeId, Snapshot};
use key::Bound;
use parking_lot::Mutex;
use plan::{KeyExpr, Planned};
use pool::StatementKey;
use share::{Many, SharedStatement};
use sql::template::{Position, Template};
use tokio::sync::OnceCell;
use txn::Raised;

use crate::request::{Keep, Request};
use crate::router::bodies;
use crate::router::described::{Described, PartColumns};
use crate::router::looks::Looks;
use crate::router::plan_cache::PlanCache;
use crate::router::shared_literals::{self, SharedLiterals};
use crate::router::usage::{self, Usage};
use crate::router::ways::{self, Ways};
use wire::type_oid;

/// What a plan takes: so many times its text (the tables' texts of its parts and its own), and this besides.
const TIMES: usize = 6;
const LEAST: usize = 2 << 10;
/// A client may change its settings without end: what is learnt of a plan for each is forgotten then.
pub(crate) const LEARNT_MAX: usize = 4096;

/// Looked into for every statement; the hash is quick and seeded at random, so that nobody can construct collisions.
type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Room for a partition's name and an alias.
const SPLICED_BYTES: usize = 64;

/// Node, settings, and whether it comes by the simple protocol.
type ManyKey = (NodeId, u64, bool);

/// Context, text and declared parameter types.
type TextKey = (u64, String, Vec<u32>);

/// A role's object id, and the settings (`role` among them) under which it asked.
pub(crate) type Asker = (u32, u64);

/// A snapshot of the catalog, and what was learnt under it: plans, bounds, who may use what.
pub struct Epoch {
    /// No other catalog of this process has it, whether it is committed or a transaction's own.
    pub serial: u64,
    /// What it says was committed before that.
    pub since: Instant,
    pub snapshot: Arc<Snapshot>,
    /// What the snapshot's routines name.
    pub bodies: plan::code::Bodies,
    /// Bounds of each colocation group's shards, side by side as `key::locate` wants them.
    bounds: FastMap<i32, Arc<[Bound]>>,
    pub usage: Usage,
    templates: Mutex<PlanCache<u64, foldhash::fast::RandomState>>,
    texts: Mutex<PlanCache<TextKey, RandomState>>,
}

impl Epoch {
    /// `plan_bytes`: what kept plans may take.
    pub fn new(mut snapshot: Snapshot, plan_bytes: usize) -> Self {
        let bodies = bodies::bodies(&snapshot);
        plan::code::settle(&mut snapshot, &bodies);
        Self::of(snapshot, bodies, plan_bytes)
    }

    /// The same; code that takes long to read, or to judge, is left to a thread that serves nobody meanwhile.
    pub async fn read(snapshot: Snapshot, plan_bytes: usize) -> Self {
        let long = bodies::takes_long(&snapshot);
        bodies::apart(long, move || Self::new(snapshot, plan_bytes)).await
    }

    fn of(snapshot: Snapshot, bodies: plan::code::Bodies, plan_bytes: usize) -> Self {
        let bounds =
            snapshot.groups.iter().map(|(id, g)| (*id, g.shards.iter().map(|s| s.bound.clone()).collect())).collect();
        let (templates, texts) =
            (Mutex::new(PlanCache::new(plan_bytes / 2)), Mutex::new(PlanCache::new(plan_bytes / 2)));
        let usage = Usage::of(&snapshot);
        static MADE: AtomicU64 = AtomicU64::new(1);
        let serial = MADE.fetch_add(1, Ordering::Relaxed);
        Epoch { serial, since: Instant::now(), snapshot: Arc::new(snapshot), bodies, bounds, usage, templates, texts }
    }

    /// What a transaction has loaded for itself, as everybody's once it is committed.
    pub fn committed(own: &Epoch, raised: Raised, plan_bytes: usize) -> Self {
        let mut snapshot = Snapshot::clone(&own.snapshot);
        (snapshot.epoch, snapshot.kinds) = (raised.epoch, raised.kinds);
        Self::of(snapshot, own.bodies.clone(), plan_bytes)
    }

    /// Bytes that kept plans take.
    pub fn plan_bytes(&self) -> usize {
        self.templates.lock().bytes() + self.texts.lock().bytes()
    }

    /// Of a colocation group's shards, in their order; empty for a group that is not known.
    pub fn bounds(&self, group: i32) -> Arc<[Bound]> {
        self.bounds.get(&group).cloned().unwrap_or_else(|| Arc::from([]))
    }

    /// The plan for a template, if a statement of it was seen. `context` stands for search path and the like.
    pub fn by_template(&self, template: &Template, context: u64) -> Option<Arc<Compiled>> {
        let found = self.templates.lock().get(&(template.hash() ^ context)).cloned()?;
        (found.context == context && found.template_text == template.text()).then_some(found)
    }

    /// `hash`: the template's.
    pub fn keep_template(&self, compiled: &Arc<Compiled>, hash: u64) {
        self.templates.lock().keep(hash ^ compiled.context, compiled);
    }

    /// The plan for a text, if it was seen with these parameter types. `context` stands for search path and the like.
    pub fn by_text(&self, context: u64, text: &str, types: &[u32]) -> Option<Arc<Compiled>> {
        // The tuple key needs an owned text; a lookup is rare beside the template path.
        self.texts.lock().get(&(context, text.to_string(), types.to_vec())).cloned()
    }

    /// For [`by_text`](Self::by_text). What names a session's own temporary tables is not kept.
    pub fn keep_text(&self, compiled: &Arc<Compiled>, types: &[u32]) {
        if compiled.own != 0 {
            return;
        }
        self.texts.lock().keep((compiled.context, compiled.text.clone(), types.to_vec()), compiled);
    }
}

/// Shard (`None`: through the parent), settings, and whether it comes by the simple protocol.
type SharedKey = (Option<i32>, u64, bool);

/// A planned statement with what is learnt of it while it runs.
pub struct Compiled {
    pub plan: Planned,
    pub text: String,
    pub context: u64,
    /// Not 0: it names the session's temporary tables, whose columns only it knows, so that no other parsing of the same text
    /// may have its prepared statement on a node.
    pub own: u64,
    /// Its text holds a value of this execution: nodes keep nothing for it.
    once: OnceLock<bool>,
    template_text: Vec<u8>,
    /// Literals of the plan by their byte offset: which literal of the template, and whether a minus is before it.
    literals: FastMap<usize, (usize, bool)>,
    /// Where each splice starts, for any statement of the template, and how long the replaced name is.
    splices: Vec<(Position, usize)>,
    pub described: OnceCell<Arc<Described>>,
    has_run: AtomicBool,
    /// Columns of each part of a multi-node read.
    pub parts: OnceCell<Arc<Vec<PartColumns>>>,
    /// Queries that are read before a change.
    reads: OnceLock<Arc<[Compiled]>>,
    /// Home has said of its finish what it says of the statement.
    pub agrees: OnceCell<()>,
    /// Of statements that run one after the other: each, planned with the types of what those before it return.
    pub in_turn: ReadyTurns,
    pub ways: Ways,
    keys: Mutex<FastMap<(Option<i32>, u64), StatementKey>>,
    /// Everybody has USAGE of its tables' schemas.
    pub(crate) schemas_are_open: bool,
    /// Of other schemas: who has.
    named_by: Mutex<FastMap<Asker, Instant>>,
    /// How it travels with other clients' statements: literals that become parameters, and those that stay.
    pub(crate) shared_literals: Option<SharedLiterals>,
    /// Of rows that travel with those of other clients: where a template's literals are.
    pub(crate) row_literals: Option<Vec<(usize, bool)>>,
    pub(crate) shared: Mutex<FastMap<SharedKey, Arc<SharedStatement>>>,
    /// Of an INSERT that can be one of many rows.
    pub(crate) many: Mutex<FastMap<ManyKey, Option<Arc<Many>>>>,
    looks: OnceLock<Looks>,
}

/// Statements that run one after the other, once the types of what is kept are known.
pub type ReadyTurns = OnceCell<Arc<Vec<ReadyTurn>>>;

/// One of several statements that run one after the other.
pub struct ReadyTurn {
    /// Of the WITH query that it is; `None`: the statement itself.
    pub number: Option<usize>,
    pub compiled: Compiled,
    /// Which of all parameters each of its own is.
    pub params: Vec<usize>,
    /// Of the columns that are kept, as `format_type` writes them.
    pub types: Vec<String>,
    /// The same without their domains.
    pub base_types: Vec<String>,
}

impl Compiled {
    /// `context` stands for search path and the like. With a `template` it is known where its other statements have their literals.
    pub fn new(plan: Planned, text: &str, context: u64, template: Option<&Template>) -> Self {
        let mut literals = FastMap::default();
        let mut splices = Vec::new();
        let mut template_text = Vec::new();
        if let Some(t) = template {
            template_text = t.text().to_vec();
            for key in plan.whole().tables.iter().flat_map(|t| t.values()) {
                if let KeyExpr::Literal { location: Some(location), .. } = key
                    && let Some(found) = t.literal_at(text, *location)
                {
                    literals.insert(*location, found);
                }
            }
            let positions =
                plan.whole().splices.iter().flatten().map(|s| t.position(s.start).map(|p| (p, s.end - s.start)));
            splices = positions.collect::<Option<Vec<_>>>().unwrap_or_default();
        }
        let shared_literals = template.and_then(|t| shared_literals::shared_literals(&plan, text, t));
        let row_literals = template.and_then(|t| shared_literals::row_literals(&plan, text, t));
        let schemas_are_open = plan.whole().tables.iter().all(|t| t.relation.schema_is_open);
        Compiled {
            own: 0,
            once: OnceLock::new(),
            schemas_are_open,
            named_by: Mutex::default(),
            shared_literals,
            row_literals,
            shared: Mutex::default(),
            many: Mutex::default(),
            looks: OnceLock::new(),
            plan,
            text: text.to_string(),
            context,
            template_text,
            literals,
            splices,
            described: OnceCell::new(),
            has_run: AtomicBool::new(false),
            parts: OnceCell::new(),
            reads: OnceLock::new(),
            agrees: OnceCell::new(),
            in_turn: OnceCell::new(),
            ways: Ways::default(),
            keys: Mutex::default(),
        }
    }

    /// The same plan for all statements of a template that differ in literals only.
    pub fn for_template(&self, template: &Template) -> Self {
        Compiled { own: self.own, ..Compiled::new(self.plan.clone(), &self.text, self.context, Some(template)) }
    }

    /// Bytes it takes while it is kept.
    pub fn weight(&self) -> usize {
        LEAST + TIMES * (self.text.len() + ways::len(&self.plan)) + self.template_text.len()
    }

    /// A statement with parameters comes again, with others; one without if it came before.
    pub fn keep(&self, request: &Request<'_>) -> Keep {
        let again = request.bound.is_some() || self.has_run.load(Ordering::Relaxed);
        if !again || self.own != 0 || self.comes_once() {
            return Keep::No;
        }
        match request.bound.zip(self.plan.whole().narrow).is_some_and(|(bound, range)| bound.is_narrow(range)) {
            true => Keep::OnePlan,
            false => Keep::Yes,
        }
    }

    /// It holds a value of this execution.
    pub fn is_once(self) -> Self {
        Compiled { once: OnceLock::from(true), ..self }
    }

    /// Nodes keep nothing for it: it holds a value of this execution, or a literal that may stand for a moment, which PostgreSQL reads when it reads the
    /// statement ('today').
    pub fn comes_once(&self) -> bool {
        *self.once.get_or_init(|| names_moment(&self.text))
    }

    /// From now on it has run once.
    pub fn has_run(&self) {
        self.has_run.store(true, Ordering::Relaxed);
    }

    /// What is read before a change, each a statement of its own.
    pub fn reads(&self, from: &plan::ChangeFrom) -> Arc<[Compiled]> {
        let read = |r: &plan::ReadBefore| Compiled { own: self.own, ..Compiled::new(r.plan.clone(), &r.sql, 0, None) };
        self.reads.get_or_init(|| from.reads.iter().map(read).collect()).clone()
    }

    /// Which literal of the template stands at `location` of this plan's own text, and whether it is negated.
    pub fn literal(&self, location: usize) -> Option<(usize, bool)> {
        self.literals.get(&location).copied()
    }

    /// Every key literal and splice can be found again in another statement of the template.
    pub fn fits_template(&self) -> bool {
        let wanted = self.plan.whole().tables.iter().flat_map(|t| t.values());
        wanted
            .filter_map(|k| match k {
                KeyExpr::Literal { location, .. } => location.as_ref(),
                _ => None,
            })
            .all(|l| self.literals.contains_key(l))
            && self.splices.len() == self.plan.whole().splices.as_ref().map_or(0, Vec::len)
    }

    /// Every literal of its rows can be found again in another statement of the template.
    pub fn rows_fit_template(&self) -> bool {
        self.row_literals.is_some()
    }

    /// The statement with partitions of one shard named, `sql` being this text or another of the template.
    pub fn spliced(&self, sql: &str, template: Option<&Template>, shard: i32) -> Option<String> {
        let splices = self.plan.whole().splices.as_ref()?;
        let mut out = String::with_capacity(sql.len() + SPLICED_BYTES * splices.len());
        let mut at = 0;
        for (i, splice) in splices.iter().enumerate() {
            let start = match template {
                Some(t) => t.offset(self.splices.get(i)?.0),
                None => splice.start,
            };
            let end = start + (splice.end - splice.start);
            out.push_str(sql.get(at..start)?);
            self.put_splice(&mut out, splice, shard)?;
            at = end;
        }
        out.push_str(sql.get(at..)?);
        Some(out)
    }

    /// What stands in place of a table's name.
    pub(crate) fn splice_text(&self, splice: &plan::Splice, shard: i32) -> Option<String> {
        let mut out = String::new();
        self.put_splice(&mut out, splice, shard)?;
        Some(out)
    }

    fn put_splice(&self, out: &mut String, splice: &plan::Splice, shard: i32) -> Option<()> {
        self.plan.whole().tables[splice.table].relation.distribution()?.put_partition(out, shard);
        if let Some(alias) = &splice.alias {
            out.push_str(" AS ");
            out.push_str(alias);
        }
        Some(())
    }

    /// For each splice where it starts and ends in the statement, and the length of what replaces it.
    pub fn splice_lengths(&self, template: Option<&Template>, shard: i32) -> Vec<(usize, usize, usize)> {
        let length = |s: &plan::Splice, i: usize| {
            let start = match template {
                Some(t) => t.offset(self.splices.get(i)?.0),
                None => s.start,
            };
            Some((start, start + (s.end - s.start), self.splice_text(s, shard)?.len()))
        };
        self.plan.whole().splices.iter().flatten().enumerate().filter_map(|(i, s)| length(s, i)).collect()
    }

    /// The tables of the herd that it reads by key or writes.
    pub fn relations(&self) -> impl Iterator<Item = &Arc<catalog::Relation>> {
        self.plan.whole().tables.iter().map(|t| &t.relation).chain(self.plan.written())
    }

    /// What nodes look at beside it where it names those tables themselves.
    pub fn looks(&self) -> &Looks {
        self.looks.get_or_init(|| Looks::of_tables(self.relations()))
    }

    /// A result may have columns of types whose oids differ from node to node.
    pub fn may_have_user_types(&self) -> bool {
        self.plan.whole().splices.is_none()
            || self
                .plan
                .whole()
                .tables
                .iter()
                .any(|t| t.relation.columns.iter().any(|c| c.type_oid >= type_oid::FIRST_NORMAL_OBJECT_ID))
    }

    /// As home has said a moment ago: rights are also taken past the routers.
    pub(crate) fn may_be_named_by(&self, asker: Asker) -> bool {
        self.named_by.lock().get(&asker).is_some_and(|said| said.elapsed() < usage::LASTS)
    }

    pub(crate) fn was_named_by(&self, asker: Asker) {
        let mut named_by = self.named_by.lock();
        if named_by.len() >= LEARNT_MAX {
            named_by.clear();
        }
        named_by.insert(asker, Instant::now());
    }

    /// The key of the prepared statement for a shard (`None`: through the parent).
    /// `settings`: fingerprint of the settings PostgreSQL reads literals under.
    pub fn statement_key(
        &self,
        shard: Option<i32>,
        settings: u64,
        make: impl FnOnce() -> StatementKey,
    ) -> StatementKey {
        let mut keys = self.keys.lock();
        if keys.len() >= LEARNT_MAX {
            keys.clear();
        }
        *keys.entry((shard, settings)).or_insert_with(make)
    }
}

/// A literal of the text may stand for a moment.
fn names_moment(text: &str) -> bool {
    if !sql::moments::mentions(text) {
        return false;
    }
    let mut t = Template::new();
    let unread = t.scan(text, true).is_err();
    let may = |at| t.literal_value(text, at).map_or(true, |value| plan::clock_text::may_name(&value));
    unread || (0..t.literals().len()).any(may)
}
