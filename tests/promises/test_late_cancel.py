"""A cancel that arrives when its statement is long over: it meets nobody else's.

The proxy keeps the router's request back for longer than the router waits for it, and the pool has one connection, so
that the next client would get the very connection the request is for.
"""

import threading
import time

import psycopg
import pytest

from .cluster import Cluster
from .proxy import Proxy

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(180)]

# The router waits 5 s for a node to act on a cancel.
DELAY_SECONDS = 7.0


@pytest.mark.parametrize("end", ["autocommit", "commit", "rollback", "failed"])
def test_a_late_cancel(end, late):
    router, proxy = late
    proxy.cancel_delay_seconds = DELAY_SECONDS
    started = time.monotonic()
    with router.server.connect(autocommit=True) as one, router.server.connect() as other:
        assert other.execute("select 1").fetchone() == (1,)
        if end != "autocommit":
            one.execute("begin")
        backend = one.execute("select pg_backend_pid()").fetchone()[0]
        threading.Timer(0.3, one.cancel).start()
        one.execute("select pg_sleep(1)")
        if end == "failed":
            with pytest.raises(psycopg.errors.DivisionByZero):
                one.execute("select 1/0")
        if end != "autocommit":
            one.execute("commit" if end == "commit" else "rollback")
        # Now it is the other's turn: his statement runs when the request comes.
        at = time.monotonic() - started
        theirs = other.execute("select pg_backend_pid() from (select pg_sleep(%s)) s", (max(DELAY_SECONDS + 2 - at, 2),)).fetchone()[0]
        print(f"{end}: back after {at:.1f} s, the other's ran to its end; same connection: {theirs == backend}")
        assert time.monotonic() - started > DELAY_SECONDS + 1
        assert theirs != backend


@pytest.mark.parametrize("end", ["discard all", "leaves"])
def test_a_late_cancel_of_who_kept_a_connection(end, late):
    """It was the session's own: what lives there lives nowhere else."""
    router, proxy = late
    delay = 2.5
    with router.server.connect(autocommit=True) as one, router.server.connect() as other:
        proxy.cancel_delay_seconds = 0
        one.execute("create temp table lives_here (id int)")
        proxy.cancel_delay_seconds = delay
        started = time.monotonic()
        # What it is for is over when it comes.
        cancels = threading.Timer(0.3, one.cancel)
        cancels.start()
        one.execute("create temp table more as select 1 as x from pg_sleep(1)")
        one.execute(end) if end == "discard all" else one.close()
        at = time.monotonic() - started
        other.execute("select pg_sleep(%s)", (max(delay + 2 - at, 2),))
        assert time.monotonic() - started > delay + 1
        cancels.join(60)


@pytest.fixture(scope="module")
def late():
    with Cluster(nodes=1) as cluster:
        proxy = Proxy(cluster.nodes[0].server.port)
        cluster.ports[1] = proxy.port
        yield cluster.router("late", "[pool]\nsize = 1\n").start(), proxy
        proxy.stop()
