"""Waiting for what comes about beside the test, as long as that takes on a machine with much to do. It does not know what it is."""

import time
from collections.abc import Callable, Iterable

_LOCK_WAITS = "select count(*) from pg_locks where not granted"


def until(ask: Callable[[], object], seconds_max: float = 60, every: float = 0.05, told: Callable[[], object] | None = None):
    """What is said once it is true. `told`: what the failure shows."""
    deadline = time.monotonic() + seconds_max
    while not (said := ask()):
        assert time.monotonic() < deadline, f"not within {seconds_max} s: {told and told()}"
        time.sleep(every)
    return said


def until_somebody_waits_for_a_lock(servers: Iterable, seconds_max: float = 60) -> None:
    """On one of the servers at least."""
    connections = [server.connect() for server in servers]
    try:
        until(lambda: any(c.execute(_LOCK_WAITS).fetchone()[0] for c in connections), seconds_max, 0.01)
    finally:
        for connection in connections:
            connection.close()
