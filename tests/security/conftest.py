"""A herd of three servers with two routers, and roles that may do nothing in particular: `mallory` and `victim`."""

import psycopg
import pytest

from harness import router
from harness.started import Started

_ROLES = ("mallory", "victim")


class Place(Started):
    """The herd under attack."""

    def start(self):
        self.nodes = [self.kept(router.node(f"node{i}")) for i in (1, 2, 3)]
        home, *others = (router.conninfo(n) for n in self.nodes)
        self.routers = [self.kept(router.Router(home, others))]
        self.server.run(*(f"create role {role} login" for role in _ROLES), "create schema hers authorization mallory")

    @property
    def server(self):
        return self.routers[0].server

    def as_role(self, role: str, **more) -> psycopg.Connection:
        """Through the router."""
        return self.server.connect(user=role, **more)

    def on_node(self, number: int, role: str = "postgres", **more) -> psycopg.Connection:
        """Past the router; 0 is home."""
        return self.nodes[number].server.connect(user=role, **more)


@pytest.fixture(scope="package")
def place():
    made = Place()
    yield made
    made.stop()
