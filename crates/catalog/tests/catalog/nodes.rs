//! Nodes come and go; shards stay where they are.

use catalog::*;

use crate::herd::{Herd, address};
use crate::server::on_each_server;

#[test]
fn a_node_joins_and_leaves() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        // Named against the order of their foreign keys.
        herd.home().sql(
            "
            CREATE TABLE z_continent (id serial PRIMARY KEY, name text);
            CREATE TABLE a_country (code text PRIMARY KEY, continent int REFERENCES z_continent);
            CREATE TABLE orders (id bigserial, country text REFERENCES a_country, PRIMARY KEY (id));
            CREATE INDEX by_country ON orders (country);
            GRANT SELECT ON orders TO bob;
            INSERT INTO z_continent VALUES (1, 'Europe'); INSERT INTO a_country VALUES ('de', 1);
            INSERT INTO orders (country) SELECT 'de' FROM generate_series(1, 100)",
        );
        herd.reference("z_continent").unwrap();
        herd.reference("a_country").unwrap();
        herd.by_hash("orders", &["id"]).unwrap();
        let definitions = ["a_country", "orders", "z_continent"].map(|t| herd.definition(t));
        herd.add_node(server, &definitions).unwrap();

        let third = &mut herd.nodes[2];
        assert_eq!(third.one("SELECT (SELECT count(*) FROM a_country), (SELECT count(*) FROM z_continent), (SELECT count(*) FROM orders)"), "1|1|0");
        assert_eq!(
            third.lines("SELECT pg_get_partkeydef('orders'::regclass), has_table_privilege('bob', 'orders', 'SELECT')"),
            ["HASH (id)|t"]
        );
        assert_eq!(third.one("SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND connamespace = 'public'::regnamespace"), "2");
        assert_eq!(third.sqlstate("SELECT nextval('orders_id_seq')"), "2200H");
        let epochs: Vec<String> = herd.nodes.iter_mut().map(|n| n.one("SELECT epoch FROM herd.epoch")).collect();
        assert!(epochs.iter().all(|e| *e == epochs[0]), "{epochs:?}");

        // A table distributed from now on uses the new node as well; one that joins a group goes where the group is.
        herd.home().sql("CREATE TABLE t (id int); CREATE TABLE joins (id bigint)");
        herd.by_hash("t", &["id"]).unwrap();
        herd.by_hash("joins", &["id"]).unwrap();
        let snapshot = herd.snapshot();
        assert_eq!(snapshot.nodes.len(), 3);
        let nodes_of = |table: &str| {
            let group = &snapshot.relations[&("public".into(), table.into())].distribution().unwrap().group;
            group.shards.iter().map(|s| s.node).collect::<Vec<_>>()
        };
        assert_eq!((nodes_of("t"), nodes_of("joins")), (vec![1, 2, 3, 1], vec![1, 2, 1, 2]));
        let taken = plan_add_node(&snapshot, &[], &address(&snapshot.nodes[1].database), 180_000).unwrap_err();
        assert_eq!(taken.sqlstate(), "42710");
        assert_eq!(plan_add_node(&snapshot, &[], &address("new"), 140_010).unwrap_err().sqlstate(), "0A000");

        assert_eq!(plan_remove_node(&snapshot, 1).unwrap_err().sqlstate(), "55000");
        assert_eq!(plan_remove_node(&snapshot, 9).unwrap_err().sqlstate(), "42704");
        let refusal = plan_remove_node(&snapshot, 3).unwrap_err();
        assert!(refusal.sqlstate() == "55000" && refusal.message.contains("1 shards"), "{refusal}");
        herd.undistribute("t").unwrap();
        let plan = plan_remove_node(&herd.snapshot(), 3).unwrap();
        herd.run(plan);
        assert_eq!(herd.snapshot().nodes.len(), 2);
        assert_eq!(
            herd.nodes[2].lines(
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
            ),
            [] as [&str; 0]
        );
        // The server can join again.
        let key = herd.key();
        herd.nodes[2].sql(&bootstrap_node_sql(&key.id));
    });
}

#[test]
fn where_a_node_is() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 1);
        herd.home().sql("UPDATE herd.node SET host = 'it''s.example', port = 6543, database = 'db' WHERE id = 1");
        let node = herd.snapshot().nodes[0].clone();
        assert_eq!((node.host.as_str(), node.port, node.database.as_str()), ("it's.example", 6543, "db"));
    });
}
