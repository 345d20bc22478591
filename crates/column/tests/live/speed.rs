//! How fast it is: figures, not promises. `HERD_COLUMN_BIN` names an optimised program. Run with `--ignored --nocapture`.

use std::time::Instant;

use crate::server::Server;
use crate::store::{Asked, Store};

const ROWS: u32 = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures"]
async fn speed() {
    let Some(server) = Server::start("speed").await else { return };
    server.run("CREATE TABLE t (id int8, k int4 NOT NULL, c char(120) NOT NULL, pad char(60) NOT NULL, PRIMARY KEY (id)) PARTITION BY HASH (id)").await;
    for n in 0..16 {
        server.run(&format!("CREATE TABLE t_{n} PARTITION OF t FOR VALUES WITH (MODULUS 16, REMAINDER {n})")).await;
    }
    let insert = |from: u32| {
        format!(
            "INSERT INTO t SELECT i, i % 1000, md5(i::text) || md5(i::text), 'pad' FROM generate_series({from}, {}) i",
            from + ROWS - 1
        )
    };
    server.run(&insert(1)).await;
    let store = Store::start(&server, "");
    let began = Instant::now();
    let mut asked = Asked::list(&server, &store, 1, "t").await;
    asked.wait_ms = 60_000;
    rate("first copy, rows", ROWS, began);
    let count = "SELECT count(*) FROM copy_1";
    let changes = [
        ("one INSERT of 1 M rows", insert(ROWS + 1), ROWS),
        ("UPDATE of 10 000 rows", "UPDATE t SET k = k + 1 WHERE id <= 10000".to_string(), 10_000),
        ("UPDATE of 100 scattered rows", "UPDATE t SET k = k + 1 WHERE id % 20000 = 7".to_string(), 100),
        ("UPDATE of 1 row", "UPDATE t SET k = k + 1 WHERE id = 77777".to_string(), 1),
        ("DELETE of 100 000 rows", "DELETE FROM t WHERE id <= 100000".to_string(), 100_000),
    ];
    for (what, sql, rows) in changes {
        let began = Instant::now();
        let before = store.processor_seconds();
        server.run(&sql).await;
        let written = began.elapsed();
        asked.ask_until(&store, &["int8"], count).await;
        let used = store.processor_seconds() - before;
        println!("{what}: written in {written:?}, then {used:.2} s of the processor");
        rate("  and read from the copy, rows", rows, began);
    }
    let mut conn = store.connect().await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    for (what, stale_ms) in [("strict", None), ("stale by 5 s", Some(5_000))] {
        asked.stale_ms = stale_ms;
        let mut took = Vec::new();
        for _ in 0..1_000 {
            let began = Instant::now();
            asked.ask(&mut conn, &["int8"], count).await.unwrap();
            took.push(began.elapsed());
        }
        took.sort();
        println!("idle, {what}: median {:?}, 95 % {:?}", took[500], took[950]);
    }
}

fn rate(what: &str, rows: u32, began: Instant) {
    let took = began.elapsed();
    println!("{what}: {took:?}, {:.0}/s", f64::from(rows) / took.as_secs_f64());
}
