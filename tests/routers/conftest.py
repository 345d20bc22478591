"""Two servers that exist already, and routers in front of them."""

import pytest

from harness import router


class Pair:
    """A herd of two nodes with two routers, `a` and `b`."""

    def __init__(self):
        self._things: list = []
        try:
            self.nodes = [self._kept(router.node(f"node{i}")) for i in (1, 2)]
            home, other = (router.conninfo(n) for n in self.nodes)
            self.routers = [self._kept(router.Router(home, [other])) for _ in range(2)]
        except BaseException:
            self.stop()
            raise

    def _kept(self, thing):
        self._things.append(thing)
        return thing

    @property
    def a(self):
        return self.routers[0].server

    @property
    def b(self):
        return self.routers[1].server

    def new_node(self):
        """A server that is no node yet."""
        return self._kept(router.node(f"node{len(self._things)}"))

    def stop(self) -> None:
        for thing in reversed(self._things):
            thing.stop()


@pytest.fixture(scope="module")
def pair():
    made = Pair()
    yield made
    made.stop()
