"""The program of random roles for a short while; `make promises` runs 10 000 sequences."""

import os

import pytest

from promises.cluster import Cluster

from . import roles

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-roles"), pytest.mark.timeout(300)]


_LEFT_BEHIND = [
    "grant select, update on roles_d to r5 with grant option", "set session authorization r5", "grant update (v) on roles_d to r1",
    "reset session authorization", "revoke all on roles_d from r5 cascade",
]


def test_random_roles():
    with Cluster(nodes=2, shards=8) as cluster:
        figures = roles.run(int(os.environ.get("PROMISES_SEED", "1")), sequences=30, cluster=cluster)
    # A difference is raised; that much was compared.
    assert figures["sequences"] == 30 and figures["steps"] > 400 and figures["logins"] > 50 and figures["denied"] > 5, figures
    assert figures["explained"] > 5 and figures["explain_denied"] > 0, figures


def test_the_next_block_begins_anew_whatever_was_granted():
    """PostgreSQL keeps what was granted on single columns by whoever may no more, and DROP OWNED does not find it."""
    with Cluster(nodes=2, shards=8) as cluster:
        world = roles.World(cluster)
        try:
            world.reset()
            login = ("login", 0, "postgres", "boss", 0)
            assert [world.step(step) for step in [login, *(("sql", 0, sql, False) for sql in _LEFT_BEHIND)]] == [None] * (1 + len(_LEFT_BEHIND))
            kept = [side.run(0, roles._OTHERS_GRANTS, False) for side in (world.herd, world.pg)]
            assert kept == [("ok", [("roles_d", "r5")])] * 2
            world.reset()
            assert [side.run(0, roles._OTHERS_GRANTS, False) for side in (world.herd, world.pg)] == [("ok", [])] * 2
        finally:
            world.stop()
