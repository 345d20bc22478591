//! What may go wrong: the process dies, tables change under it, the slot goes. There is an error or the right answer, never another.

use std::time::{Duration, Instant};

use pool::Secret;

use crate::server::Server;
use crate::store::{Asked, Store, code};

const TABLE: &str = "CREATE TABLE t (id int8 PRIMARY KEY, v int8, w text) PARTITION BY HASH (id);
    CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    INSERT INTO t SELECT i, i, 'w' FROM generate_series(1, 1000) i";
const SUM: &str = "SELECT count(*), sum(v)::BIGINT FROM copy_1";
const SUMS: [&str; 2] = ["int8", "int8"];

async fn sums(server: &Server) -> Vec<catalog::Row> {
    server.run("SELECT count(*), sum(v)::int8 FROM t").await
}

/// Right after the table was changed a read may fail, but not be wrong; soon it is right.
async fn never_wrong(server: &Server, store: &Store, asked: &Asked, what: &str) {
    let mut conn = store.connect().await;
    match asked.ask(&mut conn, &SUMS, SUM).await {
        Ok(rows) => assert_eq!(rows, sums(server).await, "{what}"),
        Err(e) => assert!(matches!(e.sqlstate(), "HC001" | "HC002"), "{what}: {e}"),
    }
    let asked = Asked::new(server, asked.id, &asked.table).await;
    assert_eq!(asked.ask_until(store, &SUMS, SUM).await, sums(server).await, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_change_are_copied_again() {
    let Some(server) = Server::start("change").await else { return };
    server.run(TABLE).await;
    let store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 1, "t").await;
    let mut conn = store.connect().await;
    assert_eq!(asked.ask(&mut conn, &SUMS, SUM).await.unwrap(), sums(&server).await);
    for change in [
        "ALTER TABLE t ADD COLUMN x int4 DEFAULT 7",
        "ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE t ADD COLUMN y int4",
        "UPDATE t SET y = 1 WHERE id < 10",
        // Without a change of type, and without a change that is told.
        "ALTER TABLE t ALTER COLUMN v TYPE int8 USING v + 1",
        "TRUNCATE t_0",
        "INSERT INTO t SELECT i, i FROM generate_series(1, 1500) i ON CONFLICT DO NOTHING",
        // What happens to it meanwhile is not published.
        "ALTER TABLE t DETACH PARTITION t_1",
        "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        "BEGIN; ALTER TABLE t DETACH PARTITION t_1; UPDATE t_1 SET v = v + 5; ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1); COMMIT",
        "ALTER TABLE t DETACH PARTITION t_0; CREATE TABLE t_0b PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 0); CREATE TABLE t_0c PARTITION OF t FOR VALUES WITH (MODULUS 4, REMAINDER 2); INSERT INTO t SELECT * FROM t_0",
        "VACUUM FULL t",
        "ALTER PUBLICATION herd_column DROP TABLE t",
        "BEGIN; ALTER PUBLICATION herd_column DROP TABLE t; INSERT INTO t VALUES (-1, 1000); ALTER PUBLICATION herd_column ADD TABLE t; COMMIT",
        "ALTER PUBLICATION herd_column SET (publish = 'insert')",
        "ALTER TABLE t REPLICA IDENTITY FULL; ALTER TABLE t_1 REPLICA IDENTITY FULL",
        "UPDATE t SET v = v + 1, id = -id WHERE id % 3 = 0",
        "DELETE FROM t WHERE id % 5 = 0",
        "TRUNCATE t",
    ] {
        // A statement of several that can't be in one transaction.
        server.run(change).await;
        never_wrong(&server, &store, &asked, change).await;
    }
    // Renamed, it is not what was asked for.
    server.run("INSERT INTO t VALUES (1, 1)").await;
    let mut asked = Asked::new(&server, 1, "t").await;
    asked.ask_until(&store, &SUMS, SUM).await;
    asked.shards = "0".repeat(32);
    assert_eq!(code(asked.ask(&mut conn, &SUMS, SUM).await), "HC002");
    server.run("ALTER TABLE t RENAME TO t2").await;
    asked = Asked { table: "t".into(), ..Asked::new(&server, 1, "t2").await };
    assert_eq!(code(asked.ask(&mut conn, &SUMS, SUM).await), "HC002");
    asked.table = "t2".into();
    assert_eq!(asked.ask_until(&store, &SUMS, SUM).await, server.run("SELECT count(*), sum(v)::int8 FROM t2").await);
    // It can't be copied like this.
    server.run("ALTER TABLE t2 ADD COLUMN n numeric(5, 2); UPDATE herd.column_copy SET columns = columns || '{n}'::text[]; INSERT INTO t2 (id, n) VALUES (9, 'NaN')").await;
    store.until(1, "rebuilding").await;
    assert_eq!(code(asked.ask(&mut conn, &SUMS, SUM).await), "HC002");
    server.run("DELETE FROM t2 WHERE id = 9").await;
    assert_eq!(asked.ask_until(&store, &SUMS, SUM).await, server.run("SELECT count(*), sum(v)::int8 FROM t2").await);
    server.run("UPDATE t2 SET n = 'NaN'").await;
    store.until(1, "rebuilding").await;
    server.run("UPDATE t2 SET n = 1.5").await;
    assert_eq!(asked.ask_until(&store, &SUMS, SUM).await, server.run("SELECT count(*), sum(v)::int8 FROM t2").await);
    server.run("DROP TABLE t2").await;
    store.until_gone(1).await;
    assert_eq!(code(asked.ask(&mut conn, &SUMS, SUM).await), "HC002");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_too_long_to_be_told_again_are_kept() {
    let Some(server) = Server::start("toast").await else { return };
    server.run("CREATE TABLE t (id int8, k text, v int8, long text, bytes bytea, PRIMARY KEY (id, k)) PARTITION BY HASH (id); CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0);
        ALTER TABLE t_0 ALTER COLUMN long SET STORAGE EXTERNAL, ALTER COLUMN bytes SET STORAGE EXTERNAL;
        INSERT INTO t SELECT i, 'k' || i, 0, repeat(i::text, 2000), decode(repeat('ab', 3000 + i), 'hex') FROM generate_series(1, 200) i").await;
    let store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 1, "t").await;
    let all = |table: &str| format!("SELECT id, k, v, long, bytes FROM {table} ORDER BY id, k");
    for change in [
        "UPDATE t SET v = v + 1",
        "UPDATE t SET v = v + 1; UPDATE t SET v = v + 1, id = id + 1000 WHERE id % 2 = 0; UPDATE t SET k = k || 'x' WHERE id % 3 = 0",
        "BEGIN; INSERT INTO t SELECT i, 'n', 0, repeat('long', 3000), repeat('b', 5000)::bytea FROM generate_series(5000, 5050) i; UPDATE t SET v = 3; UPDATE t SET id = -id WHERE id > 5020; DELETE FROM t WHERE id < -5040; COMMIT",
        "UPDATE t SET long = NULL WHERE id % 5 = 0; UPDATE t SET v = 9; UPDATE t SET bytes = '\\x00' WHERE id % 7 = 0; UPDATE t SET v = 10, k = 'z' || k",
    ] {
        server.run(change).await;
        let there = server.run(&all("t")).await;
        let here = asked.ask_until(&store, &["int8", "text", "int8", "text", "bytea"], &all("copy_1")).await;
        assert!(here == there, "{change}");
    }
    assert!(!store.log().contains("can't be used"), "{}", store.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_process_may_die_at_any_moment() {
    let Some(server) = Server::start("kill").await else { return };
    server.run(TABLE).await;
    let mut store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 1, "t").await;
    let mut writer = server.connect().await;
    let mut next = 10_000;
    for round in 0..8 {
        for _ in 0..60 {
            next += 100;
            let sql = format!(
                "INSERT INTO t SELECT i, 1, 'n' FROM generate_series({next}, {next} + 99) i; UPDATE t SET v = v + 1 WHERE id % 97 = {}; DELETE FROM t WHERE id % 101 = {}; UPDATE t SET id = -id WHERE id = {next} + 5",
                next / 100 % 97,
                next / 100 % 101
            );
            writer.simple(&sql).await.unwrap();
            if next % 1700 == 0 {
                store.kill();
                store.begin();
            }
        }
        tokio::time::sleep(Duration::from_millis(30 * round)).await;
        store.kill();
        store.begin();
        let there = server.run("SELECT id, v, w FROM t ORDER BY id").await;
        let here = asked.ask_until(&store, &["int8", "int8", "text"], "SELECT id, v, w FROM copy_1 ORDER BY id").await;
        assert!(here == there, "{} {}", here.len(), there.len());
    }
    // It has gone on, and not begun anew.
    assert_eq!(store.log().matches("a copy is ready").count(), 1, "{}", store.log());
    // The server crashes, with what it had promised.
    server.end("immediate");
    server.begin();
    assert_eq!(asked.ask_until(&store, &SUMS, SUM).await, sums(&server).await);
    // The slot goes behind its back.
    server.run("INSERT INTO t VALUES (-100000, 1)").await;
    store.kill();
    server.run_on_slot("SELECT pg_drop_replication_slot('herd_column')").await;
    server.run("INSERT INTO t VALUES (-100001, 1)").await;
    store.begin();
    assert_eq!(asked.ask_until(&store, &SUMS, SUM).await, sums(&server).await);
    assert_eq!(store.log().matches("a copy is ready").count(), 2, "{}", store.log());
    // Somebody else has read from it.
    store.kill();
    server.run("INSERT INTO t VALUES (-100002, 1)").await;
    server.run_on_slot("SELECT count(*) FROM pg_logical_slot_get_binary_changes('herd_column', NULL, NULL, 'proto_version', '1', 'publication_names', 'herd_column')").await;
    store.begin();
    assert_eq!(asked.ask_until(&store, &SUMS, SUM).await, sums(&server).await);
    assert_eq!(store.log().matches("a copy is ready").count(), 3, "{}", store.log());
    // While it runs.
    server.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots").await;
    server.run("DO $$ BEGIN FOR i IN 1..500 LOOP BEGIN PERFORM pg_drop_replication_slot('herd_column'); RETURN; EXCEPTION WHEN object_in_use THEN PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL; PERFORM pg_sleep(0.001); END; END LOOP; END $$").await;
    server.run("INSERT INTO t VALUES (-100003, 1)").await;
    assert_eq!(asked.ask_until(&store, &SUMS, SUM).await, sums(&server).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_holds_back_too_much_is_dropped() {
    let Some(server) = Server::start("wal").await else { return };
    server.run(TABLE).await;
    let mut store = Store::start(&server, "wal_bytes_max = \"64MB\"");
    let asked = Asked::list(&server, &store, 1, "t").await;
    store.kill();
    server.run("CREATE TABLE other AS SELECT repeat('x', 1000) FROM generate_series(1, 100000)").await;
    // What is held back is only seen once nothing goes on: an open transaction keeps it.
    let mut open = server.connect().await;
    open.simple("BEGIN; INSERT INTO other VALUES ('y')").await.unwrap();
    store.begin();
    tokio::time::sleep(Duration::from_millis(2_000)).await;
    open.simple("COMMIT").await.unwrap();
    assert!(store.log().contains("the slot is dropped"), "{}", store.log());
    assert_eq!(asked.ask_until(&store, &SUMS, SUM).await, sums(&server).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_who_may_asks_and_only_questions_are_answered() {
    let Some(server) = Server::start("door").await else { return };
    server.run(TABLE).await;
    let store = Store::start(&server, "password = \"let me\"");
    for (user, secret) in [
        ("herd", Secret::None),
        ("herd", Secret::Password("wrong".into())),
        ("other", Secret::Password("let me".into())),
    ] {
        let refused = store.login(user, secret).await.map(|_| ()).unwrap_err();
        assert!(
            ["28P01", "28000"].contains(&refused.sqlstate()) || refused.to_string().contains("password"),
            "{refused}"
        );
    }
    let mut conn = store.login("herd", Secret::Password("let me".into())).await.unwrap();
    assert!(conn.is_proved());
    server.run("INSERT INTO herd.column_copy VALUES (1, 't'::regclass, '{id,v}', '{v}')").await;
    for _ in 0..500 {
        if conn.simple("SHOW copies").await.unwrap().first().is_some_and(|row| row[2].as_deref() == Some("ready")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let asked = Asked::new(&server, 1, "t").await;
    assert_eq!(asked.ask(&mut conn, &SUMS, SUM).await.unwrap(), sums(&server).await);
    // Its first copy is in order.
    let rows = asked.ask(&mut conn, &["int8"], "SELECT v FROM copy_1 LIMIT 3").await.unwrap();
    assert_eq!(rows.iter().map(|row| row[0].clone().unwrap()).collect::<Vec<_>>(), ["1", "2", "3"]);
    for hostile in [
        "ATTACH '/tmp/x.duckdb' AS x",
        "COPY copy_1 TO '/tmp/x.csv'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "PRAGMA database_list",
        "SELECT 1; DROP TABLE copy_1",
        "SET threads = 1",
        "INSERT INTO copy_1 VALUES (1, 1)",
        "WITH x AS (SELECT 1) INSERT INTO copy_1 SELECT 1, 1",
        "WITH x AS (SELECT 1) DELETE FROM copy_1",
        "SELECT * INTO x FROM copy_1",
        "INSTALL httpfs",
        "LOAD json",
        "CALL pragma_version()",
        "BEGIN",
        "COMMIT",
        "CHECKPOINT",
        "SELECT * FROM force_checkpoint()",
        "SELECT nextval('x')",
    ] {
        let answer = asked.ask(&mut conn, &["int8"], hostile).await;
        assert!(answer.is_err(), "{hostile}: {answer:?}");
        assert!(conn.simple(hostile).await.is_err(), "{hostile}");
    }
    assert!(!std::path::Path::new("/tmp/x.csv").exists());
    assert_eq!(asked.ask(&mut conn, &SUMS, SUM).await.unwrap(), sums(&server).await);
    // Limits.
    let text = asked.question(&["int8"], "SELECT v FROM copy_1").replace("\"rows_max\":1000000", "\"rows_max\":10");
    assert_eq!(code(conn.simple(&text).await), "HC003");
    let text =
        asked.question(&["int8"], "SELECT v FROM copy_1").replace("\"bytes_max\":200000000", "\"bytes_max\":1000");
    assert_eq!(code(conn.simple(&text).await), "HC003");
    let mut other = store.login("herd", Secret::Password("let me".into())).await.unwrap();
    let longest = |len: usize| format!("SELECT {}1", "1 + ".repeat(len));
    assert_eq!(code(asked.ask(&mut other, &["int8"], &longest((1 << 18) - 10)).await), "42601");
    assert_eq!(code(asked.ask(&mut other, &["int8"], &longest(1 << 19)).await), "08P01");
    // Who goes, or cancels, has his question ended.
    let long = "SELECT count(*) FROM copy_1 a, copy_1 b, copy_1 c, copy_1 d WHERE a.v + b.v + c.v + d.v = -1";
    let began = std::time::Instant::now();
    let cancel = conn.cancel_key();
    let (answer, _) = tokio::join!(asked.ask(&mut conn, &["int8"], long), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        pool::cancel(&cancel, Duration::from_secs(5)).await
    });
    assert_eq!(code(answer), "57014");
    for _ in 0..8 {
        let mut gone = store.login("herd", Secret::Password("let me".into())).await.unwrap();
        let question = asked.question(&["int8"], long);
        let _ = tokio::time::timeout(Duration::from_millis(100), gone.simple(&question)).await;
    }
    // All connections to DuckDB would be taken by now.
    assert_eq!(asked.ask(&mut conn, &SUMS, SUM).await.unwrap(), sums(&server).await);
    assert!(began.elapsed() < Duration::from_secs(10));
}

/// As where the disk is full: nobody waits for what will not come, and it goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_can_not_write_says_so() {
    let Some(server) = Server::start("stuck").await else { return };
    server.run(TABLE).await;
    let store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 1, "t").await;
    let why = async || {
        let rows = store.connect().await.simple("SHOW copies").await.unwrap();
        assert_eq!(rows[0][2].as_deref(), Some("ready"), "{rows:?}");
        rows[0][3].clone().unwrap_or_default()
    };
    assert_eq!(why().await, "");
    store.limit_files(Some(64 << 10));
    server.run("INSERT INTO t SELECT i, i, repeat(md5(i::text), 20) FROM generate_series(100000, 110000) i").await;
    let began = Instant::now();
    while !why().await.starts_with("nothing can be written: ") {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not say so\n{}", store.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let began = Instant::now();
    let said = asked.ask(&mut store.connect().await, &SUMS, SUM).await.unwrap_err();
    assert_eq!(said.sqlstate(), "HC001");
    assert!(said.to_string().contains("the store can't write") && began.elapsed() < Duration::from_secs(5), "{said}");
    store.limit_files(None);
    assert_eq!(asked.ask_until(&store, &SUMS, SUM).await, sums(&server).await);
    assert_eq!(why().await, "");
}

/// Its slot is lost while nothing can be written: what it has is read by nobody from then on, neither when it can write again nor after a restart.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_thrown_away_is_not_read() {
    let Some(server) = Server::start("kept").await else { return };
    server.run(TABLE).await;
    server.run("CREATE TABLE second (id int8 PRIMARY KEY) PARTITION BY HASH (id); CREATE TABLE second_0 PARTITION OF second FOR VALUES WITH (MODULUS 1, REMAINDER 0)").await;
    let mut store = Store::start(&server, "");
    let asked = Asked::list(&server, &store, 1, "t").await;
    let second = Asked::list(&server, &store, 2, "second").await;
    for restarted in [false, true] {
        // What is written goes behind this.
        server.run("INSERT INTO t SELECT i, i, md5(i::text) FROM generate_series(300000, 310000) i ON CONFLICT (id) DO UPDATE SET w = t.w || 'x'").await;
        asked.ask_until(&store, &SUMS, SUM).await;
        store.limit_files(Some(64 << 10));
        server.run("INSERT INTO second SELECT count(*) FROM second").await;
        let tries = store.log().matches("slot and copies are made anew").count();
        server.run("DO $$ BEGIN FOR i IN 1..500 LOOP BEGIN PERFORM pg_drop_replication_slot('herd_column'); RETURN; EXCEPTION WHEN object_in_use THEN PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL; PERFORM pg_sleep(0.001); END; END LOOP; END $$").await;
        let began = Instant::now();
        while store.log().matches("slot and copies are made anew").count() < tries + 4 {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", store.log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server.run("INSERT INTO t SELECT i, i, '' FROM generate_series(200000, 200100) i ON CONFLICT (id) DO UPDATE SET v = t.v + 1").await;
        match restarted {
            true => {
                store.kill();
                store.begin();
            }
            false => store.limit_files(None),
        }
        let mut conn = store.connect().await;
        let began = Instant::now();
        loop {
            match asked.ask(&mut conn, &SUMS, SUM).await {
                Ok(rows) => break assert_eq!(rows, sums(&server).await, "restarted: {restarted}"),
                Err(e) => assert!(matches!(e.sqlstate(), "HC001" | "HC002"), "{e}"),
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{}", store.log());
        }
        let rows = server.run("SELECT count(*) FROM second").await;
        assert_eq!(second.ask_until(&store, &["int8"], "SELECT count(*) FROM copy_2").await, rows);
    }
}
