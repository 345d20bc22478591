//! Golden tests: what a utility statement comes to on each node of a small herd. `tests/ddl/*.txt` holds statements, one a
//! line after `> `, each followed by what is expected. `UPDATE_GOLDEN=1 cargo test -p plan --test ddl` writes them anew.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use catalog::{
    Colocation, Column, Distribution, Function, FunctionKind, Node, Placement, Relation, RelationKind, Shard, Snapshot,
    UniqueIndex, Volatility,
};
use key::{Bound, PartitionStrategy};
use plan::ddl::{Ddl, Facts, Spread, Step, changes_catalog, classify, command, locks, renewed};

/// Three nodes; `orders` and `items` colocated, `events` apart, `countries` everywhere, `notes` local.
fn snapshot() -> Snapshot {
    let node = |id: i32, name: &str, database: &str| Node {
        id,
        name: name.into(),
        host: format!("h{id}"),
        port: 5432,
        database: database.into(),
    };
    let group = |id: i32, nodes: [i32; 4]| {
        let shard = |(n, node): (usize, i32)| Shard {
            number: n as i32,
            node,
            bound: Bound::Hash { modulus: 4, remainder: n as u32 },
        };
        Arc::new(Colocation {
            id,
            strategy: PartitionStrategy::Hash,
            key_types: vec![20],
            shards: nodes.into_iter().enumerate().map(shard).collect(),
        })
    };
    let (first, second) = (group(1, [1, 2, 3, 2]), group(2, [1, 2, 3, 1]));
    let distributed = |group: &Arc<Colocation>, prefix: &str| {
        Placement::Distributed(Distribution {
            key: vec![0],
            group: group.clone(),
            prefix: prefix.into(),
            partitions: None,
            is_part: false,
        })
    };
    let mut s = Snapshot {
        epoch: 7,
        home: 1,
        nodes: vec![node(1, "home", "app"), node(2, "n2", "app"), node(3, "n3", "app3")],
        ..Snapshot::default()
    };
    use RelationKind::{MaterializedView, Sequence, Table, View};
    let mut add = |schema: &str,
                   name: &str,
                   kind,
                   placement,
                   columns: &[&str],
                   primary: &[usize],
                   view: Option<&str>| {
        let unique = if primary.is_empty() {
            vec![]
        } else {
            vec![UniqueIndex { name: format!("{name}_pkey"), columns: primary.to_vec(), primary: true, plain: true }]
        };
        let relation = Relation {
            oid: 0,
            schema: schema.into(),
            name: name.into(),
            kind,
            placement,
            unique,
            columns: columns.iter().map(|c| column(c)).collect(),
            view: view.map(|query| catalog::View {
                query: query.into(),
                materialized: kind == MaterializedView,
                security_barrier: false,
                check_option: false,
                security_invoker: false,
                column_grants: false,
                filled_by_router: kind == MaterializedView,
            }),
            row_security: false,
            schema_is_open: true,
            statement_triggers: false,
            rules: false,
            refers_to_itself: false,
            checked_at_commit: false,
            through: None,
            column_copy: None,
            triggers: false,
        };
        s.relations.insert((schema.into(), name.into()), Arc::new(relation));
    };
    add("public", "orders", Table, distributed(&first, "orders"), &["id", "customer", "note", "created"], &[0], None);
    add("public", "items", Table, distributed(&first, "items"), &["order_id", "no", "what", "!ident"], &[0, 1], None);
    add("log", "events", Table, distributed(&second, "events"), &["at", "what"], &[], None);
    let mut parted = distributed(&first, "metrics");
    if let Placement::Distributed(d) = &mut parted {
        d.partitions = Some(["metrics_a".to_string()].into());
    }
    add("public", "metrics", Table, parted, &["device", "at"], &[], None);
    add("public", "metrics_a", Table, distributed(&first, "metrics_a"), &["device", "at"], &[], None);
    add("public", "metrics_old", Table, distributed(&first, "metrics_old"), &["device", "at"], &[], None);
    add("public", "countries", Table, Placement::Reference, &["code", "name"], &[0], None);
    add("public", "notes", Table, Placement::Local, &["id", "text"], &[0], None);
    add("public", "big_orders", View, Placement::Local, &["id"], &[], Some(" SELECT orders.id FROM public.orders"));
    add("public", "my_notes", View, Placement::Local, &["id"], &[], Some(" SELECT notes.id FROM public.notes"));
    add("public", "totals", MaterializedView, Placement::Local, &["v"], &[], Some("as facts have it"));
    add("public", "numbers", Sequence, Placement::Local, &[], &[], None);
    let function = |name: &str, volatility, user_defined, reads_herd_tables| {
        let schema = if user_defined { "public" } else { "pg_catalog" };
        (
            name.to_string(),
            vec![Function {
                schema: schema.into(),
                kind: FunctionKind::Function,
                volatility,
                returns_set: false,
                returns: 0,
                arguments: None,
                user_defined,
                reads_herd_tables,
                needs_home: false,
                dynamic: false,
                varies: false,
                of_row: false,
            }],
        )
    };
    s.builtin_functions = Arc::new(HashMap::from([
        function("now", Volatility::Stable, false, false),
        function("random", Volatility::Volatile, false, false),
        function("nextval", Volatility::Volatile, false, false),
        function("upper", Volatility::Immutable, false, false),
    ]));
    s.functions = HashMap::from([
        function("touch", Volatility::Volatile, true, false),
        function("count_orders", Volatility::Volatile, true, true),
    ]);
    s
}

/// `!name`: an identity column.
fn column(name: &str) -> Column {
    let identity = if name.starts_with('!') { b'd' } else { 0 };
    Column {
        name: name.trim_start_matches('!').into(),
        type_oid: 20,
        typmod: -1,
        type_name: "bigint".into(),
        not_null: false,
        default: None,
        sequence: None,
        sequence_oid: 0,
        identity,
        generated: false,
        collation: 100,
        collation_is_bytes: true,
        collation_deterministic: true,
    }
}

fn facts() -> Facts {
    let table = |index: &str, schema: &str, table: &str| (index.to_string(), (schema.to_string(), table.to_string()));
    Facts {
        search_path: vec!["pg_catalog".into(), "public".into()],
        temporary: vec![catalog::TemporaryRelation::named("scratch")],
        indexes: HashMap::from([
            table("orders_note_idx", "public", "orders"),
            table("countries_name_idx", "public", "countries"),
            table("notes_idx", "public", "notes"),
        ]),
        creation_schema: "public".into(),
        taken: Some("public.orders_taken".into()),
        types: Default::default(),
        sequences: vec![],
        index_name: Some("chosen_idx".into()),
        definition: Some(" SELECT rows.v\n   FROM herd.materialized() rows(v bigint)\nUNION ALL\n SELECT query.v\n   FROM ( SELECT orders.id AS v\n           FROM public.orders) query\n  WHERE false".into()),
        unguessed: 0,
    }
}

fn show(sql: &str, snapshot: &Snapshot) -> String {
    let statement = match sql::parse(sql, true) {
        Ok(mut statements) => statements.remove(0),
        Err(e) => return format!("syntax error: {e}\n"),
    };
    let epoch = if changes_catalog(&statement) { ", new epoch" } else { "" };
    match classify(&statement, sql, snapshot, &facts()) {
        Ddl::NotDdl => "not a utility statement\n".into(),
        Ddl::Home => format!("home{epoch}\n"),
        Ddl::Nodes(s) => format!("nodes{epoch}\n{}{}", show_tables(&statement, snapshot), show_spread(&s, sql)),
        Ddl::Autocommit(s) => format!("autocommit{epoch}: {}\n{}", command(&statement), show_spread(&s, sql)),
        Ddl::CreateTableAs { create, insert } => format!("create table as{epoch}\n  {create}\n  {insert}\n"),
        Ddl::Materialize(m) => {
            let columns =
                [sql::materialized::Column { name: "a".into(), type_name: "integer".into(), collation: None }];
            let view = m.create_view(&columns).unwrap().map_or(String::new(), |view| format!("  {view}\n"));
            let refresh =
                m.refresh.as_ref().map_or(String::new(), |refresh| format!("  {}\n  {refresh}\n", m.fill_rows()));
            format!("materialize{epoch}\n  {}\n{view}{refresh}", m.create_rows)
        }
        Ddl::Partition(p) => {
            let distributed =
                p.distributed.map_or(String::new(), |(schema, name)| format!(", distributed {schema}.{name}"));
            format!("partition of {}.{}{distributed}{epoch}\n  {}\n", p.parent.0, p.parent.1, p.sql)
        }
        Ddl::Refuse(r) => format!("refused {}: {}\n  hint: {}\n", r.sqlstate, r.message, r.hint.unwrap_or_default()),
    }
}

/// What is locked on all nodes before, and whose partitions get new names.
fn show_tables(statement: &sql::NodeEnum, snapshot: &Snapshot) -> String {
    let mut out = String::new();
    if let Some(locks) = locks(statement, snapshot, &facts()) {
        let tables: Vec<_> = locks.tables.iter().map(|(_, table)| table.as_str()).collect();
        let _ = writeln!(out, "  locks IN {} MODE: {}", locks.mode.as_str(), tables.join(", "));
    }
    for r in renewed(statement, snapshot, &facts()) {
        let _ = writeln!(out, "  partitions of {} get new names, of {}", r.table, r.name);
    }
    out
}

fn show_spread(s: &Spread, sql: &str) -> String {
    let mut out = String::new();
    if let Some(warning) = &s.warning {
        let _ = writeln!(out, "  warning: {warning}");
    }
    for check in &s.checks {
        let _ = writeln!(
            out,
            "  unless {}: {} ({})",
            check.sql,
            check.refusal.message,
            check.refusal.hint.as_deref().unwrap_or_default()
        );
    }
    if let Some(rights) = &s.rights {
        let _ = writeln!(
            out,
            "  may make things in the schema of the shards: the owner of {}{}",
            rights.table,
            rights.new_owner.as_ref().map_or(String::new(), |r| format!(" and {r}"))
        );
    }
    for (name, value) in s.settings {
        let _ = writeln!(out, "  others: {name} = {value}");
    }
    for (flag, what) in [(s.unqualified, "in the same schema everywhere"), (s.read_only, "nothing to commit")] {
        if flag {
            let _ = writeln!(out, "  {what}");
        }
    }
    for n in &s.nodes {
        for Step { guard, text, .. } in &n.steps {
            let text = text.to_string();
            let text = if text == sql { "(as it is)" } else { &text };
            match guard {
                Some(guard) => writeln!(out, "  {}: if {guard}: {text}", n.node),
                None => writeln!(out, "  {}: {text}", n.node),
            }
            .unwrap();
        }
    }
    for undo in &s.undo {
        let _ = writeln!(out, "  undo: {undo}");
    }
    if let Some(tag) = s.tag {
        let _ = writeln!(out, "  tag: {tag}");
    }
    out
}

#[test]
fn statements_come_to_what_the_golden_files_say() {
    let snapshot = snapshot();
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ddl");
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|f| f.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let before = std::fs::read_to_string(&file).unwrap();
        let mut after = String::new();
        for line in before.lines() {
            if line.starts_with('#') {
                let _ = writeln!(after, "{line}\n");
            }
            if let Some(sql) = line.strip_prefix("> ") {
                let _ = writeln!(after, "> {sql}\n{}", show(sql, &snapshot));
            }
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&file, &after).unwrap();
        } else if before != after {
            let line = before.lines().zip(after.lines()).position(|(b, a)| b != a).unwrap_or(0);
            let pair = (before.lines().nth(line).unwrap_or(""), after.lines().nth(line).unwrap_or(""));
            wrong.push(format!("{}:{}\n  expected {}\n  found    {}", file.display(), line + 1, pair.0, pair.1));
        }
    }
    assert!(wrong.is_empty(), "{}\n(UPDATE_GOLDEN=1 writes the files anew)", wrong.join("\n"));
}
