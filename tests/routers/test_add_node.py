"""A server joins a running herd: reference tables are copied to it, new tables use it, the other router knows of it."""

import threading
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]


def _eventually(ask, wanted, seconds_max: float = 60):
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
        "create view in_words with (security_barrier) as select b.id, w.word from before b left join words w using (id)", "grant select on in_words to public",
        "create view odd_words as select * from in_words where id % 2 = 1", "create table alone (id int)", "create view of_alone as select * from alone",
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
            views = "select relname, reloptions, relacl::text from pg_class where relkind = 'v' and relname in ('in_words', 'odd_words', 'of_alone') order by 1"
            assert direct.execute(views).fetchall() == a.execute(views).fetchall()[:1] + a.execute(views).fetchall()[1:2]
        assert a.execute("select count(*), count(word) from odd_words").fetchone() == (25, 1)
        a.execute("drop view odd_words, in_words, of_alone")
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


@pytest.mark.parametrize("slow", [0, 1])
def test_an_index_that_is_made_meanwhile(pair, slow):
    """CREATE INDEX CONCURRENTLY takes as long as the oldest transaction: a node that has come by then has the index, or nobody."""
    pair.a.run("drop table if exists ix_table", "create table ix_table (id int primary key, v int)", "select create_distributed_table('ix_table', 'id', colocate_with => 'none')", "insert into ix_table select g, g from generate_series(1, 50) g")
    new, said = pair.new_node(), []

    def index():
        try:
            with pair.b.connect() as b:
                b.execute("create unique index concurrently ix_table_v on ix_table (id, v)")
        except psycopg.Error as error:
            said.append(error.sqlstate)

    making = threading.Thread(target=index)
    with pair.nodes[slow].server.connect(autocommit=False) as old, pair.a.connect() as a:
        old.execute("set transaction isolation level repeatable read")
        old.execute("select count(*) from pg_class")
        making.start()
        waits = "select count(*) from pg_stat_activity where query ~* 'create unique index concurrently' and wait_event = 'virtualxid'"
        with pair.nodes[slow].server.connect() as looks:
            _eventually(lambda: looks.execute(waits).fetchone(), (1,))
        a.execute(f"select citus_add_node('127.0.0.1', {new.port})")
        old.rollback()
        making.join()
        nodes = [*pair.nodes, new]
        # Home's is whole before the other node has its own: the new node gets it from there.
        assert said == ([] if slow else ["55006"])
        if said:
            for node in nodes:
                with node.server.connect() as direct:
                    assert direct.execute("select count(*) from pg_class where relname like '%ix_table_v%'").fetchone() == (0,)
            a.execute("create unique index concurrently ix_table_v on ix_table (id, v)")
        for node in nodes:
            with node.server.connect() as direct:
                assert direct.execute("select indisvalid, indisunique from pg_index where indexrelid = 'ix_table_v'::regclass").fetchone() == (True, True)
        a.execute("drop index concurrently ix_table_v")
        for node in nodes:
            with node.server.connect() as direct:
                assert direct.execute("select count(*) from pg_class where relname like '%ix_table_v%'").fetchone() == (0,)
        a.execute("drop table ix_table")


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


def test_what_every_node_has_comes_along(pair):
    """Roles, schemas, types, functions, extensions: a table that needs them works on the new node, for its own user."""
    pair.a.run(
        "create role clerk login password 'secret'", "create role staff", "grant staff to clerk",
        "create schema shop", "grant usage on schema shop to staff",
        "create extension hstore",
        "create type shop.mood as enum ('sad', 'it''s ok', 'happy')",
        "create domain shop.price as numeric(10,2) not null default 1 constraint positive check (value > 0)",
        "create type shop.pair as (a int, b shop.mood)",
        "create function shop.twice(x shop.price) returns numeric language sql immutable as 'select x * 2'",
        "create function shop.stamp() returns trigger language plpgsql as 'begin new.note := upper(new.note); return new; end'",
        "create table shop.item (id int primary key, m shop.mood, p shop.price, tags hstore, both_ shop.pair, note text,"
        " check (shop.twice(p) < 1000))",
        "select create_distributed_table('shop.item', 'id', colocate_with => 'none')",
        "create trigger stamp before insert on shop.item for each row execute function shop.stamp()",
        "grant select, insert on shop.item to staff",
    )
    new = pair.new_node()
    with pair.a.connect() as a, pair.b.connect() as b:
        a.execute(f"select citus_add_node('127.0.0.1', {new.port})")
        with new.server.connect() as direct:
            assert direct.execute("select rolpassword like 'SCRAM%%', rolcanlogin from pg_authid where rolname = 'clerk'").fetchone() == (True, True)
            assert direct.execute("select pg_has_role('clerk', 'staff', 'member')").fetchone() == (True,)
            assert direct.execute("select shop.twice(2.5)").fetchone()[0] == 5
        a.execute("create table shop.more (like shop.item including all)")
        a.execute("select create_distributed_table('shop.more', 'id', colocate_with => 'none')")
        a.execute("create trigger stamp before insert on shop.more for each row execute function shop.stamp()")
        a.execute("grant select, insert on shop.more to staff")
        a.execute("set role clerk")
        for key in range(60):
            a.execute(f"insert into shop.more values ({key}, 'happy', 2.5, 'a=>1', (1, 'sad'), 'note')")
        a.execute("reset role")
        with new.server.connect() as direct:
            assert direct.execute("select count(*) > 0, min(note), max(m::text) from shop.more").fetchone() == (True, "NOTE", "happy")
        _eventually(lambda: _answer(b, "select count(*), min(both_::text) from shop.more"), (60, "(1,sad)"))
        a.execute("alter type shop.mood add value 'merry'")
        a.execute("update shop.more set m = 'merry'")
        assert b.execute("select distinct m::text from shop.more").fetchall() == [("merry",)]


def test_what_cannot_come_along_is_refused(pair):
    pair.a.run("create aggregate total_of(int) (sfunc = int4pl, stype = int)")
    new = pair.new_node()
    with pair.a.connect() as a:
        nodes = a.execute("select * from herd.nodes").fetchall()
        with pytest.raises(psycopg.Error, match="aggregate .*total_of.* is not on the new node") as refused:
            a.execute(f"select citus_add_node('127.0.0.1', {new.port})")
        assert refused.value.sqlstate == "0A000" and refused.value.diag.message_hint
        assert a.execute("select * from herd.nodes").fetchall() == nodes
        with new.server.connect() as direct:
            assert direct.execute("select to_regclass('before')").fetchone() == (None,)
            direct.execute("create aggregate total_of(int) (sfunc = int4pl, stype = int)")
        a.execute(f"select citus_add_node('127.0.0.1', {new.port})")
        assert a.execute("select count(*) from herd.nodes").fetchone() == (len(nodes) + 1,)


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


def test_a_node_prepared_by_an_older_version_gets_what_it_lacks():
    home, other = router.node("newer"), router.node("older")
    made = None
    try:
        made = router.Router(router.conninfo(home), [router.conninfo(other)])
        made.stop()
        other.server.run("drop function herd.cluster_partition(regclass, regclass, text)", "comment on schema herd is 'of another version'")
        made = router.Router(router.conninfo(home), [router.conninfo(other)])
        there = "select to_regprocedure('herd.cluster_partition(regclass,regclass,text)') is not null"
        with other.server.connect() as connection:
            for _ in range(600):
                if connection.execute(there).fetchone() == (True,):
                    return
                time.sleep(0.1)
        raise AssertionError("the node lacks it still")
    finally:
        if made:
            made.stop()
        home.stop()
        other.stop()
