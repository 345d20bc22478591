//! What code reads and writes must be where it runs. One rule, judged over all code of the herd whenever any of it, or the
//! kind of any table, has changed:
//!
//! - what hangs on a **local** table (triggers, rules, defaults, CHECKs, policies, expressions of indexes, its columns'
//!   domains; the query of a materialized view) runs on home: it may use local tables and read reference tables;
//! - what hangs on a **distributed** or **reference** table runs on the nodes: it may read reference tables; a trigger may use rows of its
//!   row's own key, too ([`same_key`]);
//! - on a reference table it must, besides, do the same on each node: no clocks, no chance, nobody's numbers;
//! - what runs without being called by its name (casts, operator classes, ranges) may run on any node, and is judged as if it
//!   hung on a reference table; event triggers run on home;
//! - a function, operator, domain or view that a statement uses runs where the statement does: the planner is told what it needs
//!   ([`settle`], `needs.rs`).
//!
//! Whose names they are: what a statement names is looked up along its search path, what a body names as [`reach`] says. Nothing
//! that a role makes in a schema of its own is taken for what another's code calls.
//!
//! Text that code puts together and runs (dynamic SQL) may name anything: it is refused on tables that nodes share, and where
//! no statement is by. On home the session looks at the locks it took ([`dynamic`]). C functions are taken not to use tables, but
//! for those that give rows for a text or a name they are told. Pure: the graph comes from the snapshot, bodies from `sql`.

mod attached;
mod breach;
mod components;
mod dynamic;
mod facts;
mod hanging;
mod lookup_path;
mod makes;
mod marked;
mod named;
mod reach;
mod relation_set;
mod row_by_row;
mod same_key;
#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use catalog::code::{Harm, Needs, Object, Operator, RelationCode, Routine, Schema, Unnamed};
use catalog::{Oid, Placement, Relation, Snapshot, Volatility};
use sql::body::{Body, Name};

use crate::refuse::Refusal;
use breach::{Breach, How};
use components::Components;
use dynamic::Dynamic;
pub use lookup_path::LookupPath;
use lookup_path::Names;
use reach::Reach;
use relation_set::{Numbers, RelationSet};

/// A table's kind, as code meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlacementKind {
    Local,
    Reference,
    Distributed,
}

impl PlacementKind {
    /// By where the snapshot says that its rows are.
    pub fn of(relation: &Relation) -> PlacementKind {
        match relation.placement {
            Placement::Local => PlacementKind::Local,
            Placement::Reference => PlacementKind::Reference,
            Placement::Distributed(_) => PlacementKind::Distributed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            PlacementKind::Local => "local",
            PlacementKind::Reference => "reference",
            PlacementKind::Distributed => "distributed",
        }
    }
}

/// What code that runs on home is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// It runs text that is not known beforehand: tables it uses, and what it changes in the catalog.
    Text,
    /// All its statements are known, and some change the catalog.
    Catalog,
}

/// The bodies of routines by their object id.
pub type Bodies = HashMap<Oid, Arc<Body>>;

/// Something that breaks the rule, and the relations its refusal names: not everybody may hear of them.
pub struct Broken {
    pub refusal: Refusal,
    pub names: Vec<Oid>,
    /// How many of them, from the first on, it uses as tables; behind them is what it hangs on.
    pub tables: usize,
    /// What nobody may use while it is so, if that is enough to keep it from running.
    pub marks: Vec<Object>,
    breach: Breach,
}

/// Who uses what. Built of a snapshot; asked, then thrown away. What it has found out is kept in it, so that it looks at nothing
/// twice, whatever it is asked.
pub struct Graph<'s> {
    snapshot: &'s Snapshot,
    bodies: &'s Bodies,
    relations: HashMap<Oid, &'s Arc<Relation>>,
    by_name: HashMap<&'s str, Vec<&'s Arc<Relation>>>,
    routines: HashMap<Oid, &'s Routine>,
    routines_by_name: HashMap<&'s str, Vec<(&'s str, Oid)>>,
    domains: HashMap<&'s str, Vec<(&'s str, Oid)>>,
    operators: HashMap<&'s str, Vec<&'s Operator>>,
    schemas: HashMap<&'s str, &'s Schema>,
    views: HashMap<Oid, Oid>,
    numbers: Numbers,
    /// Tables that are about to be of another kind.
    changed: HashMap<Oid, PlacementKind>,
    /// Names without a schema mean nothing.
    exact: bool,
    /// What is marked counts as what puts statements together.
    heeds_marks: bool,
    names: Names<'s>,
    /// Relations by [`PlacementKind`].
    kinds: OnceCell<[RelationSet; 3]>,
    types_need: OnceCell<bool>,
    components: Components,
}

impl<'s> Graph<'s> {
    /// Of the catalog as it is; `bodies`: its routines' bodies, read before.
    pub fn new(snapshot: &'s Snapshot, bodies: &'s Bodies) -> Self {
        let code = &snapshot.code;
        let tied = code.tied.iter().flat_map(|(from, to)| [*from, *to]);
        let oids = snapshot.relations.values().map(|r| r.oid).chain(code.attached.iter().map(|a| a.table)).chain(tied);
        let mut graph = Graph {
            snapshot,
            bodies,
            relations: snapshot.relations.values().map(|r| (r.oid, r)).collect(),
            by_name: HashMap::new(),
            routines: code.routines.iter().map(|r| (r.oid, r)).collect(),
            routines_by_name: HashMap::new(),
            domains: HashMap::new(),
            operators: HashMap::new(),
            schemas: code.schemas.iter().map(|s| (s.name.as_str(), s)).collect(),
            views: code.attached.iter().filter(|a| a.what == "view").map(|a| (a.table, a.oid)).collect(),
            numbers: Numbers::new(oids),
            changed: HashMap::new(),
            exact: false,
            heeds_marks: true,
            names: Names::default(),
            kinds: OnceCell::new(),
            types_need: OnceCell::new(),
            components: Components::default(),
        };
        snapshot.relations.values().for_each(|r| graph.by_name.entry(&r.name).or_default().push(r));
        code.routines.iter().for_each(|r| graph.routines_by_name.entry(&r.name).or_default().push((&r.schema, r.oid)));
        code.types.iter().for_each(|(s, n, oid)| graph.domains.entry(n).or_default().push((s, *oid)));
        code.operators.iter().for_each(|o| graph.operators.entry(&o.name).or_default().push(o));
        graph
    }

    /// As it will be when a table is of another kind. Of a graph that has been asked nothing yet.
    pub fn with(mut self, table: Oid, kind: PlacementKind) -> Self {
        self.changed.insert(table, kind);
        self
    }

    fn uses(&self, object: Object) -> impl Iterator<Item = Object> + use<'s> {
        self.snapshot.code.uses.get(&object).into_iter().flatten().copied()
    }

    /// Of a view, what has its query.
    fn rule_of(&self, view: Oid) -> Option<Object> {
        self.views.get(&view).map(|oid| Object { class: b'u', oid: *oid })
    }

    /// Relations a name in code can mean.
    fn found(&self, (schema, name): &Name) -> impl Iterator<Item = Oid> {
        let means_nothing = self.exact && schema.is_none();
        let found = self.by_name.get(name.as_str()).filter(|_| !means_nothing).into_iter().flatten();
        found.filter(move |r| schema.as_ref().is_none_or(|s| *s == r.schema)).map(|r| r.oid)
    }

    fn of_kind(&self, kind: PlacementKind) -> &RelationSet {
        let kinds = self.kinds.get_or_init(|| {
            let of = |kind| self.relations.values().filter(move |r| self.kind(r) == kind).map(|r| r.oid);
            [PlacementKind::Local, PlacementKind::Reference, PlacementKind::Distributed]
                .map(|k| self.numbers.set(of(k)))
        });
        &kinds[kind as usize]
    }

    fn kind(&self, relation: &Relation) -> PlacementKind {
        self.changed.get(&relation.oid).copied().unwrap_or_else(|| PlacementKind::of(relation))
    }

    /// There is nothing but local tables: all code is where everything is.
    fn all_local(&self) -> bool {
        [PlacementKind::Reference, PlacementKind::Distributed].iter().all(|kind| self.of_kind(*kind).is_empty())
    }

    /// There is no other node, either: nothing could differ.
    fn is_alone(&self) -> bool {
        self.snapshot.nodes.len() < 2 && self.all_local()
    }

    /// What breaks the rule, in the order of the refusals' words.
    pub fn refusals(&self) -> Vec<Broken> {
        let mut refusals: Vec<Broken> = if self.is_alone() { vec![] } else { self.unwatched() };
        if !self.all_local() {
            refusals.extend(self.on_relations_and_types());
        }
        refusals.sort_by(|a, b| a.refusal.message.cmp(&b.refusal.message));
        refusals
    }

    /// Those that a change has brought: `before` is every catalog that it is not to blame for.
    pub fn new_refusals(&self, before: &[Graph]) -> Vec<Broken> {
        let mut after = self.refusals();
        if !after.is_empty() {
            let before: Vec<Broken> = before.iter().flat_map(|g| g.refusals()).collect();
            let known: HashSet<_> = before.iter().map(|b| b.breach.key()).collect();
            after.retain(|b| !known.contains(&b.breach.key()));
        }
        after
    }

    /// `own`: what the code hangs on.
    fn broken(&self, breach: Breach, own: Oid) -> Broken {
        let names: Vec<Oid> = breach.relation.into_iter().chain([own]).collect();
        Broken { refusal: breach.refusal(), tables: names.len() - 1, names, marks: vec![], breach }
    }

    /// Wherever a value is cast, compared or changed by DDL; nobody asks what it needs.
    fn unnamed(&self, u: &Unnamed) -> Option<Broken> {
        let reach = self.reach_of(Object { class: b'f', oid: u.routine });
        let subject = format!("{} \"{}\"", u.what, u.name);
        let breach = if u.what == "event trigger" {
            self.judge(&subject, PlacementKind::Local, &reach).or_else(|| dynamic::refuse(&subject, &reach))
        } else {
            // Of a function's value, its own word counts.
            let varies = self.routines.get(&u.routine).is_some_and(|r| r.volatility != Volatility::Immutable);
            let judged = self.judge(&subject, PlacementKind::Reference, &reach);
            judged.or_else(|| varies.then(|| differs(&subject, &reach)).flatten())
        };
        Some(self.broken(breach?, u.routine))
    }

    /// A domain's conditions are checked when a row is written, and what rows are split by is computed.
    fn columns_types(&self, table: &Relation) -> Option<Broken> {
        let uses = self.snapshot.code.uses.get(&Object { class: b'r', oid: table.oid })?;
        let mut reach = Reach::default();
        for used in uses.iter().filter(|u| matches!(u.class, b't' | b'f' | b'o')) {
            reach.add(&self.reach_of(*used));
        }
        let subject = format!("a column's domain on {} table \"{}\"", self.kind(table).word(), table.name);
        Some(self.broken(self.judge(&subject, self.kind(table), &reach)?, table.oid))
    }

    /// `at`: the kind of the table it hangs on.
    fn judge(&self, subject: &str, at: PlacementKind, reach: &Reach) -> Option<Breach> {
        let named = |set: &RelationSet, kind: PlacementKind| {
            let first = set.first_in(self.of_kind(kind))?;
            self.relations.get(&self.numbers.oid(first)).copied()
        };
        let uses = |r: &Relation, writes: bool| Some(Breach::uses(subject, r, self.kind(r), writes));
        if let Some(r) = named(&reach.writes, PlacementKind::Reference) {
            return uses(r, true);
        }
        if let Some(r) = named(&reach.writes, PlacementKind::Distributed) {
            return uses(r, true);
        }
        if let Some(r) = named(&reach.reads, PlacementKind::Distributed) {
            return uses(r, false);
        }
        if at == PlacementKind::Local {
            return None;
        }
        if let Some(r) = named(&reach.writes, PlacementKind::Local) {
            return uses(r, true);
        }
        if let Some(r) = named(&reach.reads, PlacementKind::Local) {
            return uses(r, false);
        }
        if reach.sequence {
            return Some(Breach::new(subject, How::TakesSequenceValues));
        }
        if reach.notifies && at == PlacementKind::Distributed {
            return Some(Breach::new(subject, How::Notifies));
        }
        dynamic::refuse(subject, reach)
    }

    /// Code that runs on home by itself (DO, CALL), may not use what is elsewhere, too.
    pub fn refuse_at_home(&self, subject: &str, body: &Body, scope: &LookupPath) -> Option<Refusal> {
        if self.all_local() {
            return None;
        }
        let mut refusal = self.judge(subject, PlacementKind::Local, &self.reach_of_body(body, scope))?.refusal();
        refusal.hint = Some("Send its statements through the router one by one.".into());
        Some(refusal)
    }

    /// Whether code must be watched on home, and for what.
    pub fn watched(&self, body: &Body, scope: &LookupPath) -> Option<Watched> {
        if self.is_alone() {
            return None;
        }
        let reach = self.reach_of_body(body, scope);
        let known = self.known_dynamic();
        let dynamic =
            reach.dynamic || reach.takes_types || reach.reads.meets(&known.read) || reach.writes.meets(&known.written);
        match dynamic {
            true => Some(Watched::Text),
            false => reach.makes.then_some(Watched::Catalog),
        }
    }

    /// Whether what it does by text that it puts together could be undone in it, before anybody has looked at it.
    pub fn catches(&self, body: &Body, scope: &LookupPath) -> Option<Refusal> {
        (!self.all_local() && self.reach_of_body(body, scope).catches(&self.known_dynamic())).then(caught)
    }

    /// What an object's code needs of tables.
    fn needs(&self, object: Object, dynamic: &Dynamic) -> Needs {
        self.needs_of(&self.reach_of(object), dynamic)
    }

    fn needs_of(&self, reach: &Reach, dynamic: &Dynamic) -> Needs {
        let [local, reference, distributed] =
            [PlacementKind::Local, PlacementKind::Reference, PlacementKind::Distributed].map(|k| self.of_kind(k));
        Needs {
            herd: !self.all_local() && reach.catches(dynamic)
                || reach.reads.meets(distributed)
                || reach.writes.meets(distributed)
                || reach.writes.meets(reference),
            home: reach.row_types
                || reach.sequence
                || reach.notifies
                || reach.reads.meets(local)
                || reach.writes.meets(local),
            dynamic: dynamic.of(reach),
            varies: reach.varies.is_some() || !reach.reads.is_empty(),
        }
    }

    /// What the planner must know of code: of each routine by schema and name, of operators and domains that need anything
    /// by name, with their schemas.
    fn all_needs(&self) -> AllNeeds {
        let mut all = AllNeeds::default();
        if self.is_alone() {
            return all;
        }
        let code = &self.snapshot.code;
        let dynamic = self.dynamic();
        for r in &code.routines {
            let (name, reach) = ((r.schema.clone(), r.name.clone()), self.reach_of(Object { class: b'f', oid: r.oid }));
            if reach.moments {
                all.moments.insert(name.clone());
            }
            let named = self.shared_names(&reach);
            if !named.is_empty() {
                all.named_by_calls.entry(r.name.clone()).or_default().extend(named);
            }
            add(&mut all.routines, name, self.needs_of(&reach, &dynamic));
        }
        for o in &code.operators {
            let needs = self.needs(Object { class: b'o', oid: o.oid }, &dynamic);
            let immutable = o.volatility == Volatility::Immutable;
            if needs != Needs::default() || !immutable {
                let harm = Harm { schema: o.schema.clone(), needs, immutable };
                all.operators.entry(o.name.clone()).or_default().push(harm);
            }
        }
        for (schema, name, oid) in &code.types {
            let needs = self.needs(Object { class: b't', oid: *oid }, &dynamic);
            if needs != Needs::default() {
                let harm = Harm { schema: schema.clone(), needs, immutable: true };
                all.domains.entry(name.clone()).or_default().push(harm);
            }
        }
        all.relations = self.relation_code(dynamic);
        (all.named, all.named_by_views) = (self.named_by_code(), self.named_by_views());
        for (table, (own, tied)) in self.row_by_row() {
            let code = all.relations.entry(table).or_default();
            (code.by_rows, code.by_tied_rows) = (own, tied);
        }
        for (table, reads) in self.before_rows() {
            let code = all.relations.entry(table).or_default();
            code.before_rows = true;
            code.before_reads |= reads;
        }
        all
    }
}

/// Nobody sees what it has touched: the locks are gone with the error.
pub fn caught() -> Refusal {
    Refusal::new(
        "code that puts statements together in a block with EXCEPTION can't run here: what they touch could not be seen where an error is caught",
        "Write the statements out in place of EXECUTE, or let the error end the code.",
    )
}

/// It would use what its node does not have.
pub fn marked() -> Refusal {
    Refusal::new(
        "a table or type whose code uses what its nodes do not have can't be used",
        "Change or drop that code: its triggers, rules, policies, defaults, checks or casts name a table that has been made, or distributed, since.",
    )
}

/// Home would use a temporary table there, and other nodes what it hides. `code`: what names it.
pub fn hidden(code: &str, name: &str) -> Refusal {
    Refusal::new(
        format!("{code} names \"{name}\", which is a temporary table in this session: nodes do not have that"),
        format!("Drop the temporary table \"{name}\", or give it another name."),
    )
}

/// What runs on each node must do the same there.
fn differs(subject: &str, reach: &Reach) -> Option<Breach> {
    Some(Breach::new(subject, How::Varies(reach.varies.as_deref()?.into())))
}

#[derive(Default)]
struct AllNeeds {
    routines: HashMap<(String, String), Needs>,
    /// Routines that may name a moment by a string.
    moments: HashSet<(String, String)>,
    operators: HashMap<String, Vec<Harm>>,
    domains: HashMap<String, Vec<Harm>>,
    relations: HashMap<Oid, RelationCode>,
    named: HashMap<Oid, Vec<String>>,
    named_by_calls: HashMap<String, Vec<String>>,
    named_by_views: HashMap<Oid, Vec<String>>,
}

impl AllNeeds {
    /// Some of it must not run inside a statement.
    fn reach(&self) -> bool {
        let harms = self.operators.values().chain(self.domains.values()).flatten().map(|h| h.needs);
        let relations = self.relations.values().map(|code| code.read);
        self.routines.values().copied().chain(relations).chain(harms).any(|n| n.herd)
    }
}

/// Of several of one name nobody knows here which is meant.
fn add<K: Eq + std::hash::Hash>(all: &mut HashMap<K, Needs>, name: K, more: Needs) {
    let n = all.entry(name).or_default();
    *n = Needs {
        herd: n.herd | more.herd,
        home: n.home | more.home,
        dynamic: n.dynamic | more.dynamic,
        varies: n.varies | more.varies,
    };
}

/// Tells the planner what code needs.
pub fn settle(snapshot: &mut Snapshot, bodies: &Bodies) {
    snapshot.code.marked = Graph::new(snapshot, bodies).unmarked().marks();
    let all = Graph::new(snapshot, bodies).all_needs();
    let leaves_nothing = |name: &str| !snapshot.session_code.has(name);
    for (name, overloads) in &mut snapshot.functions {
        for f in overloads.iter_mut() {
            let called = (f.schema.clone(), name.clone());
            if let Some(found) = all.routines.get(&called) {
                // Who says nothing gets VOLATILE. What uses nothing but what it is given, and leaves nothing, gives the same each time.
                let is_pure = *found == Needs::default() && leaves_nothing(name) && !all.moments.contains(&called);
                if is_pure && f.volatility == Volatility::Volatile {
                    f.volatility = Volatility::Stable;
                }
                f.reads_herd_tables = found.herd;
                f.needs_home = found.home;
                f.dynamic = found.dynamic;
                f.varies = found.varies;
            }
        }
    }
    let mut own = snapshot.functions.values().flatten();
    snapshot.row_code = own.any(|f| f.of_row && (f.reads_herd_tables || f.needs_home || f.dynamic));
    snapshot.reaches = all.reach();
    (snapshot.operators, snapshot.domains, snapshot.relation_code) = (all.operators, all.domains, all.relations);
    (snapshot.named_by_code, snapshot.named_by_calls) = (all.named, all.named_by_calls);
    snapshot.named_by_views = all.named_by_views;
}
