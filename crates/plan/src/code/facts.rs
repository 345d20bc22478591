//! What one object uses by itself, and which others it leads to: along what it names and what PostgreSQL knows it to use.
//!
//! Names are taken widely, since the search path is that of whoever runs the code ([`lookup_path`](super::lookup_path)). What is in a
//! block whose errors are caught is met a second time as what is *inside*: there it counts as what such blocks use, and other blocks
//! are part of it. It does not know what its objects lead to in the end.

use catalog::code::{Attached, Object, RUN_TEXT, TAKE_TYPES, WHOLE_SCHEMAS, is_temporary};
use catalog::{Oid, RelationKind};
use sql::body::{Body, Name, Words};

use super::lookup_path::LookupPath;
use super::reach::Reach;
use super::{Graph, PlacementKind};
use crate::same;

/// What leads to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Used(Object),
    /// A relation that is written: through a view, any table under it.
    Written(Oid),
    /// What a view's query runs besides reading tables.
    Query(Oid),
    /// All that a name can mean, which many may have in common.
    Named(usize),
    /// All tables but the distributed ones are asked for.
    WholeSchemas,
    /// What runs where a table is used ([`hanging`](super::hanging)).
    HangsOn {
        table: Oid,
        written: bool,
    },
    /// One of those.
    Hanging(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub what: What,
    /// Of a block whose errors are caught.
    pub inside: bool,
}

impl What {
    /// Not in a block whose errors are caught.
    pub fn outside(self) -> Node {
        Node { what: self, inside: false }
    }
}

/// What is known of one node by itself.
#[derive(Default)]
pub(super) struct Facts {
    pub own: Reach,
    pub next: Vec<Node>,
}

impl Facts {
    /// Of a node by itself.
    pub fn of(graph: &Graph, node: Node) -> Facts {
        let mut look = Look { inside: node.inside, ..Look::new(graph) };
        match node.what {
            What::Used(object) => look.object(object),
            What::Written(oid) => look.written(oid),
            What::Query(view) => look.query(view),
            What::Named(name) => look.used(graph.names.meant(name).iter().copied()),
            What::WholeSchemas => look.own.reads = graph.of_kind(PlacementKind::Distributed).clone(),
            // Nobody comes to them but where they are looked for.
            What::HangsOn { .. } | What::Hanging(_) => {}
        }
        look.facts()
    }

    /// It may name its own table, at first: that is for its own row's values.
    pub fn of_attached(graph: &Graph, a: &Attached) -> Facts {
        let mut look = Look::new(graph);
        look.runs(a.object());
        match &a.definition {
            Some(text) => look.body(&Body::of_rule(text), &LookupPath::Path(&[])),
            None => {
                // A column's own sequence is asked by the router, on home.
                let is_sequence = |oid| graph.relations.get(&oid).is_some_and(|r| r.kind == RelationKind::Sequence);
                let uses = graph.uses(a.object()).filter(|u| u.class != b'r' || u.oid != a.table);
                look.used(uses.filter(|u| !(a.what == "default" && u.class == b'r' && is_sequence(u.oid))));
            }
        }
        look.facts()
    }

    /// Of a trigger, but for the distributed tables that its function names itself.
    pub fn beside_key(graph: &Graph, a: &Attached, function: Oid) -> Facts {
        let mut look = Look { beside_key: true, ..Look::new(graph) };
        look.runs(a.object());
        let own = |u: &Object| u.class == b'r' && u.oid == a.table || u.class == b'f' && u.oid == function;
        look.used(graph.uses(a.object()).filter(|u| !own(u)));
        let object = Object { class: b'f', oid: function };
        look.runs(object);
        look.routine(object);
        look.facts()
    }

    /// Of code that no object has.
    pub fn of_body(graph: &Graph, body: &Body, scope: &LookupPath) -> Facts {
        let mut look = Look::new(graph);
        look.body(body, scope);
        look.facts()
    }
}

struct Look<'g, 's> {
    graph: &'g Graph<'s>,
    inside: bool,
    /// Distributed tables that a body names are left out.
    beside_key: bool,
    own: Reach,
    next: Vec<Node>,
}

impl<'g, 's> Look<'g, 's> {
    fn new(graph: &'g Graph<'s>) -> Self {
        Look { graph, inside: false, beside_key: false, own: Reach::default(), next: vec![] }
    }

    /// Relations a name in a body means.
    fn named(&self, name: &Name) -> impl Iterator<Item = Oid> + use<'g, 's> {
        let (graph, beside_key) = (self.graph, self.beside_key);
        let found: Vec<Oid> = graph.found(name).filter(|oid| !(beside_key && graph.is_distributed(*oid))).collect();
        found.into_iter()
    }

    fn facts(self) -> Facts {
        let own = if self.inside { self.own.in_block() } else { self.own };
        Facts { own, next: self.next }
    }

    fn leads_to(&mut self, what: impl Iterator<Item = What>) {
        self.next.extend(what.map(|what| Node { what, inside: self.inside }));
    }

    fn used(&mut self, objects: impl Iterator<Item = Object>) {
        self.leads_to(objects.map(What::Used));
    }

    /// What PostgreSQL's own functions run is in no list of what an object uses.
    fn runs(&mut self, object: Object) {
        let code = &self.graph.snapshot.code;
        self.own.dynamic |= code.runs_text.contains(&object);
        self.own.takes_types |= code.takes_types.contains(&object);
        if code.whole_schemas.contains(&object) {
            self.leads_to([What::WholeSchemas].into_iter());
        }
    }

    fn object(&mut self, object: Object) {
        self.runs(object);
        if object.class == b't' && self.graph.is_marked(&object) {
            (self.own.dynamic, self.own.caught) = (true, true);
        }
        match object.class {
            b'r' => self.relation(object.oid),
            b'f' => self.routine(object),
            _ => self.used(self.graph.uses(object)),
        }
    }

    fn routine(&mut self, object: Object) {
        let routine = self.graph.routines.get(&object.oid).copied();
        let volatile = routine.is_some_and(|r| r.volatility == catalog::Volatility::Volatile);
        self.own.volatile |= volatile;
        match self.graph.bodies.get(&object.oid) {
            Some(body) => {
                self.body(body, &routine.map_or(LookupPath::Anywhere, |r| LookupPath::of(r, body.search_paths)))
            }
            // Of code in C there is its word alone.
            None if volatile => self.own.varies = Some("a volatile function in C".into()),
            None => {}
        }
        // What it does with relations its body says.
        self.used(self.graph.uses(object).filter(|u| u.class != b'r'));
    }

    fn relation(&mut self, oid: Oid) {
        let Some(relation) = self.graph.relations.get(&oid) else {
            // A composite type: what its columns are.
            return self.used(self.graph.uses(Object { class: b'r', oid }).filter(|u| u.class == b't'));
        };
        match (relation.kind, self.graph.rule_of(oid)) {
            (RelationKind::View, Some(rule)) => {
                self.runs(rule);
                self.used(self.graph.uses(rule).filter(|u| u.oid != oid));
            }
            _ => self.graph.numbers.put(&mut self.own.reads, oid),
        }
    }

    fn query(&mut self, view: Oid) {
        let Some(rule) = self.graph.rule_of(view) else { return };
        self.runs(rule);
        self.leads_to(self.graph.uses(rule).map(|u| match u.class {
            b'r' => What::Query(u.oid),
            _ => What::Used(u),
        }));
    }

    fn written(&mut self, oid: Oid) {
        self.used([Object { class: b'r', oid }].into_iter());
        let is_view = self.graph.relations.get(&oid).is_some_and(|r| r.kind == RelationKind::View);
        match self.graph.rule_of(oid).filter(|_| is_view) {
            Some(rule) => {
                let below = self.graph.uses(rule).filter(|u| u.class == b'r' && u.oid != oid);
                self.leads_to(below.map(|u| What::Written(u.oid)));
            }
            None => self.graph.numbers.put(&mut self.own.writes, oid),
        }
    }

    fn body(&mut self, body: &Body, scope: &LookupPath) {
        for name in &body.reads {
            self.used(self.named(name).map(|oid| Object { class: b'r', oid }));
        }
        for name in &body.writes {
            self.leads_to(self.named(name).map(What::Written));
        }
        let key = scope.key();
        for name in &body.calls {
            self.called(name, scope, &key);
        }
        for (schema, name) in &body.operators {
            let named = self.graph.operators_named(schema.as_deref(), name, scope, &key);
            self.leads_to(named.into_iter());
        }
        for name in &body.types {
            self.typed(name, scope);
        }
        for name in &body.fields {
            self.field(name);
        }
        self.own.dynamic |= body.unknown;
        self.own.moments |= body.moments;
        for caught in body.caught.iter().filter(|_| !self.inside) {
            let mut block = Look { inside: true, beside_key: self.beside_key, ..Look::new(self.graph) };
            block.body(caught, scope);
            let inside = block.facts();
            self.own.add(&inside.own);
            self.next.extend(inside.next);
        }
        self.own.makes |= self.graph.makes(body);
        self.own.varies = self.own.varies.take().or_else(|| body.varies.as_deref().map(Into::into));
        self.own.asks_table = body.asks_table.as_deref().map(Into::into);
        if let Some(words) = body.words.as_ref().filter(|_| !self.graph.exact) {
            self.words(words, scope, &key);
        }
    }

    /// Of code that can't be read: whatever it mentions.
    fn words(&mut self, words: &Words, scope: &LookupPath, key: &str) {
        let mentioned = self.graph.mentioned(words);
        let relations = mentioned.iter().filter_map(|name| self.graph.by_name.get(name)).flatten();
        self.leads_to(relations.map(|r| What::Written(r.oid)));
        let routines = mentioned.iter().filter_map(|name| self.graph.routines_named(None, name, scope, key));
        self.leads_to(routines);
        self.own.sequence |= ["nextval", "setval"].iter().any(|f| words.mentions(f));
        self.own.notifies |= ["pg_notify", "notify"].iter().any(|f| words.mentions(f));
        self.own.varies.get_or_insert_with(|| "code that can't be read".into());
    }

    /// A domain, or the row type of a table, which no catalog has if it is temporary.
    fn typed(&mut self, (schema, name): &Name, scope: &LookupPath) {
        self.own.row_types |= schema.as_deref().is_some_and(is_temporary);
        let builtin = self.graph.snapshot.code.builtin_types.contains(name);
        let found = self.graph.domains.get(name.as_str()).into_iter().flatten().copied();
        let meant = self.graph.meant(scope, schema.as_deref(), found, builtin);
        self.used(meant.into_iter().map(|oid| Object { class: b't', oid }));
        let tables = self.graph.by_name.get(name.as_str()).into_iter().flatten();
        let meant = self.graph.meant(scope, schema.as_deref(), tables.map(|r| (r.schema.as_str(), r.oid)), builtin);
        self.own.row_types |= meant
            .iter()
            .filter_map(|oid| self.graph.relations.get(oid))
            .any(|r| self.graph.kind(r) == PlacementKind::Local && r.kind != RelationKind::Sequence);
    }

    /// `t.f` may be a call of `f`; whose columns those are nobody knows here.
    fn field(&mut self, name: &str) {
        if self.graph.snapshot.functions.get(name).is_some_and(|all| all.iter().any(|f| f.of_row)) {
            let anywhere = &LookupPath::Anywhere;
            self.leads_to(self.graph.routines_named(None, name, anywhere, &anywhere.key()).into_iter());
        }
    }

    fn called(&mut self, (schema, name): &Name, scope: &LookupPath, key: &str) {
        let named = self.graph.routines_named(schema.as_deref(), name, scope, key);
        let own = named.is_some();
        self.leads_to(named.into_iter());
        self.own.sequence |= matches!(name.as_str(), "nextval" | "setval");
        self.own.notifies |= name == "pg_notify";
        // What is in pg_temp is in no catalog.
        self.own.dynamic |= RUN_TEXT.contains(&name.as_str()) || schema.as_deref().is_some_and(is_temporary);
        self.own.takes_types |= TAKE_TYPES.contains(&name.as_str());
        if WHOLE_SCHEMAS.contains(&name.as_str()) {
            self.leads_to([What::WholeSchemas].into_iter());
        }
        if same::builtin_differs(self.graph.snapshot, schema.as_deref(), name, own) {
            self.own.varies.get_or_insert_with(|| format!("{name}()").into());
        }
    }
}
