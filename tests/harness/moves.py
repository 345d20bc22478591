"""What moves of shards make on nodes while they go on, and must not leave there. It does not know how servers were started."""

import time

_LEFT_ON_NODES = """
    select 'slot', slot_name::text from pg_replication_slots union all select 'publication', pubname from pg_publication
     union all select 'subscription', subname from pg_subscription union all select 'table', oid::regclass::text from pg_class where relname like 'herd_moving%'
"""
_PREPARED = " union all select 'prepared', gid from pg_prepared_xacts"
_JOBS_RUNNING = "select 'job', about from herd.job where state = 'running'"


def wait_until_tidy(nodes: list, seconds_max: float, others_commit: bool = False) -> float:
    """Seconds until nothing of any move is left on any node; the first one is home. `others_commit`: what is prepared may be others'."""
    started = time.monotonic()
    while left := _left(nodes, others_commit):
        assert time.monotonic() < started + seconds_max, f"left behind after {seconds_max} s: {left}"
        time.sleep(0.2)
    return time.monotonic() - started


def _left(nodes: list, others_commit: bool) -> list:
    found = []
    for node in nodes:
        with node.server.connect() as connection:
            found += [(node.server.name, *row) for row in connection.execute(_LEFT_ON_NODES + ("" if others_commit else _PREPARED))]
    with nodes[0].server.connect() as connection:
        return found + connection.execute(_JOBS_RUNNING).fetchall()
