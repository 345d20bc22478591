"""A router starts, and others go on, beside whatever a role that may do nothing in particular holds open."""

import time

import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(120)]

_SECONDS_MAX = 60


def test_beside_open_transactions(place):
    """Making the herd's views anew would wait for who reads them, and all other readers behind it."""
    readers = [place.on_node(node, "mallory", autocommit=False) for node in range(3)]
    home, *others = (router.conninfo(n) for n in place.nodes)
    started = None
    try:
        for node, reader in enumerate(readers):
            for view in ["herd.decisions", "herd.transactions", "herd.verify"] + (["herd.nodes", "herd.tables"] if node == 0 else []):
                reader.execute(f"select * from {view}")
            reader.execute("select pg_advisory_lock(1751478884)")
        begun = time.monotonic()
        started = router.Router(home, others)
        with started.server.connect() as root, place.server.connect() as other:
            for connection in (root, other):
                assert connection.execute("select count(*) from herd.decisions").fetchone() == (0,)
                assert connection.execute("select count(*) from herd.nodes").fetchone() == (3,)
        assert time.monotonic() - begun < _SECONDS_MAX
    finally:
        for reader in readers:
            reader.close()
        if started:
            started.stop()
