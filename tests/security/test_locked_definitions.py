"""Who locks what is hers keeps those waiting who use it, and nobody else: the catalog is loaded beside any lock."""

import contextlib
import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]

_SECONDS_MAX = 20

# What mallory has, and what she locks of it. PostgreSQL's printing of definitions would wait for each of these.
_LOCKS = {
    "a view": "lock table hers.seen in access exclusive mode",
    "what a view reads": "lock table only hers.base in access exclusive mode",
    "a table with all sorts of expressions": "lock table hers.busy in access exclusive mode",
    "a partition": "lock table hers.part_1 in access exclusive mode",
    "what a function reads": "lock table hers.read_by_code in access exclusive mode",
    "what a rule writes": "lock table hers.ruled in access exclusive mode",
    "a composite type": "alter type hers.pair add attribute c int",
}
_MADE = """
create table hers.base (id int primary key, v int);
create view hers.seen as select id, v from hers.base;
create view hers.outer as select id from hers.seen;
create table hers.busy (id int primary key, v int check (v < 1000), twice int generated always as (v * 2) stored);
create policy p on hers.busy using (v > pg_catalog.current_setting('hers.least', true)::int);
create table hers.part (id int, v int) partition by list (id);
create table hers.part_1 partition of hers.part for values in (1);
create table hers.read_by_code (id int);
create function hers.f() returns bigint language sql stable begin atomic select count(*) from hers.read_by_code; end;
create table hers.ruled (id int);
create rule r as on insert to hers.base do also insert into hers.ruled values (new.id);
create type hers.pair as (a int, b int);
create table hers.paired (id int, p int default ((row(1, 2)::hers.pair).a));
create function hers.g(p hers.pair default row(1, 2)::hers.pair) returns int language sql as 'select (p).a';
create view hers.pairs as select (row(1, 2)::hers.pair).b;
"""


@pytest.fixture(scope="module")
def hers(place):
    with place.as_role("mallory") as mallory:
        mallory.execute(_MADE, prepare=False)
    place.server.run("create table theirs (id int primary key, v int)", "select create_distributed_table('theirs', 'id')",
                     "create view theirs_seen as select id, v from theirs", "insert into theirs values (1, 1), (2, 2), (3, 3)")
    yield
    place.server.run("drop view theirs_seen", "drop table theirs", "drop schema hers cascade", "create schema hers authorization mallory")


@contextlib.contextmanager
def _held(place, sql):
    with place.on_node(0, "mallory", autocommit=False) as mallory:
        mallory.execute(sql)
        yield mallory
        mallory.rollback()


@pytest.mark.parametrize("what", _LOCKS)
def test_nobody_else_waits(place, hers, what):
    with _held(place, _LOCKS[what]), place.server.connect() as root, place.as_role("victim") as victim:
        for number in range(4):
            begun = time.monotonic()
            root.execute(f"create table public.changes_{number} (id int)")
            root.execute(f"drop table public.changes_{number}")
            victim.execute("select 1")
            assert root.execute("select sum(v) from theirs").fetchone() == (6,)
            assert root.execute("select count(*) from theirs_seen").fetchone() == (3,)
            assert root.execute("select v from theirs_seen where id = 2").fetchone() == (2,)
            root.execute("update theirs set v = v where id = 3")
            assert time.monotonic() - begun < _SECONDS_MAX


@pytest.mark.parametrize("name, lock", [("hers.seen", "a view"), ("hers.seen", "what a view reads"), ("hers.outer", "a view"), ("hers.pairs", "a composite type")])
def test_who_uses_it_waits(place, hers, name, lock):
    """As in PostgreSQL: to the end of the lock, or as long as the client likes; the holder does not wait for herself."""
    place.server.run("grant usage on schema hers to victim", "grant select on all tables in schema hers to victim")
    with _held(place, _LOCKS[lock]) as holder:
        place.server.run("create table public.changed (id int)", "drop table public.changed")
        with place.as_role("victim") as victim:
            victim.execute("set lock_timeout = '300ms'")
            for prepare in (False, True):
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    victim.execute(f"select count(*) from {name}", prepare=prepare)
            victim.execute("set lock_timeout = 0")
            answers = []
            waiting = threading.Thread(target=lambda: answers.append(victim.execute(f"select count(*) from {name}").fetchone()))
            waiting.start()
            time.sleep(1)
            assert not answers
            holder.rollback()
            waiting.join(_SECONDS_MAX)
            assert answers and answers[0] in [(0,), (1,)]


def test_the_holder_does_not_wait(place, hers):
    with place.as_role("mallory", autocommit=False) as mallory:
        mallory.execute("lock table hers.seen in access exclusive mode")
        place.server.run("create table public.changed (id int)", "drop table public.changed")
        mallory.execute("set local lock_timeout = '20s'")
        assert mallory.execute("select count(*) from hers.outer").fetchone() == (0,)
        mallory.rollback()


def test_many_locks_cost_little(place, hers):
    """Thousands of views that are locked are passed over at once, not one by one."""
    with place.on_node(0, "mallory") as mallory:
        mallory.execute("do $$ begin for n in 1..1500 loop execute format('create view hers.many_%s as select v from hers.busy', n); end loop; end $$")
    try:
        names = ", ".join(f"hers.many_{n}" for n in range(1, 1501))
        with _held(place, f"lock table {names} in access exclusive mode"), place.server.connect() as root:
            begun = time.monotonic()
            root.execute("create table public.changed (id int)")
            root.execute("drop table public.changed")
            assert time.monotonic() - begun < _SECONDS_MAX
    finally:
        with place.on_node(0, "mallory") as mallory:
            mallory.execute("do $$ begin for n in 1..1500 loop execute format('drop view hers.many_%s', n); end loop; end $$")
