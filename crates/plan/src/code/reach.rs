//! Everything code can come to use: from an object along what it names and what PostgreSQL knows it to use.
//!
//! Names are taken widely, since the search path is that of whoever runs the code ([`scope`]). It does not judge.

use std::collections::{BTreeSet, HashSet};

use catalog::code::{Object, RUN_TEXT, RelationCode, TAKE_TYPES, WHOLE_SCHEMAS, is_temporary};
use catalog::{Oid, RelationKind};
use sql::body::{Body, Name};

use super::lookup_path::LookupPath;
use super::{Graph, PlacementKind};
use crate::same;

/// What code can come to use, all told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    pub reads: BTreeSet<Oid>,
    pub writes: BTreeSet<Oid>,
    /// Takes or sets a sequence's value.
    pub sequence: bool,
    /// Notifies listeners, who all listen on home.
    pub notifies: bool,
    pub dynamic: bool,
    /// Makes values of types that it is told when it runs, while there are some whose code uses tables.
    pub takes_types: bool,
    /// Text that is put together may run in a block whose errors are caught.
    pub caught: bool,
    /// What is used in such blocks.
    pub caught_reads: BTreeSet<Oid>,
    pub caught_writes: BTreeSet<Oid>,
    /// Changes the catalog, or roles.
    pub makes: bool,
    pub varies: Option<String>,
    /// By this name a trigger asks which table it is on.
    pub asks_table: Option<String>,
    /// Names the row type of a local or temporary table, which only home has.
    pub row_types: bool,
    /// Some of it sees what the statement that runs it has done so far (VOLATILE).
    pub volatile: bool,
}

impl Reach {
    /// What is read, then what is written; one that is both comes twice.
    pub fn relations(&self) -> impl Iterator<Item = &Oid> {
        self.reads.iter().chain(&self.writes)
    }

    /// Whether text that is put together may run in a block whose errors are caught. `code`: what using each relation runs.
    pub fn catches(&self, code: impl Fn(&Oid) -> RelationCode) -> bool {
        self.caught
            || self.caught_reads.iter().any(|oid| code(oid).read.dynamic)
            || self.caught_writes.iter().any(|oid| code(oid).written_dynamic)
            || self.reads.iter().any(|oid| code(oid).read.herd)
            || self.writes.iter().any(|oid| code(oid).written_catches)
    }

    /// Takes in what another piece of code can come to use.
    pub fn add(&mut self, other: Reach) {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.sequence |= other.sequence;
        self.notifies |= other.notifies;
        self.dynamic |= other.dynamic;
        self.takes_types |= other.takes_types;
        self.caught |= other.caught;
        self.caught_reads.extend(other.caught_reads);
        self.caught_writes.extend(other.caught_writes);
        self.makes |= other.makes;
        self.varies = self.varies.take().or(other.varies);
        self.asks_table = self.asks_table.take().or(other.asks_table);
        self.row_types |= other.row_types;
        self.volatile |= other.volatile;
    }
}

struct Walk<'g, 's> {
    graph: &'g Graph<'s>,
    seen: HashSet<Object>,
    todo: Vec<Object>,
    reach: Reach,
    /// It looks at a block whose errors are caught: others in there are part of it.
    caught: bool,
}

impl Graph<'_> {
    /// `definition`: of a rule.
    pub(super) fn reach_of(&self, start: Object, own: Option<Oid>, definition: Option<&str>) -> Reach {
        let mut walk = Walk::of(self);
        match definition {
            Some(text) => {
                walk.runs(start);
                walk.body(&Body::of_sql(text), &LookupPath::Path(&[]));
            }
            None => walk.start(start, own),
        }
        walk.finish()
    }

    /// Everything that is read with a relation.
    pub(super) fn reach_of_relation(&self, oid: Oid) -> Reach {
        let todo = vec![Object { class: b'r', oid }];
        Walk { todo, ..Walk::of(self) }.finish()
    }

    /// Of a view: what its query runs besides reading tables, which the planner sees for itself.
    pub(super) fn reach_of_view(&self, view: Oid) -> Reach {
        let mut walk = Walk::of(self);
        let mut views = vec![view];
        while let Some(view) = views.pop() {
            let Some(rule) = self.views.get(&view).map(|oid| Object { class: b'u', oid: *oid }) else { continue };
            if !walk.seen.insert(rule) {
                continue;
            }
            walk.runs(rule);
            let (relations, code): (Vec<Object>, Vec<Object>) = walk.uses(rule).partition(|u| u.class == b'r');
            views.extend(relations.iter().map(|u| u.oid));
            walk.todo.extend(code);
        }
        walk.finish()
    }

    pub(super) fn reach_of_body(&self, body: &Body, scope: &LookupPath) -> Reach {
        let mut walk = Walk::of(self);
        walk.body(body, scope);
        walk.finish()
    }
}

impl<'g, 's> Walk<'g, 's> {
    fn of(graph: &'g Graph<'s>) -> Self {
        Walk { graph, seen: HashSet::new(), todo: vec![], reach: Reach::default(), caught: false }
    }

    fn finish(mut self) -> Reach {
        while let Some(object) = self.todo.pop() {
            if self.seen.insert(object) {
                self.object(object);
            }
        }
        self.reach
    }

    /// What hangs on a table names it for its own row's values.
    fn start(&mut self, start: Object, own: Option<Oid>) {
        self.runs(start);
        match start.class {
            b'f' | b't' | b'o' => self.todo.push(start),
            _ => {
                // A column's own sequence is asked by the router, on home.
                let is_sequence =
                    |oid| self.graph.relations.get(&oid).is_some_and(|r| r.kind == RelationKind::Sequence);
                let uses = self.uses(start).filter(|u| u.class != b'r' || own != Some(u.oid));
                let uses = uses.filter(|u| !(start.class == b'd' && u.class == b'r' && is_sequence(u.oid)));
                let uses: Vec<Object> = uses.collect();
                self.todo.extend(uses);
            }
        }
    }

    /// What PostgreSQL's own functions run is in no list of what an object uses.
    fn runs(&mut self, object: Object) {
        let code = &self.graph.snapshot.code;
        self.reach.dynamic |= code.runs_text.contains(&object);
        self.reach.takes_types |= code.takes_types.contains(&object) && self.graph.types_need();
        if code.whole_schemas.contains(&object) {
            self.whole_schemas();
        }
    }

    /// Asks for all tables, and leaves the distributed ones out.
    fn whole_schemas(&mut self) {
        let relations = self.graph.relations.values();
        self.reach.reads.extend(relations.filter(|r| self.graph.kind(r) == PlacementKind::Distributed).map(|r| r.oid));
    }

    fn uses(&self, object: Object) -> impl Iterator<Item = Object> + use<'_> {
        self.graph.snapshot.code.uses.get(&object).into_iter().flatten().copied()
    }

    fn object(&mut self, object: Object) {
        self.runs(object);
        if object.class == b't' && self.graph.is_marked(&object) {
            (self.reach.dynamic, self.reach.caught) = (true, true);
        }
        match object.class {
            b'r' => self.relation(object.oid),
            b'f' => {
                self.reach.volatile |= self.graph.volatile.contains(&object.oid);
                match self.graph.bodies.get(&object.oid) {
                    Some(body) => {
                        let body = body.clone();
                        self.body(&body, self.graph.scopes.get(&object.oid).unwrap_or(&LookupPath::Anywhere));
                    }
                    // Of code in C there is its word alone.
                    None if self.graph.volatile.contains(&object.oid) => {
                        self.reach.varies.get_or_insert_with(|| "a volatile function in C".into());
                    }
                    None => {}
                }
                // What it does with relations its body says.
                let uses: Vec<Object> = self.uses(object).filter(|u| u.class != b'r').collect();
                self.todo.extend(uses);
            }
            _ => {
                let uses: Vec<Object> = self.uses(object).collect();
                self.todo.extend(uses);
            }
        }
    }

    fn relation(&mut self, oid: Oid) {
        let Some(relation) = self.graph.relations.get(&oid) else {
            // A composite type: what its columns are.
            let uses: Vec<Object> = self.uses(Object { class: b'r', oid }).filter(|u| u.class == b't').collect();
            return self.todo.extend(uses);
        };
        match (relation.kind, self.graph.views.get(&oid)) {
            (RelationKind::View, Some(rule)) => {
                let rule = Object { class: b'u', oid: *rule };
                self.runs(rule);
                let uses: Vec<Object> = self.uses(rule).filter(|u| u.oid != oid).collect();
                self.todo.extend(uses);
            }
            _ => {
                self.reach.reads.insert(oid);
            }
        }
    }

    fn body(&mut self, body: &Body, scope: &LookupPath) {
        for name in &body.reads {
            self.read(name);
        }
        for name in &body.writes {
            self.written(name);
        }
        for name in &body.calls {
            self.called(name, scope);
        }
        for (schema, name) in &body.operators {
            let Some(found) = self.graph.operators.get(name.as_str()) else { continue };
            let builtin = found.iter().any(|o| o.builtin);
            let found = found.iter().map(|o| (o.schema.as_str(), o.oid));
            let meant = self.graph.meant(scope, schema.as_deref(), found, builtin);
            self.todo.extend(meant.into_iter().map(|oid| Object { class: b'o', oid }));
        }
        for name in &body.types {
            self.typed(name, scope);
        }
        for name in &body.fields {
            self.field(name);
        }
        self.reach.dynamic |= body.unknown;
        for caught in body.caught.iter().filter(|_| !self.caught) {
            let mut walk = Walk { caught: true, ..Walk::of(self.graph) };
            walk.body(caught, scope);
            let inside = walk.finish();
            self.reach.caught |= inside.dynamic;
            self.reach.caught_reads.extend(inside.reads);
            self.reach.caught_writes.extend(inside.writes);
        }
        self.reach.makes |= self.graph.makes(body);
        self.reach.varies = self.reach.varies.take().or_else(|| body.varies.clone());
        self.reach.asks_table = self.reach.asks_table.take().or_else(|| body.asks_table.clone());
        if let Some(words) = &body.words
            && !self.graph.exact
        {
            let relations: Vec<Oid> =
                self.graph.relations.values().filter(|r| words.mentions(&r.name)).map(|r| r.oid).collect();
            for oid in relations {
                self.written_relation(oid);
            }
            for (name, all) in self.graph.routines.iter().filter(|(name, _)| words.mentions(name)) {
                let meant = self.graph.meant(scope, None, all.iter().copied(), self.graph.is_builtin(name));
                self.todo.extend(meant.into_iter().map(|oid| Object { class: b'f', oid }));
            }
            self.reach.sequence |= ["nextval", "setval"].iter().any(|f| words.mentions(f));
            self.reach.notifies |= ["pg_notify", "notify"].iter().any(|f| words.mentions(f));
            self.reach.varies = self.reach.varies.take().or_else(|| Some("code that can't be read".into()));
        }
    }

    fn found(&self, (schema, name): &Name) -> Vec<Oid> {
        if self.graph.exact && schema.is_none() {
            return vec![];
        }
        let found = self.graph.by_name.get(name.as_str()).into_iter().flatten();
        found.filter(|r| schema.as_ref().is_none_or(|s| *s == r.schema)).map(|r| r.oid).collect()
    }

    fn read(&mut self, name: &Name) {
        let found = self.found(name);
        self.todo.extend(found.into_iter().map(|oid| Object { class: b'r', oid }));
    }

    fn written(&mut self, name: &Name) {
        for oid in self.found(name) {
            self.written_relation(oid);
        }
    }

    /// A write through a view may reach any table under it.
    fn written_relation(&mut self, oid: Oid) {
        self.todo.push(Object { class: b'r', oid });
        let view = self.graph.relations.get(&oid).filter(|r| r.kind == RelationKind::View);
        match view.and_then(|_| self.graph.views.get(&oid)) {
            Some(rule) => {
                let rule = Object { class: b'u', oid: *rule };
                let below: Vec<Oid> =
                    self.uses(rule).filter(|u| u.class == b'r' && u.oid != oid).map(|u| u.oid).collect();
                for oid in below {
                    // Views under views come to an end: none can be made that reads itself.
                    self.written_relation(oid);
                }
            }
            None => {
                self.reach.writes.insert(oid);
            }
        }
    }

    /// A domain, or the row type of a table, which no catalog has if it is temporary.
    fn typed(&mut self, (schema, name): &Name, scope: &LookupPath) {
        self.reach.row_types |= schema.as_deref().is_some_and(is_temporary);
        let builtin = self.graph.snapshot.code.builtin_types.contains(name);
        let found = self.graph.domains.get(name.as_str()).into_iter().flatten().copied();
        let meant = self.graph.meant(scope, schema.as_deref(), found, builtin);
        self.todo.extend(meant.into_iter().map(|oid| Object { class: b't', oid }));
        let tables = self.graph.by_name.get(name.as_str()).into_iter().flatten();
        let meant = self.graph.meant(scope, schema.as_deref(), tables.map(|r| (r.schema.as_str(), r.oid)), builtin);
        self.reach.row_types |= meant
            .iter()
            .filter_map(|oid| self.graph.relations.get(oid))
            .any(|r| self.graph.kind(r) == PlacementKind::Local && r.kind != RelationKind::Sequence);
    }

    /// `t.f` may be a call of `f`; whose columns those are nobody knows here.
    fn field(&mut self, name: &str) {
        if self.graph.snapshot.functions.get(name).is_some_and(|all| all.iter().any(|f| f.of_row)) {
            let found = self.graph.routines.get(name).into_iter().flatten();
            self.todo.extend(found.map(|(_, oid)| Object { class: b'f', oid: *oid }));
        }
    }

    fn called(&mut self, (schema, name): &Name, scope: &LookupPath) {
        let found = self.graph.routines.get(name.as_str()).into_iter().flatten().copied();
        let meant = self.graph.meant(scope, schema.as_deref(), found, self.graph.is_builtin(name));
        let own = !meant.is_empty();
        self.todo.extend(meant.into_iter().map(|oid| Object { class: b'f', oid }));
        self.reach.sequence |= matches!(name.as_str(), "nextval" | "setval");
        self.reach.notifies |= name == "pg_notify";
        // What is in pg_temp is in no catalog.
        self.reach.dynamic |= RUN_TEXT.contains(&name.as_str()) || schema.as_deref().is_some_and(is_temporary);
        self.reach.takes_types |= TAKE_TYPES.contains(&name.as_str()) && self.graph.types_need();
        if WHOLE_SCHEMAS.contains(&name.as_str()) {
            self.whole_schemas();
        }
        if same::builtin_differs(self.graph.snapshot, schema.as_deref(), name, own) {
            self.reach.varies.get_or_insert_with(|| format!("{name}()"));
        }
    }
}
