"""herd.upsert: rows replace those with their primary key, wholly; of equal rows in one statement the last one counts."""

import random

import psycopg
import pytest

pytestmark = pytest.mark.real_herd


def copy_in(connection, statement, lines):
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for line in lines:
                copy.write(line)
        return cursor.rowcount


def rows(connection, table="t"):
    return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


KINDS = {
    "distributed": "SELECT create_distributed_table('{}', 'id')",
    "reference": "SELECT create_reference_table('{}')",
    "local": "SELECT '{}'",
}


@pytest.fixture(params=KINDS)
def table(request, db):
    """A table of each kind, with a default, a generated column and a second unique index."""
    db.execute("DROP TABLE IF EXISTS u")
    db.execute(
        "CREATE TABLE u (id int, part int DEFAULT 0, a int, b text DEFAULT 'none',"
        " c int GENERATED ALWAYS AS (a * 2) STORED, PRIMARY KEY (id, part))"
    )
    db.execute(KINDS[request.param].format("u"))
    db.execute("SET herd.upsert = on")
    return db


def test_one_row_replaces_one_wholly(table):
    table.execute("INSERT INTO u VALUES (1, 1, 5, 'five')")
    table.execute("INSERT INTO u (id, part, a) VALUES (1, 1, 6)")
    assert rows(table, "u") == [(1, 1, 6, "none", 12)]
    table.execute("INSERT INTO u (id, part, b) VALUES (%s, %s, %s)", (1, 1, "p"))
    assert rows(table, "u") == [(1, 1, None, "p", None)]
    assert table.execute("INSERT INTO u (id, part, a) VALUES (1, 1, 7) RETURNING a, c").fetchall() == [(7, 14)]
    table.execute("INSERT INTO u (id) VALUES (1)")
    assert rows(table, "u") == [(1, 0, None, "none", None), (1, 1, 7, "none", 14)]


def test_several_rows_of_values(table):
    table.execute("INSERT INTO u (id, part, a) VALUES (1, 0, 1), (2, 0, 2), (3, 0, 3)")
    table.execute("INSERT INTO u (id, part, a) VALUES (2, 0, 20), (4, 0, 40)")
    # Equal keys: the last one counts.
    table.execute("INSERT INTO u (id, part, a, b) VALUES (1, 0, 10, 'x'), (1, 0, 11, DEFAULT), (3, 0, 30, 'y')")
    table.execute("INSERT INTO u (id, part, a) VALUES (%s, 0, %s), (%s, 0, %s)", (4, 41, 4, 42))
    expected = [(1, 11, "none"), (2, 20, "none"), (3, 30, "y"), (4, 42, "none")]
    assert table.execute("SELECT id, a, b FROM u ORDER BY id").fetchall() == expected
    back = table.execute("INSERT INTO u (id, part, a) VALUES (7, 0, 1), (7, 0, 2), (8, 0, 3) RETURNING id, a").fetchall()
    assert sorted(back) == [(7, 2), (8, 3)]


def test_insert_select(table):
    table.execute("INSERT INTO u (id, part, a) SELECT g, 0, g FROM generate_series(1, 10000) g")
    table.execute("INSERT INTO u (id, part, a) SELECT g % 5000 + 8000, 0, -g FROM generate_series(1, 9999) g")
    got = table.execute("SELECT count(*), sum(a), count(*) FILTER (WHERE a < 0) FROM u").fetchone()
    last = {g % 5000 + 8000: -g for g in range(1, 10000)}
    want = {g: g for g in range(1, 10001)} | last
    assert got == (len(want), sum(want.values()), len(last))
    assert dict(table.execute("SELECT id, a FROM u").fetchall()) == want


def test_insert_select_ordered_and_from_itself(table):
    table.execute("INSERT INTO u (id, part, a) SELECT g, 0, g FROM generate_series(1, 100) g")
    table.execute("INSERT INTO u (id, part, a) SELECT id, part, a + 1000 FROM u WHERE id > 50")
    assert table.execute("SELECT sum(a), count(*) FROM u").fetchone() == (5050 + 50000, 100)
    table.execute("WITH w AS (SELECT 1 AS id, g FROM generate_series(1, 9) g) INSERT INTO u (id, part, a) SELECT id, 0, g FROM w ORDER BY g DESC")
    assert table.execute("SELECT a FROM u WHERE id = 1").fetchone() == (1,)


@pytest.mark.parametrize("bulk_load", ["off", "on"])
@pytest.mark.parametrize("option", [False, True])
def test_copy(table, bulk_load, option):
    table.execute(f"SET herd.bulk_load = {bulk_load}")
    table.execute("SET herd.batch_rows = 100")
    if option:
        table.execute("SET herd.upsert = off")
    replace = "(REPLACE)" if option else ""
    assert copy_in(table, f"COPY u (id, part, a, b) FROM STDIN {replace}", [f"{i}\t0\t{i}\tfirst\n" for i in range(3000)]) == 3000
    seed = 20260
    numbers = [random.Random(seed).randrange(4000) for _ in range(5000)]
    csv = "(FORMAT csv, HEADER, NULL 'nil', REPLACE)" if option else "(FORMAT csv, HEADER, NULL 'nil')"
    lines = ["id,part,b\n"] + [f'{n},0,"say ""{i}""\n"\n' for i, n in enumerate(numbers)]
    copy_in(table, f"COPY u (id, part, b) FROM STDIN {csv}", lines)
    want = {i: (i, "first") for i in range(3000)} | {n: (None, f'say "{i}"\n') for i, n in enumerate(numbers)}
    assert {i: (a, b) for i, a, b in table.execute("SELECT id, a, b FROM u").fetchall()} == want


def test_copy_in_a_transaction_rolls_back(table):
    table.execute("INSERT INTO u (id, part, a) VALUES (1, 0, 1)")
    table.execute("BEGIN")
    table.execute("SAVEPOINT herd_batch")
    copy_in(table, "COPY u (id, part, a) FROM STDIN", [f"{i}\t0\t9\n" for i in range(5000)])
    assert table.execute("SELECT count(*), sum(a) FROM u").fetchone() == (5000, 45000)
    table.execute("ROLLBACK TO herd_batch")
    assert table.execute("SELECT count(*), sum(a) FROM u").fetchone() == (1, 1)
    table.execute("COMMIT")


def test_rows_of_copy_are_checked(table):
    for line, error in [
        ("1\t0\n", psycopg.errors.BadCopyFileFormat),
        ("1\t0\t2\t3\n", psycopg.errors.BadCopyFileFormat),
        ("1\t0\tx\n", psycopg.errors.InvalidTextRepresentation),
    ]:
        with pytest.raises(error):
            copy_in(table, "COPY u (id, part, a) FROM STDIN", ["7\t0\t7\n", line])
    assert rows(table, "u") == []
    for options in ["FORMAT binary", "HEADER match", "ENCODING 'latin1'", "ON_ERROR ignore"]:
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            copy_in(table, f"COPY u (id, part, a) FROM STDIN ({options})", [])


def test_prepared_explained_and_executed(table):
    table.execute("INSERT INTO u (id, part, a) VALUES (1, 0, 1)")
    table.execute("EXPLAIN (ANALYZE, COSTS OFF) INSERT INTO u (id, part, a) SELECT g, 0, 5 FROM generate_series(1, 2) g")
    table.execute("EXPLAIN (ANALYZE, COSTS OFF) INSERT INTO u (id, part, a) VALUES (1, 0, 6)")
    assert table.execute("SELECT id, a FROM u ORDER BY id").fetchall() == [(1, 6), (2, 5)]
    table.execute("PREPARE p (int, int) AS INSERT INTO u (id, part, a) VALUES ($1, 0, $2)")
    table.execute("EXECUTE p (1, 7)")
    for i in range(10):
        table.execute("INSERT INTO u (id, part, a) VALUES (%s, 0, %s)", (2, i), prepare=True)
    assert table.execute("SELECT id, a FROM u ORDER BY id").fetchall() == [(1, 7), (2, 9)]


def test_turning_it_off_and_on(table):
    table.execute("INSERT INTO u (id, part) VALUES (1, 0)")
    table.execute("SET herd.upsert = off")
    with pytest.raises(psycopg.errors.UniqueViolation):
        table.execute("INSERT INTO u (id, part) VALUES (1, 0)")
    table.execute("SET herd.upsert = on")
    table.execute("INSERT INTO u (id, part) VALUES (1, 0)")


def test_on_conflict_of_ones_own_is_left_alone(table):
    table.execute("INSERT INTO u (id, part, a) VALUES (1, 0, 1)")
    table.execute("INSERT INTO u (id, part, a, b) VALUES (1, 0, 2, 'x') ON CONFLICT DO NOTHING")
    assert rows(table, "u") == [(1, 0, 1, "none", 2)]


def test_other_unique_indexes_stay_right(db):
    """What went wrong elsewhere: rows replaced without their old entries leaving a second unique index."""
    for make in ["SELECT 1", "SELECT create_distributed_table('v', 'id')"]:
        db.execute("DROP TABLE IF EXISTS v")
        db.execute("CREATE TABLE v (id int PRIMARY KEY, a int, b int, UNIQUE (id, a))")
        db.execute(make)
        if make == "SELECT 1":
            db.execute("CREATE UNIQUE INDEX ON v (b)")
        db.execute("SET herd.upsert = on")
        db.execute("INSERT INTO v SELECT g, g, g FROM generate_series(1, 1000) g")
        db.execute("INSERT INTO v SELECT g, g + 5000, g + 5000 FROM generate_series(1, 1000) g")
        for scan in ["on", "off"]:
            db.execute(f"SET enable_seqscan = {scan}")
            assert db.execute("SELECT count(*) FROM v WHERE b BETWEEN 1 AND 1000").fetchone() == (0,)
            assert db.execute("SELECT count(*) FROM v WHERE b BETWEEN 5001 AND 6000").fetchone() == (1000,)
        db.execute("RESET enable_seqscan")
        if make == "SELECT 1":
            with pytest.raises(psycopg.errors.UniqueViolation):
                db.execute("INSERT INTO v VALUES (2000, 1, 5001)")
        db.execute("SET herd.upsert = off")


def test_without_a_primary_key_it_is_an_insert(db):
    db.execute("DROP TABLE IF EXISTS n")
    db.execute("CREATE TABLE n (id int, a int)")
    db.execute("SELECT create_distributed_table('n', 'id')")
    db.execute("SET herd.upsert = on")
    db.execute("INSERT INTO n VALUES (1, 1), (1, 1)")
    copy_in(db, "COPY n FROM STDIN", ["1\t1\n"])
    assert rows(db, "n") == [(1, 1)] * 3


def test_rows_that_others_refer_to_stay(db):
    db.execute("DROP TABLE IF EXISTS child, parent")
    db.execute("CREATE TABLE parent (id int PRIMARY KEY, a int)")
    db.execute("SELECT create_distributed_table('parent', 'id')")
    db.execute("CREATE TABLE child (id int REFERENCES parent ON DELETE CASCADE, n int, PRIMARY KEY (id, n))")
    db.execute("SELECT create_distributed_table('child', 'id')")
    db.execute("INSERT INTO parent SELECT g, 0 FROM generate_series(1, 100) g")
    db.execute("INSERT INTO child SELECT g, 0 FROM generate_series(1, 100) g")
    db.execute("SET herd.upsert = on")
    db.execute("INSERT INTO parent SELECT g, 1 FROM generate_series(1, 100) g")
    copy_in(db, "COPY parent FROM STDIN", [f"{i}\t2\n" for i in range(1, 51)])
    assert db.execute("SELECT count(*) FROM child").fetchone() == (100,)
    assert db.execute("SELECT sum(a) FROM parent").fetchone() == (150,)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        db.execute("INSERT INTO child VALUES (999, 1)")


def test_sequences_and_identity(db):
    db.execute("DROP TABLE IF EXISTS s")
    db.execute("CREATE TABLE s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n serial, a int)")
    db.execute("SELECT create_distributed_table('s', 'id')")
    db.execute("SET herd.upsert = on")
    db.execute("INSERT INTO s (a) SELECT g FROM generate_series(1, 5000) g")
    db.execute("INSERT INTO s (a) VALUES (1), (2), (3)")
    assert db.execute("SELECT count(*), count(DISTINCT n) FROM s").fetchone() == (5003, 5003)
    with pytest.raises(psycopg.errors.GeneratedAlways):
        db.execute("INSERT INTO s (id, a) VALUES (1, 1)")
    one = db.execute("SELECT id, n FROM s ORDER BY id LIMIT 1").fetchone()
    db.execute("INSERT INTO s (id, a) OVERRIDING SYSTEM VALUE VALUES (%s, -1)", (one[0],))
    now = db.execute("SELECT n, a FROM s WHERE id = %s", (one[0],)).fetchone()
    assert now[1] == -1 and now[0] > 5003
    # COPY gives identity values as they are, as it does everywhere.
    copy_in(db, "COPY s (id, a) FROM STDIN", [f"{one[0]}\t-2\n"])
    assert db.execute("SELECT count(*) FROM s WHERE a = -2").fetchone() == (1,)


REFUSED = {
    "trigger": [
        "CREATE TABLE x (id int PRIMARY KEY, a int)",
        "CREATE FUNCTION nop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER nop BEFORE INSERT ON x FOR EACH ROW EXECUTE FUNCTION nop()",
    ],
    "identity": ["CREATE TABLE x (id int PRIMARY KEY, a int GENERATED ALWAYS AS IDENTITY)"],
    "view": ["CREATE TABLE y (id int PRIMARY KEY, a int)", "CREATE VIEW x AS SELECT * FROM y"],
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(db, what):
    for statement in REFUSED[what]:
        db.execute(statement)
    try:
        db.execute("SET herd.upsert = on")
        for statement in ["INSERT INTO x (id) VALUES (1)", "INSERT INTO x (id) SELECT 1"]:
            with pytest.raises(psycopg.errors.FeatureNotSupported) as raised:
                db.execute(statement)
            assert "herd.upsert = off" in raised.value.diag.message_hint
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            copy_in(db, "COPY x (id) FROM STDIN", [])
    finally:
        db.execute("DROP VIEW x" if what == "view" else "DROP TABLE x")
        db.execute("DROP TABLE IF EXISTS y")
        db.execute("DROP FUNCTION IF EXISTS nop")


def test_inserts_inside_other_statements_are_refused(db):
    db.execute("SET herd.upsert = on")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.execute("WITH w AS (INSERT INTO t VALUES (1, 1) RETURNING id) SELECT * FROM w")


def test_keys_alone(db):
    db.execute("DROP TABLE IF EXISTS k")
    db.execute("CREATE TABLE k (id int PRIMARY KEY)")
    db.execute("SELECT create_distributed_table('k', 'id')")
    db.execute("SET herd.upsert = on")
    for _ in range(2):
        db.execute("INSERT INTO k SELECT g FROM generate_series(1, 1000) g")
    assert db.execute("SELECT count(*) FROM k").fetchone() == (1000,)


def test_text_keys_that_are_equal_in_the_database(db):
    db.execute("DROP TABLE IF EXISTS k")
    db.execute("CREATE TABLE k (id numeric PRIMARY KEY, a int)")
    db.execute("SET herd.upsert = on")
    db.execute("INSERT INTO k VALUES (1.0, 1), (1.00, 2), ('1', 3)")
    assert rows(db, "k") == [(1, 3)]
    db.execute("DROP TABLE k")


def test_many_sessions_at_once_end_with_one_row_a_key(bulk_herd, db):
    """Upserts of the same keys by several sessions: every row is one that somebody wrote, and none is there twice."""
    import threading

    def load(n):
        with bulk_herd.server.connect() as connection:
            connection.execute("SET herd.upsert = on")
            connection.execute("SET herd.bulk_load = on")
            connection.execute("SET herd.batch_rows = 50")
            for attempt in range(20):
                try:
                    # In the order of their keys, so that none waits for another in a circle.
                    copy_in(connection, "COPY t FROM STDIN", [f"{i}\t{n}\t{i}\n" for i in range(2000)])
                    return
                except psycopg.errors.DeadlockDetected:
                    continue

    threads = [threading.Thread(target=load, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    found = rows(db)
    assert [r[0] for r in found] == list(range(2000))
    assert all(a in range(4) and b == str(i) for i, a, b in found)


def test_defaults_of_reference_tables_are_computed_once(db, bulk_herd):
    db.execute("DROP TABLE IF EXISTS k")
    db.execute("CREATE TABLE k (id int PRIMARY KEY, r float8 DEFAULT random(), a int DEFAULT 5)")
    db.execute("SELECT create_reference_table('k')")
    db.execute("SET herd.upsert = on")
    db.execute("INSERT INTO k (id) VALUES (1)")
    db.execute("INSERT INTO k (id) VALUES (1), (2), (2)")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.execute("INSERT INTO k (id) SELECT 1")
    copies = []
    for node in bulk_herd.node_servers:
        with node.connect() as connection:
            copies.append(rows(connection, "k"))
    assert copies[0] == copies[1] and [(i, a) for i, _, a in copies[0]] == [(1, 5), (2, 5)]
