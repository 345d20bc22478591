//! Colocation, bounds, foreign keys, names: plans that are carried out.

use catalog::*;
use key::{Bound, Datum, PartitionStrategy};

use crate::herd::Herd;
use crate::server::on_each_server;

fn group(snapshot: &Snapshot, table: &str) -> i32 {
    snapshot.relations[&("public".into(), table.into())].distribution().unwrap().group.id
}

#[test]
fn colocation() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        for table in ["a", "b", "c", "d", "e", "f"] {
            herd.home().sql(&format!("CREATE TABLE {table} (id int, other bigint)"));
        }
        let request = |table, column, with: &str| DistributeRequest {
            colocate_with: (!with.is_empty()).then(|| with.to_string()),
            ..Herd::request(table, &[column])
        };
        herd.distribute(&request("a", "id", "")).unwrap();
        herd.distribute(&request("b", "id", "default")).unwrap();
        herd.distribute(&request("c", "id", "none")).unwrap();
        herd.distribute(&request("d", "id", "public.c")).unwrap();
        herd.distribute(&request("e", "other", "")).unwrap();
        let wrong = [
            request("f", "other", "a"),
            DistributeRequest { shard_count: Some(8), ..request("f", "id", "a") },
            DistributeRequest { strategy: Some(PartitionStrategy::List), ..request("f", "id", "a") },
        ];
        for request in wrong {
            assert_eq!(herd.distribute(&request).unwrap_err().sqlstate(), "22023", "{request:?}");
        }
        assert_eq!(herd.distribute(&request("f", "id", "nothing")).unwrap_err().sqlstate(), "42P01");
        assert_eq!(herd.distribute(&request("f", "id", "f")).unwrap_err().sqlstate(), "42809");
        let more = DistributeRequest { shard_count: None, ..request("f", "id", "") };
        herd.distribute(&more).unwrap();

        let snapshot = herd.snapshot();
        let groups: Vec<i32> = ["a", "b", "c", "d", "e", "f"].iter().map(|t| group(&snapshot, t)).collect();
        assert_eq!(groups, [1, 1, 2, 2, 3, 4]);
        assert_eq!(snapshot.groups[&4].shards.len(), 32);
        assert!(snapshot.private_groups.contains(&2) && snapshot.private_groups.len() == 1);
        // Rows of equal key lie in equally numbered shards of one node.
        assert_eq!(
            herd.home().one("SELECT count(DISTINCT (shard, node)) FROM herd.shards WHERE name IN ('a', 'b')"),
            "4"
        );
    });
}

#[test]
fn ranges() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 3);
        herd.home().sql("CREATE TABLE log (at timestamptz, id int, PRIMARY KEY (at, id));
            INSERT INTO log SELECT '2024-01-01 00:00Z'::timestamptz + i * interval '1 day', i FROM generate_series(0, 99) i");
        let bounds = [
            "FROM (MINVALUE) TO ('2024-02-01')",
            "FROM ('2024-02-01') TO ('2024-03-01 00:00+00')",
            "from ('2024-03-01') to (maxvalue)",
        ];
        // Bounds do not hang on the session's time zone.
        herd.home().sql("SET timezone = 'Asia/Tokyo'");
        herd.by_bounds("log", "at", PartitionStrategy::Range, &bounds).unwrap();
        let counts: Vec<String> = herd.nodes.iter_mut().map(|n| n.one("SELECT count(*) FROM log")).collect();
        assert_eq!(counts, ["31", "29", "40"]);

        let snapshot = herd.snapshot();
        let shards = &snapshot.groups[&1].shards;
        let Bound::Range { from, to } = &shards[0].bound else { panic!() };
        assert_eq!(from, &[Datum::MinValue]);
        // 8797 days and 00:00 after 2000-01-01, in microseconds.
        assert_eq!(to, &[Datum::Value((8797_i64 * 86_400_000_000).to_be_bytes().to_vec())]);
        assert_eq!(shards[2].bound, Bound::Range { from: shards_to(&shards[1].bound), to: vec![Datum::MaxValue] });
        assert_eq!(snapshot.bound_texts[&1].len(), 3);

        // A table with the same bounds joins; and so does one that names it.
        herd.home().sql("CREATE TABLE log2 (at timestamptz); CREATE TABLE log3 (at timestamptz)");
        herd.by_bounds("log2", "at", PartitionStrategy::Range, &bounds).unwrap();
        let joins = DistributeRequest {
            colocate_with: Some("log".into()),
            shard_count: None,
            ..Herd::request("log3", &["at"])
        };
        herd.distribute(&joins).unwrap();
        assert_eq!(herd.snapshot().groups.len(), 1);
        assert_eq!(
            herd.nodes[1]
                .one("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'log3_1'")
                .matches("2024")
                .count(),
            2
        );
    });
}

fn shards_to(bound: &Bound) -> Vec<Datum> {
    match bound {
        Bound::Range { to, .. } => to.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lists_and_bounds_that_clash() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        herd.home().sql("CREATE TABLE bounds (country text, n int); INSERT INTO bounds VALUES ('de', 1), ('it''s', 2), (NULL, 3), ('xx', 4)");
        let error = herd.by_bounds("bounds", "country", PartitionStrategy::List, &["IN (lower('x'))"]).unwrap_err();
        assert_eq!(error.sqlstate(), Some("22023"));
        let error = herd.by_bounds("bounds", "country", PartitionStrategy::List, &["FROM ('a') TO ('b')"]).unwrap_err();
        assert_eq!(error.sqlstate(), Some("22023"));
        let error = herd.by_bounds("bounds", "n", PartitionStrategy::List, &["IN ('x')"]).unwrap_err();
        assert_eq!(error.sqlstate(), Some("22023"));
        let error = herd.by_bounds("bounds", "n", PartitionStrategy::Range, &["FROM (1, 2) TO (3, 4)"]).unwrap_err();
        assert_eq!(error.sqlstate(), Some("22023"));
        herd.by_bounds(
            "bounds",
            "country",
            PartitionStrategy::List,
            &["IN ('de', 'at')", "IN ('it''s', NULL)", "DEFAULT"],
        )
        .unwrap();
        assert_eq!(herd.nodes[0].lines("SELECT n FROM bounds ORDER BY n"), ["1", "4"]);
        assert_eq!(herd.nodes[1].lines("SELECT n FROM bounds ORDER BY n"), ["2", "3"]);
        let shards = &herd.snapshot().groups[&1].shards;
        assert_eq!(shards[1].bound, Bound::List { values: vec![Some(b"it's".to_vec()), None] });
        assert_eq!(shards[2].bound, Bound::Default);

        // Shards of different nodes overlap: no node would see it.
        herd.home().sql("CREATE TABLE r (id int)");
        let definition = herd.definition("r");
        let texts = ["FROM (1) TO (10)".to_string(), "FROM (5) TO (20)".to_string()];
        let key = ["id".to_string()];
        let bounds =
            crate::server::now(read_bounds(herd.home(), &definition, &key, PartitionStrategy::Range, &texts)).unwrap();
        let request = DistributeRequest {
            strategy: Some(PartitionStrategy::Range),
            shard_count: None,
            bounds: Some(bounds),
            ..Herd::request("r", &["id"])
        };
        let plan = plan_distribution(&herd.snapshot(), &definition, &request, 32).unwrap();
        let error = herd.try_run(plan).unwrap_err();
        assert_eq!(error.code().unwrap().code(), "42P17");
    });
}

#[test]
fn foreign_keys() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        herd.home().sql("
            CREATE TABLE country (code text PRIMARY KEY);
            CREATE TABLE customer (id int PRIMARY KEY, country text REFERENCES country, boss int REFERENCES customer);
            CREATE TABLE orders (customer int REFERENCES customer ON DELETE CASCADE, id int, parent int, PRIMARY KEY (customer, id),
                                 CONSTRAINT tree FOREIGN KEY (customer, parent) REFERENCES orders);
            INSERT INTO country VALUES ('de'); INSERT INTO customer SELECT i, 'de' FROM generate_series(1, 50) i;
            INSERT INTO orders SELECT i, i, i FROM generate_series(1, 50) i");
        let refusal = herd.by_hash("customer", &["id"]).unwrap_err();
        assert!(refusal.sqlstate() == "0A000" && refusal.message.contains("customer_boss_fkey"), "{refusal}");
        herd.home().sql("ALTER TABLE customer DROP COLUMN boss");
        let refusal = herd.by_hash("customer", &["id"]).unwrap_err();
        assert!(refusal.hint.contains("create_reference_table('country')"), "{refusal:?}");
        herd.reference("country").unwrap();
        let refusal = herd.by_hash("customer", &["id"]).unwrap_err();
        assert!(refusal.sqlstate() == "2BP01" && refusal.message.contains("orders_customer_fkey"), "{refusal}");
        herd.home().sql("ALTER TABLE orders DROP CONSTRAINT orders_customer_fkey");
        herd.by_hash("customer", &["id"]).unwrap();
        herd.home().sql("ALTER TABLE orders ADD COLUMN c2 text REFERENCES country DEFAULT 'de'");
        assert_eq!(herd.undistribute("country").unwrap_err().sqlstate(), "2BP01");

        // The key paired with the key of a colocated table; then not colocated; then not the key.
        herd.by_hash("orders", &["customer"]).unwrap();
        herd.everywhere("ALTER TABLE orders ADD CONSTRAINT fk FOREIGN KEY (customer) REFERENCES customer");
        let definition = herd.definition("orders");
        herd.undistribute("orders").unwrap_err();
        herd.everywhere("ALTER TABLE orders DROP CONSTRAINT fk");
        herd.undistribute("orders").unwrap();
        let snapshot = herd.snapshot();
        let plan =
            |request: DistributeRequest| plan_distribution(&snapshot, &definition_of_local(&definition), &request, 32);
        assert!(plan(Herd::request("orders", &["customer"])).is_ok());
        let refusal =
            plan(DistributeRequest { shard_count: Some(8), ..Herd::request("orders", &["customer"]) }).unwrap_err();
        assert!(refusal.hint.contains("colocate_with => 'customer'"), "{refusal:?}");
        let refusal = plan(Herd::request("orders", &["id"])).unwrap_err();
        assert!(refusal.message.contains("tree") || refusal.message.contains("fk"), "{refusal}");
    });
}

/// A distributed table's definition as if it were a local one's.
fn definition_of_local(definition: &Definition) -> Definition {
    Definition { kind: b'r', ..definition.clone() }
}

#[test]
fn names() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        let long = "x".repeat(63);
        herd.home().sql(&format!(
            "
            CREATE SCHEMA s2 AUTHORIZATION alice; CREATE SCHEMA s3; GRANT USAGE ON SCHEMA s2 TO bob WITH GRANT OPTION;
            CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE s2.t (id int PRIMARY KEY); CREATE TABLE s3.t (id int);
            CREATE TABLE s3.s2_t (id int); CREATE TABLE t_1 (id int PRIMARY KEY);
            CREATE TABLE {long} (id int PRIMARY KEY); CREATE TABLE \"select\" (\"from\" int PRIMARY KEY)"
        ));
        for table in ["t", "s2.t", "s3.s2_t", "t_1", &long] {
            herd.by_hash(table, &["id"]).unwrap();
        }
        herd.by_hash("select", &["from"]).unwrap();
        let snapshot = herd.snapshot();
        let prefix =
            |s: &str, n: &str| snapshot.relations[&(s.into(), n.into())].distribution().unwrap().prefix.clone();
        assert_eq!(
            [prefix("public", "t"), prefix("s2", "t"), prefix("s3", "s2_t"), prefix("public", "t_1")],
            ["t", "s2_t", "s3_s2_t", "t_1"]
        );
        assert_eq!(prefix("public", &long).len(), 52);

        let schema = "SELECT nspowner::regrole, (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(nspacl) a) FROM pg_namespace WHERE nspname = 's2'";
        assert_eq!(herd.nodes[1].one(schema), "alice|alice=UC/alice bob=U*/alice");
        assert_eq!(herd.home().one(schema), herd.nodes[1].one(schema));

        // RENAME and DROP: the user's statement on every node, the plan for the catalog.
        herd.everywhere("ALTER TABLE t RENAME TO u; ALTER TABLE u SET SCHEMA s3; ALTER TABLE s3.u RENAME id TO ident");
        herd.run(plan_rename(&snapshot, ("public", "t"), ("s3", "u")).unwrap());
        let snapshot = herd.snapshot();
        let u = &snapshot.relations[&("s3".into(), "u".into())];
        assert_eq!(
            (u.distribution().unwrap().prefix.as_str(), u.columns[0].name.as_str(), u.distribution().unwrap().key[0]),
            ("t", "ident", 0)
        );
        herd.everywhere("ALTER SCHEMA s3 RENAME TO s4");
        herd.run(plan_rename_schema(&snapshot, "s3", "s4").unwrap());
        let snapshot = herd.snapshot();
        assert!(snapshot.relations[&("s4".into(), "u".into())].distribution().is_some());
        assert!(plan_rename_schema(&snapshot, "public_not", "x").is_none());
        assert!(plan_drop(&snapshot, "s4", "t").is_none());

        herd.everywhere("DROP TABLE s4.u");
        herd.run(plan_drop(&snapshot, "s4", "u").unwrap());
        assert_eq!(herd.home().one("SELECT count(*) FROM herd.relation WHERE name = 'u'"), "0");
        assert_eq!(herd.home().one("SELECT count(*) FROM herd.colocation"), "1");
        for table in ["s2.t", "s4.s2_t", "public.t_1", &format!("public.{long}"), "public.select"] {
            let (schema, name) = table.split_once('.').unwrap();
            let snapshot = herd.snapshot();
            herd.everywhere(&format!("DROP TABLE {}", qualified(schema, name)));
            herd.run(plan_drop(&snapshot, schema, name).unwrap());
        }
        assert_eq!(herd.home().one("SELECT count(*) FROM herd.colocation, herd.shard"), "0");
    });
}

#[test]
fn a_stale_plan_fails() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        herd.home().sql("CREATE TABLE t (id int)");
        let (snapshot, definition) = (herd.snapshot(), herd.definition("t"));
        let plan = plan_distribution(&snapshot, &definition, &Herd::request("t", &["id"]), 32).unwrap();
        // Others' DDL on other tables does not matter; what changes kinds does.
        herd.everywhere("SELECT herd.bump_epoch()");
        herd.home().sql("CREATE TABLE other (id int)");
        herd.by_hash("other", &["id"]).unwrap();
        let error = herd.try_run(plan).unwrap_err();
        assert_eq!(error.code().unwrap().code(), "40001");
        assert_eq!(herd.home().one("SELECT relkind FROM pg_class WHERE relname = 't'"), "r");
    });
}
