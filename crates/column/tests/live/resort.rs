//! Copies that have an order are sorted anew: with all their rows, beside reads and writers, and whenever the store dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pool::Conn;

use crate::server::Server;
use crate::store::{Asked, Store};

const ALL: &str = "SELECT count(*), sum(id), sum(k), sum(id * k), sum(length(v)) FROM";
const TYPES: [&str; 5] = ["int8", "numeric", "numeric", "numeric", "numeric"];

/// A table of so many rows, with a copy sorted by `k`.
async fn sorted(server: &Server, store: &Store, id: i64, table: &str, rows: u32) -> Asked {
    server
        .run(&format!(
            "CREATE TABLE {table} (id int8 PRIMARY KEY, k int8 NOT NULL, v text NOT NULL) PARTITION BY HASH (id)"
        ))
        .await;
    for n in 0..2 {
        let part = format!("{table}_{n} PARTITION OF {table} FOR VALUES WITH (MODULUS 2, REMAINDER {n})");
        server.run(&format!("CREATE TABLE {part}")).await;
    }
    let insert = "SELECT i, (i * 7919) % 1000003, 'v' || i";
    server.run(&format!("INSERT INTO {table} {insert} FROM generate_series(1, {rows}::int8) i")).await;
    let listed = format!("({id}, '{table}'::regclass, '{{id,k,v}}', '{{k}}')");
    server.run(&format!("INSERT INTO herd.column_copy VALUES {listed}; NOTIFY herd_column")).await;
    store.until(id, "ready").await;
    Asked::new(server, id, table).await
}

/// In how many of DuckDB's row groups are the rows of a narrow range?
async fn groups(asked: &Asked, store: &Store) -> u64 {
    let sql =
        format!("SELECT count(DISTINCT rowid // 122880) FROM copy_{} WHERE k BETWEEN 400000 AND 402000", asked.id);
    asked.ask_until(store, &["int8"], &sql).await[0][0].as_deref().unwrap().parse().unwrap()
}

/// Rows that have come since the copy was sorted.
async fn unsorted(conn: &mut Conn, id: i64) -> u64 {
    let rows = conn.simple("SHOW copies").await.unwrap();
    let row = rows.iter().find(|row| row[0].as_deref() == Some(&id.to_string())).unwrap();
    row[9].as_deref().unwrap().parse().unwrap()
}

async fn until_sorted(store: &Store, id: i64, most: u64) {
    let (mut conn, began) = (store.connect().await, Instant::now());
    while unsorted(&mut conn, id).await > most {
        assert!(began.elapsed() < Duration::from_secs(60), "it is not sorted\n{}", store.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The copy has the table's rows.
async fn same(server: &Server, store: &Store, asked: &Asked) {
    let of_copy = asked.ask_until(store, &TYPES, &format!("{ALL} copy_{}", asked.id)).await;
    assert_eq!(of_copy, server.run(&format!("{ALL} {}", asked.table)).await, "{}", store.log());
}

fn sorts(store: &Store) -> usize {
    store.log().matches("is sorted anew").count()
}

/// DuckDB counts rows by a column of that name, where a table has none.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_may_have_the_name_of_duckdbs_own() {
    let Some(server) = Server::start("resort_names").await else { return };
    let store = Store::start(&server, "");
    let rows = "SELECT i, (i * 7919) % 1000003, i FROM generate_series(1, 300000::int8) i";
    let table = "CREATE TABLE t (rowid int8 PRIMARY KEY, k int8 NOT NULL, v0 int8) PARTITION BY HASH (rowid)";
    let part = "CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)";
    server.run(&format!("{table}; {part}; INSERT INTO t {rows}")).await;
    let listed = "(1, 't'::regclass, '{rowid,k,v0}', '{k}')";
    server.run(&format!("INSERT INTO herd.column_copy VALUES {listed}; NOTIFY herd_column")).await;
    store.until(1, "ready").await;
    server.run("UPDATE t SET k = (k * 31 + 7) % 1000003 WHERE rowid % 5 < 2").await;
    let asked = Asked::new(&server, 1, "t").await;
    let sums = "SELECT count(*), sum(rowid), sum(k), sum(v0 * k) FROM";
    let of_copy = asked.ask_until(&store, &TYPES[..4], &format!("{sums} copy_1")).await;
    assert_eq!(of_copy, server.run(&format!("{sums} t")).await);
    until_sorted(&store, 1, 0).await;
    assert_eq!(sorts(&store), 1, "{}", store.log());
    let of_copy = asked.ask_until(&store, &TYPES[..4], &format!("{sums} copy_1")).await;
    assert_eq!(of_copy, server.run(&format!("{sums} t")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_changed_is_sorted_in() {
    let Some(server) = Server::start("resort").await else { return };
    let mut store = Store::start(&server, "");
    let asked = sorted(&server, &store, 1, "t", 300_000).await;
    assert_eq!(groups(&asked, &store).await, 1);
    // Too little, and it is not forgotten.
    server.run("UPDATE t SET k = (k * 31 + 7) % 1000003 WHERE id % 4 = 0").await;
    same(&server, &store, &asked).await;
    store.kill();
    store.begin();
    store.until(1, "ready").await;
    let mut conn = store.connect().await;
    assert_eq!((unsorted(&mut conn, 1).await, sorts(&store)), (75_000, 0));
    assert!(groups(&asked, &store).await > 1);
    // Somebody writes on meanwhile, and reads what he wrote.
    let end = Arc::new(AtomicBool::new(false));
    let writes = {
        let (mut writer, mut reader) = (server.connect().await, store.connect().await);
        let (end, asked) = (end.clone(), asked.clone());
        tokio::spawn(async move {
            let mut written = 0i64;
            while !end.load(Ordering::Relaxed) {
                let (id, new) = (written % 250_000 + 1, 1_000_000 + written);
                let sql = format!(
                    "BEGIN; INSERT INTO t VALUES ({new}, {new} % 1000003, 'new'); UPDATE t SET k = k + 1, v = 'changed' WHERE id = {id};
                     DELETE FROM t WHERE id = {new} - 10; COMMIT"
                );
                writer.simple(&sql).await.unwrap();
                written += 1;
                let seen = format!(
                    "SELECT count(*) FILTER (WHERE id >= 1000000), count(*) FILTER (WHERE id = {new}) FROM copy_1"
                );
                let seen = asked.ask(&mut reader, &["int8", "int8"], &seen).await.unwrap();
                assert_eq!(seen, vec![vec![Some(written.min(10).to_string()), Some("1".into())]], "{written}");
            }
            written
        })
    };
    server.run("UPDATE t SET k = (k * 17 + 3) % 1000003, v = v || '+' WHERE id % 10 = 3").await;
    until_sorted(&store, 1, 20_000).await;
    end.store(true, Ordering::Relaxed);
    assert!(writes.await.unwrap() > 10);
    same(&server, &store, &asked).await;
    // What came during the sort is at the end.
    assert!(groups(&asked, &store).await <= 2 && sorts(&store) == 1, "{}", store.log());
    // Rows that come in order are, and need no sort.
    server.run("INSERT INTO t SELECT 2000000 + i, 2000000 + i, 'log' FROM generate_series(1, 150000) i").await;
    same(&server, &store, &asked).await;
    until_sorted(&store, 1, 20_000).await;
    assert_eq!(sorts(&store), 1, "{}", store.log());
    // All go, and the count with them.
    server.run("DELETE FROM t").await;
    same(&server, &store, &asked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_dies_while_it_sorts_has_all_rows() {
    let Some(server) = Server::start("resort-kill").await else { return };
    let mut store = Store::start(&server, "");
    let asked = sorted(&server, &store, 1, "t", 400_000).await;
    let mut conn = server.connect().await;
    for (round, after_ms) in [0, 60, 150, 300, 450].into_iter().enumerate() {
        let before = sorts(&store);
        conn.simple(&format!("UPDATE t SET k = (k * 13 + {round}) % 1000003 WHERE id % 3 = {}", round % 3))
            .await
            .unwrap();
        let began = Instant::now();
        while sorts(&store) == before {
            assert!(began.elapsed() < Duration::from_secs(90), "it is not sorted\n{}", store.log());
            conn.simple(&format!("UPDATE t SET v = v || '.' WHERE id = {}", round + 1)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        store.kill();
        conn.simple(&format!("UPDATE t SET v = 'away' WHERE id < {}", round * 10)).await.unwrap();
        store.begin();
        same(&server, &store, &asked).await;
    }
    until_sorted(&store, 1, 50_000).await;
    same(&server, &store, &asked).await;
    assert!(groups(&asked, &store).await <= 2, "{}", store.log());
    store.kill();
    assert_eq!(store.tables(), ["copy_1", "herd_copy", "herd_state"]);
    // Five sorts at least: what they were made of has gone.
    assert!(store.used_megabytes() < 40, "{}", store.used_megabytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_goes_while_it_is_sorted_is_gone() {
    let Some(server) = Server::start("resort-gone").await else { return };
    let mut store = Store::start(&server, "");
    let asked = sorted(&server, &store, 1, "t", 300_000).await;
    for statement in ["TRUNCATE t", "ALTER TABLE t ADD COLUMN more int", "ALTER TABLE t ALTER v TYPE varchar(70)"] {
        server.run("INSERT INTO t (id, k, v) SELECT i, i % 1000, 'n' FROM generate_series(1, 300000) i ON CONFLICT DO NOTHING").await;
        same(&server, &store, &asked).await;
        let before = sorts(&store);
        server.run("UPDATE t SET k = (k * 31 + 7) % 1000003 WHERE id <= 120000").await;
        let began = Instant::now();
        while sorts(&store) == before {
            assert!(began.elapsed() < Duration::from_secs(60), "{statement}\n{}", store.log());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        server.run(statement).await;
        same(&server, &store, &asked).await;
    }
    server.run("UPDATE t SET k = (k * 31 + 7) % 1000003 WHERE id <= 120000").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    server.run("DELETE FROM herd.column_copy; NOTIFY herd_column").await;
    store.until_gone(1).await;
    // Whoever sorted it hears of it when he asks.
    let began = Instant::now();
    loop {
        store.kill();
        if store.tables() == ["herd_copy", "herd_state"] {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}\n{}", store.tables(), store.log());
        store.begin();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Figures, not promises, as those of `speed.rs`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures"]
async fn resort_speed() {
    const ROWS: u32 = 5_000_000;
    let Some(server) = Server::start("resort-speed").await else { return };
    let store = Store::start(&server, "");
    let mut asked = sorted(&server, &store, 1, "t", ROWS).await;
    asked.wait_ms = 60_000;
    asked.ask_until(&store, &["int8"], "SELECT count(*) FROM copy_1").await;
    narrow(&store, &asked, "sorted").await;
    let change = |n: u32| format!("UPDATE t SET k = (k * 31 + {n}) % 1000003 WHERE id % 3 = {}", n % 3);
    for (round, rate) in [(0, 0), (1, 5_000)] {
        server.run(&change(round)).await;
        asked.ask_until(&store, &["int8"], "SELECT count(*) FROM copy_1").await;
        if round > 0 {
            // The store rests.
            narrow(&store, &asked, "a third changed").await;
        }
        let began = Instant::now();
        let (mut worst_lag, mut worst_read, mut read) = (0, Duration::ZERO, 0);
        let (mut shows, mut reads, mut writer) = (store.connect().await, store.connect().await, server.connect().await);
        let end = Arc::new(AtomicBool::new(false));
        let writes = {
            let end = end.clone();
            tokio::spawn(async move {
                let (mut n, began) = (0u64, Instant::now());
                while !end.load(Ordering::Relaxed) {
                    let some = format!(
                        "UPDATE t SET v = 'w{n}' WHERE id BETWEEN {0} AND {0} + {1}",
                        n * 1000 % 4_000_000,
                        (rate / 50).max(1) - 1
                    );
                    writer.simple(&some).await.unwrap();
                    n += 1;
                    tokio::time::sleep(Duration::from_millis(20 * n).saturating_sub(began.elapsed())).await;
                }
                n
            })
        };
        while sorts(&store) <= round as usize || unsorted(&mut shows, 1).await > 1_000_000 {
            let asked_at = Instant::now();
            asked
                .ask(&mut reads, &["int8"], "SELECT count(*) FROM copy_1 WHERE k BETWEEN 400000 AND 402000")
                .await
                .unwrap();
            if sorts(&store) > round as usize {
                (worst_read, read) = (worst_read.max(asked_at.elapsed()), read + 1);
                let rows = shows.simple("SHOW copies").await.unwrap();
                worst_lag = worst_lag.max(rows[0][7].as_deref().unwrap().parse::<u64>().unwrap());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let took = began.elapsed();
        end.store(true, Ordering::Relaxed);
        let writes = writes.await.unwrap();
        println!(
            "sorted again after {took:?}, beside {writes} writes; of {read} strict reads the slowest took {worst_read:?}, the greatest lag {worst_lag} ms"
        );
        narrow(&store, &asked, "sorted again").await;
        same(&server, &store, &asked).await;
    }
    println!("{}", store.log());
}

/// How long a narrow range takes.
async fn narrow(store: &Store, asked: &Asked, what: &str) {
    let mut conn = store.connect().await;
    let asked = Asked { stale_ms: Some(60_000), ..asked.clone() };
    let mut took = Vec::new();
    for n in 0..60 {
        let sql =
            format!("SELECT count(*), sum(id) FROM copy_1 WHERE k BETWEEN {0} AND {0} + 2000", 400_000 + n * 1000);
        let began = Instant::now();
        asked.ask(&mut conn, &["int8", "numeric"], &sql).await.unwrap();
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let shown = conn.simple("SHOW copies").await.unwrap();
    let (file, unsorted) = (shown[0][8].as_deref().unwrap_or_default(), shown[0][9].as_deref().unwrap_or_default());
    let groups = groups(&asked, store).await;
    println!(
        "{what}: a narrow range {:?}, in {groups} groups; {unsorted} rows unsorted, the file has {file} bytes",
        took[30]
    );
}
