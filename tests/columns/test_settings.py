"""Settings of reads of column copies: sums of floats, and hints for one statement."""

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("columns"), pytest.mark.timeout(300)]

_TABLE = "create table c_floats (id int primary key, g int, f8 double precision, f4 real)"
_ON = "/*+ Set(herd.columns on) */ "


@pytest.fixture(scope="module")
def floats(columns, oracle):
    # Halves: no sum of them is rounded, whatever their order.
    rows = "insert into c_floats select i, i % 7, case when i % 11 > 0 then i / 2.0 - 600 end, case when i % 5 > 0 then i / 4.0 end from generate_series(1, 3000) i"
    oracle.run("drop table if exists c_floats", _TABLE, rows)
    columns.server.run("drop table if exists c_floats", _TABLE, "select create_distributed_table('c_floats', 'id')", rows)
    columns.add("c_floats")
    return columns


def _by_columns(columns, connection, sql, **kwargs):
    """Its rows, and how many reads of columns that were, and how many that rows answered."""
    before = columns.reads()
    rows = connection.execute(sql, **kwargs).fetchall()
    return rows, tuple(now - was for now, was in zip(columns.reads(), before))


def test_floats_are_added_up_where_that_is_allowed(floats, oracle):
    queries = [
        "select sum(f8), sum(f4), avg(f8), avg(f4), count(f8) from c_floats",
        "select g, sum(f8), avg(f4) from c_floats group by g order by g",
        "select sum(f8) filter (where g > 3), sum(g::float8) from c_floats where id > 100",
        "select sum(f8), avg(f4) from c_floats where id < 0",
        "select avg(f8) from c_floats where f8 is null",
    ]
    with floats.server.connect() as herd, oracle.connect() as plain:
        herd.execute("set herd.columns = on")
        for sql in queries:
            want = plain.execute(sql).fetchall()
            assert _by_columns(floats, herd, sql) == (want, (0, 0)), sql
            said = "\n".join(row[0] for row in herd.execute(f"explain {sql}"))
            assert "herd.column_float_sums is off" in said, said
        herd.execute("set herd.column_float_sums = on")
        for sql in queries:
            want = plain.execute(sql).fetchall()
            for _ in range(4):
                assert _by_columns(floats, herd, sql) == (want, (1, 0)), sql


def test_sums_without_end_are_postgresqls(floats, oracle):
    odd = "insert into c_floats values (10001, 100, 1e308, 3e38), (10002, 100, 1e308, 3e38), (10003, 101, 'inf', '-inf'), (10004, 102, 'nan', 1), (10005, 103, 'inf', 1), (10006, 103, '-inf', 1), (10007, 104, -0.0, -0.0)"
    for server in (floats.server, oracle):
        server.run(odd)
    queries = [f"select {what} from c_floats where g = {g}" for g in range(100, 105) for what in ("sum(f8)", "sum(f4)", "avg(f4)", "g, count(*), sum(f8)")]
    queries = [f"{sql} group by g" if "count" in sql else sql for sql in queries]
    # What is too great is so for who leaves the group out, too.
    queries += ["select g, sum(f8) from c_floats group by g having count(*) < 2", "select g, sum(f8) from c_floats group by g order by count(*), g limit 2"]
    try:
        with floats.server.connect() as herd, oracle.connect() as plain:
            herd.execute("set herd.columns = on")
            herd.execute("set herd.column_float_sums = on")
            for sql in queries:
                assert _answer(herd, sql) == _answer(plain, sql), sql
    finally:
        for server in (floats.server, oracle):
            server.run("delete from c_floats where id > 10000")


def _answer(connection, sql):
    try:
        return repr(connection.execute(sql).fetchall())
    except psycopg.Error as error:
        return error.sqlstate


def test_a_hint_is_for_one_statement(floats):
    sql = "select count(*), max(g) from c_floats where id = 17"
    with floats.server.connect() as herd:
        assert _by_columns(floats, herd, sql) == ([(1, 3)], (0, 0))
        assert _by_columns(floats, herd, _ON + sql) == ([(1, 3)], (1, 0))
        assert _by_columns(floats, herd, sql) == ([(1, 3)], (0, 0))
        herd.execute("set herd.columns = on")
        assert _by_columns(floats, herd, "/*+ Set(herd.columns off) */ " + sql) == ([(1, 3)], (0, 0))
        assert _by_columns(floats, herd, sql) == ([(1, 3)], (1, 0))
        herd.execute("set herd.columns = auto")
        # Two of one string.
        assert _by_columns(floats, herd, f"{sql}; {_ON}{sql}; {sql}") == ([(1, 3)], (1, 0))
        said = "\n".join(row[0] for row in herd.execute(f"{_ON}explain {sql}"))
        assert "DuckDB" in said or "store" in said, said
        assert "store" not in "\n".join(row[0] for row in herd.execute(f"explain {sql}"))


def test_a_prepared_statement_keeps_its_hint(floats):
    sql = "select count(*), max(g) from c_floats where id = %s"
    with floats.server.connect() as herd:
        for key in (17, 18, 19, 20):
            rows = [(1, key % 7)]
            assert _by_columns(floats, herd, _ON + sql, params=(key,), prepare=True) == (rows, (1, 0))
            assert _by_columns(floats, herd, sql, params=(key,), prepare=True) == (rows, (0, 0))


def test_two_settings_in_one_hint(floats):
    with floats.server.connect() as herd:
        hint = "/*+ Set(herd.columns on) Set(herd.column_float_sums on) SeqScan(c_floats) */ "
        assert _by_columns(floats, herd, hint + "select sum(f4) from c_floats where g = 3")[1] == (1, 0)
        assert _by_columns(floats, herd, "select sum(f4) from c_floats where g = 3")[1] == (0, 0)
        assert herd.execute("show herd.columns").fetchone() == ("auto",)


def test_a_failed_transaction_is_ended_whatever_the_hint(floats):
    with floats.server.connect() as herd:
        herd.execute("begin")
        for sql, state in (("select 1 / 0", "22012"), ("/*+ Set(herd.column on) */ select 1", "25P02")):
            with pytest.raises(psycopg.Error) as error:
                herd.execute(sql)
            assert error.value.sqlstate == state
        herd.execute("/*+ Set(herd.column on) */ rollback")
        assert herd.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize(("hint", "state"), [("herd.columns perhaps", "22023"), ("herd.column on", "42704"), ("herd.two_phase off", "42704")])
def test_a_hint_of_nothing_is_told(floats, hint, state):
    with floats.server.connect() as herd:
        for prepare in (False, True):
            with pytest.raises(psycopg.Error) as error:
                herd.execute(f"/*+ Set({hint}) */ select count(*) from c_floats where id > %s", (1,), prepare=prepare)
            assert error.value.sqlstate == state
        # Those of others are theirs.
        assert herd.execute("/*+ Set(random_page_cost 1.1) IndexScan(c_floats) */ select count(*) from c_floats where id = 3").fetchone() == (1,)
