//! The herd that golden tests plan for: tables of every kind over two nodes. Only a snapshot; there are no servers.

use std::collections::HashMap;
use std::sync::Arc;

use catalog::code::{ByArgument, Code, Harm, Needs, Routine};
use catalog::{
    Colocation, Column, Distribution, Function, FunctionKind, Node, Placement, Relation, RelationKind, Shard, Snapshot,
    UniqueIndex, Volatility,
};
use key::{Bound, Datum, PartitionStrategy};

const INT8: (u32, &str) = (20, "bigint");
const INT4: (u32, &str) = (23, "integer");
const TEXT: (u32, &str) = (25, "text");
const DATE: (u32, &str) = (1082, "date");
const TIME: (u32, &str) = (1184, "timestamp with time zone");
const NUMERIC: (u32, &str) = (1700, "numeric");
const BYTEA: u32 = 17;
const LSEG: u32 = 601;
const FLOAT8: u32 = 701;
const ANY_ELEMENT: u32 = 2283;
const ANY_RANGE: u32 = 3831;

/// | table | placement |
/// |---|---|
/// | `orders`, `items` | hash, colocated by `id` and `order_id` |
/// | `people` | hash, not colocated with them; `id` from a sequence |
/// | `secret`, `audited` | hash, with row-level security and with statement triggers |
/// | `readings`, `alarms` | range, colocated by `(device, day)` |
/// | `shops`, `staff` | list, colocated by `region` |
/// | `metrics`, `metrics_a` | partitioned by time, and its partition, colocated with `orders` |
/// | `countries`, `rates` | reference; `rates.id` from a sequence, and its primary key |
/// | `notes` | local |
/// | `big_orders`, `my_notes` | views |
pub fn snapshot() -> Snapshot {
    let node =
        |id: i32| Node { id, name: format!("node {id}"), host: format!("h{id}"), port: 5432, database: "app".into() };
    let hash = |remainder| Bound::Hash { modulus: 4, remainder };
    let range = |from, to| Bound::Range { from: vec![from, Datum::MinValue], to: vec![to, Datum::MinValue] };
    let list = |value: &str| Bound::List { values: vec![Some(value.as_bytes().to_vec())] };
    let middle = || Datum::Value(100_i32.to_be_bytes().to_vec());
    let four = || (0..4).map(hash).collect();
    let groups = [
        group(1, PartitionStrategy::Hash, &[20], four()),
        group(2, PartitionStrategy::Hash, &[20], four()),
        group(
            3,
            PartitionStrategy::Range,
            &[23, 1082],
            vec![range(Datum::MinValue, middle()), range(middle(), Datum::MaxValue)],
        ),
        group(4, PartitionStrategy::List, &[25], vec![list("north"), list("south"), Bound::Default]),
    ];
    let by = |n: usize, key: &[usize], prefix: &str| {
        Placement::Distributed(Distribution {
            key: key.to_vec(),
            group: groups[n - 1].clone(),
            prefix: prefix.into(),
            partitions: None,
            is_part: false,
        })
    };
    // By something else first: its partition is distributed.
    let parted = |mut placement: Placement| {
        if let Placement::Distributed(d) = &mut placement {
            d.partitions = Some(["metrics_a".to_string()].into());
        }
        placement
    };
    let relations = [
        table(
            "orders",
            by(1, &[0], "orders"),
            &[("id", INT8), ("customer", INT4), ("note", TEXT), ("total", NUMERIC), ("made", TIME)],
        ),
        table("items", by(1, &[0], "items"), &[("order_id", INT8), ("no", INT4), ("what", TEXT), ("qty", INT4)]),
        table("people", by(2, &[0], "people"), &[("id", INT8), ("name", TEXT), ("country", TEXT)]),
        table("secret", by(1, &[0], "secret"), &[("id", INT8), ("v", INT4)]),
        table("audited", by(1, &[0], "audited"), &[("id", INT8), ("v", INT4)]),
        table("readings", by(3, &[0, 1], "readings"), &[("device", INT4), ("day", DATE), ("value", NUMERIC)]),
        table("alarms", by(3, &[0, 1], "alarms"), &[("device", INT4), ("day", DATE), ("what", TEXT)]),
        table("shops", by(4, &[0], "shops"), &[("region", TEXT), ("id", INT4), ("name", TEXT)]),
        table("staff", by(4, &[0], "staff"), &[("region", TEXT), ("shop", INT4), ("name", TEXT)]),
        table("countries", Placement::Reference, &[("code", TEXT), ("name", TEXT)]),
        table("rates", Placement::Reference, &[("id", INT8), ("rate", NUMERIC)]),
        table("notes", Placement::Local, &[("id", INT8), ("text", TEXT)]),
        view(
            "big_orders",
            &[("id", INT8), ("total", NUMERIC)],
            "SELECT id, total FROM public.orders WHERE total > 1000",
        ),
        view(
            "note_of",
            &[("words", TEXT), ("number", INT8), ("made", TIME)],
            "SELECT o.note, o.id, o.made FROM public.orders o WHERE o.total > 5",
        ),
        view("of_note", &[("id", INT8), ("upper", TEXT)], "SELECT number, upper(words) FROM public.note_of"),
        view("no_key", &[("note", TEXT), ("made", TIME)], "SELECT note, made FROM public.orders"),
        view("customers", &[("customer", INT4)], "SELECT customer FROM public.orders GROUP BY customer"),
        view("countries_of", &[("code", TEXT), ("name", TEXT)], "SELECT code, name FROM public.countries"),
        view("my_notes", &[("id", INT8)], "SELECT id FROM public.notes"),
        table("metrics", parted(by(1, &[0], "metrics")), &[("device", INT8), ("at", TIME), ("v", NUMERIC)]),
        table("metrics_a", by(1, &[0], "metrics_a"), &[("device", INT8), ("at", TIME), ("v", NUMERIC)]),
    ];
    let numbered = relations.into_iter().zip(20_000..).map(|(r, oid)| Relation { oid, ..r });
    let mut relations: HashMap<_, _> = numbered.map(|r| ((r.schema.clone(), r.name.clone()), r)).collect();
    let mut change =
        |name: &str, f: &dyn Fn(&mut Relation)| f(relations.get_mut(&("public".into(), name.into())).unwrap());
    let clock = |r: &mut Relation| columns(r)[4].default = Some("now()".into());
    change("orders", &clock);
    for name in ["people", "rates"] {
        change(name, &|r| {
            columns(r)[0].sequence = Some(format!("public.{name}_id_seq"));
            columns(r)[0].default = Some(format!("nextval('{name}_id_seq'::regclass)"));
        });
    }
    change("rates", &|r| {
        columns(r).iter_mut().for_each(|c| c.collation_deterministic = true);
        columns(r)[0].not_null = true;
        r.unique = vec![UniqueIndex { name: "rates_pkey".into(), columns: vec![0], primary: true, plain: true }];
    });
    change("secret", &|r| r.row_security = true);
    change("audited", &|r| r.statement_triggers = true);
    Snapshot {
        epoch: 7,
        herd_id: "0123456789abcdef".into(),
        server_version: 180_000,
        collation_is_bytes: true,
        home: 1,
        nodes: vec![node(1), node(2)],
        relations: relations.into_iter().map(|(name, r)| (name, Arc::new(r))).collect(),
        groups: groups.into_iter().map(|g| (g.id, g)).collect(),
        builtin_functions: Arc::new(builtin_functions()),
        functions: HashMap::from([
            function("touch", FunctionKind::Function, Volatility::Volatile, true),
            (
                "worth".into(),
                vec![Function { reads_herd_tables: true, volatility: Volatility::Stable, ..user_function() }],
            ),
            ("lost".into(), vec![Function { reads_herd_tables: true, ..user_function() }]),
            ("put".into(), vec![Function { reads_herd_tables: true, ..user_function() }]),
            ("spent".into(), vec![open_function()]),
            ("orders_of".into(), vec![open_function()]),
            ("named".into(), vec![open_function()]),
            ("count_orders".into(), vec![Function { reads_herd_tables: true, ..user_function() }]),
            ("upper".into(), vec![Function { schema: "stranger".into(), needs_home: true, ..user_function() }]),
            (
                "count_notes".into(),
                vec![Function { needs_home: true, volatility: Volatility::Stable, ..user_function() }],
            ),
        ]),
        operators: HashMap::from([
            ("@@@".into(), vec![harm("public", true, false)]),
            // A stranger's, that nobody else's statements can mean.
            ("=".into(), vec![harm("stranger", false, true)]),
        ]),
        domains: HashMap::from([
            ("noted".into(), vec![harm("public", false, true)]),
            ("text".into(), vec![harm("stranger", false, true)]),
        ]),
        code: Code {
            by_argument: ["worth", "lost", "put"].map(String::from).into(),
            routines: vec![
                routine(
                    "worth",
                    "SELECT sum(i.qty) FROM orders o JOIN items i ON i.order_id = o.id, countries WHERE o.id = p",
                ),
                routine("lost", "SELECT count(*) FROM orders WHERE customer = p"),
                routine("put", "INSERT INTO items VALUES (p, 1, 'x', 1); UPDATE orders SET total = 1 WHERE id = $1"),
                open("spent", "bigint", "SELECT sum(total) FROM orders WHERE id = p"),
                open("orders_of", "SETOF orders", "SELECT * FROM orders WHERE customer = p"),
                open("named", "bigint", "SELECT count(*) FROM orders o WHERE o.id = p AND total > 5"),
            ],
            open: ["spent", "orders_of", "named"].map(String::from).into(),
            ..Code::default()
        },
        ..Snapshot::default()
    }
}

fn open_function() -> Function {
    Function { reads_herd_tables: true, volatility: Volatility::Stable, ..user_function() }
}

/// Its calls can be replaced by its query.
fn open(name: &str, returns: &str, body: &str) -> Routine {
    let definition =
        format!("CREATE FUNCTION public.{name}(p bigint) RETURNS {returns} LANGUAGE sql AS $body${body}$body$");
    Routine { definition: definition.into(), by_argument: None, open: true, ..routine(name, body) }
}

/// Distributed by its argument `p`.
fn routine(name: &str, body: &str) -> Routine {
    let definition =
        format!("CREATE FUNCTION public.{name}(p bigint) RETURNS bigint LANGUAGE sql AS $body${body}$body$");
    Routine {
        oid: 30_000,
        schema: "public".into(),
        name: name.into(),
        language: "sql".into(),
        definition: definition.into(),
        volatility: if name == "put" { Volatility::Volatile } else { Volatility::Stable },
        opaque: false,
        owner: 10,
        path: None,
        arity: (1, 1),
        by_argument: Some(ByArgument { number: 1, type_oid: INT8.0 }),
        open: false,
        argument_types: vec![INT8.0],
    }
}

fn group(id: i32, strategy: PartitionStrategy, key_types: &[u32], bounds: Vec<Bound>) -> Arc<Colocation> {
    let shard = |(n, bound): (usize, Bound)| Shard { number: n as i32, node: 1 + n as i32 % 2, bound };
    let shards = bounds.into_iter().enumerate().map(shard).collect();
    Arc::new(Colocation { id, strategy, key_types: key_types.to_vec(), shards })
}

fn columns(relation: &mut Relation) -> &mut [Column] {
    Arc::get_mut(&mut relation.columns).unwrap()
}

fn table(name: &str, placement: Placement, columns: &[(&str, (u32, &str))]) -> Relation {
    let key = match &placement {
        Placement::Distributed(d) => d.key.clone(),
        _ => vec![0],
    };
    Relation {
        oid: 0,
        schema: "public".into(),
        name: name.into(),
        kind: RelationKind::Table,
        placement,
        columns: columns.iter().map(|(name, ty)| column(name, *ty)).collect(),
        view: None,
        unique: vec![UniqueIndex { name: format!("{name}_pkey"), columns: key, primary: true, plain: true }],
        row_security: false,
        schema_is_open: true,
        statement_triggers: false,
        rules: false,
        refers_to_itself: false,
        checked_at_commit: false,
        through: None,
        column_copy: None,
        triggers: false,
    }
}

fn view(name: &str, columns: &[(&str, (u32, &str))], query: &str) -> Relation {
    let table = table(name, Placement::Local, columns);
    let view = catalog::View {
        query: query.into(),
        materialized: false,
        security_barrier: false,
        check_option: false,
        security_invoker: false,
        column_grants: false,
        filled_by_router: false,
    };
    Relation { kind: RelationKind::View, view: Some(view), unique: vec![], ..table }
}

fn column(name: &str, (type_oid, type_name): (u32, &str)) -> Column {
    Column {
        name: name.into(),
        type_oid,
        typmod: -1,
        type_name: type_name.into(),
        not_null: false,
        default: None,
        sequence: None,
        sequence_oid: 0,
        identity: 0,
        generated: false,
        collation: 100,
        collation_is_bytes: true,
        collation_deterministic: true,
    }
}

fn harm(schema: &str, herd: bool, home: bool) -> Harm {
    Harm { schema: schema.into(), needs: Needs { herd, home, ..Needs::default() }, immutable: false }
}

fn user_function() -> Function {
    Function {
        schema: "public".into(),
        kind: FunctionKind::Function,
        volatility: Volatility::Volatile,
        returns_set: false,
        returns: 0,
        arguments: None,
        user_defined: true,
        reads_herd_tables: false,
        needs_home: false,
        dynamic: false,
        varies: false,
        of_row: false,
    }
}

fn function(name: &str, kind: FunctionKind, volatility: Volatility, user_defined: bool) -> (String, Vec<Function>) {
    let schema = if user_defined { "public" } else { "pg_catalog" };
    (name.into(), vec![Function { schema: schema.into(), kind, volatility, user_defined, ..user_function() }])
}

/// The same with other arguments: their types, and the result's.
fn overloaded(like: &[Function], overloads: &[(&[u32], u32)]) -> Vec<Function> {
    let all = like.iter().flat_map(|f| overloads.iter().map(move |o| (f, o)));
    all.map(|(f, (types, returns))| Function { arguments: Some(types.to_vec()), returns: *returns, ..f.clone() })
        .collect()
}

fn builtin_functions() -> HashMap<String, Vec<Function>> {
    use FunctionKind::{Aggregate, Function, Window};
    use Volatility::{Immutable, Stable, Volatile};
    let aggregates =
        ["count", "sum", "avg", "min", "max", "bool_and", "array_agg", "string_agg", "percentile_cont", "stddev"];
    let aggregates = aggregates.into_iter().map(|name| function(name, Aggregate, Immutable, false));
    let windows = ["row_number", "rank", "lag"].into_iter().map(|name| function(name, Window, Immutable, false));
    let others = [
        ("upper", Immutable),
        ("length", Immutable),
        ("generate_series", Immutable),
        ("now", Stable),
        ("current_setting", Stable),
        ("txid_current", Stable),
        ("pg_current_xact_id", Stable),
        ("random", Volatile),
        ("nextval", Volatile),
        ("pg_sleep", Volatile),
    ];
    let others = others.into_iter().map(|(name, volatility)| function(name, Function, volatility, false)).map(
        |(name, overloads)| match name.as_str() {
            "length" => (name, overloaded(&overloads, &[(&[TEXT.0], INT4.0), (&[BYTEA], INT4.0), (&[LSEG], FLOAT8)])),
            "upper" => (name, overloaded(&overloads, &[(&[TEXT.0], TEXT.0), (&[ANY_RANGE], ANY_ELEMENT)])),
            _ => (name, overloads),
        },
    );
    aggregates.chain(windows).chain(others).collect()
}
