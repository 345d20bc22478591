//! A strict read sees whatever was acknowledged before it was asked.

use std::time::{Duration, Instant};

use crate::server::Server;
use crate::store::{Asked, Store, code};

#[tokio::test(flavor = "multi_thread")]
async fn strict_reads_see_what_was_acknowledged() {
    let Some(server) = Server::start("fresh").await else { return };
    server.run("CREATE TABLE t (id int8 PRIMARY KEY, v int8) PARTITION BY HASH (id); CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)").await;
    let store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 1, "t").await;
    let (mut writer, mut reader) = (server.connect().await, store.connect().await);
    for synchronous_commit in ["on", "off"] {
        writer.simple(&format!("TRUNCATE t; SET synchronous_commit = {synchronous_commit}")).await.unwrap();
        assert_eq!(asked.ask_until(&store, &["int8"], "SELECT count(*) FROM copy_1").await[0][0].as_deref(), Some("0"));
        let mut took = Vec::new();
        for n in 1..=1000 {
            writer.simple(&format!("INSERT INTO t VALUES ({n}, 0); UPDATE t SET v = {n} WHERE id = 1")).await.unwrap();
            let began = Instant::now();
            let rows = asked
                .ask(&mut reader, &["int8", "int8"], "SELECT count(*), max(v) FROM copy_1")
                .await
                .unwrap_or_else(|e| panic!("{e}\n{}", store.log()));
            took.push(began.elapsed());
            let n = n.to_string();
            assert_eq!(rows, [[Some(n.clone()), Some(n)]], "{synchronous_commit}");
        }
        took.sort();
        println!(
            "synchronous_commit = {synchronous_commit}, right after a commit: median {:?}, 99 % {:?}",
            took[500], took[990]
        );
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut idle = asked.clone();
    for stale_ms in [None, Some(2_000)] {
        idle.stale_ms = stale_ms;
        let mut took = Vec::new();
        for _ in 0..500 {
            let began = Instant::now();
            idle.ask(&mut reader, &["int8"], "SELECT count(*) FROM copy_1").await.unwrap();
            took.push(began.elapsed());
        }
        took.sort();
        println!("idle, stale_ms {stale_ms:?}: median {:?}, 99 % {:?}", took[250], took[495]);
    }
    // A transaction that is not committed is waited for by nobody.
    writer.simple("BEGIN; INSERT INTO t VALUES (-1, 1)").await.unwrap();
    assert_eq!(
        asked.ask(&mut reader, &["int8"], "SELECT count(*) FROM copy_1").await.unwrap()[0][0].as_deref(),
        Some("1000")
    );
    writer.simple("COMMIT").await.unwrap();
    // The walsender is stopped: strict reads fail in time, those with a bound are answered as long as it holds.
    let mut hurried = asked.clone();
    hurried.wait_ms = 300;
    assert!(hurried.ask(&mut reader, &["int8"], "SELECT count(*) FROM copy_1").await.is_ok());
    tokio::time::sleep(Duration::from_millis(700)).await;
    server.run("SELECT 1").await;
    let walsender = server.run("SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'herd_column'").await[0]
        [0]
    .clone()
    .unwrap();
    let signal =
        |what: &str| assert!(std::process::Command::new("kill").args([what, &walsender]).status().unwrap().success());
    signal("-STOP");
    server.run("INSERT INTO t VALUES (-2, 1)").await;
    let began = Instant::now();
    assert_eq!(code(hurried.ask(&mut reader, &["int8"], "SELECT count(*) FROM copy_1").await), "HC001");
    assert!((250..2_000).contains(&began.elapsed().as_millis()));
    let mut bounded = hurried.clone();
    bounded.stale_ms = Some(5_000);
    assert_eq!(
        bounded.ask(&mut reader, &["int8"], "SELECT count(*) FROM copy_1").await.unwrap()[0][0].as_deref(),
        Some("1001")
    );
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    bounded.stale_ms = Some(500);
    assert_eq!(code(bounded.ask(&mut reader, &["int8"], "SELECT count(*) FROM copy_1").await), "HC001");
    signal("-CONT");
    let rows = asked.ask_until(&store, &["int8"], "SELECT count(*) FROM copy_1").await;
    assert_eq!(rows[0][0].as_deref(), Some("1002"));
}
