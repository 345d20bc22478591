"""A change of the schema is decided, and one node has not followed yet: who works by the new catalog waits for it.

In the middle of a transaction, too, where the node has had no part in it so far.
"""

import contextlib
import threading
import time

import psycopg
import pytest

from .cluster import Cluster

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("promises"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(nodes=3) as made:
        made.reader = made.router("reader").start()
        yield made


@pytest.mark.parametrize("read", [False, True], ids=["update", "read"])
def test_a_block_goes_on_where_the_change_comes_late(cluster, tmp_path, read):
    """Until it was seen: the other router finishes what stands prepared within 2 s, at times before the block has begun."""
    tmp_path.chmod(0o777)
    for attempt in range(6):
        if _round(cluster, tmp_path / f"reached{attempt}", f"late{attempt}{read:d}", read):
            return
    pytest.skip("the other router was always faster")


def _round(cluster, flag, table: str, read: bool) -> bool:
    """Whether a node had not followed when the block came to it."""
    server = cluster.reader.server
    server.run(
        f"create table {table} (k int primary key, n int)", f"insert into {table} select g, 0 from generate_series(1, 60) g",
        f"select create_distributed_table('{table}', 'k', colocate_with => 'none')",
    )
    keys = cluster.keys_by_node(table, "k")
    changer = cluster.router(f"changes_{table}").start(HERD_FAILPOINT=f"two_phase.end_sent:wait:{flag}")

    def change():
        with contextlib.suppress(psycopg.Error):
            changer.server.run(f"alter table {table} rename to {table}_new")

    changing = threading.Thread(target=change)
    changing.start()
    try:
        _until(flag.exists)
        _until(lambda: len(cluster.prepared()) < 2)
        with server.connect() as connection, cluster.nodes[0].server.connect() as home:
            (epoch,) = home.execute("select epoch from herd.epoch").fetchone()
            # The changer waits, so whoever uses the new catalog is the other one.
            _until(lambda: home.execute("select max(epoch) from herd.router").fetchone()[0] >= epoch)
            left = cluster.prepared()
            if not left:
                return False
            late = int(left[0].rsplit("_", 1)[1])
            done = next(n for n in (2, 3) if n != late)
            there, here = keys[done - 1][0], keys[late - 1][0]
            connection.execute("begin")
            assert connection.execute(f"update {table}_new set n = 1 where k = %s", (there,)).rowcount == 1
            seen = bool(cluster.prepared())
            if read:
                assert connection.execute(f"select n from {table}_new where k = %s", (here,)).fetchone() == (0,)
            else:
                assert connection.execute(f"update {table}_new set n = 1 where k = %s", (here,)).rowcount == 1
            connection.execute("commit")
            assert connection.execute(f"select sum(n) from {table}_new").fetchone() == (2 - read,)
            return seen
    finally:
        flag.unlink(missing_ok=True)
        changing.join(60)
        changer.kill()


@pytest.mark.parametrize("change", ["drop schema ended cascade", "update ended.t set n = n + 1"])
def test_what_another_router_has_ended_is_done(cluster, tmp_path, change):
    """The router that decided finds nothing prepared any more: it answers, keeps its connections, and what comes next sees all of it."""
    tmp_path.chmod(0o777)
    flag = tmp_path / "decided"
    server = cluster.reader.server
    server.run(
        "drop schema if exists ended cascade", "create schema ended", "create table ended.t (k int primary key, n int)", "insert into ended.t select g, 0 from generate_series(1, 60) g",
        "select create_distributed_table('ended.t', 'k', colocate_with => 'none')",
    )
    changer = cluster.router("decides").start(HERD_FAILPOINT=f"two_phase.decided:wait:{flag}")
    with changer.server.connect() as connection:
        connection.execute("create temporary table kept (i int)")
        changing = threading.Thread(target=lambda: connection.execute(change))
        changing.start()
        try:
            _until(flag.exists)
            _until(lambda: not cluster.prepared())
        finally:
            flag.unlink(missing_ok=True)
            changing.join(60)
        assert connection.execute("select count(*) from kept").fetchone() == (0,)
        if change.startswith("drop"):
            connection.execute("create schema ended")
            connection.execute("create table ended.t (k int)")
        else:
            assert connection.execute("select sum(n) from ended.t").fetchone() == (60,)
    changer.kill()


def _until(done, seconds_max: float = 60) -> None:
    deadline = time.monotonic() + seconds_max
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_name_that_a_router_does_not_know_yet_is_no_local_table(cluster):
    """Between home's commit and the other router's new catalog: all of the table, or an error, and never home's part alone."""
    changer = cluster.router("renames").start()
    changer.server.run(
        "create table new0 (k int primary key, n int)", "insert into new0 select g, 0 from generate_series(1, 60) g",
        "select create_distributed_table('new0', 'k', colocate_with => 'none')",
    )
    key = cluster.keys_by_node("new0", "k")[1][0]
    stop, number, said = threading.Event(), [0], {}

    def change():
        with changer.server.connect() as connection:
            while not stop.is_set():
                connection.execute(f"alter table new{number[0]} rename to new{number[0] + 1}")
                number[0] += 1
                time.sleep(0.1)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        with cluster.reader.server.connect() as connection:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and (number[0] < 10 or said.get(1, 0) < 10):
                try:
                    found = connection.execute(f"update new{number[0] + 1} set n = 1 where k = %s", (key,)).rowcount
                except psycopg.Error as error:
                    found = error.sqlstate
                said[found] = said.get(found, 0) + 1
    finally:
        stop.set()
        changing.join(60)
        changer.kill()
    assert said.get(1) and set(said) <= {1, "42P01", "40001"}, said
