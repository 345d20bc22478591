"""Two servers that exist already, and routers in front of them."""

import pytest

from harness import router
from harness.started import Routers


class Pair(Routers):
    """A herd of two nodes with two routers, `a` and `b`."""

    def start(self):
        self.nodes = [self.kept(router.node(f"node{i}")) for i in (1, 2)]
        home, other = (router.conninfo(n) for n in self.nodes)
        self.routers = [self.kept(router.Router(home, [other])) for _ in range(2)]

    def new_node(self):
        """A server that is no node yet."""
        return self.kept(router.node(f"node{len(self._things)}"))


@pytest.fixture(scope="module")
def pair():
    made = Pair()
    yield made
    made.stop()
