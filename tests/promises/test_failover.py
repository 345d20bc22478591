"""A node's primary dies and its standby takes over: the router follows, and nothing acknowledged is lost.

Real streaming replication, synchronous, made with pg_basebackup. Who promotes is not the router's affair; here the test does.
"""

import os
import subprocess
import threading
import time

import psycopg
import pytest

from harness import binaries, ports, unprivileged
from harness.server import Server

from .cluster import Cluster, Node

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("promises"), pytest.mark.timeout(500)]


def _standby(cluster: Cluster, primary: Node) -> Node:
    """A synchronous standby of a node, running."""
    data = cluster.root / f"standby{primary.number}"
    port = ports.free_row(1)
    data.mkdir(mode=0o700)
    who = unprivileged.user()
    if who is not None:
        os.chown(data, who.pw_uid, who.pw_gid)
    done = subprocess.run(
        [binaries.postgres_bin() / "pg_basebackup", "-D", data, "-R", "-X", "stream", "-c", "fast", "-d",
         f"host=127.0.0.1 port={primary.server.port} user=postgres application_name=standby"],
        capture_output=True, text=True, cwd=cluster.root, **unprivileged.popen_arguments(),
    )
    assert done.returncode == 0, done.stderr
    conf = data / "herd.conf"
    conf.write_text(conf.read_text() + f"port = '{port}'\n")
    node = Node(primary.number, port, data)
    node.server = Server(f"standby of node {primary.number}", port)
    node.start()
    primary.server.run("alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")
    deadline = time.monotonic() + 90
    with primary.server.connect() as connection:
        while connection.execute("select count(*) from pg_stat_replication where sync_state = 'sync'").fetchone() != (1,):
            assert time.monotonic() < deadline, "the standby does not follow"
            time.sleep(0.1)
    return node


@pytest.fixture
def cluster():
    with Cluster(nodes=2) as made:
        yield made


@pytest.mark.parametrize("dies", ["killed", "hangs"])
@pytest.mark.parametrize("number", [pytest.param(2, id="second node"), pytest.param(1, id="home, the decider")])
def test_the_standby_takes_over(cluster, number, dies):
    """A primary that hangs, or whose machine is gone, says nothing: who waits for it is freed when its standby answers as the primary."""
    primary = cluster.nodes[number - 1]
    standby = _standby(cluster, primary)
    # The node is, from now on, whichever of the two is the primary.
    hosts = f"127.0.0.1:{primary.server.port},127.0.0.1:{standby.server.port}"
    if number == 2:
        with cluster.nodes[0].server.connect() as home:
            home.execute("update herd.node set host = %s where port = %s", (hosts, primary.server.port))
            home.execute("select herd.bump_epoch()")
    router = cluster.router("failover")
    # As the catalog has it, or the router takes it for another node.
    router.file.write_text(router.file.read_text().replace(
        f"host=127.0.0.1 port={primary.server.port} ",
        f"host=127.0.0.1,127.0.0.1 port={primary.server.port},{standby.server.port} target_session_attrs=primary ", 1,
    ))
    router.start()
    router.server.run(
        "create table follow (id int primary key, v int)", "select create_distributed_table('follow', 'id')",
        "insert into follow select g, 0 from generate_series(1, 40) g",
    )
    acknowledged, codes, stop = [0], [], threading.Event()

    def write():
        """Two phases each time: every row of both nodes."""
        value = 0
        while not stop.is_set():
            try:
                with router.server.connect() as connection:
                    while not stop.is_set():
                        value += 1
                        connection.execute("update follow set v = %s", (value,))
                        acknowledged.append(value)
            except psycopg.Error as error:
                codes.append(error.sqlstate)
                time.sleep(0.05)

    seen_whole, torn = [0], []

    def read():
        """All rows are always the same, for who reads with herd.snapshot; gates don't move to the standby."""
        while not stop.is_set():
            try:
                with router.server.connect() as connection:
                    connection.execute("set herd.snapshot = on")
                    while not stop.is_set():
                        least, greatest = connection.execute("select min(v), max(v) from follow").fetchone()
                        if least != greatest:
                            torn.append((least, greatest))
                        seen_whole.append(least)
            except psycopg.Error:
                time.sleep(0.05)

    thread, reader = threading.Thread(target=write), threading.Thread(target=read)
    thread.start()
    reader.start()
    try:
        time.sleep(2)
        deadline = time.monotonic() + 60
        while len(acknowledged) <= 5 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(acknowledged) > 5, codes
        primary.kill() if dies == "killed" else primary.hang()
        killed = time.monotonic()
        before = len(acknowledged)
        standby.server.run("select pg_promote(true, 30)")
        promoted = time.monotonic()
        while len(acknowledged) < before + 5 or seen_whole[-1] <= acknowledged[before]:
            assert time.monotonic() < promoted + 15, f"no write, or no read of one, 15 s after the promotion: {codes[-5:]}\n{router.tail(800)}"
            time.sleep(0.05)
        print(f"promoted after {promoted - killed:.1f} s, writes after {time.monotonic() - killed:.1f} s, {len(acknowledged)} written")
    finally:
        stop.set()
        thread.join(90)
        reader.join(90)
    assert not thread.is_alive() and not reader.is_alive()
    primary.kill()
    assert not torn and seen_whole[-1] > acknowledged[before], (torn[:3], seen_whole[-1])
    # What writers in flight were told is something a client can act on.
    assert set(codes) <= {None, "08006", "08007", "08001", "57P01", "57P02", "57P03", "25006"}, set(codes)
    cluster.nodes[number - 1] = standby
    cluster.wait_until_nothing_is_prepared(10)
    seen = set()
    for node in cluster.nodes:
        with node.server.connect() as connection:
            seen |= {row[0] for row in connection.execute("select distinct v from follow")}
    assert len(seen) == 1 and seen.pop() >= acknowledged[-1]
    with router.server.connect() as connection:
        connection.execute("alter table follow add column w int default 1")
        assert connection.execute("select count(*), sum(w) from follow").fetchone() == (40, 40)
