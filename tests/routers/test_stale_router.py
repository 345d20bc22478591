"""A router that was stopped while the catalog changed through another: its very next statements are right, or errors.

What it does next has been sent to it before it goes on, so that nothing else can wake it first.
"""

import os
import signal
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]

# Longer than a change of the catalog waits for a router that does not answer.
STOPPED_SECONDS = 4
ROWS = 200


@contextmanager
def stopped(router):
    """SIGSTOP; what is in the block happens meanwhile, and takes STOPPED_SECONDS at least."""
    started = time.monotonic()
    os.kill(router.process.pid, signal.SIGSTOP)
    try:
        yield
        time.sleep(max(0, STOPPED_SECONDS - (time.monotonic() - started)))
    finally:
        os.kill(router.process.pid, signal.SIGCONT)


class Waiting(threading.Thread):
    """A statement that is on its way while its router is stopped."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.result, self.error = work, None, None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.work()
        except psycopg.Error as error:
            self.error = error

    def done(self):
        self.join(90)
        assert not self.is_alive(), "no answer"
        return self.error if self.error is not None else self.result


@pytest.fixture(params=["local", "distributed"])
def table(request, pair):
    pair.a.run("drop table if exists stale", "create table stale (id int primary key, v int)", f"insert into stale select g, 0 from generate_series(1, {ROWS}) g")
    if request.param == "distributed":
        pair.a.run("select create_distributed_table('stale', 'id')")
    yield request.param
    pair.a.run("drop table stale")


def simple(connection, sql):
    return lambda: connection.execute(sql, prepare=False).rowcount


def prepared(connection, sql):
    return lambda: connection.execute(sql, prepare=True).rowcount


def by_key(connection, key):
    """Templates and shared lanes: one row by its key, as parameters and as literals."""
    return lambda: connection.execute("update stale set v = v + 1 where id = %s", (key,), prepare=True).rowcount


def copy(connection, first):
    def run():
        with connection.cursor() as cursor, cursor.copy("copy stale (id, v) from stdin") as rows:
            for key in range(first, first + 50):
                rows.write_row((key, 0))
            # Done when the block ends.
        return cursor.rowcount

    return run


def test_all_ways_of_writing(pair, table):
    """The kind of the table changes while B is stopped; whatever B is asked first reaches all rows."""
    everyone = "update stale set v = v + 1"
    # Each on a connection of its own, used before, so that plans and prepared statements are known.
    connections = [pair.b.connect() for _ in range(8)]
    try:
        ways = [simple(connections[0], everyone), prepared(connections[1], everyone)]
        ways += [by_key(connections[2 + i], 10 + i) for i in range(3)]
        ways += [simple(connections[5 + i], f"update stale set v = v + 1 where id = {20 + i}") for i in range(2)]
        for way in ways:
            for _ in range(6):
                way()
        with pair.a.connect() as a:
            a.execute("update stale set v = 0")
        with stopped(pair.routers[1]):
            with pair.a.connect() as a:
                a.execute("select create_distributed_table('stale', 'id')" if table == "local" else "select undistribute_table('stale')")
            # One way after the other would tell of the first alone.
            waiting = [Waiting(way) for way in ways]
            loading = Waiting(copy(connections[7], ROWS + 1))
            time.sleep(0.3)
        results = [w.done() for w in waiting]
        loaded = loading.done()
        print(table, results, loaded)
        # COPY and the statements over all rows went side by side: they may see some of its rows.
        assert all(isinstance(r, psycopg.Error) or ROWS <= r <= ROWS + 50 for r in results[:2]), results
        assert all(isinstance(r, psycopg.Error) or r == 1 for r in results[2:]), results
        with pair.a.connect() as a:
            present = a.execute("select count(*), count(*) filter (where id <= %s) from stale", (ROWS,)).fetchone()
            assert present == (ROWS + (0 if isinstance(loaded, psycopg.Error) else 50), ROWS)
            reached = sum(not isinstance(r, psycopg.Error) for r in results[:2])
            own = {key: not isinstance(r, psycopg.Error) for key, r in zip((10, 11, 12, 20, 21), results[2:])}
            for key, v in a.execute("select id, v from stale where id <= %s", (ROWS,)).fetchall():
                assert v == reached + own.get(key, 0), (key, v)
        # Nothing here needed to fail.
        assert sum(isinstance(r, psycopg.Error) for r in results) == 0, results
    finally:
        for connection in connections:
            connection.close()


def test_reads_and_new_columns(pair, table):
    with pair.b.connect() as one, pair.b.connect() as two, pair.b.connect() as three:
        for connection in (one, two):
            for _ in range(6):
                assert connection.execute("select count(*), sum(v) from stale", prepare=connection is two).fetchone() == (ROWS, 0)
        three.execute("begin")
        three.execute("select 1")
        with stopped(pair.routers[1]):
            with pair.a.connect() as a:
                a.execute("alter table stale add column w int default 7")
                a.execute("insert into stale select g, 0, 8 from generate_series(1001, 1100) g")
                a.execute("select create_distributed_table('stale', 'id')" if table == "local" else "select undistribute_table('stale')")
            waiting = [
                Waiting(lambda: one.execute("select count(*), sum(v) from stale").fetchone()),
                Waiting(lambda: two.execute("select count(*), sum(v) from stale", prepare=True).fetchone()),
                Waiting(lambda: three.execute("select count(*), sum(w) from stale").fetchone()),
            ]
            time.sleep(0.3)
        assert [w.done() for w in waiting] == [(ROWS + 100, 0), (ROWS + 100, 0), (ROWS + 100, 7 * ROWS + 800)]
        three.execute("rollback")


def test_home_is_down(pair, table):
    """Nothing can change then, so nobody waits long: statements on other nodes go on, the rest are errors."""
    if table == "local":
        pytest.skip("home has all of it")
    home = pair.nodes[0]
    with home.server.connect() as direct:
        elsewhere = {r[0] for r in direct.execute("select g from generate_series(1, 200) g")} - {
            r[0] for r in direct.execute("select id from stale")
        }
    key = min(elsewhere)
    with pair.b.connect() as b:
        sql = "select v from stale where id = %s"
        assert b.execute(sql, (key,)).fetchone() == (0,)
        home.process.send_signal(signal.SIGINT)
        home.process.wait(60)
        try:
            slowest = 0.0
            for _ in range(40):
                started = time.monotonic()
                assert b.execute(sql, (key,)).fetchone() == (0,)
                slowest = max(slowest, time.monotonic() - started)
                time.sleep(0.1)
            print("slowest answer while home is down:", slowest)
            assert slowest < 2
        finally:
            assert home._try_start()
        with pair.a.connect() as a:
            a.execute("alter table stale add column w int default 7")
        assert b.execute("select w from stale where id = %s", (key,)).fetchone() == (7,)


WAITERS = {
    "simple": lambda c: simple(c, "update stale set v = v + 1"),
    "prepared": lambda c: prepared(c, "update stale set v = v + 1"),
    "shared": lambda c: by_key(c, 10),
    "returning": lambda c: lambda: len(c.execute("update stale set v = v + 1 returning id").fetchall()),
    "read": lambda c: lambda: c.execute("select count(*) from stale").fetchone()[0],
    "prepared read": lambda c: lambda: len(c.execute("select id from stale", prepare=True).fetchall()),
    "function": lambda c: lambda: c.execute("select touch_stale()").fetchone()[0],
    "load": lambda c: copy(c, ROWS + 1),
    "unload": lambda c: lambda: _copy_out(c),
}


def _copy_out(connection) -> int:
    with connection.cursor() as cursor, cursor.copy("copy stale to stdout") as rows:
        return sum(1 for _ in rows.rows())


@pytest.mark.parametrize("kind", ["distributed", "reference"])
@pytest.mark.parametrize("where", [0, 1])
def test_statements_that_wait_for_the_change(pair, kind, where):
    """A statement that was planned before the change and waits for its lock meets the table as it is afterwards, or fails."""
    pair.a.run(
        "drop table if exists stale", "create table stale (id int primary key, v int)", f"insert into stale select g, 0 from generate_series(1, {ROWS}) g",
        "create or replace function touch_stale() returns bigint language plpgsql as"
        " 'declare n bigint; begin update stale set v = v + 1; get diagnostics n = row_count; return n; end'",
        "create table bystander (id int)", "insert into bystander select generate_series(1, 10)",
    )
    connections = {way: pair.routers[where].server.connect() for way in WAITERS}
    bystander = pair.routers[where].server.connect()
    try:
        with pair.a.connect(autocommit=False) as a:
            for way, connection in connections.items():
                for _ in range(6 if "load" not in way else 0):
                    WAITERS[way](connection)()
            a.execute("update stale set v = 0")
            a.commit()
            a.execute("select create_distributed_table('stale', 'id')" if kind == "distributed" else "select create_reference_table('stale')")
            waiting = {way: Waiting(make(connections[way])) for way, make in WAITERS.items()}
            # Others are not disturbed, even if they run all the while.
            slow = Waiting(lambda: bystander.execute("select count(*), max(pg_sleep(0.3)::text) from bystander").fetchone()[0])
            time.sleep(0.5)
            a.commit()
        results = {way: w.done() for way, w in waiting.items()}
        print(kind, where, {w: str(r).splitlines()[0] for w, r in results.items()})
        assert slow.done() == 10
        failed = {way for way, r in results.items() if isinstance(r, psycopg.Error)}
        # What can be tried again without anybody noticing is. Then some of it meets on several nodes.
        deadlocked = {way for way in failed if isinstance(results[way], psycopg.errors.DeadlockDetected)}
        assert not (failed - deadlocked) & {"simple", "prepared", "shared"}, results
        for way, result in results.items():
            if way not in failed and way != "load":
                assert result == (1 if way == "shared" else result if ROWS <= result <= ROWS + 50 else None), (way, result)
        # Each row has met every statement that says it did, on every node.
        whole = sum(way not in failed for way in ("simple", "prepared", "returning", "function"))
        for node in pair.nodes if kind == "reference" else [pair.routers[where]]:
            with node.server.connect() as direct:
                rows = direct.execute("select id, v from stale where id <= %s order by 1", (ROWS,)).fetchall()
                assert len(rows) == ROWS
                wrong = [(i, v) for i, v in rows if v != whole + (i == 10 and "shared" not in failed)]
                assert not wrong, (kind, wrong[:5], len(wrong))
    finally:
        for connection in (*connections.values(), bystander):
            connection.close()
        pair.a.run("drop function if exists touch_stale()", "drop table stale", "drop table bystander")


def test_another_router_starts(pair):
    """That changes no kinds: statements on local tables go on, also with a catalog loaded before."""
    pair.a.run("drop table if exists plain", "create table plain (id int primary key, v int)", "insert into plain values (1, 0)")
    with pair.a.connect() as a:
        a.execute("update plain set v = v + 1")
        third = type(pair.routers[0])(pair.routers[0].home, pair.routers[0].nodes)
        try:
            for prepare in (False, True):
                assert a.execute("update plain set v = v + 1", prepare=prepare).rowcount == 1
                assert len(a.execute("select v from plain", prepare=prepare).fetchall()) == 1
            a.execute("begin")
            a.execute("update plain set v = v + 1")
            a.execute("commit")
        finally:
            third.stop()
        a.execute("drop table plain")


def test_a_router_of_another_version_starts(pair):
    """It makes the schema its own, beside routers and their clients, and says so where somebody reads one of the herd's views for long."""
    home, *others = pair.nodes
    comment = "select obj_description('herd'::regnamespace, 'pg_namespace')"
    with home.server.connect() as direct:
        (version,) = direct.execute(comment).fetchone()
    for server in pair.nodes:
        server.server.run("comment on schema herd is 'pgherd 0.0.0: catalog of the herd'")
    pair.a.run("drop table if exists upgraded", "create table upgraded (id int primary key, v int)", "select create_distributed_table('upgraded', 'id')", "insert into upgraded select g, 0 from generate_series(1, 50) g")
    over, failed, done = threading.Event(), [], [0]

    def works():
        try:
            with pair.b.connect() as connection:
                while not over.is_set():
                    assert connection.execute("update upgraded set v = v + 1").rowcount == 50
                    done[0] += 1
        except psycopg.Error as error:
            failed.append(error)

    client = threading.Thread(target=works)
    client.start()
    one = pair.routers[0]
    try:
        with home.server.connect(autocommit=False) as reader:
            reader.execute("select * from herd.jobs, herd.nodes, herd.tables, herd.shards").fetchall()
            begun = time.monotonic()
            with pytest.raises(RuntimeError) as refused:
                type(one)(one.home, one.nodes, attempts=1)
            assert "lock" in str(refused.value) and time.monotonic() - begun < 60, (refused.value, time.monotonic() - begun)
            reader.rollback()
        before = done[0]
        type(one)(one.home, one.nodes).stop()
        for server in pair.nodes:
            with server.server.connect() as direct:
                assert direct.execute(comment).fetchone() == (version,)
    finally:
        over.set()
        client.join(90)
    assert failed == [] and done[0] > before, failed
    with pair.a.connect() as a:
        assert a.execute("select count(*), min(v), max(v) from upgraded").fetchone() == (50, done[0], done[0])
        a.execute("drop table upgraded")


def test_a_long_wait_for_a_reference_table(pair):
    """Changes that waited long meet one another then, each on some copies only for a moment: that is tried again all the same."""
    pair.a.run("drop table if exists stale", "create table stale (id int primary key, v int)", f"insert into stale select g, 0 from generate_series(1, {ROWS}) g",
               "select create_reference_table('stale')")
    connections = [pair.a.connect() for _ in range(16)]
    try:
        with pair.a.connect(autocommit=False) as a:
            a.execute("lock table stale in exclusive mode")
            changes = ["update stale set v = v + 1" if i == 5 else f"insert into stale values ({ROWS + 1 + i}, 0)" for i in range(len(connections))]
            waiting = [Waiting(simple(c, sql)) for c, sql in zip(connections, changes)]
            time.sleep(2.5)
        results = [w.done() for w in waiting]
        assert not [r for r in results if isinstance(r, psycopg.Error)], results
        for node in pair.nodes:
            with node.server.connect() as direct:
                assert direct.execute("select count(*), max(v) from stale").fetchone() == (ROWS + 15, 1)
    finally:
        for connection in connections:
            connection.close()
        pair.a.run("drop table stale")
