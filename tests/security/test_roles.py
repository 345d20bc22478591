"""The program of random roles for a short while; `make promises` runs 10 000 sequences."""

import os

import pytest

from promises.cluster import Cluster

from . import roles

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-roles"), pytest.mark.timeout(300)]


def test_random_roles():
    with Cluster(nodes=2, shards=8) as cluster:
        figures = roles.run(int(os.environ.get("PROMISES_SEED", "1")), sequences=30, cluster=cluster)
    assert figures["different"] == 0 and figures["logins"] > 50 and figures["denied"] > 5
