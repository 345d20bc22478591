//! Values of every type come back as PostgreSQL prints them, by the first copy and by the stream.

use crate::server::Server;
use crate::store::{Asked, Store};

/// A column of each type: its name, type, how it is asked for, and values.
const COLUMNS: [(&str, &str, &str, &[&str]); 16] = [
    ("b", "bool", "bool", &["true", "false"]),
    ("i2", "int2", "int2", &["0", "-32768", "32767"]),
    ("i4", "int4", "int4", &["0", "-2147483648", "2147483647"]),
    ("i8", "int8", "int8", &["0", "-9223372036854775808", "9223372036854775807"]),
    (
        "f4",
        "float4",
        "float4",
        &[
            "0",
            "0.1",
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "1e38",
            "1234567",
            "1e-45",
            "16777216",
            "0.0001",
            "0.00001",
        ],
    ),
    (
        "f8",
        "float8",
        "float8",
        &[
            "0",
            "0.1",
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "1e23",
            "5e-324",
            "1.7976931348623157e308",
            "123456789012345",
            "1234567890123456",
            "0.0001",
            "0.00001",
            "9007199254740993",
            "2e-300",
            "1e22",
        ],
    ),
    ("n", "numeric(12, 3)", "numeric:3", &["0", "-0.001", "999999999.999", "1.5", "-999999999.999"]),
    (
        "n38",
        "numeric(38, 10)",
        "numeric:10",
        &["0", "9999999999999999999999999999.9999999999", "-0.0000000001", "-9999999999999999999999999999.9999999999"],
    ),
    (
        "nx",
        "numeric",
        "numeric",
        &["0", "1.10", "'NaN'", "'Infinity'", "1e100", "-0.00000000000000000000000000000000000000000001"],
    ),
    (
        "t",
        "text",
        "text",
        &["''", "' '", "E'tab\\tline\\nback\\\\slash'", "'\\N'", "'ünïcödé 日本'", "repeat('x', 10000)"],
    ),
    ("v", "varchar(10)", "varchar", &["''", "'0123456789'", "'a  '"]),
    ("c", "char(6)", "bpchar:10", &["''", "'ab'", "'ab  '", "'日本'", "'012345'"]),
    (
        "d",
        "date",
        "date",
        &[
            "'2024-02-29'",
            "'0044-03-15 BC'",
            "'4713-01-01 BC'",
            "'infinity'",
            "'-infinity'",
            "'5874897-12-31'",
            "'0001-01-01'",
            "'0001-12-31 BC'",
        ],
    ),
    (
        "ts",
        "timestamp",
        "timestamp",
        &[
            "'2024-02-29 12:34:56.789'",
            "'0044-03-15 00:00:00.000001 BC'",
            "'infinity'",
            "'-infinity'",
            "'1969-12-31 23:59:59.999999'",
            "'294246-12-31 23:59:59'",
            "'4713-01-01 00:00:00 BC'",
        ],
    ),
    (
        "u",
        "uuid",
        "uuid",
        &[
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
            "'00000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        ],
    ),
    ("y", "bytea", "bytea", &["''", "'\\x00ff5c'", "decode(repeat('ab', 5000), 'hex')"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn values_are_printed_as_postgresql_does() {
    let Some(server) = Server::start("types").await else { return };
    let columns: Vec<String> = COLUMNS.iter().map(|(name, of, ..)| format!("{name} {of}")).collect();
    server.run(&format!("CREATE TABLE t (id int4 PRIMARY KEY, {}, tz timestamptz)", columns.join(", "))).await;
    let most = COLUMNS.iter().map(|(.., values)| values.len()).max().unwrap();
    let rows = |from: usize| {
        let row = |n: usize| {
            let values: Vec<&str> =
                COLUMNS.iter().map(|(.., values)| values.get(n).copied().unwrap_or("NULL")).collect();
            format!("({}, {}, '2024-01-01 00:00:00.5+02')", from + n, values.join(", "))
        };
        (0..most).map(row).collect::<Vec<_>>().join(", ")
    };
    server.run(&format!("INSERT INTO t VALUES {}", rows(0))).await;
    let store = Store::start(&server, "");
    // A plain table has no partitions: its shards are itself.
    server.run("INSERT INTO herd.column_copy SELECT 1, 't'::regclass, array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0").await;
    store.until(1, "ready").await;
    let shards = server.run("SELECT md5('t')").await[0][0].clone().unwrap();
    let asked = Asked { id: 1, table: "t".into(), shards, wait_ms: 10_000, stale_ms: None };
    server.run(&format!("INSERT INTO t VALUES {}", rows(1000))).await;
    server.run("UPDATE t SET id = id + 5000 WHERE id >= 1000").await;
    let names: Vec<&str> = COLUMNS.iter().map(|(name, ..)| *name).collect();
    let types: Vec<&str> = ["int4"].into_iter().chain(COLUMNS.iter().map(|(.., shown, _)| *shown)).collect();
    let there = server.run(&format!("SELECT id, {} FROM t ORDER BY id", names.join(", "))).await;
    let here =
        asked.ask_until(&store, &types, &format!("SELECT id, {} FROM copy_1 ORDER BY id", names.join(", "))).await;
    assert_eq!(here.len(), most * 2);
    for (here, there) in here.iter().zip(&there) {
        for ((here, there), name) in here.iter().zip(there).zip(["id"].iter().chain(&names)) {
            assert_eq!(here, there, "{name}");
        }
    }
    // Random numbers, in numbers.
    server.run("INSERT INTO t (id, f8, f4, n38, d, ts) SELECT 100000 + i, exp((random() - 0.5) * 1400) * (random() - 0.5), exp((random() - 0.5) * 150) * (random() - 0.5), random() * 1e20, date '2000-01-01' + (random() * 4000000)::int - 2400000, timestamp '2000-01-01' + random() * 1e8 * interval '1 s' FROM generate_series(1, 20000) i").await;
    server.run("INSERT INTO t (id, f8, f4) SELECT 200000 + i, (random() * 1e15)::int8::float8 * 10 ^ (i % 24), (random() * 1e7)::int4::float4 * 10 ^ (i % 20) FROM generate_series(1, 20000) i").await;
    server.run("INSERT INTO t (id, f8, f4) SELECT 300000 + i, (2 ^ i)::float8, (2 ^ (i / 8))::float4 FROM generate_series(-1000, 1000) i").await;
    let sql = |table: &str| format!("SELECT id, f8, f4, n38, d, ts FROM {table} WHERE id >= 100000 ORDER BY id");
    let there = server.run(&sql("t")).await;
    let here =
        asked.ask_until(&store, &["int4", "float8", "float4", "numeric:10", "date", "timestamp"], &sql("copy_1")).await;
    assert_eq!(here.len(), there.len());
    for (here, there) in here.iter().zip(&there) {
        assert_eq!(here, there);
    }
    // A moment is not told, but it counts.
    let same = asked
        .ask_until(&store, &["int8"], "SELECT count(*) FROM copy_1 WHERE tz = TIMESTAMP '2023-12-31 22:00:00.5'")
        .await;
    assert_eq!(same[0][0].as_deref(), Some(&*(most * 2).to_string()));
    // What is out of a type's range, or of another type, is an error.
    let mut conn = store.connect().await;
    for (types, sql) in [
        (&["int4"][..], "SELECT i8 FROM copy_1"),
        (&["int8"], "SELECT sum(i8::HUGEINT) * 10 FROM copy_1 WHERE i8 > 5"),
        (&["int8"], "SELECT t FROM copy_1"),
        (&["text"], "SELECT i8 FROM copy_1"),
        (&["numeric:1"], "SELECT n FROM copy_1"),
        (&["bpchar:6"], "SELECT c FROM copy_1"),
        (&["int8", "int8"], "SELECT i8 FROM copy_1"),
        (&["int8"], "SELECT nothing FROM copy_1"),
        (&["int8"], "SELECT sum(id) FROM copy_1 GROUP BY"),
    ] {
        assert_eq!(crate::store::code(asked.ask(&mut conn, types, sql).await), "HC004", "{sql}");
    }
    // Of a zero with a sign only that is told which does not show it.
    server.run("INSERT INTO t (id, f8, f4) VALUES (-1, 0, '-0'), (-2, 1.5, 0)").await;
    let same = asked.ask_until(&store, &["int8"], "SELECT count(*) FROM copy_1 WHERE f4 = 0 AND id < 0").await;
    assert_eq!(same[0][0].as_deref(), Some("2"));
    let same = asked.ask_until(&store, &["float8"], "SELECT f8 FROM copy_1 WHERE id = -2").await;
    assert_eq!(same[0][0].as_deref(), Some("1.5"));
    for (types, sql) in
        [(&["float4"][..], "SELECT f4 FROM copy_1 WHERE id = -1"), (&["float8"], "SELECT f8 FROM copy_1 WHERE id = -1")]
    {
        assert_eq!(crate::store::code(asked.ask(&mut conn, types, sql).await), "HC004", "{sql}");
    }
}
