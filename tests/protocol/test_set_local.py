"""SET LOCAL where there is no BEGIN: in a string of statements, in a pipeline, and alone; on every node that has a part in what follows."""

import psycopg
import pytest

from protocol.frames import bind, describe, error_fields, execute, parse, query, sync
from protocol.raw import Raw

_KEYS = range(1, 31)
_STRINGS = [
    "set local role sl_nobody; delete from sl_spread where k = {k}",
    "set local role sl_nobody; select v from sl_spread where k = {k}",
    "set local transaction_read_only = on; insert into sl_spread values ({k}, 'x')",
    "set local my.v = 'y'; select count(*) from sl_spread where current_setting('my.v', true) = 'y'",
    "set local my.v = 'y'; select k from sl_spread where current_setting('my.v', true) = 'y' and k = {k}",
    "set local timezone = 'Asia/Tokyo'; select k, '2024-01-01 00:00+00'::timestamptz::text from sl_spread where k = {k}",
    "set local search_path = sl_other; select count(*) from sl_spread",
    "set local datestyle = 'SQL, DMY'; update sl_copies set d = '04/05/2024' where k = 1",
    "set local datestyle = 'SQL, DMY'; update sl_copies set v = d::text; select v from sl_copies",
    "select 1; set local my.v = 'z'; select 2; select current_setting('my.v', true), count(*) from sl_spread",
    "set local my.v = 'z'; begin; select current_setting('my.v', true); rollback",
]


@pytest.fixture(scope="module")
def made(oracle, herd):
    for server in (oracle, herd):
        server.run(
            "drop schema if exists sl_other cascade", "drop table if exists sl_spread, sl_copies", "drop role if exists sl_nobody", "create role sl_nobody",
            "create table sl_spread (k int, v text)", "create table sl_copies (k int, v text, d date)", "insert into sl_copies values (1, 'a', '2024-04-05')",
            f"insert into sl_spread select g, g from generate_series(1, {len(_KEYS)}) g", "create schema sl_other", "create table sl_other.sl_spread (a int)",
        )
    herd.run("select create_distributed_table('sl_spread', 'k')", "select create_reference_table('sl_copies')")
    yield
    for server in (oracle, herd):
        server.run("drop schema sl_other cascade", "drop table sl_spread, sl_copies", "drop role sl_nobody")


@pytest.mark.parametrize("sql", _STRINGS)
def test_in_a_string(made, oracle, herd, sql):
    for k in (_KEYS if "{k}" in sql else [1])[:8]:
        data = query(sql.format(k=k)) + query("select v, d from sl_copies") + query("select coalesce(current_setting('my.v', true), '') = 'y'")
        with Raw(oracle) as plain, Raw(herd) as other:
            assert other.transcript(data, 3) == plain.transcript(data, 3), k


def test_copies_stay_the_same(made, herd):
    herd.run("set local datestyle = 'SQL, DMY'; insert into sl_copies values (9, '04/05/2024'::date::text, '04/05/2024')")
    assert herd.run("select * from herd.verify where object like '%sl_copies%'") in (None, [])


@pytest.mark.parametrize("sql", ["delete from sl_spread where k = {k}", "select v from sl_spread where k = {k}"])
def test_in_a_pipeline(made, oracle, herd, sql):
    for k in _KEYS[:8]:
        codes = []
        for server in (oracle, herd):
            with Raw(server) as raw:
                data = b"".join(parse(s) + bind() + describe() + execute() for s in ("select 1", "set local role sl_nobody", sql.format(k=k)))
                raw.send(data + sync())
                said = [(kind, error_fields(body)["C"] if kind == "E" else None) for kind, body in raw.until_ready() if kind in "ECD"]
                codes.append(said)
        assert codes[1] == codes[0], k


def test_alone_it_says_so(made, oracle, herd):
    data = query("set local work_mem = '5MB'") + query("show work_mem") + query("set local nosuch = 1") + query("set local role sl_nobody") + query("select current_user")
    with Raw(oracle) as plain, Raw(herd) as other:
        assert other.transcript(data, 5) == plain.transcript(data, 5)


def test_the_copies_of_psycopg_pipelines(made, oracle, herd):
    def said(server):
        with server.connect(autocommit=True) as connection:
            try:
                with connection.pipeline():
                    connection.execute("set local role sl_nobody")
                    connection.execute("select v from sl_spread where k = 7")
            except psycopg.Error as e:
                return e.sqlstate
            return connection.execute("select current_user").fetchone()

    assert said(herd) == said(oracle)
