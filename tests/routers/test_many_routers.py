"""What a node sees of many routers: a few look at it, however many there are, and clients' connections are shared out among all."""

import threading
import time

import pytest
from harness import router

ROUTERS = 5
WATCHERS = 3
SHARED = 8


@pytest.fixture(scope="module")
def servers():
    made = []
    try:
        for name in ("home", "node"):
            made.append(router.node(name))
        for _ in range(ROUTERS):
            made.append(router.Router(router.conninfo(made[0]), [router.conninfo(made[1])], shards=4, more=f"[pool]\nshared_size = {SHARED}\n"))
        yield made
    finally:
        for one in reversed(made):
            one.stop()


def of_clients(node) -> int:
    """Connections that routers have for clients."""
    with node.server.connect() as c:
        sql = "select count(*) from pg_stat_activity where application_name <> 'herd router' and backend_type = 'client backend' and pid <> pg_backend_pid()"
        return c.execute(sql).fetchone()[0]


def watchers(node) -> int:
    """Routers that ask the node something every few seconds."""
    with node.server.connect() as c:
        sql = "select count(distinct pid) from pg_stat_activity where application_name = 'herd router' and state_change > now() - interval '5 s'"
        return c.execute(sql).fetchone()[0]


def soon(what, seconds: float = 90):
    deadline = time.monotonic() + seconds
    while True:
        if what():
            return
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.2)


def busy(node, routers, clients: int) -> int:
    """The most connections of clients that the node has while so many of each router's clients want one at once."""

    failed = []

    def one(server):
        try:
            with server.connect() as c:
                c.execute("select count(pg_sleep(0.3)) from many")
        except Exception as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [threading.Thread(target=one, args=(r.server,)) for r in routers for _ in range(clients)]
    for thread in threads:
        thread.start()
    most = 0
    while any(thread.is_alive() for thread in threads):
        most = max(most, of_clients(node))
    for thread in threads:
        thread.join()
    assert not failed, failed
    return most


def test_a_node_has_its_watchers_and_clients_share_the_rest(servers):
    _, node, *routers = servers
    routers[0].server.run("create table many (id int primary key, v int)", "select create_distributed_table('many', 'id')", "insert into many select g, g from generate_series(1, 8) g")
    # Each knows of the others by its next report.
    time.sleep(6)
    soon(lambda: watchers(node) == WATCHERS)
    assert ROUTERS <= busy(node, routers, 4) <= SHARED

    # Those of the lowest numbers die: others take their place, and have their share.
    for one in routers[:WATCHERS]:
        one.process.kill()
        one.process.wait()
    left = routers[WATCHERS:]
    soon(lambda: watchers(node) == len(left))
    # What the dead ones had is others' now.
    used = []
    soon(lambda: used.append(busy(node, left, 8)) or used[-1] > ROUTERS, 120)
    # One that a router has closed may be seen for a moment.
    assert max(used) <= SHARED + len(left)
