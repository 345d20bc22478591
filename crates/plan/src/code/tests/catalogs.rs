//! Catalogs for tests: some made by chance, in which anything may use anything, itself too; and one long chain.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use catalog::code::{Attached, Code, Object, Routine, Schema, Unnamed};
use catalog::{
    Colocation, Distribution, Function, FunctionKind, Node, Oid, Placement, Relation, RelationKind, Snapshot,
    Volatility,
};
use key::PartitionStrategy;
use sql::body::{Body, Name};

use super::super::Bodies;

pub struct Made {
    pub snapshot: Snapshot,
    pub bodies: Bodies,
}

const FIRST: Oid = 20_000;
const EACH: Oid = 8;

/// Object ids of all that is made by chance: tables, views and composite types, routines, types, each so many.
pub fn oids() -> Range<Oid> {
    FIRST..FIRST + 5 * EACH
}

/// As good a chance as tests need (Steele and others, Fast splittable pseudorandom number generators, 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.below(many) == 0
    }

    fn of(&mut self, from: Oid) -> Oid {
        from + self.below(EACH)
    }

    fn names(&mut self, letter: char, most: u32) -> Vec<Name> {
        let count = self.below(most + 1);
        (0..count)
            .map(|_| (self.one_in(2).then(|| "public".to_string()), format!("{letter}{}", self.below(EACH))))
            .collect()
    }

    fn body(&mut self, depth: u32) -> Body {
        let mut body = Body {
            writes: self.names('t', 1).into_iter().chain(self.names('v', 1)).collect(),
            reads: self.names('t', 1).into_iter().chain(self.names('v', 1)).collect(),
            calls: self.names('f', 2).into_iter().collect(),
            types: self.names('d', 1).into_iter().collect(),
            unknown: self.one_in(12),
            varies: self.one_in(6).then(|| "the clock".to_string()),
            asks_table: self.one_in(6).then(|| "tg_relname".to_string()),
            caught: (0..if depth > 1 { 0 } else { self.below(2) }).map(|_| self.body(depth + 1)).collect(),
            ..Body::default()
        };
        let call = ["nextval", "pg_notify", "array_in", "schema_to_xml", "now"][self.below(5) as usize];
        if self.one_in(5) {
            body.calls.insert((None, call.to_string()));
        }
        if self.one_in(8) {
            body.fields.insert(format!("f{}", self.below(EACH)));
        }
        if self.one_in(12) {
            body.utilities.extend(sql::parse("CREATE TABLE made (i int)", true).unwrap().pop());
        }
        if self.one_in(10) {
            body.words = Body::of_text(&format!("f{} t{}", self.below(EACH), self.below(EACH))).words;
        }
        body
    }
}

const TABLES: Oid = FIRST;
const VIEWS: Oid = FIRST + EACH;
const COMPOSITES: Oid = FIRST + 2 * EACH;
const ROUTINES: Oid = FIRST + 3 * EACH;
const TYPES: Oid = FIRST + 4 * EACH;
/// Rules, triggers and the like.
const OTHERS: Oid = FIRST + 5 * EACH;

pub fn by_chance(seed: u64) -> Made {
    let mut chance = Chance(seed);
    let mut code = Code { schemas: schemas(), ..Code::default() };
    let mut bodies = Bodies::new();
    let mut relations = vec![];
    let local = chance.one_in(8);
    for n in 0..EACH {
        let placement = match chance.below(3) {
            0 if !local => Placement::Reference,
            1 if !local => distributed(),
            _ => Placement::Local,
        };
        relations.push(relation(TABLES + n, format!("t{n}"), RelationKind::Table, placement));
        relations.push(relation(VIEWS + n, format!("v{n}"), RelationKind::View, Placement::Local));
        code.attached.push(attached(OTHERS + n, VIEWS + n, "view"));
        let routine = routine(ROUTINES + n, format!("f{}", chance.below(EACH)), chance.below(3));
        if !chance.one_in(8) {
            bodies.insert(routine.oid, Arc::new(chance.body(0)));
        }
        code.routines.push(routine);
        code.types.push(("public".into(), format!("d{n}"), TYPES + n));
    }
    let any = |chance: &mut Chance| match chance.below(6) {
        0 => Object { class: b'r', oid: chance.of(TABLES) },
        1 | 2 => Object { class: b'r', oid: chance.of(VIEWS) },
        3 => Object { class: b'r', oid: chance.of(COMPOSITES) },
        4 => Object { class: b'f', oid: chance.of(ROUTINES) },
        _ => Object { class: b't', oid: chance.of(TYPES) },
    };
    for at in EACH..3 * EACH {
        let what = ["trigger", "policy", "default", "constraint", "rule", "index"][chance.below(6) as usize];
        let definition = (what == "rule")
            .then(|| format!("CREATE RULE a AS ON UPDATE TO public.v DO DELETE FROM public.t{}", chance.below(EACH)));
        let (deferrable, before_rows) = (what == "trigger" && chance.one_in(2), what == "trigger" && chance.one_in(2));
        let hanging = attached(OTHERS + at, chance.of(TABLES), what);
        code.attached.push(Attached { definition, deferrable, before_rows, rows: before_rows, ..hanging });
    }
    let rules = (0..EACH).map(|n| Object { class: b'u', oid: OTHERS + n });
    let types = (0..EACH).map(|n| Object { class: b't', oid: TYPES + n });
    let composites = (0..EACH).map(|n| Object { class: b'r', oid: COMPOSITES + n });
    let of_tables = (0..EACH).map(|n| Object { class: b'r', oid: TABLES + n });
    let hanging = code.attached[EACH as usize..].iter().map(Attached::object);
    for user in rules.chain(types).chain(composites).chain(of_tables).chain(hanging).collect::<Vec<_>>() {
        let count = chance.below(3);
        let uses = (0..count).map(|_| any(&mut chance));
        // A view reads such views only as there were before it.
        let later =
            |o: &Object| user.class == b'u' && o.class == b'r' && (user.oid - OTHERS..EACH).contains(&(o.oid - VIEWS));
        let uses = uses.filter(|o| !(VIEWS..COMPOSITES).contains(&o.oid) || !later(o)).collect();
        code.uses.insert(user, uses);
        if chance.one_in(20) {
            code.runs_text.insert(user);
        }
        if chance.one_in(20) {
            code.takes_types.insert(user);
        }
        if chance.one_in(20) {
            code.whole_schemas.insert(user);
        }
    }
    for _ in 0..chance.below(5) {
        code.tied.push((chance.of(TABLES), chance.of(TABLES)));
        let (class, from) = if chance.one_in(2) { (b'r', TABLES) } else { (b't', TYPES) };
        let marked = Object { class, oid: chance.of(from) };
        // Where all tables are local, nothing is.
        code.marked.extend((!local).then_some(marked));
        let (routine, types) = (chance.of(ROUTINES), vec![chance.of(TYPES)]);
        let what = if chance.one_in(3) { "event trigger" } else { "cast" };
        code.unnamed.push(Unnamed { routine, what: what.into(), name: "c".into(), types });
    }
    Made { snapshot: snapshot(relations, code), bodies }
}

/// Views that each read the last one, functions that each call the last one in a block which catches errors, and types of types.
pub fn chained(count: Oid) -> Made {
    let mut code = Code { schemas: schemas(), ..Code::default() };
    let mut relations = vec![relation(1, "t".into(), RelationKind::Table, distributed())];
    let mut bodies = Bodies::new();
    for n in 0..count {
        let (view, rule, function, of_type) = (n + 2, count + n + 2, 2 * count + n + 2, 3 * count + n + 2);
        relations.push(relation(view, format!("v{n}"), RelationKind::View, Placement::Local));
        code.attached.push(attached(rule, view, "view"));
        code.uses.insert(Object { class: b'u', oid: rule }, vec![Object { class: b'r', oid: view - 1 }]);
        code.routines.push(routine(function, format!("f{n}"), 0));
        let calls = n.checked_sub(1).map(|last| (None, format!("f{last}"))).into_iter().collect();
        let reads = [(None, format!("v{n}"))].into();
        let caught = vec![Body { calls, reads, ..Body::default() }];
        bodies.insert(function, Arc::new(Body { caught: caught.clone(), ..caught[0].clone() }));
        code.types.push(("public".into(), format!("d{n}"), of_type));
        code.uses.insert(Object { class: b't', oid: of_type }, vec![Object { class: b't', oid: of_type - 1 }]);
    }
    Made { snapshot: snapshot(relations, code), bodies }
}

fn schemas() -> Vec<Schema> {
    vec![Schema { name: "public".into(), owner: 10, trusted: true }]
}

fn snapshot(relations: Vec<Relation>, code: Code) -> Snapshot {
    let node = |id| Node { id, name: format!("n{id}"), host: "h".into(), port: 1, database: "d".into() };
    let mut functions: HashMap<String, Vec<Function>> = HashMap::new();
    for r in &code.routines {
        functions.insert(r.name.clone(), vec![function(r.volatility)]);
    }
    Snapshot {
        home: 1,
        nodes: vec![node(1), node(2)],
        relations: relations.into_iter().map(|r| ((r.schema.clone(), r.name.clone()), Arc::new(r))).collect(),
        functions,
        code,
        ..Snapshot::default()
    }
}

fn function(volatility: Volatility) -> Function {
    Function {
        schema: "public".into(),
        kind: FunctionKind::Function,
        volatility,
        returns_set: false,
        returns: 23,
        arguments: None,
        user_defined: true,
        reads_herd_tables: false,
        needs_home: false,
        dynamic: false,
        varies: false,
        of_row: true,
    }
}

fn routine(oid: Oid, name: String, volatility: u32) -> Routine {
    Routine {
        oid,
        schema: "public".into(),
        name,
        language: "sql".into(),
        definition: "".into(),
        volatility: [Volatility::Immutable, Volatility::Stable, Volatility::Volatile][volatility as usize],
        opaque: false,
        owner: 10,
        path: None,
        arity: (0, 0),
        by_argument: None,
        open: false,
        argument_types: vec![],
    }
}

fn attached(oid: Oid, table: Oid, what: &str) -> Attached {
    Attached {
        oid,
        table,
        name: format!("a{oid}"),
        definition: None,
        rows: false,
        before_rows: false,
        transition: false,
        deferrable: false,
        columns: vec![],
        what: what.into(),
    }
}

fn distributed() -> Placement {
    let group = Colocation { id: 1, strategy: PartitionStrategy::Hash, key_types: vec![23], shards: vec![] };
    let (key, group, prefix) = (vec![0], Arc::new(group), "t".to_string());
    Placement::Distributed(Distribution { key, group, prefix, partitions: None, is_part: false })
}

fn relation(oid: Oid, name: String, kind: RelationKind, placement: Placement) -> Relation {
    Relation {
        oid,
        schema: "public".into(),
        name,
        kind,
        placement,
        columns: [].into(),
        view: None,
        unique: vec![],
        row_security: false,
        schema_is_open: true,
        statement_triggers: false,
        rules: false,
        triggers: false,
        refers_to_itself: false,
        checked_at_commit: false,
        through: None,
        column_copy: None,
    }
}
