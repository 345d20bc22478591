//! What a snapshot says of a database with a bit of everything.

use std::sync::Arc;

use catalog::*;
use key::Bound;

use crate::herd::Herd;
use crate::server::{now, on_each_server};

const OBJECTS: &str = "
    CREATE SCHEMA other;
    CREATE TYPE other.color AS ENUM ('red', 'green');
    CREATE DOMAIN public.positive AS int CHECK (value > 0);
    CREATE SEQUENCE other.counter;
    CREATE TABLE public.events (
        id bigserial, tenant int NOT NULL, at timestamptz DEFAULT now(), color other.color,
        plain text, bytes text COLLATE \"C\", n bigint DEFAULT nextval('other.counter'), amount positive[],
        dropped int, twice int GENERATED ALWAYS AS (tenant * 2) STORED, PRIMARY KEY (tenant, id));
    ALTER TABLE public.events DROP COLUMN dropped;
    ALTER TABLE public.events ADD COLUMN last int;
    CREATE UNIQUE INDEX events_included ON public.events (id, tenant) INCLUDE (plain);
    CREATE UNIQUE INDEX events_partial ON public.events (tenant, last) WHERE last > 0;
    CREATE UNIQUE INDEX events_expression ON public.events (tenant, lower(plain));
    CREATE TABLE public.countries (code char(2) PRIMARY KEY, name text);
    CREATE TABLE public.notes (id int GENERATED ALWAYS AS IDENTITY, body text);
    CREATE TABLE other.notes (id int);
    CREATE VIEW other.recent AS SELECT id, at FROM public.events;
    CREATE MATERIALIZED VIEW public.counts AS SELECT count(*) FROM public.notes;
    CREATE TEMP TABLE temporary (id int);
    CREATE FUNCTION public.trig() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER r AFTER INSERT ON public.countries FOR EACH ROW EXECUTE FUNCTION public.trig();
    CREATE TRIGGER s AFTER INSERT ON public.notes FOR EACH STATEMENT EXECUTE FUNCTION public.trig();
    ALTER TABLE other.notes ENABLE ROW LEVEL SECURITY;
    CREATE FUNCTION public.f_direct() RETURNS bigint STABLE LANGUAGE sql AS 'SELECT count(*) FROM Events';
    CREATE FUNCTION public.f_dynamic() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE $x$SELECT 1 FROM events$x$; END $$;
    CREATE FUNCTION public.f_view() RETURNS SETOF int LANGUAGE sql AS 'SELECT 1 FROM other.recent';
    CREATE FUNCTION public.f_body() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM public.countries; END;
    CREATE FUNCTION public.f_indirect() RETURNS bigint LANGUAGE sql AS 'SELECT f_direct()';
    CREATE FUNCTION public.f_step(s bigint, x int) RETURNS bigint LANGUAGE sql AS 'SELECT s + f_indirect()';
    CREATE AGGREGATE public.f_aggregate(int) (SFUNC = public.f_step, STYPE = bigint);
    CREATE FUNCTION public.f_local() RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT count(*) FROM notes, my_events';
    CREATE FUNCTION public.f_local(int) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT 1';
    CREATE FUNCTION public.f_c(text) RETURNS int LANGUAGE internal AS 'textlen';
    CREATE PROCEDURE public.events_proc() LANGUAGE sql AS 'SELECT 1';";

fn relation<'a>(snapshot: &'a Snapshot, schema: &str, name: &str) -> &'a Relation {
    &snapshot.relations[&(schema.to_string(), name.to_string())]
}

#[test]
fn everything_a_snapshot_holds() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        herd.nodes[1].sql("CREATE SCHEMA other; CREATE TYPE other.color AS ENUM ('red', 'green'); CREATE DOMAIN public.positive AS int; CREATE FUNCTION public.trig() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'");
        herd.home().sql(&OBJECTS.replace("my_events", "pg_class"));
        herd.home().sql("DROP VIEW other.recent CASCADE");
        herd.by_hash("events", &["tenant"]).unwrap();
        herd.home().sql("CREATE VIEW other.recent AS SELECT id, at FROM public.events");
        herd.reference("countries").unwrap();
        let settings = "SELECT current_setting('search_path'), current_setting('timezone')";
        herd.home().sql("SET search_path = other, public; SET timezone = 'Europe/Berlin'");
        let before = herd.home().lines(settings);
        let snapshot = herd.snapshot();
        assert_eq!(herd.home().lines(settings), before);

        assert_eq!((snapshot.home, snapshot.nodes.len(), snapshot.epoch), (1, 2, 4));
        assert!(!snapshot.collation_is_bytes && snapshot.herd_id.len() == 16 && snapshot.server_version >= 150_000);
        let mut names: Vec<String> = snapshot.relations.keys().map(|(s, n)| format!("{s}.{n}")).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "other.counter",
                "other.notes",
                "other.recent",
                "public.countries",
                "public.counts",
                "public.events",
                "public.events_id_seq",
                "public.notes",
                "public.notes_id_seq",
            ]
        );
        check_events(&snapshot);
        check_others(&snapshot);
        check_functions(&snapshot);
        let mut types: Vec<_> = snapshot
            .types
            .values()
            .map(|t| (t.name.as_str(), t.kind as char))
            .filter(|t| !t.0.starts_with('_'))
            .collect();
        types.sort();
        for want in [("color", 'e'), ("positive", 'd'), ("events", 'c')] {
            assert!(types.contains(&want), "{types:?}");
        }
        let amount = relation(&snapshot, "public", "events").columns[7].type_oid;
        let array = &snapshot.types[&amount];
        assert_eq!((array.kind, snapshot.types[&array.base].base), (b'a', 23));

        // Built-in functions are shared, everything else is loaded anew.
        let again = now(load_with(herd.home(), Some(&snapshot))).unwrap();
        assert!(Arc::ptr_eq(&again.builtin_functions, &snapshot.builtin_functions));
        assert_eq!(again.relations.len(), snapshot.relations.len());
    });
}

fn check_events(snapshot: &Snapshot) {
    let events = relation(snapshot, "public", "events");
    let distribution = events.distribution().unwrap();
    assert_eq!((distribution.key.as_slice(), distribution.prefix.as_str()), ([1].as_slice(), "events"));
    assert_eq!(distribution.partition(3), "herd_shards.events_3");
    let group = &distribution.group;
    assert_eq!((group.key_types.as_slice(), group.shards.len()), ([23].as_slice(), 4));
    for (i, shard) in group.shards.iter().enumerate() {
        assert_eq!(shard.number, i as i32);
        assert_eq!(shard.node, i as i32 % 2 + 1);
        assert_eq!(shard.bound, Bound::Hash { modulus: 4, remainder: i as u32 });
    }
    assert!(Arc::ptr_eq(group, &snapshot.groups[&group.id]));
    let columns: Vec<_> = events.columns.iter().map(|c| (c.name.as_str(), c.type_name.as_str())).collect();
    assert_eq!(
        columns,
        [
            ("id", "bigint"),
            ("tenant", "integer"),
            ("at", "timestamp with time zone"),
            ("color", "other.color"),
            ("plain", "text"),
            ("bytes", "text"),
            ("n", "bigint"),
            ("amount", "public.positive[]"),
            ("twice", "integer"),
            ("last", "integer"),
        ]
    );
    let [id, tenant, at, _, plain, bytes, n, _, twice, _] = &events.columns[..] else { panic!() };
    assert_eq!(id.sequence.as_deref(), Some("public.events_id_seq"));
    assert_eq!(n.sequence.as_deref(), Some("other.counter"));
    assert!(id.not_null && tenant.not_null && !at.not_null);
    assert_eq!((at.default.as_deref(), &at.sequence), (Some("now()"), &None));
    assert!(twice.generated && twice.default.is_none());
    assert!(tenant.collation_is_bytes && bytes.collation_is_bytes && !plain.collation_is_bytes);
    let unique: Vec<_> = events.unique.iter().map(|u| (u.name.as_str(), u.columns.as_slice(), u.primary)).collect();
    assert_eq!(unique, [("events_pkey", [1, 0].as_slice(), true), ("events_included", [0, 1].as_slice(), false)]);
}

fn check_others(snapshot: &Snapshot) {
    let countries = relation(snapshot, "public", "countries");
    assert!(countries.is_reference() && countries.triggers && !countries.statement_triggers);
    let notes = relation(snapshot, "public", "notes");
    assert!(matches!(notes.placement, Placement::Local) && notes.triggers && notes.statement_triggers);
    assert_eq!((notes.columns[0].identity, notes.columns[0].sequence.as_deref()), (b'a', Some("public.notes_id_seq")));
    assert!(relation(snapshot, "other", "notes").row_security && !notes.row_security);
    let view = relation(snapshot, "other", "recent");
    assert_eq!(view.kind, RelationKind::View);
    assert!(view.view.as_ref().unwrap().query.contains("FROM public.events"), "{:?}", view.view);
    assert_eq!(relation(snapshot, "public", "counts").kind, RelationKind::MaterializedView);
    assert_eq!(relation(snapshot, "other", "counter").kind, RelationKind::Sequence);
    let path = ["other".to_string(), "public".to_string()];
    assert_eq!(snapshot.resolve(None, "notes", &path).unwrap().schema, "other");
}

fn check_functions(snapshot: &Snapshot) {
    // Bodies as they are, to be read elsewhere; of C functions nothing.
    let body = |name: &str| snapshot.code.routines.iter().find(|r| r.name == name).map(|r| &*r.definition);
    assert!(
        body("f_direct").is_some_and(|b| b.starts_with("CREATE OR REPLACE FUNCTION public.f_direct")),
        "{:?}",
        body("f_direct")
    );
    assert_eq!(body("f_c"), Some(""));
    let triggers = snapshot.code.attached.iter().filter(|a| a.what == "trigger").count();
    assert!(triggers > 0 && snapshot.code.attached.iter().any(|a| a.what == "view" && a.name == "recent"));
    let kind = |name: &str| snapshot.functions(name).next().unwrap().kind;
    assert_eq!(kind("f_aggregate"), FunctionKind::Aggregate);
    assert_eq!(kind("events_proc"), FunctionKind::Procedure);
    assert_eq!(kind("row_number"), FunctionKind::Window);
    let local = snapshot.functions("f_local").next().unwrap();
    assert!(local.user_defined && local.volatility == Volatility::Immutable && local.schema == "public");
    let random = snapshot.functions("random").next().unwrap();
    assert!(!random.user_defined && random.volatility == Volatility::Volatile);
    assert!(snapshot.functions("generate_series").all(|f| f.returns_set));
    assert!(snapshot.functions("f_view").all(|f| f.returns_set));
}

/// What of PostgreSQL's own functions leaves something in the session, of any version: all else is not volatile, or is listed
/// as harmless. A function that a new version brings stands here once somebody has judged it.
#[test]
fn what_leaves_something_in_the_session() {
    const LASTING: &[&str] = &[
        "cursor_to_xml",
        "cursor_to_xmlschema",
        "database_to_xml",
        "database_to_xml_and_xmlschema",
        "database_to_xmlschema",
        "pg_advisory_lock",
        "pg_advisory_lock_shared",
        "pg_backup_start",
        "pg_backup_stop",
        "pg_replication_origin_session_reset",
        "pg_replication_origin_session_setup",
        "pg_try_advisory_lock",
        "pg_try_advisory_lock_shared",
        "query_to_xml",
        "query_to_xml_and_xmlschema",
        "query_to_xmlschema",
        "schema_to_xml",
        "schema_to_xml_and_xmlschema",
        "schema_to_xmlschema",
        "set_config",
        "setseed",
        "table_to_xml",
        "table_to_xml_and_xmlschema",
        "table_to_xmlschema",
        "ts_rewrite",
        "ts_stat",
    ];
    // They leave nothing, as far as anybody knows, but nothing is lost by a look: superusers' and upgrades' own.
    const LOOKED_AT: &[&str] = &[
        "binary_upgrade_",
        "dsnowball_",
        "plpgsql_validator",
        "pg_clear_",
        "pg_copy_",
        "pg_create_",
        "pg_drop_",
        "pg_extension_config_dump",
        "pg_logical_slot_",
        "pg_replication_",
        "pg_restore_",
        "pg_rotate_logfile_old",
        "pg_read_file_old",
        "pg_stop_making_pinned_objects",
        "pg_sync_replication_slots",
        "pg_relation_statistics",
    ];
    on_each_server(|server| {
        let mut herd = Herd::new(server, 1);
        let snapshot = herd.snapshot();
        let mut lasting: Vec<&str> = snapshot
            .builtin_functions
            .keys()
            .map(String::as_str)
            .filter(|name| snapshot.lasts((None, name), &[]))
            .collect();
        lasting.retain(|name| !LOOKED_AT.iter().any(|begin| name.starts_with(begin)) || LASTING.contains(name));
        lasting.sort_unstable();
        assert_eq!(lasting, LASTING);
        let behind = "SELECT count(*) FROM pg_proc p WHERE p.provolatile = 'v' AND (p.oid IN (SELECT oprcode FROM pg_operator) \
             OR p.oid IN (SELECT castfunc FROM pg_cast) OR p.oid IN (SELECT typinput FROM pg_type) OR p.oid IN (SELECT typoutput FROM pg_type) \
             OR p.oid IN (SELECT amproc FROM pg_amproc) OR p.oid IN (SELECT aggtransfn FROM pg_aggregate) OR p.oid IN (SELECT aggfinalfn FROM pg_aggregate))";
        assert_eq!(herd.home().lines(behind), ["0"], "behind what a statement need not name");
    });
}
