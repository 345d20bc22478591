"""A crash takes back numbers of transactions that had written nothing to disk; PostgreSQL gives them out again.

A transaction over nodes is known by the number it has on its decider. Whoever gets that number after a crash must not be
taken for it: he may be waiting for the very rows that stand prepared elsewhere.
"""

import threading
import time

import psycopg
import pytest

from .cluster import Cluster

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("promises"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(nodes=3) as made:
        router = made.router("makes").start()
        router.server.run(
            "create table again (id int primary key, v int)", "select create_distributed_table('again', 'id')",
            "insert into again select g, 0 from generate_series(1, 60) g",
        )
        router.kill()
        made.keys = made.keys_by_node("again")
        assert all(made.keys)
        yield made


class _InDoubt:
    """An UPDATE of a row of each of the nodes 2 and 3, by a router that stops when it has prepared; home takes no part."""

    def __init__(self, cluster, flag, value):
        self.cluster, self.flag = cluster, flag
        self.router = cluster.router(f"stops{value}").start(HERD_FAILPOINT=f"two_phase.prepared:wait:{flag}")
        self.rows, self.said = [cluster.keys[1][0], cluster.keys[2][0]], None
        self.thread = threading.Thread(target=self._write, args=(value,))
        self.thread.start()
        _until(flag.exists)
        (gid,) = cluster.prepared()
        self.decider = cluster.nodes[int(gid.split("_")[2]) - 1]
        self.number = int(gid.split("_")[5])
        assert self.decider is not cluster.nodes[0]

    def _write(self, value):
        try:
            with self.router.server.connect() as connection:
                connection.execute("update again set v = %s where id = any(%s)", (value, self.rows))
            self.said = "done"
        except psycopg.Error as error:
            self.said = error.sqlstate

    def go(self):
        self.flag.unlink(missing_ok=True)
        self.thread.join(60)
        assert not self.thread.is_alive()
        self.router.kill()


def _crash_that_loses_its_number(cluster, flag):
    """Who gets the number again, and what was in doubt. A log page that just got full, or a checkpoint, may save a number: then once more."""
    for _ in range(6):
        doubt = _InDoubt(cluster, flag, 1)
        doubt.decider.kill()
        doubt.go()
        assert doubt.said == "08007"
        doubt.decider.start()
        other = doubt.decider.server.connect(autocommit=False)
        if other.execute("select pg_current_xact_id()::text::int8").fetchone() == (doubt.number,):
            return doubt, other
        other.close()
        cleans = cluster.router("cleans").start()
        cluster.wait_until_nothing_is_prepared(10)
        cleans.kill()
    raise AssertionError("no crash lost a number")


def test_who_gets_the_number_again_is_not_taken_for_its_first_owner(cluster, tmp_path):
    tmp_path.chmod(0o777)
    doubt, other = _crash_that_loses_its_number(cluster, tmp_path / "reached")
    with other:
        recovers = cluster.router("recovers1").start()
        cluster.wait_until_nothing_is_prepared(10)
        with recovers.server.connect() as connection:
            connection.execute("set statement_timeout = '30s'")
            connection.execute("update again set v = 2 where id = any(%s)", (doubt.rows,))
            assert connection.execute("select distinct v from again where id = any(%s)", (doubt.rows,)).fetchall() == [(2,)]
    recovers.kill()


def test_one_that_has_not_ended_is_left_alone(cluster, tmp_path):
    """Its decider lives and holds its gate: no other router ends it, however long it takes."""
    tmp_path.chmod(0o777)
    doubt = _InDoubt(cluster, tmp_path / "reached", 3)
    recovers = cluster.router("recovers2").start()
    time.sleep(5)
    assert len(cluster.prepared()) == 1
    doubt.go()
    assert doubt.said == "done"
    cluster.wait_until_nothing_is_prepared(10)
    with recovers.server.connect() as connection:
        assert connection.execute("select distinct v from again where id = any(%s)", (doubt.rows,)).fetchall() == [(3,)]
    recovers.kill()


def _until(done, seconds_max: float = 60) -> None:
    deadline = time.monotonic() + seconds_max
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
