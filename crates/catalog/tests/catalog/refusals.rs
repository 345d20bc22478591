//! What cannot be distributed is refused by name, with what to do, before anything is changed.

use catalog::*;
use key::PartitionStrategy;

use crate::herd::Herd;
use crate::server::on_each_server;

const OBJECTS: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'happy');
    CREATE DOMAIN number AS int;
    CREATE TABLE plain (id int PRIMARY KEY, a int UNIQUE, e mood, d number, j json, f point, x text, g int GENERATED ALWAYS AS (id) STORED, \"c\" text COLLATE \"C\");
    CREATE TABLE indexed (id int, a int); CREATE UNIQUE INDEX some_index ON indexed (a) WHERE id > 0;
    CREATE TABLE excluded (id int, r int4range, EXCLUDE USING gist (r WITH &&));
    CREATE TABLE viewed (id int, x int); CREATE VIEW v1 AS SELECT x FROM viewed; CREATE MATERIALIZED VIEW m1 AS SELECT id FROM viewed;
    CREATE TABLE seen (id int); CREATE VIEW v2 AS SELECT id FROM seen; CREATE MATERIALIZED VIEW m2 AS SELECT id FROM v2;
    CREATE TABLE passed_on (id int); CREATE VIEW v3 AS SELECT id FROM passed_on; CREATE RULE quiet AS ON INSERT TO v3 DO INSTEAD NOTHING;
    CREATE TABLE called (id int); CREATE FUNCTION uses_row(called) RETURNS int LANGUAGE sql AS 'SELECT 1';
    CREATE TABLE parted (id int) PARTITION BY HASH (id); CREATE TABLE part PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0);
    CREATE TABLE parent (id int); CREATE TABLE child () INHERITS (parent);
    CREATE TABLE ruled (id int); CREATE RULE quiet AS ON INSERT TO ruled DO INSTEAD NOTHING;
    CREATE TABLE published (id int); CREATE PUBLICATION pub FOR TABLE published;
    CREATE TYPE row_type AS (id int); CREATE TABLE typed OF row_type;
    CREATE FUNCTION trig() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TABLE triggered (id int);
    CREATE TRIGGER transition AFTER INSERT ON triggered REFERENCING NEW TABLE AS n FOR EACH ROW EXECUTE FUNCTION trig();
    CREATE SEQUENCE seq; CREATE TABLE done (id int)";

#[test]
fn by_name_and_with_advice() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        herd.home().sql(OBJECTS);
        herd.by_hash("done", &["id"]).unwrap();
        let before = herd.home().lines("SELECT relname, relkind, relnamespace FROM pg_class ORDER BY oid");
        for (table, key, sqlstate, named, advice) in [
            ("plain", "a", "0A000", "primary key \"plain_pkey\"", "(id, a)"),
            ("plain", "id", "0A000", "unique constraint \"plain_a_key\"", "(a, id)"),
            ("plain", "nothing", "42703", "\"nothing\"", ""),
            ("plain", "g", "0A000", "generated", ""),
            ("plain", "e", "0A000", "mood", "enum"),
            ("plain", "d", "0A000", "number", "base type, integer"),
            ("plain", "j", "0A000", "json", "bigint"),
            ("plain", "f", "0A000", "point", "bigint"),
            ("indexed", "id", "0A000", "some_index", "Drop it"),
            ("excluded", "id", "0A000", "excluded_r_excl", "rop it"),
            ("viewed", "id", "2BP01", "depend on \"viewed\": materialized view m1", "create them again"),
            ("seen", "id", "2BP01", "materialized view m2", "create them again"),
            ("passed_on", "id", "0A000", "view \"v3\" over \"passed_on\" has a rule: \"quiet\"", "INSTEAD OF"),
            ("called", "id", "2BP01", "function uses_row", ""),
            ("part", "id", "42809", "a partition", "detach it"),
            ("parent", "id", "0A000", "inheritance", ""),
            ("child", "id", "0A000", "inheritance", "NO INHERIT"),
            ("ruled", "id", "0A000", "quiet", "trigger"),
            ("published", "id", "2BP01", "publication \"pub\"", "ALTER PUBLICATION"),
            ("typed", "id", "0A000", "typed", "NOT OF"),
            ("triggered", "id", "0A000", "transition", "statement trigger"),
            ("v1", "x", "42809", "a view", ""),
            ("seq", "last_value", "42809", "a sequence", ""),
            ("done", "id", "55000", "already distributed", "undistribute_table"),
        ] {
            let refusal = herd.by_hash(table, &[key]).unwrap_err();
            assert_eq!(refusal.sqlstate(), sqlstate, "{table}.{key}: {refusal:?}");
            let message = refusal.message.replace("public.", "");
            assert!(message.contains(named), "{table}.{key}: {refusal:?}");
            assert!(refusal.hint.contains(advice), "{table}.{key}: {refusal:?}");
        }
        assert_eq!(herd.home().lines("SELECT relname, relkind, relnamespace FROM pg_class ORDER BY oid"), before);
        assert_eq!(herd.home().one("SELECT epoch FROM herd.epoch"), herd.snapshot().epoch.to_string());
    });
}

#[test]
fn requests_that_make_no_sense() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        herd.home().sql("CREATE TABLE t (id int, x text, y text COLLATE \"C\"); CREATE TABLE r (id int)");
        herd.reference("r").unwrap();
        let with = |change: fn(&mut DistributeRequest)| {
            let mut request = Herd::request("t", &["id"]);
            change(&mut request);
            request
        };
        for (request, sqlstate, named) in [
            (with(|r| r.columns.clear()), "22023", "at least one"),
            (with(|r| r.columns.push("id".into())), "22023", "twice"),
            (with(|r| r.shard_count = Some(0)), "22023", "between 1 and 4096"),
            (with(|r| r.shard_count = Some(4097)), "22023", "4097"),
            (with(|r| r.strategy = Some(PartitionStrategy::Range)), "22023", "needs the bounds"),
            (with(|r| r.bounds = Some(vec![])), "22023", "no bounds"),
            (
                with(|r| (r.strategy, r.columns) = (Some(PartitionStrategy::Range), vec!["x".into()])),
                "0A000",
                "ordered by a collation",
            ),
            (
                with(|r| (r.strategy, r.columns) = (Some(PartitionStrategy::List), vec!["id".into(), "x".into()])),
                "22023",
                "one key column",
            ),
            (with(|r| r.name = "r".into()), "55000", "already"),
            (with(|r| r.colocate_with = Some("r".into())), "42809", "not distributed"),
        ] {
            let refusal = herd.distribute(&request).unwrap_err();
            assert!(refusal.sqlstate() == sqlstate && refusal.message.contains(named), "{request:?}: {refusal:?}");
        }
        // Ordered by bytes, it can be; several columns can be a hash key.
        herd.by_bounds("t", "y", PartitionStrategy::Range, &["FROM ('a') TO ('b')"]).unwrap();
        assert_eq!(herd.undistribute("pg_catalog.pg_class").unwrap_err().sqlstate(), "42P01");
        herd.undistribute("t").unwrap();
        assert_eq!(herd.undistribute("t").unwrap_err().sqlstate(), "55000");
        herd.by_hash("t", &["x", "id"]).unwrap();
        assert_eq!(herd.home().one("SELECT key FROM herd.tables WHERE name = 't'"), "x, id");
        let error = crate::server::now(read_definition(herd.home(), "public", "nothing")).unwrap_err();
        assert_eq!(error.sqlstate(), Some("42P01"));
    });
}

#[test]
fn nondeterministic_collations() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 1);
        // Needs a server built with ICU.
        let made = herd.home().try_sql(
            "CREATE COLLATION insensitive (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        );
        if made.is_err() {
            println!("skipped: no ICU");
            return;
        }
        herd.home().sql("CREATE TABLE t (name text COLLATE insensitive)");
        let refusal = herd.by_hash("t", &["name"]).unwrap_err();
        assert!(refusal.sqlstate() == "0A000" && refusal.message.contains("nondeterministic"), "{refusal:?}");
    });
}
