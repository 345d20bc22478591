//! The herd's own tables: made once, whoever makes them and how often.

use catalog::*;

use crate::herd::{Herd, address};
use crate::server::{now, on_each_server};

#[test]
fn twice_and_at_once() {
    on_each_server(|server| {
        let database = server.database();
        let ids: Vec<HerdKey> = std::thread::scope(|scope| {
            let routers = (0..4).map(|i| {
                let mut session = server.connect(&database);
                scope.spawn(move || now(bootstrap_home(&mut session, &address(&format!("router {i}")))).unwrap())
            });
            routers.collect::<Vec<_>>().into_iter().map(|r| r.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|k| *k == ids[0] && k.id.len() == 16 && k.seal.len() == 64), "{ids:?}");
        let mut home = server.connect(&database);
        assert_eq!(home.lines("SELECT id, is_home FROM herd.nodes"), ["1|t"]);
        // A home is a node like any other, and stays home.
        home.sql(&bootstrap_node_sql(&ids[0].id));
        assert_eq!(home.lines("SELECT epoch FROM herd.epoch"), ["1"]);
    });
}

#[test]
fn a_node_of_another_herd_is_refused() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 2);
        assert_eq!(herd.nodes[1].sqlstate(&bootstrap_node_sql("0123456789abcdef")), "55000");
        herd.nodes[1].sql("ROLLBACK");
        let same = herd.key();
        herd.nodes[1].sql(&bootstrap_node_sql(&same.id));
        // A failed bootstrap leaves the session usable.
        let mut session = server.connect(&server.database());
        session.sql("CREATE SCHEMA herd; CREATE VIEW herd.epoch AS SELECT 1");
        assert!(now(bootstrap_home(&mut session, &address("x"))).is_err());
        session.sql("SELECT 1");
    });
}

#[test]
fn any_role_reads_the_state_and_decides_nothing() {
    on_each_server(|server| {
        let mut herd = Herd::new(server, 1);
        let home = herd.home();
        home.sql("CREATE TABLE public.t (id int)");
        home.sql("SET ROLE bob");
        for view in ["nodes", "tables", "shards", "epoch", "herd"] {
            home.sql(&format!("SELECT * FROM herd.{view}"));
        }
        for sql in [
            "INSERT INTO herd.decision (gid) VALUES ('g')",
            "DELETE FROM herd.decision",
            "SELECT herd.decide('g', 'x')",
            "SELECT herd.raise_epoch(NULL, 'x')",
            "SELECT herd.bump_epoch()",
            "UPDATE herd.epoch SET epoch = 0",
        ] {
            assert_eq!(home.sqlstate(sql), "42501");
        }
        home.sql("RESET ROLE");
        assert_eq!(home.one("SELECT herd.bump_epoch()"), "2");
        assert_eq!(home.one("SELECT herd.bump_epoch(7)"), "7");
        assert_eq!(home.one("SELECT herd.bump_epoch(3)"), "7");
        home.sql("SET ROLE bob");
        for call in [
            "create_distributed_table('t', 'id', shard_count => 4)",
            "create_distributed_table('t', 'id', strategy => 'range', bounds => ARRAY['DEFAULT'])",
            "create_reference_table('t')",
            "create_distributed_function('now()', '$1')",
            "undistribute_table('t')",
            "citus_add_node('h', 5432)",
            "citus_remove_node('h', 5432)",
        ] {
            assert_eq!(home.sqlstate(&format!("SELECT {call}")), "0A000", "{call}");
        }
    });
}

#[test]
fn a_plain_server_is_not_home() {
    on_each_server(|server| {
        let mut session = server.connect(&server.database());
        let error = now(load(&mut session)).unwrap_err();
        assert_eq!(error.sqlstate(), Some("55000"), "{error}");
        assert!(error.hint().is_some());
        // The transaction has ended.
        session.sql("CREATE TABLE t ()");
    });
}
