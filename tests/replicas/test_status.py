"""`herd status` shows each host of a node that has several."""

import json
import subprocess

import pytest

from harness import binaries
from harness.standby import Standby

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]


def _status(replicas) -> tuple[int, list[list[tuple]]]:
    url = f"postgresql://postgres@127.0.0.1:{replicas.a.port}/postgres"
    done = subprocess.run([binaries.herd(), "status", "--url", url, "--json"], capture_output=True, text=True, timeout=60)
    nodes = json.loads(done.stdout)["nodes"]
    return done.returncode, [[(member["port"], member["role"]) for member in node["members"]] for node in nodes]


def test_standbys_are_listed_and_a_lost_one_is_told(replicas):
    listed = [[(node.port, "primary"), (standby.port, "standby")] for node, standby in zip(replicas.nodes, replicas.standbys)]
    assert _status(replicas) == (0, listed)
    lost: Standby = replicas.standbys[1]
    lost.kill()
    try:
        listed[1][1] = (lost.port, "down")
        assert _status(replicas) == (1, listed)
    finally:
        lost.start()
        replicas.wait_until_ready()
