//! Golden tests of what column copies answer: SQL in; out come the Parts, and of each its text for DuckDB, or why there is none.
//! `columns/*.txt` holds the statements. Whoever compares values finds there which text must give what which other gives.

#[path = "golden_herd/mod.rs"]
mod golden_herd;
#[path = "../../sql/tests/golden_support/mod.rs"]
mod golden_support;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use catalog::{
    Colocation, Column, ColumnCopy, Distribution, Function, FunctionKind, Placement, Relation, Snapshot, UniqueIndex,
    Volatility,
};
use plan::{ColumnPart, ColumnRead, Context, Planned, Text};

#[test]
fn columns_answer_what_the_golden_files_say() {
    let snapshot = snapshot();
    let search_path = ["pg_catalog".to_owned(), "public".to_owned()];
    let context = Context::new(&snapshot, &search_path, &[]);
    golden_support::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/columns"), |sql| show(sql, &context));
}

/// Parameters are of the types that the client declares.
#[test]
fn declared_parameters_are_of_their_types() {
    let snapshot = snapshot();
    let search_path = ["public".to_owned()];
    let text = |sql: &str, parameters: &[u32]| {
        let context = Context::new(&snapshot, &search_path, &[]).with_parameters(parameters);
        show(sql, &context).lines().skip(1).collect::<Vec<_>>().join("\n")
    };
    let sql = "SELECT count(*) FROM mixed WHERE i4 = $1";
    let asks = "  columns: SELECT count(*) FROM copy_2 AS t WHERE (t.\"i4\" = $1)";
    assert!(text(sql, &[20]).starts_with(&format!("{asks}\n  int8; $1 is 20")), "{}", text(sql, &[20]));
    assert!(text(sql, &[23]).starts_with(&format!("{asks}\n  int8; $1 is 23")), "{}", text(sql, &[23]));
    let numeric = text(sql, &[1700]);
    assert!(numeric.contains("(CAST(t.\"i4\" AS DECIMAL(10,0)) = $1)\n  int8; $1 is 1700"), "{numeric}");
    assert!(text(sql, &[25]).contains("columns no: a comparison of integer with text"), "{}", text(sql, &[25]));
    assert!(text(sql, &[3802]).contains("columns no: a parameter of the type of $1"), "{}", text(sql, &[3802]));
}

/// Somebody's own that come first, or might, are not taken for PostgreSQL's.
#[test]
fn names_mean_postgresqls_own_alone() {
    let snapshot = snapshot();
    let search_path = ["pg_catalog".to_owned(), "public".to_owned(), "own".to_owned()];
    let context = Context::new(&snapshot, &search_path, &[]);
    let is = |sql: &str, said: &str| {
        let shown = show(sql, &context);
        assert!(shown.contains(said), "{sql}\n{shown}\nnot {said}");
    };
    is("SELECT count(*) FROM mixed WHERE i4 > 5", "columns: ");
    is("SELECT count(*) FROM mixed WHERE i4 < 5", "columns: ");
    let other = "columns no: schema \"own\" of the search path has an operator >= of its own";
    is("SELECT count(*) FROM mixed WHERE i4 >= 5", other);
    is("SELECT count(*) FROM mixed WHERE i4 BETWEEN 5 AND 6", other);
    is("SELECT count(*) FROM mixed WHERE i4 OPERATOR(pg_catalog.>=) 5", "columns: ");
    is("SELECT count(*) FROM mixed WHERE i4 OPERATOR(own.>=) 5", "columns no: operator own.>= is not computed");
    is("SELECT abs(i4) FROM mixed", "columns no: schema \"own\" of the search path has a function abs of its own");
    is("SELECT pg_catalog.abs(i4) FROM mixed", "columns: ");
    is("SELECT length(t) FROM mixed", "columns: ");
    is("SELECT count(*) FROM big_mixed", "columns no: a view is not read on columns");
}

/// Strings that no string's column is part of have the database's collation, whatever they were chosen by.
#[test]
fn strings_of_no_column_are_ordered_as_the_database_orders() {
    let snapshot = Snapshot { collation_is_bytes: false, ..snapshot() };
    let search_path = ["public".to_owned()];
    let context = Context::new(&snapshot, &search_path, &[]);
    for sql in [
        "SELECT min(CASE WHEN i4 = 1 THEN 'a' ELSE 'B' END) FROM mixed",
        "SELECT max(CASE WHEN t = 'x' THEN 'a' ELSE 'B' END) FROM mixed",
        "SELECT min(i4::text) FROM mixed",
        "SELECT count(*) FROM mixed WHERE CASE WHEN b THEN 'a' ELSE 'B' END < 'b'",
        "SELECT count(*) FROM mixed WHERE greatest(i4::text, 'b') = 'b'",
    ] {
        let shown = show(sql, &context);
        assert!(shown.contains("columns no: an order by a collation other than C"), "{shown}");
    }
    for sql in ["SELECT min(left(t, 1) || 'x') FROM mixed", "SELECT count(*) FROM mixed WHERE coalesce(t, 'b') < 'c'"] {
        let shown = show(sql, &context);
        assert!(shown.contains("columns: "), "{shown}");
    }
}

/// EXPLAIN shows what stores run first, and the other text where there are two.
#[test]
fn explain_shows_what_stores_run() {
    let snapshot = snapshot();
    let search_path = ["public".to_owned()];
    let context = Context::new(&snapshot, &search_path, &[]);
    let said = |sql: &str| {
        let statement = sql::parse(sql, true).unwrap().remove(0);
        let all = plan::explain::describe(&plan::plan(&statement, sql, &context).unwrap());
        all.into_iter().find(|(label, _)| *label == "Columns").unwrap().1
    };
    let by = said("SELECT count(*) FROM sbtest1 WHERE c LIKE 'abc%'");
    let (runs, old) = by.split_once("; of a copy made by a store that kept no first bytes: ").unwrap();
    assert!(runs.starts_with("DuckDB: SELECT count(*) FROM copy_1 AS t WHERE") && runs.contains("::UBIGINT"), "{by}");
    assert!(old.ends_with("LIKE 'abc%')"), "{by}");
    assert_eq!(said("SELECT count(*) FROM sbtest1"), "DuckDB: SELECT count(*) FROM copy_1 AS t");
}

fn show(sql: &str, context: &Context) -> String {
    let statement = match sql::parse(sql, true) {
        Ok(mut statements) => statements.remove(0),
        Err(error) => return format!("syntax error: {error}"),
    };
    let plan = match plan::plan(&statement, sql, context) {
        Ok(plan) => plan,
        Err(refusal) => return format!("refused: {}", refusal.message),
    };
    let finish = match (&plan, plan.finish()) {
        (_, Some(finish)) => finish,
        (Planned::Query { tree: Err(refusal), .. }, None) => return format!("refused: {}", refusal.message),
        _ => return "no query".into(),
    };
    let mut out = String::new();
    for part in finish.parts() {
        writeln!(out, "part: {}", part.text).unwrap();
        match &part.columns {
            None => writeln!(out, "  no columns").unwrap(),
            Some(ColumnRead::No(why)) => writeln!(out, "  columns no: {why}").unwrap(),
            Some(ColumnRead::Can(can)) => show_columns(&mut out, can),
        }
    }
    out
}

fn show_columns(out: &mut String, can: &ColumnPart) {
    let ColumnPart { text, by_first_bytes, tables, types, params, scans, bounded, in_pieces, float_sums } = can;
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    let params: String = params.iter().map(|(n, oid)| format!("; ${n} is {oid}")).collect();
    let named: usize = text.params().count();
    assert!(named >= params.matches("is").count() && !tables.is_empty());
    assert!(!Text::is_empty(text));
    let flags = [(*scans, "scans"), (*bounded, "bounded"), (*in_pieces, "in pieces"), (*float_sums, "float sums")];
    let flags: String = flags.iter().filter(|(is, _)| *is).map(|(_, name)| format!("; {name}")).collect();
    writeln!(out, "  columns: {text}\n  {}{params}{flags}", types.join(", ")).unwrap();
    if let Some(text) = by_first_bytes {
        writeln!(out, "  by first bytes: {text}").unwrap();
    }
}

/// The golden herd, and beside it:
///
/// | table | copy |
/// |---|---|
/// | `sbtest1` | of all columns, by `c` |
/// | `mixed` | of a column of each type |
/// | `worded` | its `word` and its `greek` order by languages, its `folded` takes strings for equal that differ, its `plain` is the database's |
/// | `people` | without `country` |
/// | `places`, `ranges` | reference tables |
fn snapshot() -> Snapshot {
    let mut snapshot = golden_herd::snapshot();
    let char_of = |n: i32| (1042, n + 4);
    let numeric = |digits: i32, scale: i32| (1700, ((digits << 16) | scale) + 4);
    let tables = [
        (1, "sbtest1", vec![("id", (23, -1)), ("k", (23, -1)), ("c", char_of(120)), ("pad", char_of(60))]),
        (
            2,
            "mixed",
            vec![
                ("id", (20, -1)),
                ("i2", (21, -1)),
                ("i4", (23, -1)),
                ("i8", (20, -1)),
                ("n", numeric(12, 2)),
                ("m", numeric(30, 10)),
                ("w", numeric(30, 0)),
                ("any_n", (1700, -1)),
                ("f4", (700, -1)),
                ("f8", (701, -1)),
                ("b", (16, -1)),
                ("t", (25, -1)),
                ("v", (1043, 24)),
                ("c", char_of(10)),
                ("d", (1082, -1)),
                ("ts", (1114, -1)),
                ("tz", (1184, -1)),
                ("u", (2950, -1)),
                ("j", (3802, -1)),
                ("y", (17, -1)),
                ("own", (20_001, -1)),
                ("Odd \"name\"", (23, -1)),
            ],
        ),
        (
            3,
            "worded",
            vec![("id", (20, -1)), ("word", (25, -1)), ("folded", (25, -1)), ("greek", (25, -1)), ("plain", (25, -1))],
        ),
        (4, "people", vec![("id", (20, -1)), ("name", (25, -1)), ("country", (25, -1))]),
        (5, "places", vec![("id", (23, -1)), ("name", (25, -1)), ("area", (23, -1))]),
        (6, "ranges", vec![("id", (23, -1)), ("low", (23, -1)), ("high", (23, -1))]),
    ];
    for (id, name, columns) in tables {
        let columns: Vec<Column> = columns.into_iter().map(|(name, ty)| column(name, ty)).collect();
        let copied = columns.iter().map(|c| c.name.clone()).filter(|name| name != "country").collect();
        let copy = ColumnCopy { id, columns: copied, order_by: vec![], indexed: vec!["k".into()] };
        let mut relation = relation(&snapshot, 21_000 + id as u32, name, columns, copy);
        if matches!(name, "places" | "ranges") {
            relation.placement = Placement::Reference;
        }
        snapshot.relations.insert(("public".into(), name.into()), Arc::new(relation));
    }
    let own = ["<->".to_owned(), ">=".to_owned()].map(|name| (name, vec!["own".to_owned()]));
    snapshot.own_operators = own.into();
    snapshot.own_operators.insert("<".into(), vec!["elsewhere".into()]);
    let mut builtin = (*snapshot.builtin_functions).clone();
    for name in ["abs", "char_length", "date_trunc", "extract", "left", "lower", "rank", "round", "substr", "substring"]
    {
        builtin.insert(name.into(), vec![function(FunctionKind::Function)]);
    }
    for name in ["every", "bool_or"] {
        builtin.insert(name.into(), vec![function(FunctionKind::Aggregate)]);
    }
    snapshot.builtin_functions = Arc::new(builtin);
    let mine =
        Function { schema: "own".into(), arguments: None, user_defined: true, ..function(FunctionKind::Function) };
    // Nobody's integers or strings are what these take.
    let of_a_type = Function { arguments: Some(vec![20_001]), ..mine.clone() };
    snapshot.functions.insert("abs".into(), vec![mine]);
    snapshot.functions.insert("length".into(), vec![of_a_type]);
    let orders = &snapshot.relations[&("public".to_owned(), "big_orders".to_owned())];
    let view = catalog::View { query: "SELECT i4 FROM public.mixed".into(), ..orders.view.clone().unwrap() };
    let view = Relation { oid: 21_099, name: "big_mixed".into(), view: Some(view), ..Relation::clone(orders) };
    snapshot.relations.insert(("public".into(), "big_mixed".into()), Arc::new(view));
    snapshot
}

fn function(kind: FunctionKind) -> Function {
    Function {
        schema: "pg_catalog".into(),
        kind,
        volatility: Volatility::Immutable,
        returns_set: false,
        returns: 0,
        arguments: None,
        user_defined: false,
        reads_herd_tables: false,
        needs_home: false,
        dynamic: false,
        varies: false,
        of_row: false,
    }
}

fn column(name: &str, (type_oid, typmod): (u32, i32)) -> Column {
    Column {
        name: name.into(),
        type_oid,
        typmod,
        type_name: String::new(),
        not_null: name == "id",
        default: None,
        sequence: None,
        sequence_oid: 0,
        identity: 0,
        generated: false,
        collation: match name {
            "word" => 16384,
            "folded" => 16385,
            "greek" => 16386,
            "plain" => 100,
            _ => 950,
        },
        collation_is_bytes: !matches!(name, "word" | "folded" | "greek"),
        collation_deterministic: name != "folded",
    }
}

fn relation(snapshot: &Snapshot, oid: u32, name: &str, columns: Vec<Column>, copy: ColumnCopy) -> Relation {
    let orders = &snapshot.relations[&("public".to_owned(), "orders".to_owned())];
    let group: Arc<Colocation> = orders.distribution().unwrap().group.clone();
    let d = Distribution { key: vec![0], group, prefix: name.into(), partitions: None, is_part: false };
    Relation {
        oid,
        name: name.into(),
        placement: Placement::Distributed(d),
        columns: columns.into(),
        unique: vec![UniqueIndex { name: format!("{name}_pkey"), columns: vec![0], primary: true, plain: true }],
        column_copy: Some(Arc::new(copy)),
        ..Relation::clone(orders)
    }
}
