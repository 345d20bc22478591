//! Transactions that keep a sum, whatever they do: no read ever sees another sum, nor fewer rows than were acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::server::Server;
use crate::store::{Asked, Store};

const ROWS: i64 = 1000;

#[tokio::test(flavor = "multi_thread")]
async fn no_read_sees_half_of_a_transaction() {
    let Some(server) = Server::start("doubt").await else { return };
    server.run(&format!("CREATE TABLE t (id int8 PRIMARY KEY, v int8) PARTITION BY HASH (id);
        CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        CREATE TABLE log (n int8 PRIMARY KEY); CREATE TABLE keep (id int8, v int8);
        INSERT INTO t SELECT i, 10 FROM generate_series(1, {ROWS}) i")).await;
    let server = Arc::new(server);
    let mut store = Store::start(&server, "");
    Asked::list(&server, &store, 1, "t").await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for w in 0..3 {
        let (server, stop) = (server.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            let mut conn = server.connect().await;
            if w == 2 {
                conn.simple("SET synchronous_commit = off").await.unwrap();
            }
            let mut n = w;
            while !stop.load(Ordering::Relaxed) {
                n += 3;
                let (a, b) = (n * 31 % ROWS + 1, n * 17 % ROWS + 1);
                let sql = match n % 4 {
                    0 => format!("BEGIN; UPDATE t SET v = v - 3 WHERE id = {a}; UPDATE t SET v = v + 3 WHERE id = {b}; COMMIT"),
                    1 => format!("BEGIN; DELETE FROM t WHERE id = {a}; INSERT INTO t SELECT {a}, {ROWS} * 10 - sum(v) FROM t HAVING count(*) = {ROWS} - 1; COMMIT"),
                    2 => format!("BEGIN; UPDATE t SET v = v + 1 WHERE id < 20; SAVEPOINT a; UPDATE t SET v = 0; ROLLBACK TO a; UPDATE t SET v = v - 1 WHERE id < 20; UPDATE t SET v = v - 1 WHERE id = {a}; UPDATE t SET v = v + 1 WHERE id = {b}; COMMIT"),
                    _ => format!("BEGIN; UPDATE t SET v = v - 2 WHERE id = {a}; UPDATE t SET v = v + 2 WHERE id = {b}; ROLLBACK"),
                };
                // They may meet, and one of them gives way.
                if conn.simple(&format!("SET deadlock_timeout = '50ms'; BEGIN ISOLATION LEVEL REPEATABLE READ; {}", &sql[6..])).await.is_err() {
                    let _ = conn.simple("ROLLBACK").await;
                }
            }
        }));
    }
    {
        let (server, stop) = (server.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            let mut conn = server.connect().await;
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let sql = match n % 4 {
                    // Each row is rewritten, and none is told.
                    0 => "ALTER TABLE t ALTER COLUMN v TYPE int8 USING CASE id WHEN 1 THEN v - 5 WHEN 2 THEN v + 5 ELSE v END",
                    1 => "BEGIN; LOCK t; INSERT INTO keep SELECT * FROM t; TRUNCATE t; INSERT INTO t SELECT * FROM keep; TRUNCATE keep; COMMIT",
                    2 => "BEGIN; ALTER TABLE t DETACH PARTITION t_1; UPDATE t_1 SET v = v + CASE id % 2 WHEN 0 THEN 0 ELSE 0 END; ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1); COMMIT",
                    _ => "BEGIN; ALTER TABLE t ADD COLUMN x int4; ALTER TABLE t DROP COLUMN x; COMMIT",
                };
                if conn.simple(sql).await.is_err() {
                    let _ = conn.simple("ROLLBACK").await;
                }
                tokio::time::sleep(Duration::from_millis(2_500)).await;
            }
        }));
    }
    let good = Arc::new(AtomicU64::new(0));
    for stale_ms in [None, None, Some(1_000)] {
        let (server, stop, good, port) = (server.clone(), stop.clone(), good.clone(), store.port);
        tasks.push(tokio::spawn(async move {
            let mut asked = Asked::new(&server, 1, "t").await;
            asked.stale_ms = stale_ms;
            asked.wait_ms = 1_500;
            let mut kept = None;
            while !stop.load(Ordering::Relaxed) {
                let mut conn = match kept.take() {
                    Some(conn) => conn,
                    None => match crate::store::login(port, "herd", pool::Secret::None).await {
                        Ok(conn) => conn,
                        Err(_) => continue,
                    },
                };
                match asked.ask(&mut conn, &["int8", "numeric"], "SELECT count(*), sum(v) FROM copy_1").await {
                    Ok(rows) => {
                        assert_eq!(rows, [[Some(ROWS.to_string()), Some((ROWS * 10).to_string())]]);
                        good.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(e) if matches!(e.sqlstate(), "HC001" | "HC002") => {
                        tokio::time::sleep(Duration::from_millis(20)).await
                    }
                    Err(e) => assert!(conn.is_broken(), "{e}"),
                }
                if !conn.is_broken() {
                    kept = Some(conn);
                }
            }
        }));
    }
    for n in 0..4 {
        tokio::time::sleep(Duration::from_secs(4)).await;
        if n == 1 {
            store.kill();
            store.begin();
        }
    }
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let good = good.load(Ordering::Relaxed);
    println!("{good} reads");
    assert!(good > 5, "{good} reads\n{}", store.log());
}
