"""A COMMIT that changes the schema keeps other changes waiting, and one over several nodes those that take one snapshot of all nodes: none of a user's own
code runs meanwhile, however it was left to COMMIT."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]

# What the code takes at least, and what somebody else may take beside it.
LONG, SHORT = 8, 5


@pytest.fixture
def store(place):
    place.server.run(
        "create schema held authorization mallory",
        "create schema other authorization victim",
        "create table held.d (id int primary key, v int)",
        "alter table held.d owner to mallory",
        "select create_distributed_table('held.d', 'id')",
        "insert into held.d select g, g from generate_series(1, 60) g",
        "create table held.log (id int primary key, n int)",
        "alter table held.log owner to mallory",
        "grant usage on schema held to victim",
        "grant select on held.d to victim",
    )
    yield place
    place.server.run("drop schema held cascade", "drop schema other cascade")


ENDS = {
    "schema": ("create table held.x (a int)", ["create table other.y (a int)"]),
    "nodes": ("update held.d set v = v + 1", ["begin isolation level repeatable read", "select count(*) from held.d", "commit"]),
}


def _beside(store, statements, others):
    """Runs a transaction, and others' statements while it commits; what its COMMIT said."""
    said = []
    with store.as_role("mallory", autocommit=True) as c, store.as_role("victim", autocommit=True) as o:
        o.execute("select count(*) from held.d")
        c.execute("begin")
        for statement in statements:
            c.execute(statement)

        def commit():
            begun = time.monotonic()
            try:
                c.execute("commit")
            except psycopg.Error as e:
                said.append(e.sqlstate)
            said.append(time.monotonic() - begun)

        thread = threading.Thread(target=commit)
        thread.start()
        time.sleep(1)
        begun = time.monotonic()
        for statement in others:
            o.execute(statement)
        took = time.monotonic() - begun
        thread.join()
    assert took < SHORT
    return said


@pytest.mark.parametrize("end", ENDS)
def test_cursors_that_are_held(store, end):
    statement, others = ENDS[end]
    declare = f"declare h cursor with hold for select pg_sleep({LONG})"
    [took] = _beside(store, [declare, statement], others)
    assert took >= LONG - 1


@pytest.mark.parametrize("end", ENDS)
def test_cursors_that_code_holds(store, end):
    statement, others = ENDS[end]
    with store.as_role("mallory", autocommit=True) as c:
        c.execute(
            "create function held.hold() returns void language plpgsql as "
            f"$$ begin execute 'declare h cursor with hold for select pg_sleep({LONG})'; end $$"
        )
    # An update of all nodes may have another decider than home: the code runs where that is home.
    said, took = _beside(store, ["select held.hold()", "insert into held.log values (1, 1)", statement], others)
    assert said == "0A000" and took < LONG - 1


@pytest.mark.parametrize("end", ENDS)
def test_triggers_that_put_themselves_off(store, end):
    statement, others = ENDS[end]
    with store.as_role("mallory", autocommit=True) as c:
        c.execute(
            "create function held.again() returns trigger language plpgsql as $$ begin "
            "if new.n < 3 then set constraints all deferred; update held.log set n = n + 1 where id = new.id; "
            f"else perform pg_sleep({LONG}); end if; return null; end $$"
        )
        c.execute(
            "create constraint trigger again after insert or update on held.log deferrable initially deferred "
            "for each row execute function held.again()"
        )
    [took] = _beside(store, ["insert into held.log values (1, 0)", statement], others)
    assert took >= LONG - 1
    store.server.run("update held.log set n = 3 where n <> 3")
    with store.server.connect() as c:
        assert c.execute("select n from held.log").fetchall() == [(3,)]


def test_triggers_without_an_end(store):
    with store.as_role("mallory", autocommit=True) as c:
        c.execute(
            "create function held.forever() returns trigger language plpgsql as $$ begin "
            "set constraints all deferred; update held.log set n = n + 1 where id = new.id; return null; end $$"
        )
        c.execute(
            "create constraint trigger forever after insert or update on held.log deferrable initially deferred "
            "for each row execute function held.forever()"
        )
        c.execute("begin")
        c.execute("insert into held.log values (1, 0)")
        c.execute("create table held.x (a int)")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            c.execute("commit")
        assert c.execute("select count(*) from held.log").fetchone() == (0,)


def test_what_is_held_is_as_it_was_declared(store):
    """It is read before COMMIT, and stands where it stood."""
    with store.as_role("mallory", autocommit=True) as c:
        c.execute("insert into held.log select g, g * g from generate_series(1, 20) g")
        c.execute("begin")
        c.execute("declare a scroll cursor with hold for select id, n from held.log order by id")
        c.execute("declare b no scroll cursor with hold for select id from held.log order by id desc")
        assert c.execute("fetch 3 from a").fetchall() == [(1, 1), (2, 4), (3, 9)]
        assert c.execute("fetch 2 from b").fetchall() == [(20,), (19,)]
        c.execute("create table held.x (a int)")
        c.execute("commit")
        c.execute("delete from held.log")
        assert c.execute("fetch prior from a").fetchall() == [(2, 4)]
        assert c.execute("fetch last from a").fetchall() == [(20, 400)]
        assert c.execute("fetch next from b").fetchall() == [(18,)]
        assert c.execute("select name, is_holdable from pg_cursors order by 1").fetchall() == [("a", True), ("b", True)]
        c.execute("close all")
        assert c.execute("select count(*) from pg_cursors").fetchone() == (0,)
