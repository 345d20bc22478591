"""A herd of three servers with two routers, and roles that may do nothing in particular: `mallory` and `victim`."""

import psycopg
import pytest

from harness import router

_ROLES = ("mallory", "victim")


class Place:
    """The herd under attack."""

    def __init__(self):
        self._things: list = []
        try:
            self.nodes = [self._kept(router.node(f"node{i}")) for i in (1, 2, 3)]
            home, *others = (router.conninfo(n) for n in self.nodes)
            self.routers = [self._kept(router.Router(home, others))]
            self.server.run(*(f"create role {role} login" for role in _ROLES), "create schema hers authorization mallory")
        except BaseException:
            self.stop()
            raise

    def _kept(self, thing):
        self._things.append(thing)
        return thing

    @property
    def server(self):
        return self.routers[0].server

    def as_role(self, role: str, **more) -> psycopg.Connection:
        """Through the router."""
        return self.server.connect(user=role, **more)

    def on_node(self, number: int, role: str = "postgres", **more) -> psycopg.Connection:
        """Past the router; 0 is home."""
        return self.nodes[number].server.connect(user=role, **more)

    def stop(self) -> None:
        for thing in reversed(self._things):
            thing.stop()


@pytest.fixture(scope="package")
def place():
    made = Place()
    yield made
    made.stop()
