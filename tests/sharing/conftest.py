"""A herd for tests of statements that travel together, and a view of how many did."""

import re
import urllib.request

import pytest

from harness.herd import Herd


class SharingHerd:
    """A herd with its counters."""

    def __init__(self, herd: Herd):
        self.herd = herd
        self.server = herd.server

    def shared(self) -> dict[str, int]:
        """`batches`, `statements` and `sent_away` so far."""
        status = self.herd.status()
        with urllib.request.urlopen(f"http://{status['router']['metrics']}/metrics", timeout=10) as page:
            text = page.read().decode()
        return {name: int(n) for name, n in re.findall(r"^herd_shared_(\w+)_total (\d+)$", text, re.MULTILINE)}


@pytest.fixture(scope="module")
def sharing():
    herd = Herd(nodes=2, shards=8)
    yield SharingHerd(herd)
    herd.stop()
