//! Stores beside synchronous replication: no commit waits for one, and no read sees what waits for a standby. And whose server a copy is of, and what of a
//! table is published when a copy is gone.

use std::time::{Duration, Instant};

use crate::server::Server;
use crate::store::{Asked, Store, code};

const TABLE: &str = "CREATE TABLE t (id int8 PRIMARY KEY) PARTITION BY HASH (id);
    CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)";
const COUNT: (&[&str], &str) = (&["int8"], "SELECT count(*) FROM copy_1");

async fn set(server: &Server, names: &str) {
    server.run(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'")).await;
    server.run("SELECT pg_reload_conf()").await;
}

async fn until(server: &Server, sql: &str, wanted: &str) {
    let began = Instant::now();
    loop {
        let rows = server.run(sql).await;
        if rows[0][0].as_deref() == Some(wanted) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{sql}: {rows:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn count(store: &Store, asked: &Asked) -> Option<String> {
    asked.ask_until(store, COUNT.0, COUNT.1).await[0][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_commit_waits_for_a_store() {
    let Some(server) = Server::start("aside").await else { return };
    server.run(TABLE).await;
    let store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 1, "t").await;
    for names in ["*", "ANY 1 (s1, *)", "\"Herd-Column\""] {
        set(&server, names).await;
        until(&server, "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'herd-column'", "0").await;
        let mut conn = store.connect().await;
        let mut hurried = asked.clone();
        hurried.wait_ms = 100;
        server.run("SET synchronous_commit = local; INSERT INTO t SELECT count(*) FROM t").await;
        assert_eq!(code(hurried.ask(&mut conn, COUNT.0, COUNT.1).await), "HC001");
        assert!(store.log().contains("Name the standbys there"), "{}", store.log());
        set(&server, "").await;
        let rows = server.run("SELECT count(*) FROM t").await[0][0].clone();
        assert_eq!(count(&store, &asked).await, rows);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_standby_is_not_read() {
    let Some(server) = Server::start("unseen").await else { return };
    server.run(TABLE).await;
    let mut store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 1, "t").await;
    set(&server, "s1").await;
    until(&server, "SHOW synchronous_standby_names", "s1").await;
    let mut writer = server.connect().await;
    let waits = tokio::spawn(async move { writer.simple("INSERT INTO t VALUES (1)").await.map(|_| ()) });
    until(&server, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "1").await;
    let mut hurried = asked.clone();
    hurried.wait_ms = 500;
    for restarted in [false, true] {
        if restarted {
            store.kill();
            store.begin();
            store.until(1, "ready").await;
        }
        let mut conn = store.connect().await;
        // The node does not show it.
        assert_eq!(server.run("SELECT count(*) FROM t").await[0][0].as_deref(), Some("0"));
        for _ in 0..5 {
            match hurried.ask(&mut conn, COUNT.0, COUNT.1).await {
                Ok(rows) => assert_eq!(rows[0][0].as_deref(), Some("0"), "restarted: {restarted}"),
                Err(e) => assert_eq!(e.sqlstate(), "HC001"),
            }
        }
        // It is in the copy, and who takes what is there has it.
        if !restarted {
            let mut bounded = hurried.clone();
            bounded.stale_ms = Some(60_000);
            assert_eq!(bounded.ask(&mut conn, COUNT.0, COUNT.1).await.unwrap()[0][0].as_deref(), Some("1"));
        }
    }
    set(&server, "").await;
    waits.await.unwrap().unwrap();
    assert_eq!(count(&store, &asked).await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_are_of_the_server_that_was_asked_for() {
    let Some(server) = Server::start("whose").await else { return };
    server.run(TABLE).await;
    let store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 1, "t").await;
    let own = "SELECT (pg_control_system()).system_identifier || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";
    let own = server.run(own).await[0][0].clone().unwrap();
    let mut conn = store.connect().await;
    let (system, timeline) = own.split_once('/').unwrap();
    let question =
        |server: &str| asked.question(COUNT.0, COUNT.1).replacen('{', &format!("{{\"server\":\"{server}\","), 1);
    assert_eq!(conn.simple(&question(&own)).await.unwrap()[0][0].as_deref(), Some("0"));
    for other in [format!("{system}/00000002"), format!("1{system}/{timeline}"), String::new()] {
        assert_eq!(code(conn.simple(&question(&other)).await), "HC002", "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_a_copy_is_not_published() {
    let Some(server) = Server::start("published").await else { return };
    server.run(TABLE).await;
    server.run("CREATE TABLE odd (id int8 PRIMARY KEY, n numeric(5,2)); INSERT INTO odd VALUES (1, 'NaN')").await;
    let store = Store::start(&server, "");
    Asked::list(&server, &store, 1, "t").await;
    server.run("INSERT INTO herd.column_copy VALUES (2, 'odd'::regclass, '{id,n}'); NOTIFY herd_column").await;
    store.until(2, "rebuilding").await;
    let published = "SELECT string_agg(tablename, ',') FROM pg_publication_tables WHERE pubname = 'herd_column'";
    server.run("DELETE FROM herd.column_copy WHERE id = 2; NOTIFY herd_column").await;
    until(&server, published, "t").await;
    server.run("ALTER TABLE odd DROP CONSTRAINT odd_pkey; UPDATE odd SET n = 1").await;
    store.until(1, "ready").await;
}
