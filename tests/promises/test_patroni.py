"""Nodes that are clusters of real Patroni's: a primary is killed under writes, Patroni promotes its synchronous standby, the
router follows, and what was acknowledged is there: commits by two phases, the second node's as home's, the decider.
"""

import json
import subprocess
import time

import pytest

from harness import binaries, patroni
from harness.router import Router
from harness.writer import CODES, ROWS, Writer

pytestmark = [
    pytest.mark.real_herd, pytest.mark.xdist_group("promises"), pytest.mark.timeout(700),
    pytest.mark.skipif(patroni.missing() is not None, reason=str(patroni.missing())),
]

# A bound for slow machines; how long it took is printed.
_WRITES_SECONDS_MAX = 150


def _roles(router) -> list[list[str]]:
    """Of each node's members, as `herd status` tells."""
    done = subprocess.run([binaries.herd(), "status", "--url", router.server.url, "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return [sorted(member["role"] for member in node["members"]) for node in json.loads(done.stdout)["nodes"]]


def _rows(clusters) -> list[dict[int, int]]:
    """How many rows of each batch each node's primary has."""
    found = []
    for cluster in clusters:
        with cluster.primary().connect() as connection:
            found.append(dict(connection.execute("select batch, count(*) from rows group by 1").fetchall()))
    return found


def test_nothing_acknowledged_is_lost_when_a_primary_is_killed():
    made = patroni.PatroniClusters("home", "second")
    router = writer = None
    try:
        home, second = made.clusters
        router = Router(home.toml, [second.toml], more='auth = "trust"\n')
        router.server.run("create table rows (id bigint primary key, batch bigint)", "select create_distributed_table('rows', 'id')")
        assert _roles(router) == [["leader", "sync standby"]] * 2
        writer = Writer(router.server)
        writer.wait_for(20, 90)
        for cluster in (second, home):
            former = cluster.primary().port
            cluster.kill_primary(made.root)
            killed = time.monotonic()
            # What was on its way may still be acknowledged.
            while (now := cluster.primary()) is None or now.port == former:
                assert time.monotonic() < killed + _WRITES_SECONDS_MAX, f"{cluster.scope}: {cluster.members()}"
                time.sleep(0.05)
            writer.wait_for(10, killed + _WRITES_SECONDS_MAX - time.monotonic())
            print(f"{cluster.scope}: writes {time.monotonic() - killed:.1f} s after its primary was killed")
        writer.stop()
        # Transactions that were in doubt are finished by the router within seconds.
        deadline = time.monotonic() + 90
        while any(_prepared(cluster) for cluster in made.clusters):
            assert time.monotonic() < deadline, [_prepared(cluster) for cluster in made.clusters]
            time.sleep(0.1)
        on_home, on_second = _rows(made.clusters)
        counted = {batch: on_home.get(batch, 0) + on_second.get(batch, 0) for batch in on_home | on_second}
        lost = [batch for batch in writer.acknowledged if counted.get(batch) != ROWS]
        print(f"{len(writer.acknowledged)} transactions acknowledged, {len(lost)} lost")
        assert not lost, lost[:5]
        assert set(counted.values()) == {ROWS}, "a transaction is there in part"
        assert sum(1 for batch in counted if batch in on_home and batch in on_second) > 20, "these were of one node"
        with router.server.connect() as connection:
            assert connection.execute("select count(*) from rows").fetchone()[0] == ROWS * len(counted)
        assert set(writer.codes) <= CODES, set(writer.codes)
    finally:
        for started in (writer, router, made):
            if started is not None:
                started.stop()


def _prepared(cluster) -> list:
    with cluster.primary().connect() as connection:
        return connection.execute("select gid from pg_prepared_xacts").fetchall()
