"""A server joins a running herd: reference tables are copied to it, new tables use it, the other router knows of it."""

import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]


def _eventually(ask, wanted, seconds_max: float = 10):
    """Routers learn of changes by NOTIFY."""
    deadline = time.monotonic() + seconds_max
    while (got := ask()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    assert got == wanted


def test_a_node_joins_and_gets_shards(pair):
    pair.a.run(
        "create table before (id int primary key, v int)", "select create_distributed_table('before', 'id')",
        "insert into before select g, g from generate_series(1, 50) g",
        "create table words (id int primary key, word text)", "select create_reference_table('words')",
        "insert into words values (1, 'one'), (2, 'two')",
    )
    new = pair.new_node()
    with pair.a.connect() as a, pair.b.connect() as b:
        count = a.execute("select count(*) from herd.nodes").fetchone()[0]
        assert isinstance(a.execute(f"select citus_add_node('127.0.0.1', {new.port})").fetchone()[0], int)
        assert a.execute("select count(*) from herd.nodes").fetchone() == (count + 1,)
        # Nothing that was there has moved, and all of it is still answered.
        assert a.execute("select count(*), sum(v) from before").fetchone() == (50, 1275)
        with new.server.connect() as direct:
            assert direct.execute("select count(*) from words").fetchone() == (2,)
            assert direct.execute("select count(*) from before").fetchone() == (0,)
        a.execute("create table after (id int primary key, v int)")
        a.execute("select create_distributed_table('after', 'id', colocate_with => 'none')")
        a.execute("insert into after select g, g from generate_series(1, 200) g")
        with new.server.connect() as direct:
            here = direct.execute("select count(*) from after").fetchone()[0]
        assert 0 < here < 200
        _eventually(lambda: b.execute("select count(*) from herd.nodes").fetchone()[0], count + 1)
        _eventually(lambda: _answer(b, "select count(*), sum(v) from after"), (200, 20100))
        b.execute("insert into words values (3, 'three')")
        b.execute("update after set v = v + 1")
        assert a.execute("select sum(v) from after").fetchone() == (20300,)
        joined = "select w.word, a.v from after a join words w on w.id = a.id where a.id <= 3"
        assert sorted(a.execute(joined).fetchall()) == [("one", 2), ("three", 4), ("two", 3)]
        with new.server.connect() as direct:
            assert direct.execute("select count(*) from words").fetchone() == (3,)
        a.execute("create table local_one (id int)")
        a.execute("alter table before add column w int default 7")
        assert a.execute("select sum(w) from before").fetchone() == (350,)


def test_a_node_with_shards_is_not_removed(pair):
    with pair.a.connect() as a:
        a.execute("drop table if exists stays")
        a.execute("create table stays (id int primary key)")
        a.execute("select create_distributed_table('stays', 'id', colocate_with => 'none')")
        with pair.nodes[1].server.connect() as direct:
            if direct.execute("select to_regclass('stays')").fetchone() == (None,):
                pytest.fail("the second node has no part of the new table")
        nodes = a.execute("select * from herd.nodes").fetchall()
        with pytest.raises(psycopg.Error) as refused:
            a.execute(f"select citus_remove_node('127.0.0.1', {pair.nodes[1].port})")
        assert refused.value.diag.message_hint or refused.value.diag.message_detail, str(refused.value)
        assert a.execute("select * from herd.nodes").fetchall() == nodes


def test_a_server_that_is_not_there(pair):
    with pair.a.connect() as a:
        nodes = a.execute("select * from herd.nodes").fetchall()
        with pytest.raises(psycopg.Error) as refused:
            a.execute("select citus_add_node('127.0.0.1', 1)")
        assert (refused.value.sqlstate or "").startswith("08"), refused.value.sqlstate
        assert a.execute("select * from herd.nodes").fetchall() == nodes


def test_a_node_twice(pair):
    """A second node of the same address would be the same server twice."""
    with pair.a.connect() as a:
        assert a.execute("select count(*) from herd.nodes where port = %s", (pair.nodes[1].port,)).fetchone() == (1,)
        before = a.execute("select count(*) from herd.nodes").fetchone()
        try:
            a.execute(f"select citus_add_node('127.0.0.1', {pair.nodes[1].port})")
        except psycopg.Error as error:
            assert error.sqlstate not in (None, "XX000"), str(error)
        assert a.execute("select count(*) from herd.nodes").fetchone() == before


def _answer(connection, sql):
    try:
        return connection.execute(sql).fetchone()
    except psycopg.Error as error:
        return error.sqlstate
