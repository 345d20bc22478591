"""Reads at the beginning of a READ COMMITTED transaction take no part in it on any node, and nobody can tell but by the time they take.

What others must see of such a transaction all the same is in promises/isolation.py.
"""

import pytest

OPEN = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND query NOT LIKE '%pg_stat_activity%'"


@pytest.fixture(scope="module")
def table(sharing):
    sharing.server.run(
        "CREATE TABLE reads (id int PRIMARY KEY, v int, t text)",
        "SELECT create_distributed_table('reads', 'id')",
        "INSERT INTO reads SELECT g, g % 7, 'row ' || g FROM generate_series(1, 400) g",
    )
    return sharing


def open_on_nodes(herd) -> int:
    total = 0
    for node in herd.herd.node_servers:
        with node.connect() as connection:
            total += connection.execute(OPEN).fetchone()[0]
    return total


PLAIN = [
    "SELECT v FROM reads WHERE id = 5",
    "SELECT v, upper('x'), t || 'y' FROM reads WHERE id IN (5, 6)",
    "SELECT count(*), sum(v), max(id) FROM reads",
    "SELECT id FROM reads WHERE id BETWEEN 5 AND 50 ORDER BY id DESC LIMIT 3",
    "SELECT DISTINCT v FROM reads WHERE id BETWEEN 5 AND 104 ORDER BY v",
    "SELECT v, count(*) FROM reads GROUP BY v HAVING count(*) > 3 ORDER BY v",
]
OTHER = [
    "SELECT v FROM reads WHERE id = 5 FOR UPDATE",
    "SELECT v, now() FROM reads WHERE id = 5",
    "SELECT v, random() FROM reads WHERE id = 5",
    "SELECT v, pg_current_xact_id_if_assigned() FROM reads WHERE id = 5",
    "SELECT 1",
    "SELECT v FROM reads WHERE id = (SELECT min(id) FROM reads)",
]


@pytest.mark.parametrize("sql", PLAIN)
def test_plain_reads_begin_nowhere(table, sql):
    with table.server.connect() as session:
        session.execute("BEGIN")
        expected = session.execute(sql).fetchall()
        assert expected and open_on_nodes(table) == 0
        session.execute("SET LOCAL work_mem = '5MB'")
        assert session.execute(sql).fetchall() == expected
        assert open_on_nodes(table) > 0
        session.execute("COMMIT")
        assert open_on_nodes(table) == 0


@pytest.mark.parametrize("sql", OTHER)
@pytest.mark.parametrize("before", [(), PLAIN[:1]], ids=["first", "behind a plain one"])
def test_others_begin(table, sql, before):
    with table.server.connect() as session:
        session.execute("BEGIN")
        for plain in before:
            session.execute(plain)
        session.execute(sql)
        assert open_on_nodes(table) > 0
        session.execute(PLAIN[0])
        session.execute("ROLLBACK")


@pytest.mark.parametrize(
    "begin",
    [
        ["BEGIN ISOLATION LEVEL REPEATABLE READ"],
        ["BEGIN", "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"],
        ["SET default_transaction_isolation = 'repeatable read'", "BEGIN"],
        ["SET herd.multiplex = off", "BEGIN"],
        ["SET herd.snapshot = on", "BEGIN"],
        ["BEGIN", "SET LOCAL work_mem = '5MB'"],
        ["CREATE TEMP TABLE here (id int)", "BEGIN"],
        ["BEGIN", "UPDATE reads SET v = v WHERE id = 7"],
    ],
    ids=" ".join,
)
def test_where_reads_take_part(table, begin):
    with table.server.connect() as session:
        for sql in begin:
            session.execute(sql)
        session.execute(PLAIN[0])
        assert open_on_nodes(table) > 0
        session.execute("ROLLBACK")


def test_each_sees_what_was_committed_before_it(table):
    with table.server.connect() as a, table.server.connect() as b:
        a.execute("BEGIN")
        for n in range(20):
            b.execute("UPDATE reads SET v = %s WHERE id = 9", (n,))
            assert a.execute("SELECT v FROM reads WHERE id = 9").fetchone() == (n,)
            assert a.execute("SELECT sum(v) FROM reads WHERE id BETWEEN 9 AND 9").fetchone() == (n,)
        a.execute("COMMIT")


def test_a_pipeline_of_reads(table):
    with table.server.connect() as session, session.pipeline():
        cursors = [session.execute("SELECT t FROM reads WHERE id = %s", (n,)) for n in range(1, 50)]
        assert [c.fetchone()[0] for c in cursors] == [f"row {n}" for n in range(1, 50)]


@pytest.mark.parametrize("width", [1, 100, 5_000, 100_000])
def test_ranges_of_any_width_are_right(table, width):
    with table.server.connect() as session:
        sql = "SELECT count(*), min(id), max(id) FROM reads WHERE id BETWEEN %s AND %s"
        for low in (-5, 1, 200, 399, 401):
            found = [i for i in range(1, 401) if low <= i <= low + width]
            expected = (len(found), min(found, default=None), max(found, default=None))
            for _ in range(3):
                assert session.execute(sql, (low, low + width), prepare=True).fetchone() == expected
        assert session.execute(sql, (10, 5), prepare=True).fetchone() == (0, None, None)
