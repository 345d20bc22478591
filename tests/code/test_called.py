"""Code that a statement calls runs where it finds what it uses, or not at all: functions, operators, domains, whatever calls them."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

# What home alone has, by a function, a function around it, an operator and a domain; and what is spread over the nodes.
CODE = (
    "CREATE FUNCTION f(i int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) + i FROM code.l'",
    "CREATE FUNCTION nested(i int) RETURNS bigint LANGUAGE plpgsql STABLE AS 'BEGIN RETURN code.f(i); END'",
    "CREATE FUNCTION added(a int, b int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT code.f(a) + b'",
    "CREATE OPERATOR ### (leftarg = int, rightarg = int, function = added)",
    "CREATE DOMAIN few AS int CHECK (code.f(value) < 100)",
    "CREATE FUNCTION spread(a int, b int) RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM code.d'",
    "CREATE OPERATOR @@@ (leftarg = int, rightarg = int, function = spread)",
    "CREATE VIEW v AS SELECT id, f(id) FROM d",
)


@pytest.mark.parametrize("call", ["f(id)", "nested(id)", "id ### 0", "(id::few + 20)::bigint"])
def test_above_the_rows_it_runs_on_home(db, call):
    db.run(*CODE)
    assert db.rows(f"SELECT id, {call} FROM d WHERE id < 30 ORDER BY 2 DESC LIMIT 2") == [(29, 49), (28, 48)]
    assert db.one(f"SELECT sum({call}) FROM d") == sum(range(1, 41)) + 40 * 20
    assert db.rows(f"SELECT v % 2, max({call}) FROM d GROUP BY 1 HAVING min({call}) > 21") == [(0, 60)]
    db.run(f"INSERT INTO d SELECT id + 1000, {call} FROM d")
    assert db.rows("SELECT id - 1000 FROM d WHERE id > 1000 AND v <> id - 980") == []


def test_views_that_call_it(db):
    db.run(*CODE)
    assert sorted(db.rows("SELECT * FROM v")) == [(i, i + 20) for i in range(1, 41)]


@pytest.mark.parametrize("sql, answer", [
    ("SELECT count(*) FROM d WHERE v > f(1)", 19),
    ("SELECT count(*) FROM d WHERE v > 1 ### 1", 18),
    ("SELECT count(*) FROM d WHERE v > nested(1)", 19),
    ("SELECT count(*) FROM d, f(2) x WHERE v > x", 18),
    ("SELECT sum(x) FROM (SELECT (SELECT f(id)) AS x FROM d) s", 20 * 40 + 820),
    ("SELECT count(*) FROM d WHERE EXISTS (SELECT FROM r WHERE f(r.id) = d.v)", 20),
    ("SELECT count(*) FROM d JOIN r ON d.id = r.id ### 1", 19),
])
def test_below_rows_come_to_it(db, sql, answer):
    db.run(*CODE)
    assert db.one(sql) == answer


@pytest.mark.parametrize("sql", [
    "UPDATE d SET v = f(id)",
    "UPDATE d SET v = 1 RETURNING id ### 1",
    "DELETE FROM d WHERE v BETWEEN 1 AND f(2)",
    "INSERT INTO d VALUES (101, 1) RETURNING f(id)",
    "INSERT INTO d VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = f(1)",
])
def test_where_rows_are_written_it_is_refused(db, sql):
    db.run(*CODE)
    db.refused(sql)


@pytest.mark.parametrize("key", range(1, 5))
def test_values_of_rows_are_evaluated_on_home(db, key):
    db.run(*CODE)
    db.run(f"INSERT INTO d VALUES ({100 + key}, f(1)), ({110 + key}, 1 ### 1), ({120 + key}, (SELECT max(v) + 0.4 FROM l))")
    db.run(f"INSERT INTO d VALUES ({130 + key}, nested(2), 'x')", f"INSERT INTO d VALUES ({140 + key}, (SELECT 5.5 FROM l LIMIT 1))")
    assert [v for (v,) in db.rows("SELECT v FROM d WHERE id > 100 ORDER BY id")] == [21, 22, 20, 22, 6]


@pytest.mark.parametrize("sql", [
    "SELECT 1 @@@ 2",
    "SELECT id @@@ 1 FROM d",
    "SELECT id FROM d WHERE id @@@ 1 > 3",
    "INSERT INTO l VALUES (100, 1 @@@ 2)",
])
def test_a_part_is_never_taken_for_all(db, sql):
    db.run(*CODE)
    db.refused(sql)
    assert db.one("SELECT count(*) FROM d") == 40 and len(db.same_copies("r")) == 30


def test_what_is_returned_counts_all_that_was_there(db):
    db.run(*CODE)
    assert set(db.rows("INSERT INTO d SELECT id + 100, v FROM d RETURNING (SELECT count(*) FROM d)")) == {(40,)}
    assert db.one("SELECT count(*) FROM d") == 80


@pytest.mark.parametrize(("insert", "table", "read"), [
    ("INSERT INTO d VALUES (1, 1)", "d", "(SELECT max(v) FROM l)"),
    ("INSERT INTO d VALUES (1, 1)", "d", "spread(1, 2)"),
    ("INSERT INTO d VALUES (1, 1)", "d", "(SELECT max(v) FROM d)"),
    ("INSERT INTO d SELECT id, v FROM d WHERE id < 5", "d", "(SELECT max(v) FROM d)"),
    ("INSERT INTO r VALUES (1, 1)", "r", "(SELECT count(*) FROM d)"),
    ("INSERT INTO r VALUES (1, 1)", "r", "(SELECT count(*) FROM l)"),
])
def test_what_on_conflict_reads_is_read_before(db, insert, table, read):
    db.run(*CODE)
    value = db.one(f"SELECT {read}")
    db.run(f"{insert} ON CONFLICT (id) DO UPDATE SET v = {read}")
    assert db.one(f"SELECT v FROM {table} WHERE id = 1") == value
    assert db.one("SELECT count(*) FROM d") == 40 and len(db.same_copies("r")) == 30


# Nobody said what they are: PostgreSQL takes them to be VOLATILE.
UNSAID = (
    "CREATE FUNCTION pure(i int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 10 / (i - 3); EXCEPTION WHEN division_by_zero THEN RETURN -1; END'",
    "CREATE FUNCTION around(i int) RETURNS int LANGUAGE sql AS 'SELECT code.pure(i) + 1'",
    "CREATE FUNCTION upto(i int) RETURNS TABLE (n int) LANGUAGE sql AS 'SELECT g FROM generate_series(1, i) g'",
)


@pytest.mark.parametrize("sql", [
    "SELECT id, pure(id) FROM d ORDER BY 1", "SELECT pure(id), count(*) FROM d GROUP BY 1 ORDER BY 1", "SELECT sum(around(v)) FROM d WHERE around(id) < 3",
    "SELECT id FROM d ORDER BY around(id), id LIMIT 5", "SELECT d.id, n FROM d JOIN upto(3) ON n = d.id % 5 ORDER BY 1, 2",
    "SELECT a.id FROM d a JOIN d b ON a.id = b.id WHERE pure(a.id) = pure(b.id) ORDER BY 1 LIMIT 3", "SELECT count(*) FROM d WHERE id = around(4)",
])
def test_what_uses_nothing_but_what_it_is_given_runs_anywhere(db, sql):
    db.run(*UNSAID)
    answer = db.rows(sql)
    db.run("CREATE TABLE whole AS SELECT * FROM d")
    assert answer == db.rows(sql.replace("FROM d", "FROM whole").replace("JOIN d ", "JOIN whole ").replace("d.id", "whole.id"))


@pytest.mark.parametrize("body", [
    "SELECT (random() * i)::int", "SELECT set_config(''a.b'', i::text, false)::int", "SELECT txid_current()::int + i", "SELECT nextval(''code.counted'')::int + i",
    "SELECT pg_backend_pid() + i", "SELECT extract(second from ''now''::timestamptz)::int",
])
def test_what_does_more_runs_on_home(db, body):
    """For each row that comes there; not where rows are locked, which stay where they are."""
    db.run("CREATE SEQUENCE counted", f"CREATE FUNCTION more(i int) RETURNS int LANGUAGE sql AS '{body}'")
    rows = db.rows("SELECT id, more(id) FROM d ORDER BY id")
    assert [id for id, _ in rows] == [id for (id,) in db.rows("SELECT id FROM d ORDER BY id")]
    if "nextval" in body:
        assert sorted(n - id for id, n in rows) == list(range(1, len(rows) + 1))
    if "set_config" in body:
        assert db.one("SELECT current_setting('a.b')") == str(rows[-1][0])
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.rows("SELECT id, more(id) FROM d FOR UPDATE")
