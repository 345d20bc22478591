"""EXECUTE sent by the extended protocol: its columns are told when it is described, and its rows come in the formats that were asked
for, whatever the statement behind the name does besides."""

import psycopg
import pytest

from protocol.frames import bind, describe, execute, extended, parse, query, sync

_MADE = (
    "drop function if exists ebm_dyn(int), ebm_left(int)",
    "drop sequence if exists ebm_values",
    "drop table if exists ebm_local",
    "create sequence ebm_values",
    "create table ebm_local (id int, v int)",
    "insert into ebm_local values (1, 1)",
    # It puts its statement together.
    "create function ebm_dyn(a int) returns int language plpgsql as $$ declare v int; begin execute 'select ' || a into v; return v; end $$",
    # It leaves something in the session.
    "create function ebm_left(a int) returns int language plpgsql as $$ begin perform set_config('my.own', a::text, false); return a; end $$",
)
_PREPARED = {
    "watched code": "select ebm_dyn(7) as v, 'x' as t",
    "watched code with a parameter": "select ebm_dyn($1) as v",
    "code that leaves something": "select ebm_left(7) as v",
    "a setting": "select set_config('my.own', '7', false)",
    "a session's lock": "select pg_advisory_unlock_all() is null as v",
    "values of sequences": "select nextval('ebm_values') > 0, lastval() > 0 as v",
    "rows": "select id, t from proto where id = 7",
    "rows of several nodes": "select id, t from proto where id < 5 order by id",
    "a change": "update proto_write set v = 1 where id = -1",
    "a change of home's own": "update ebm_local set v = ebm_dyn(v + 1) returning id, v",
    "a row of home's own": "insert into ebm_local values (2, ebm_dyn(5)) returning id, v",
    "a row": "insert into proto_write values (901, 5) returning id, v",
}


@pytest.fixture
def made(empty_write_table, oracle, herd):
    for server in (oracle, herd):
        server.run(*_MADE)
    yield
    for server in (oracle, herd):
        server.run("drop function ebm_dyn(int), ebm_left(int)", "drop sequence ebm_values", "drop table ebm_local")


@pytest.mark.parametrize("name", _PREPARED)
def test_execute(made, same, oracle, herd, name):
    sql = _PREPARED[name]
    parameter = "$1" in sql
    prepare = query(f"prepare p{'(int)' * parameter} as {sql}")
    run = f"execute p{'(9)' * parameter}"
    undo = query("delete from proto_write")
    for results in ((), (1,)):
        said = same(prepare + extended(run, results=results) + sync() + undo, 3)
        assert any(line.startswith("C ") for line in said[2:]), said
        # As JDBC does it: described once by its name, and bound again and again.
        named = parse(run, "s") + describe("S", "s") + sync()
        again = b"".join(bind(statement="s", results=results) + execute() + sync() + undo for _ in range(2))
        same(prepare + named + again, 6)
        same(prepare + named + bind(statement="s", results=results) + describe() + execute() + sync(), 3)
        same(query("begin") + prepare + extended(run, results=results) + sync() + query("rollback"), 4)


def test_drivers_that_prepare(made, herd):
    with herd.connect(autocommit=True) as connection:
        connection.execute("prepare p(int) as select ebm_dyn($1) as v")
        for binary in (False, True):
            for _ in range(3):
                cursor = connection.execute("execute p(4)", prepare=True, binary=binary)
                assert [c.name for c in cursor.description] == ["v"]
                assert cursor.fetchall() == [(4,)]


def test_execute_of_a_routers_function(herd):
    """It is no node's: its column is the router's to tell."""
    with herd.connect(autocommit=True) as connection:
        connection.execute("prepare p as select citus_version()")
        for prepare in (False, True):
            cursor = connection.execute("execute p", prepare=prepare)
            assert [c.name for c in cursor.description] == ["citus_version"]
            assert cursor.fetchone()[0].startswith("pgherd ")


def test_what_is_wrong_is_told(made, herd):
    with herd.connect(autocommit=True) as connection:
        connection.execute("prepare p(int) as select ebm_dyn($1) as v")
        for sql, error in (("execute nosuch", psycopg.errors.InvalidSqlStatementName), ("execute p", psycopg.errors.SyntaxError)):
            with pytest.raises(error):
                connection.execute(sql, prepare=True)
        assert connection.execute("execute p(1)", prepare=True).fetchone() == (1,)
