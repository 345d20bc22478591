//! Rows come in, changes follow, questions are answered.

use crate::server::Server;
use crate::store::{Asked, Store};

const TABLE: &str =
    "CREATE TABLE t (id int8, k int4 NOT NULL, c char(12), v varchar, PRIMARY KEY (id)) PARTITION BY HASH (id);
    CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);";
const TYPES: [&str; 4] = ["int8", "int4", "bpchar:16", "varchar"];

async fn same(server: &Server, store: &Store, asked: &Asked) {
    let there = server.run("SELECT id, k, c, v FROM t ORDER BY id").await;
    let here = asked.ask_until(store, &TYPES, &format!("SELECT id, k, c, v FROM copy_{} ORDER BY id", asked.id)).await;
    assert_eq!(here.len(), there.len());
    for (here, there) in here.iter().zip(&there) {
        assert_eq!(here, there);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_and_changes_follow() {
    let Some(server) = Server::start("path").await else { return };
    server.run(TABLE).await;
    server.run("INSERT INTO t SELECT i, i % 100, 'c' || i, CASE WHEN i % 3 > 0 THEN 'v' || i END FROM generate_series(1, 5000) i").await;
    let store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 3, "t").await;
    same(&server, &store, &asked).await;
    for change in [
        "INSERT INTO t SELECT i, i, '', '' FROM generate_series(6000, 6100) i",
        "UPDATE t SET k = k + 1 WHERE id % 7 = 0",
        "UPDATE t SET id = id + 100000 WHERE id % 11 = 0",
        "DELETE FROM t WHERE id % 13 = 0",
        "BEGIN; INSERT INTO t VALUES (-1, 1); SAVEPOINT a; INSERT INTO t VALUES (-2, 1); ROLLBACK TO a; INSERT INTO t VALUES (-3, 1); DELETE FROM t WHERE id = -1; COMMIT",
        "BEGIN; INSERT INTO t VALUES (-5, 1); PREPARE TRANSACTION 'x'",
        "COMMIT PREPARED 'x'",
        "INSERT INTO t SELECT i, i, i, i FROM generate_series(1000000, 1299999) i",
    ] {
        server.run(change).await;
        same(&server, &store, &asked).await;
    }
    server.run("TRUNCATE t; INSERT INTO t VALUES (1, 1)").await;
    same(&server, &store, &asked).await;
    server.run("DELETE FROM herd.column_copy").await;
    let mut conn = store.connect().await;
    for _ in 0..500 {
        if conn.simple("SHOW copies").await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(conn.simple("SHOW copies").await.unwrap(), Vec::<catalog::Row>::new());
    assert!(conn.simple("SHOW version").await.unwrap()[0][0].as_deref().unwrap().starts_with("herd-column"));
}
