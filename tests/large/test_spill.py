"""Statements whose partial results are too large to be held: they go through temporary tables, and nobody can tell."""

import pytest

from harness.herd import Herd
from harness.plain_postgres import PlainPostgres

ROWS = 100_000
TABLE = (
    "CREATE TABLE big (id bigint PRIMARY KEY, grp int, t text, n numeric(12,3))",
    f"INSERT INTO big SELECT g, g % 7, repeat(md5(g::text), 32), g / 7.0 FROM generate_series(1, {ROWS}) g",
)
QUERIES = (
    "SELECT count(DISTINCT t), count(*) FROM big",
    "SELECT grp, count(DISTINCT t) FROM big GROUP BY grp ORDER BY grp",
    "SELECT md5(string_agg(t, ',' ORDER BY t COLLATE \"C\")) FROM big",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY t) FROM big",
    "SELECT t, n, rank() OVER (ORDER BY n DESC, t) FROM big ORDER BY 3 LIMIT 5",
    "SELECT max(c) FROM (SELECT t, count(*) AS c FROM big GROUP BY t) s",
)


@pytest.fixture(scope="module")
def herd():
    herd = Herd(nodes=2, shards=4)
    herd.server.run(*TABLE, "SELECT create_distributed_table('big', 'id')")
    yield herd
    herd.stop()


@pytest.fixture(scope="module")
def plain():
    plain = PlainPostgres()
    plain.server.run(*TABLE)
    yield plain.server
    plain.stop()


def peak(herd) -> int:
    """The most memory the router has had, in MiB."""
    with open(f"/proc/{herd.status()['router']['pid']}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def test_answers_are_the_same(herd, plain):
    before = peak(herd)
    with herd.server.connect() as one, plain.connect() as other:
        for query in QUERIES:
            assert one.execute(query).fetchall() == other.execute(query).fetchall(), query
            assert one.execute(query + " -- again", prepare=True).fetchall() == other.execute(query).fetchall(), query
        # What was stored is gone.
        assert one.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'herd_part%'").fetchone() == (0,)
    # The rows of a query are about 100 MiB as text.
    assert peak(herd) - before < 60


def test_in_transactions_of_all_kinds(herd, plain):
    query = QUERIES[0]
    with plain.connect() as other:
        expected = other.execute(query).fetchall()
    with herd.server.connect() as one:
        for begin in ("BEGIN", "BEGIN READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ"):
            one.execute(begin)
            assert one.execute(query).fetchall() == expected, begin
            one.execute("COMMIT")
        # A connection of its own would not know this setting: the rows are held.
        one.execute("BEGIN")
        one.execute("SET LOCAL enable_hashagg = off")
        assert one.execute(query).fetchall() == expected
        one.execute("INSERT INTO big VALUES (-1, 0, 'one more', 0)")
        assert one.execute(query).fetchall() == [(expected[0][0] + 1, expected[0][1] + 1)]
        one.execute("ROLLBACK")
        one.execute("CREATE TEMP TABLE mine (i int)")
        assert one.execute(query).fetchall() == expected
        assert one.execute("SELECT count(*) FROM mine").fetchone() == (0,)


def test_who_may_not_make_tables_has_them_held(herd, plain):
    herd.server.run(
        "CREATE ROLE narrow LOGIN", "GRANT SELECT ON big TO narrow", "REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC"
    )
    for node in herd.node_servers:
        node.run("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    with herd.server.connect() as one:
        one.execute("SET ROLE narrow")
        assert one.execute(QUERIES[0]).fetchone() == (ROWS, ROWS)
