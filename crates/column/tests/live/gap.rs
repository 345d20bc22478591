//! The first copy is made while others write: nothing is missing, and nothing is there twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::server::Server;
use crate::store::{Asked, Store};

#[tokio::test(flavor = "multi_thread")]
async fn copies_made_beside_writers_have_no_gap() {
    let Some(server) = Server::start("gap").await else { return };
    server.run("CREATE TABLE t (id int8 PRIMARY KEY, v int8, w text) PARTITION BY HASH (id);
        CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        INSERT INTO t SELECT i, 0, repeat('x', 50) FROM generate_series(1, 100000) i").await;
    let server = Arc::new(server);
    let mut store = Store::start(&server, "");
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|w: i64| {
            let (server, stop) = (server.clone(), stop.clone());
            tokio::spawn(async move {
                let mut conn = server.connect().await;
                let mut n = 0i64;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let own = 1_000_000 * (w + 1) + n;
                    let some = (n * 7919 + w * 13) % 100_000 + 1;
                    let sql = match n % 5 {
                        0 => format!("INSERT INTO t VALUES ({own}, {n}, 'new')"),
                        1 => format!("UPDATE t SET v = v + 1 WHERE id = {some}"),
                        2 => format!("DELETE FROM t WHERE id = {some} AND id % 10 = 3"),
                        3 => format!("BEGIN; UPDATE t SET v = v - 1 WHERE id = {some}; INSERT INTO t VALUES ({own}, 1); UPDATE t SET v = 2 WHERE id = {own}; {}", if n % 2 == 0 { "COMMIT" } else { "ROLLBACK" }),
                        _ => format!("UPDATE t SET id = {own} WHERE id = {} AND id % 10 = 7", some),
                    };
                    // Two writers may meet.
                    if conn.simple(&sql).await.is_err() {
                        let _ = conn.simple("ROLLBACK").await;
                    }
                }
                n
            })
        })
        .collect();
    let mut all = Vec::new();
    for id in 1..=4 {
        all.push(Asked::list(&server, &store, id, "t").await);
        if id == 2 {
            // In the middle of it.
            store.kill();
            store.begin();
        }
        if id == 3 {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.unwrap() > 20);
    }
    let there = server.run("SELECT id, v, w FROM t ORDER BY id").await;
    for asked in &all {
        let here = asked
            .ask_until(
                &store,
                &["int8", "int8", "text"],
                &format!("SELECT id, v, w FROM copy_{} ORDER BY id", asked.id),
            )
            .await;
        assert_eq!(here.len(), there.len(), "{}", asked.id);
        assert!(here == there, "copy {}", asked.id);
    }
    let log = store.log();
    assert!(!log.contains("can't be used") && !log.contains("could not be made"), "{log}");
}
