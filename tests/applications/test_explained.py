"""What a user is told: EXPLAIN in words, and refusals whose hints work when they are followed."""

import re

import psycopg
import pytest

pytestmark = pytest.mark.real_herd
_STATEMENT = re.compile(r"(?:SELECT (?:un)?distribute_table\(|SELECT create_\w+\(|ALTER TABLE )[^;]*;")


@pytest.fixture
def db(herd):
    with herd.connect() as connection:
        connection.execute("DROP SCHEMA IF EXISTS told CASCADE")
        connection.execute("CREATE SCHEMA told")
        connection.execute("SET search_path = told")
        yield connection
        connection.execute("DROP SCHEMA told CASCADE")


@pytest.fixture
def keyed(db):
    """Tables keyed by integer, bigint, and integer with other shards."""
    for name, kind, options in (("a", "integer", ""), ("b", "bigint", ""), ("c", "integer", ", shard_count => 5, colocate_with => 'none'")):
        db.execute(f"CREATE TABLE {name} (k {kind} PRIMARY KEY, v int)")
        db.execute(f"SELECT create_distributed_table('{name}', 'k'{options})")
        db.execute(f"INSERT INTO {name} SELECT i, i FROM generate_series(1, 30) i")
    return db


def _told(db, query: str) -> dict[str, str]:
    lines = [line.strip() for (line,) in db.execute(f"EXPLAIN (COSTS off) {query}").fetchall()]
    return dict(line.split(": ", 1) for line in lines if ": " in line)


@pytest.mark.parametrize(
    "query, how",
    [
        ("SELECT v FROM a WHERE k = 3", "one node has all of it"),
        ("SELECT * FROM a", "each node answers for its own rows"),
        ("SELECT * FROM a ORDER BY v", "each node sorts its own rows, the router merges them"),
        ("SELECT count(*), sum(v) FROM a", "combine on router: each node gives one row of totals"),
        ("SELECT v, avg(k) FROM a GROUP BY v", "combine on home: each node answers for its own rows, home puts the answers together"),
    ],
)
def test_how(keyed, query, how):
    told = _told(keyed, query)
    assert told["How"] == how and "Why" not in told


@pytest.mark.parametrize(
    "query, tables, why",
    [
        ("SELECT a.v FROM a JOIN b ON a.k = b.k", "a, b", "a is distributed by integer, b by bigint: tables are colocated whose keys have the same type"),
        ("SELECT a.v FROM a JOIN c ON a.k = c.k", "a, c", "a and c are not colocated"),
        ("SELECT x.v FROM a x JOIN a y ON x.k = y.v", "a", "a and a are not joined on their distribution keys (a.k; a.k)"),
        ("SELECT count(*) FROM a JOIN b USING (v)", "a, b", "a is distributed by integer, b by bigint: tables are colocated whose keys have the same type"),
        ("SELECT k FROM a WHERE EXISTS (SELECT * FROM c WHERE c.v = a.v)", "a, c", "a subquery over c is not tied to a by their distribution keys (c.k; a.k)"),
    ],
)
def test_what_moves_and_why(keyed, query, tables, why):
    told = _told(keyed, query)
    assert told["How"] == f"one node: rows of {tables} move to home, which answers"
    assert told["Why"] == why


@pytest.mark.parametrize("other, why", [("b", "a is distributed by integer, b by bigint"), ("c", "a and c are not colocated")])
def test_hint_of_tables_that_are_not_colocated(keyed, other, why):
    query = f"SELECT a.k FROM a JOIN {other} ON a.k = {other}.k FOR UPDATE OF a"
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=why) as refused:
        keyed.execute(query)
    statements = _STATEMENT.findall(refused.value.diag.message_hint)
    assert len(statements) == 3 - (other == "c")
    for statement in statements:
        keyed.execute(statement)
    assert len(keyed.execute(query).fetchall()) == 30


def test_hint_of_foreign_keys(db):
    db.execute("CREATE TABLE tenants (id int PRIMARY KEY)")
    db.execute("CREATE TABLE tasks (tenant int REFERENCES tenants ON DELETE CASCADE, id int, PRIMARY KEY (tenant, id))")
    db.execute('CREATE TABLE "Notes" (tenant int, CONSTRAINT "of Tenant" FOREIGN KEY (tenant) REFERENCES tenants (id))')
    db.execute("INSERT INTO tenants SELECT generate_series(1, 20)")
    db.execute("INSERT INTO tasks SELECT i, i FROM generate_series(1, 20) i")
    with pytest.raises(psycopg.Error, match="references .tenants. by foreign key .*and 1 more") as refused:
        db.execute("SELECT create_distributed_table('tenants', 'id')")
    first, then = refused.value.diag.message_hint.split(" Then distribute ")
    for statement in _STATEMENT.findall(first):
        db.execute(statement)
    for table, column in (("tenants", "id"), ("tasks", "tenant"), ('"Notes"', "tenant")):
        db.execute("SELECT create_distributed_table(%s, %s)", (table, column))
    for statement in _STATEMENT.findall(then):
        db.execute(statement)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        db.execute('INSERT INTO "Notes" VALUES (21)')
    db.execute("DELETE FROM tenants WHERE id = 3")
    assert db.execute("SELECT count(*) FROM tasks").fetchone() == (19,)


ANSWERS = [
    ("SELECT * FROM a", 30), ("SELECT * FROM a ORDER BY v", 30), ("SELECT count(*), sum(v) FROM a", 2), ("SELECT a.v FROM a JOIN b ON a.k = b.k", 60), ("UPDATE a SET v = v WHERE v > 5 RETURNING k", 25),
]


@pytest.mark.parametrize(("query", "rows"), ANSWERS)
def test_what_nodes_answered_is_told(keyed, query, rows, herd_many):
    if herd_many.nodes != 2:
        pytest.skip("so many rows are those of two nodes")
    lines = [line.strip() for (line,) in keyed.execute(f"EXPLAIN ANALYZE {query}").fetchall()]
    told = [re.fullmatch(r"Answer of (\S+) \(.*\): rows=(\d+) bytes=(\d+) time=([\d.]+) ms", line) for line in lines if line.startswith("Answer of")]
    assert len(told) == 2 and all(told), lines
    assert sum(int(t[2]) for t in told) == rows
    assert all(int(t[3]) > 5 * int(t[2]) and 0 < float(t[4]) < 60_000 for t in told)
    (document,) = keyed.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query}").fetchone()
    answers = document[0]["Plan"]["Answers"]
    assert sum(answer["Actual Rows"] for answer in answers) == rows and all(answer["Bytes"] > 0 for answer in answers)
    assert not any(line.strip().startswith("Answer of") for (line,) in keyed.execute(f"EXPLAIN {query}").fetchall())


@pytest.mark.parametrize("way", ["broadcast", "shuffle", "semijoin"])
def test_what_nodes_answered_on_other_ways_is_told(keyed, way):
    keyed.execute(f"SET herd.{way} = on")
    lines = [line.strip() for (line,) in keyed.execute("EXPLAIN ANALYZE SELECT count(*) FROM a JOIN b ON a.v = b.v").fetchall()]
    assert sum(line.startswith("Answer of") for line in lines) == 2, lines
    keyed.execute(f"RESET herd.{way}")
