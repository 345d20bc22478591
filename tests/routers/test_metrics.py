"""What the metrics page says of statements: counted once, by the strategy that EXPLAIN names, and errors by their SQLSTATE."""

import re
import urllib.request

import psycopg
import pytest

from harness import ports, router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-metrics"), pytest.mark.timeout(300)]

_STRATEGIES = ("route", "scatter", "reference", "copy", "ddl", "other")


@pytest.fixture(scope="module")
def counted():
    nodes = [router.node(f"metrics{n}") for n in (1, 2)]
    port = ports.free_row(1)
    home, other = map(router.conninfo, nodes)
    one = router.Router(home, [other], more=f'metrics = "127.0.0.1:{port}"\n')
    one.page = f"http://127.0.0.1:{port}/metrics"
    try:
        one.server.run(
            "create table m (id int primary key, v int)", "select create_distributed_table('m', 'id')", "insert into m select g, g from generate_series(1, 40) g",
            "create table r (id int primary key, v int)", "select create_reference_table('r')", "insert into r values (1, 1)", "create table l (id int primary key)",
        )
        yield one
    finally:
        for each in (one, *nodes):
            each.stop()


def _page(counted) -> dict[str, float]:
    text = urllib.request.urlopen(counted.page, timeout=30).read().decode()
    return {name: float(value) for name, value in re.findall(r"^([a-z_]+(?:\{.*\})?) (\S+)$", text, re.M)}


def _grown(before: dict, after: dict, name: str) -> dict[str, int]:
    """By how much each of a metric's counters has grown, by its label; those that have not are left out."""
    labelled = re.compile(rf'{name}\{{\w+="([^"]+)"\}}')
    found = {m.group(1): int(value - before.get(key, 0)) for key, value in after.items() if (m := labelled.fullmatch(key))}
    return {label: more for label, more in found.items() if more}


# A statement, as what it is counted, and what EXPLAIN says first, if that is the herd's word.
_STATEMENTS = [
    ("select v from m where id = 3", "route", "Herd route"),
    ("update m set v = v where id = 3", "route", "Herd route"),
    ("insert into m values (41, 41)", "route", "Herd route"),
    ("select count(*), sum(v) from m", "scatter", "Herd scatter"),
    ("select id from m order by v limit 3", "scatter", "Herd scatter"),
    ("update m set v = v", "scatter", "Herd scatter"),
    ("insert into m values (42, 1), (43, 1), (44, 1), (45, 1), (46, 1), (47, 1)", "scatter", "Herd scatter"),
    ("update r set v = v + 1", "reference", "Herd reference"),
    ("insert into r values (2, 2)", "reference", "Herd reference"),
    # Any node has all of it.
    ("select v from r", "route", None),
    ("select id from l", "route", None),
    ("create table made (id int)", "ddl", None),
    ("show search_path", "other", None),
]


@pytest.mark.parametrize("sql, strategy, explained", _STATEMENTS)
def test_a_statement_is_counted_once_as_what_explain_says(counted, sql, strategy, explained):
    with counted.server.connect() as connection:
        if explained:
            assert connection.execute(f"explain (costs off) {sql}").fetchone()[0] == explained
            ((document,),) = connection.execute(f"explain (costs off, format json) {sql}").fetchall()
            # One node's document is that node's own.
            assert document[0]["Plan"]["Node Type"] == explained or strategy == "route"
        before = _page(counted)
        # Three times: it is planned, kept, and found again.
        times = 1 if sql.startswith(("insert", "create")) else 3
        for _ in range(times):
            connection.execute(sql)
        after = _page(counted)
    assert _grown(before, after, "herd_statement_seconds_count") == {strategy: times}
    assert _grown(before, after, "herd_errors_total") == {}


def test_copy_is_counted(counted):
    with counted.server.connect() as connection:
        before = _page(counted)
        with connection.cursor() as cursor, cursor.copy("copy m from stdin") as copy:
            copy.write("101\t1\n102\t1\n")
        with connection.cursor() as cursor, cursor.copy("copy m to stdout") as copy:
            rows = sum(1 for _ in copy.rows())
        after = _page(counted)
    assert rows > 40 and _grown(before, after, "herd_statement_seconds_count") == {"copy": 2}


_FAILING = [
    ("select 1 / (v - v) from m where id = 3", "route", "22012"),
    ("select 1 / (v - v) from m", "scatter", "22012"),
    ("insert into r values (1, 1)", "reference", "23505"),
    ("select * from nowhere", "route", "42P01"),
    ("create table m (id int)", "ddl", "42P07"),
]


@pytest.mark.parametrize("sql, strategy, sqlstate", _FAILING)
def test_an_error_is_counted_by_its_sqlstate(counted, sql, strategy, sqlstate):
    with counted.server.connect() as connection:
        before = _page(counted)
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(sql)
        after = _page(counted)
    assert caught.value.sqlstate == sqlstate
    assert _grown(before, after, "herd_errors_total") == {sqlstate: 1}
    assert _grown(before, after, "herd_statement_seconds_count") == {strategy: 1}


def test_a_histogram_adds_up(counted):
    with counted.server.connect() as connection:
        before = _page(counted)
        connection.execute("select count(*), pg_sleep(0.06) from m group by v limit 1").fetchall()
        after = _page(counted)
    for strategy in _STRATEGIES:
        buckets = [value for key, value in after.items() if key.startswith(f'herd_statement_seconds_bucket{{strategy="{strategy}"')]
        assert len(buckets) == 15 and buckets == sorted(buckets)
        assert buckets[-1] == after[f'herd_statement_seconds_count{{strategy="{strategy}"}}']
    # It took longer than 50 ms: in no bucket below that.
    for le, more in (("0.05", 0), ("30", 1), ("+Inf", 1)):
        name = f'herd_statement_seconds_bucket{{strategy="scatter",le="{le}"}}'
        assert after[name] - before[name] == more, le
    took = after['herd_statement_seconds_sum{strategy="scatter"}'] - before['herd_statement_seconds_sum{strategy="scatter"}']
    assert 0.06 <= took < 60
