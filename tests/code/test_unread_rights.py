"""WITH queries that nobody reads: PostgreSQL asks for the right to what those read that others name, and not for what nobody names."""

import psycopg
import pytest

pytestmark = pytest.mark.real_herd

_MAKE = (
    "drop table if exists ur_d, ur_e, ur_l, ur_r, ur_c", "create table ur_c (v int, w int)", "create table ur_d (k int primary key, v int)", "create table ur_e (k int primary key, v int)", "create table ur_l (v int, w int)", "create table ur_r (v int)",
    "insert into ur_d select g, g from generate_series(1, 9) g", "insert into ur_e select g, g % 3 from generate_series(1, 9) g", "insert into ur_l values (1, 1)", "insert into ur_r values (1)",
)
_GRANTS = ("grant select on ur_d, ur_e to ur_reader", "grant select (w) on ur_c to ur_reader")
QUERIES = [
    # Named by one that nobody reads: it is planned.
    "with w0 as materialized (select v from {t}), w1 as (select * from w0) select count(*) from ur_d",
    "with w0 as materialized (select v from {t}), w1 as (select * from w0) select count(*) from ur_d d join ur_e e on d.v = e.v",
    "select count(*) from ur_d union all select 7 from ur_e cross join lateral (with w0 as materialized (select v from {t}), w1 as (select * from w0) select 1) x where ur_e.v = 1",
    "with w0 as materialized (select v from {t}), w1 as (select * from w0), w2 as (select * from w1) select count(*) from ur_d where v > 3",
    "update ur_d set v = v from (with w0 as materialized (select v from {t}), w1 as (select * from w0) select k from ur_e) x where x.k = ur_d.v",
    "with w0 as (select v from {t}), w1 as (select * from w0 union all select * from w0) select count(*) from ur_d",
    # It is put into the one that names it, and goes with that.
    "with w0 as (select v from {t}), w1 as (select * from w0) select count(*) from ur_d", "with w0 as not materialized (select v from {t}), w1 as (select * from w0, w0 w) select count(*) from ur_d d join ur_e e on d.v = e.v",
    # Named by nobody: it is not.
    "with w1 as (select v from {t}) select count(*) from ur_d", "with w1 as (select v from {t}) select count(*) from ur_d d join ur_e e on d.v = e.v",
    # Read.
    "with w0 as materialized (select v from {t}), w1 as (select * from w0) select count(*) from ur_d, w1",
    # A WITH query of that name is none of the tables.
    "with {t} as materialized (select 1 as v), w1 as (select * from {t}) select count(*) from ur_d",
]


@pytest.fixture(scope="module", autouse=True)
def filled(oracle, herd):
    for server in (oracle, herd):
        server.run(*_MAKE, "drop role if exists ur_reader", "create role ur_reader")
    herd.run("select create_distributed_table('ur_d', 'k')", "select create_distributed_table('ur_e', 'k')", "select create_reference_table('ur_r')")
    for server in (oracle, herd):
        server.run(*_GRANTS)
    yield
    for server in (oracle, herd):
        server.run("drop table ur_d, ur_e, ur_l, ur_r, ur_c", "drop role ur_reader")


def _answer(connection, sql):
    try:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else cursor.statusmessage
    except psycopg.Error as e:
        return e.sqlstate


@pytest.mark.parametrize("table", ["ur_l", "ur_r", "ur_e"])
@pytest.mark.parametrize("query", QUERIES)
def test_rights(oracle, herd, query, table):
    sql = query.format(t=table)
    with oracle.connect() as one, herd.connect() as many:
        for role in ("set role ur_reader", "reset role"):
            for connection in (one, many):
                connection.execute(role)
            assert _answer(many, sql) == _answer(one, sql), role


def test_some_columns_and_locks_do_not_do(oracle, herd):
    """Which are read, and what else is asked for, nobody here says."""
    with herd.connect() as many:
        many.execute("set role ur_reader")
        assert _answer(many, "with w0 as materialized (select w from ur_c), w1 as (select * from w0) select count(*) from ur_d") == "0A000"
        many.execute("reset role")
        assert _answer(many, "with w0 as (select w from ur_l for update), w1 as (select * from w0) select count(*) from ur_d d join ur_e e on d.v = e.v") == "0A000"
