"""Every statement says what it reads and writes, wherever that stands: views, WITH, values that differ from node to node."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]


def test_writes_through_views(db):
    db.run(
        "CREATE VIEW vd AS SELECT id, v FROM d WHERE v < 100 WITH CHECK OPTION",
        "CREATE VIEW vr AS SELECT id, v FROM r",
        "CREATE VIEW vv AS SELECT id FROM vd",
        "CREATE VIEW vl AS SELECT id, v FROM l WHERE v < 100 WITH CHECK OPTION",
    )
    for view in ("vd", "vr"):
        db.run(
            f"UPDATE {view} SET v = -1 WHERE id = 7",
            f"UPDATE {view} SET v = -2 WHERE id BETWEEN 8 AND 12",
            f"INSERT INTO {view} VALUES (90, 1)",
            f"INSERT INTO {view} SELECT id + 100, -3 FROM l",
            f"WITH x AS (DELETE FROM {view} WHERE id < 4 RETURNING id) SELECT count(*) FROM x",
            f"EXPLAIN ANALYZE DELETE FROM {view} WHERE id = 13",
            f"PREPARE p_{view} AS DELETE FROM {view} WHERE id = 14",
            f"EXECUTE p_{view}",
        )
    db.run("DELETE FROM vv WHERE id = 90")
    of_view = {-1: 1, -2: 5, -3: 20}
    for table in ("d", "r"):
        found = dict(db.rows(f"SELECT v, count(*) FROM {table} WHERE v < 0 GROUP BY v"))
        assert found == of_view, table
    with pytest.raises(psycopg.errors.WithCheckOptionViolation):
        db.run("UPDATE vd SET v = 500")
    db.run("UPDATE vl SET v = 5 WHERE id = 1", "INSERT INTO vl VALUES (50, 50)")
    with pytest.raises(psycopg.errors.WithCheckOptionViolation):
        db.run("INSERT INTO vl VALUES (51, 500)")
    assert db.one("SELECT count(*) FROM d") == 40 - 3 - 2 + 20
    assert len(db.same_copies("r")) == 30 - 3 - 2 + 1 + 20


def test_with_that_writes_a_reference_table(db):
    db.run("CREATE VIEW vr AS SELECT id, v FROM r")
    for sql in (
        "WITH x AS (DELETE FROM r) DELETE FROM r",
        "CREATE TABLE made AS WITH x AS (DELETE FROM {} RETURNING id) SELECT * FROM x",
        "CREATE TEMP TABLE made AS WITH x AS (DELETE FROM {} RETURNING id) SELECT * FROM x",
        "CREATE MATERIALIZED VIEW made AS WITH x AS (DELETE FROM {} RETURNING id) SELECT * FROM x",
    ):
        for target in ("r", "vr"):
            db.refused(sql.format(target))
    assert db.same_copies("r") == [(i, i, "r") for i in range(1, 31)]
    assert db.one("WITH x AS (UPDATE r SET v = -1 WHERE id > 28 RETURNING id) SELECT count(*) FROM x") == 2
    db.run(
        "PREPARE p AS WITH x AS (DELETE FROM r WHERE v = -1 RETURNING id) INSERT INTO r SELECT id, id, 'r' FROM x",
        "EXECUTE p",
        "EXPLAIN ANALYZE WITH x AS (UPDATE r SET v = id RETURNING id) SELECT count(*) FROM x",
    )
    assert db.same_copies("r") == [(i, i, "r") for i in range(1, 31)]
    assert db.one("SELECT count(*) FROM l") == 20
    # Home has all of l.
    db.run("WITH x AS (DELETE FROM l WHERE id < 5 RETURNING id) UPDATE r SET v = 0 FROM x WHERE r.id = x.id")
    assert [v for _, v, _ in db.same_copies("r")].count(0) == 4
    assert db.one("SELECT count(*) FROM l") == 16


def test_temporary_objects_over_distributed_tables(db):
    db.run("CREATE TEMP VIEW tv AS SELECT * FROM d")
    assert db.one("SELECT count(*) FROM tv") == 40
    db.refused("DELETE FROM tv", "tv")
    # Home's copy alone would be written.
    db.run("CREATE TEMP VIEW tr AS SELECT * FROM r", "CREATE FUNCTION through() RETURNS void LANGUAGE plpgsql AS $$ BEGIN UPDATE tr SET v = 9; END $$")
    db.refused("UPDATE tr SET v = 9", "tr")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        db.run("SELECT through()")
    # Home's part alone would be read.
    db.run("CREATE FUNCTION counts() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM tv); END $$")
    db.refused("SELECT counts()")
    db.run("DROP VIEW tv, tr", "DROP FUNCTION through(), counts()")
    db.run("CREATE TEMP TABLE tt (id int)")
    db.run("INSERT INTO tt VALUES (1), (2), (99)", "CREATE VIEW tw AS SELECT d.* FROM d JOIN tt USING (id)")
    assert db.one("SELECT count(*) FROM tw") == 2
    db.run("DROP VIEW pg_temp.tw")
    try:
        db.run("CREATE TEMP TABLE made AS SELECT * FROM d")
    except psycopg.errors.FeatureNotSupported:
        return
    assert db.one("SELECT count(*) FROM made") == 40


DIFFERENT = [
    "xmin::text::bigint % 1000",
    "tableoid::bigint % 1000000",
    "'r'::regclass::oid::bigint % 1000000",
    "txid_current() % 1000000",
    "current_setting('port')::int",
    "inet_server_port()",
    "(random() * 1000)::int",
    "extract(epoch FROM clock_timestamp())::bigint % 1000000",
    "(ctid::text::point)[1]::int",
    "pg_relation_size('r')::int",
    "length(array_agg_of())",
]


def test_the_sessions_process_id_is_one_value(db):
    db.run("UPDATE r SET v = pg_backend_pid()")
    assert len({v for _, v, _ in db.same_copies("r")}) == 1


@pytest.mark.parametrize("value", DIFFERENT)
def test_values_that_differ_from_node_to_node(db, value):
    db.run("CREATE FUNCTION array_agg_of() RETURNS text LANGUAGE sql STABLE AS 'SELECT string_agg(ctid::text, '','') FROM code.r'")
    # Another number of transactions on each node.
    for i, node in enumerate(db.herd.node_servers):
        with node.connect() as connection:
            for _ in range(i * 3):
                connection.execute("SELECT txid_current()")
    for sql in (f"UPDATE r SET v = {value}", f"DELETE FROM r WHERE v = {value}"):
        try:
            db.run(sql)
        except psycopg.errors.FeatureNotSupported:
            pass
        db.same_copies("r")
    db.run("DELETE FROM r", "INSERT INTO r SELECT g, g, 'r' FROM generate_series(1, 30) g")
    if "xmin" in value or "tableoid" in value or "ctid" in value:
        db.run(f"INSERT INTO r SELECT id + 100, {value} FROM r WHERE id < 5")
    else:
        db.run(f"INSERT INTO r VALUES (101, {value})", f"INSERT INTO r SELECT id + 200, {value} FROM r WHERE id < 5")
    db.same_copies("r")


def test_values_that_are_the_same_everywhere(db):
    db.run(
        "ALTER TABLE r ADD COLUMN at timestamptz DEFAULT now(), ADD COLUMN c int DEFAULT 7",
        "UPDATE r SET at = now(), w = to_char(now(), 'YYYY') || current_user || upper(w)",
        "UPDATE r SET v = coalesce(v, 0) + length(concat_ws(',', w, id)), w = 'I know the day before yesterday'",
        "UPDATE r SET v = (SELECT count(*) FROM r r2 WHERE r2.id < r.id), c = DEFAULT",
        "INSERT INTO r (id, v, w, at) VALUES (1, 2, 'x', now()) ON CONFLICT (id) DO UPDATE SET v = excluded.v + 1",
        "INSERT INTO r (id) VALUES (300), (301)",
        "DELETE FROM r WHERE at > now() + interval '1 day'",
    )
    assert len(db.same_copies("r")) == 32
    for sql in ("UPDATE r SET at = 'now'", "UPDATE r SET at = DEFAULT", "UPDATE r SET at = 'today'"):
        db.run(sql)
        assert len(db.same_copies("r")) == 32


def test_execute_of_an_upsert_into_a_reference_table(db):
    db.run("PREPARE up (int, text) AS INSERT INTO r (id, v, w) VALUES ($1, 1, $2) ON CONFLICT (id) DO UPDATE SET w = excluded.w", "EXECUTE up (1, 'new')", "EXECUTE up (99, 'now')")
    rows = dict((i, w) for i, _, w in db.same_copies("r"))
    assert rows[1] == "new" and rows[99] == "now"


def test_key_columns_are_taken_as_they_are_given(db):
    db.run('CREATE TABLE k1 ("Ke y" int PRIMARY KEY)', "SELECT create_distributed_table('k1', 'Ke y')")
    db.run('CREATE TABLE k2 ("Ke y" int PRIMARY KEY)', "SELECT create_distributed_table('k2', '\"Ke y\"')")
    db.run("CREATE TABLE k3 (key int PRIMARY KEY)", "SELECT create_distributed_table('k3', 'KEY')")
    assert db.rows("SELECT name, key FROM herd.tables WHERE name LIKE 'k_' ORDER BY 1") == [("k1", "Ke y"), ("k2", "Ke y"), ("k3", "key")]



def test_functions_of_row_types_of_local_tables(db):
    db.run("CREATE FUNCTION shown(x l) RETURNS text LANGUAGE sql AS 'SELECT x.id || x.w'")
    db.run("CREATE VIEW with_shown AS SELECT shown(l) AS s FROM l", "CREATE VIEW only_function AS SELECT shown(NULL::l) AS s")
    assert db.one("SELECT s FROM with_shown ORDER BY length(s), s LIMIT 1") == "1l"
    db.run("CREATE FUNCTION caller() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT shown(l) FROM l WHERE id = 2; END")
    db.run("CREATE VIEW called AS SELECT caller() AS c")
    assert db.rows("SELECT c FROM called") == [("2l",)]
    db.run("CREATE FUNCTION all_of() RETURNS SETOF l LANGUAGE sql AS 'SELECT * FROM l'", "CREATE VIEW all_v AS SELECT * FROM all_of()")
    assert db.one("SELECT count(*) FROM all_v") == 20


@pytest.mark.parametrize("how", ["", ", strategy => 'range', bounds => ARRAY['FROM (minvalue) TO (4)', 'FROM (4) TO (1002)', 'FROM (1002) TO (maxvalue)']"], ids=["hash", "range"])
@pytest.mark.parametrize("sql", [
    "WITH w AS (UPDATE {d} SET id = id + 1000 WHERE id = {k} RETURNING *) SELECT count(*) FROM w",
    "WITH w AS (UPDATE {d} SET id = r.id + 1000 FROM r WHERE {d}.id = {k} AND r.id = {k} RETURNING {d}.*) SELECT count(*) FROM w",
    "WITH w AS (UPDATE {d} SET id = id + 1000 WHERE id = {k} RETURNING *) UPDATE {d} SET v = 1 FROM w WHERE {d}.id = {k}",
    "MERGE INTO {d} USING (VALUES (1)) s(x) ON {d}.id = {k} WHEN MATCHED THEN UPDATE SET id = {k} + 1000",
    "MERGE INTO {d} USING (VALUES (1)) s(x) ON {d}.id = {k} AND x = 2 WHEN NOT MATCHED THEN INSERT VALUES ({k} + 1000, 0)",
    "MERGE INTO {d} USING (VALUES (1)) s(x) ON {d}.id = {k} AND x = 2 WHEN NOT MATCHED THEN INSERT VALUES ({k}, 0)",
    "UPDATE {d} SET id = id + 1000 WHERE id = {k}",
    "UPDATE {d} SET id = r.id + 1000 FROM r WHERE {d}.id = {k} AND r.id = {k}",
])
def test_a_row_whose_key_changes_is_moved_or_refused(db, sql, how):
    """PostgreSQL's answer or 0A000, whatever the shard of the new key; never a node's word about its partitions."""
    db.run("CREATE TABLE e (id int, v int, w text)", f"SELECT create_distributed_table('e', 'id'{how})")
    db.run("CREATE TABLE plain (id int, v int, w text)")
    rows = "INSERT INTO {} SELECT g, g, 'd' FROM generate_series(1, 5) g"
    for k in range(1, 6):
        db.run("DELETE FROM e", "DELETE FROM plain", rows.format("e"), rows.format("plain"))
        try:
            db.run(sql.format(d="e", k=k))
        except psycopg.errors.FeatureNotSupported as e:
            assert e.diag.message_hint, e
        else:
            db.run(sql.format(d="plain", k=k))
        assert sorted(db.rows("SELECT * FROM e")) == sorted(db.rows("SELECT * FROM plain")), k


@pytest.mark.parametrize("write", [
    "UPDATE {d} SET v = v + 1 WHERE id > 2 RETURNING id, v, w",
    "UPDATE {d} SET id = id + 100 WHERE v > 35 RETURNING id, v, w",
    "DELETE FROM {d} WHERE v < 9 RETURNING id, w",
    "INSERT INTO {d} VALUES (101, 1, 'a,b'), (102, NULL, E'\\n'), (103, 3, 'c') RETURNING *",
    "INSERT INTO {d} SELECT id + 200, v, w FROM {d} RETURNING id",
    "INSERT INTO {d} SELECT v + 300, v, w FROM {d} RETURNING id",
    "INSERT INTO {d} SELECT v, v + 400, w FROM {d} ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING id, v",
    "UPDATE {r} SET v = v + 1 RETURNING id, v",
])
@pytest.mark.parametrize("options", ["", " (FORMAT csv, HEADER)"])
def test_copy_of_what_a_write_returns(db, write, options):
    db.run("CREATE TABLE pd (LIKE d INCLUDING ALL)", "INSERT INTO pd SELECT * FROM d", "CREATE TABLE pr (LIKE r INCLUDING ALL)", "INSERT INTO pr SELECT * FROM r")

    def copied(sql):
        with db.connection.cursor().copy(f"COPY ({sql}) TO STDOUT{options}") as copy:
            return sorted(b"".join(copy).decode().splitlines())

    assert copied(write.format(d="d", r="r")) == copied(write.format(d="pd", r="pr"))
    assert sorted(db.rows("SELECT * FROM d"), key=str) == sorted(db.rows("SELECT * FROM pd"), key=str)
    assert db.same_copies("r") == sorted(db.rows("SELECT * FROM pr"))
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="RETURNING"):
        copied("DELETE FROM d")
    # A transaction takes it back on all nodes.
    db.connection.execute("BEGIN")
    copied("UPDATE d SET v = v + 1 RETURNING *")
    copied("UPDATE r SET v = v + 1 RETURNING *")
    db.connection.execute("ROLLBACK")
    assert sorted(db.rows("SELECT * FROM d"), key=str) == sorted(db.rows("SELECT * FROM pd"), key=str)
    assert db.same_copies("r") == sorted(db.rows("SELECT * FROM pr"))
