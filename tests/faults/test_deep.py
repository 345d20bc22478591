"""Statements nested deeply: answered as by PostgreSQL or refused with 54001, and nobody else notices. A fault of the router costs one session."""

import time
import urllib.request

import psycopg
import pytest

from harness import ports
from promises.cluster import Cluster

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(300)]


@pytest.fixture
def table(herd):
    herd.run(
        "drop table if exists deep cascade", "create table deep (k int primary key, v int)",
        "select create_distributed_table('deep', 'k')", "insert into deep select g, g from generate_series(1, 40) g",
    )
    yield "deep"
    herd.run("drop table deep cascade")


SHAPES = {
    "operators": lambda n: ("select count(*), 1" + "+1" * n + " from deep", [(40, 1 + n)]),
    "calls": lambda n: ("select sum(" + "abs(" * n + "k" + ")" * n + ") from deep", [(820,)]),
    "one shard": lambda n: ("select " + "abs(" * n + "k" + ")" * n + " from deep where k = 3", [(3,)]),
    "unions": lambda n: ("select count(*) from (select k from deep" + " union all select k from deep" * 3 + " union all select 1" * n + ") s", [(160 + n,)]),
    "subqueries": lambda n: ("select count(*) from " + "(select k from " * n + "deep" + ") s" * n, [(40,)]),
    "scalar subqueries": lambda n: ("select count(*), " + "(select " * n + "1" + ")" * n + " from deep", [(40, 1)]),
    "queries": lambda n: (
        "with c0 as (select k from deep)" + "".join(f", c{i + 1} as (select k from c{i})" for i in range(n)) + f" select count(*) from c{n}",
        [(40,)],
    ),
    "cases": lambda n: ("select sum(" + "case when k > 0 then " * n + "1" + " end" * n + ") from deep", [(40,)]),
    "ors": lambda n: ("select count(*) from deep where k = 1" + " or k = 2" * n, [(2,)]),
    "parentheses": lambda n: ("select " + "(" * n + "1" + ")" * n, [(1,)]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hundred_levels_are_answered(herd, table, shape):
    text, expected = SHAPES[shape](100)
    with herd.connect() as connection:
        assert connection.execute(text).fetchall() == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_any_depth_costs_one_statement_at_most(herd, table, shape):
    with herd.connect() as other, herd.connect() as connection:
        # WITH queries that name each other: 400 take PostgreSQL itself 10 s.
        for depth in (6_000, 40_000):
            try:
                assert connection.execute(SHAPES[shape](depth)[0]).fetchall() == SHAPES[shape](depth)[1]
            except psycopg.Error as error:
                # PostgreSQL's own: the grammar's stack is full (42601), what a node can evaluate (54001, 54011, 22003).
                assert error.sqlstate in ("54001", "42601", "0A000"), error
        assert other.execute("select count(*) from deep").fetchone() == (40,)


def test_names_of_queries_hide_views_and_tables_where_they_are_seen(herd, table):
    herd.run(
        "create recursive view nums (n) as values (1) union all select n + 1 from nums where n < 5",
        "create view deep_view as select k from deep",
    )
    answers = {
        "select * from nums": [(1,), (2,), (3,), (4,), (5,)],
        "with deep_view as (select 7 as k) select * from deep_view": [(7,)],
        "with deep as (select 7 as k) select count(*) from deep_view": [(40,)],
        "with x as (select count(*) as n from deep), deep as (select 1 as k) select n, k from x, deep": [(40, 1)],
        "with deep as (select k from deep where k < 4) select count(*) from deep": [(3,)],
        "select count(*) from deep where k in (with deep as (select 5 as k) select k from deep)": [(1,)],
        "with recursive deep_view (k) as (select 1 union all select k + 1 from deep_view where k < 3) select count(*) from deep_view": [(3,)],
    }
    with herd.connect() as connection:
        for text, expected in answers.items():
            assert connection.execute(text).fetchall() == expected, text
        # Its view is on home alone, like a local table: rows come to it.
        assert connection.execute("select count(*) from nums, deep").fetchall() == [(200,)]
    herd.run("drop view nums, deep_view")


def test_queries_that_double_are_refused(herd, table):
    """Each names the one before it twice: 2^40 in the end."""
    names = ["with c0 as (select k from deep)"] + [f"c{i + 1} as (select a.k from c{i} a join c{i} b using (k))" for i in range(40)]
    with herd.connect() as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(", ".join(names) + " select count(*) from c40")
        assert caught.value.sqlstate == "54001"
        assert connection.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize("commit", ["commit", f"commit /* {'x' * 20_000} */"], ids=["a statement", "a large one, which is worked on apart"])
def test_a_panic_costs_one_session_and_is_counted(commit):
    with Cluster(nodes=2) as cluster:
        router = cluster.router("plain").start()
        router.server.run("create table t (id int primary key)", "select create_distributed_table('t', 'id')")
        router.server.run("insert into t select generate_series(1, 20)")
        keys = cluster.keys_by_node("t")
        router.server.run("delete from t")
        metrics = ports.free_row(1)
        faulty = cluster.router("faulty", f'metrics = "127.0.0.1:{metrics}"\n').start(HERD_FAILPOINT="two_phase.begin:panic")
        assert _panics(metrics) == 0
        with faulty.server.connect() as other, faulty.server.connect() as connection:
            connection.execute("begin")
            for key in (keys[0][0], keys[1][0]):
                connection.execute("insert into t values (%s)", (key,))
            assert _panics(metrics) == 0
            with pytest.raises(psycopg.OperationalError):
                connection.execute(commit)
            assert connection.closed
            assert other.execute("select count(*) from t").fetchone() == (0,)
            deadline = time.monotonic() + 60
            while ("a fault of the router" not in faulty.tail(100_000) or not _panics(metrics)) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert "failpoint two_phase.begin" in faulty.tail(100_000)
            assert _panics(metrics) == 1


def _panics(metrics: int) -> int:
    page = urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=30).read().decode()
    return next(int(line.split()[1]) for line in page.splitlines() if line.startswith("herd_session_panics_total "))
