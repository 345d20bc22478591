"""Who gets a lock of a transaction, or hears its notification, sees what it has written, whichever node that is on."""

import threading

import psycopg
import pytest

from harness.herd import Herd

CLIENTS, TIMES = 3, 60
# What stands for one another: {home} and {other} are keys of two nodes that are not the row's.
MUTEXES = {
    "advisory lock": "select pg_advisory_xact_lock(77)",
    "LOCK TABLE": "lock table ooc_lock in exclusive mode",
    "a local row": "select id from ooc_lock where id = 1 for update",
    "a row of home": "select v from ooc where k = {home} for update",
    "a row of another node": "select v from ooc where k = {other} for update",
    "a changed row of another node": "update ooc set v = v where k = {other}",
}


@pytest.fixture(scope="module")
def herd_three():
    herd = Herd(nodes=3, shards=12)
    yield herd
    herd.stop()


@pytest.fixture(scope="module")
def table(herd_three):
    """Keys by node, home first."""
    herd_three.server.run(
        "create table ooc (k int primary key, v int)", "select create_distributed_table('ooc', 'k')",
        "insert into ooc select g, 0 from generate_series(1, 64) g", "create table ooc_lock (id int primary key)", "insert into ooc_lock values (1)",
    )
    keys = []
    for node in herd_three.node_servers:
        with psycopg.connect(node.conninfo) as connection:
            keys.append(connection.execute("select min(k) from ooc").fetchone()[0])
    return keys


@pytest.mark.parametrize("mutex", MUTEXES.values(), ids=MUTEXES)
def test_no_update_is_lost(table, herd_three, mutex):
    home, row, other = table
    mutex = mutex.format(home=home, other=other)
    herd_three.server.run(f"update ooc set v = 0 where k = {row}")

    def add():
        with psycopg.connect(herd_three.server.conninfo, autocommit=True, prepare_threshold=None) as connection:
            for _ in range(TIMES):
                connection.execute("begin")
                connection.execute(mutex)
                value = connection.execute(f"select v from ooc where k = {row}").fetchone()[0]
                connection.execute(f"update ooc set v = {value + 1} where k = {row}")
                connection.execute("commit")

    threads = [threading.Thread(target=add) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with psycopg.connect(herd_three.server.conninfo) as connection:
        assert connection.execute(f"select v from ooc where k = {row}").fetchone()[0] == CLIENTS * TIMES


@pytest.mark.parametrize("notify", ["select pg_notify('ooc', '{}')", "notify ooc, '{}'"], ids=["pg_notify", "NOTIFY"])
@pytest.mark.parametrize("written", [1, 2], ids=["one node", "two nodes"])
def test_who_is_notified_sees_it(table, herd_three, notify, written):
    rows = table[1:1 + written]
    conninfo = herd_three.server.conninfo
    with (
        psycopg.connect(conninfo, autocommit=True) as listens,
        psycopg.connect(conninfo, autocommit=True, prepare_threshold=None) as reads,
        psycopg.connect(conninfo, autocommit=True, prepare_threshold=None) as writes,
    ):
        listens.execute("listen ooc")
        seen = []

        def hear():
            for told in listens.notifies(timeout=120, stop_after=TIMES):
                seen.append((int(told.payload), *(reads.execute(f"select v from ooc where k = {row}").fetchone()[0] for row in rows)))

        thread = threading.Thread(target=hear)
        thread.start()
        for value in range(1, TIMES + 1):
            with writes.transaction():
                for row in rows:
                    writes.execute(f"update ooc set v = {value} where k = {row}")
                writes.execute(notify.format(value))
        thread.join()
    assert len(seen) == TIMES
    assert [s for s in seen if min(s[1:]) < s[0]] == []
