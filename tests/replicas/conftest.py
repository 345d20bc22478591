"""Two nodes with a standby each, and two routers in front of them."""

import time

import pytest

from harness import ports, router
from harness.standby import Standby
from harness.started import Routers


class Replicas(Routers):
    """`nodes` are the primaries, home first; `standbys` theirs."""

    def __init__(self, routers: int = 2):
        self._count = routers
        super().__init__()

    def start(self):
        self.nodes = [self.kept(router.node(f"node{i}", {"wal_level": "logical"})) for i in (1, 2)]
        self.standbys = [self.kept(Standby(node)) for node in self.nodes]
        home, other = map(self.conninfo, self.nodes, self.standbys)
        self.metrics = ports.free_row(self._count)
        self.routers = [
            self.kept(router.Router(home, [other], more=f'auth = "trust"\nmetrics = "127.0.0.1:{self.metrics + i}"\n'))
            for i in range(self._count)
        ]
        self.wait_until_ready()

    @staticmethod
    def conninfo(*servers) -> str:
        ports = ",".join(str(server.port) for server in servers)
        return router.conninfo(servers[0], host=",".join("127.0.0.1" for _ in servers), port=ports, target_session_attrs="primary")

    def reader(self, server=None, **settings):
        """A session that reads standbys."""
        connection = (server or self.a).connect()
        for name, value in ({"read_from": "replica"} | settings).items():
            connection.execute(f"set herd.{name} = '{value}'")
        return connection

    def states(self, server=None) -> list[str]:
        with (server or self.a).connect() as connection:
            return [row[0] for row in connection.execute("select state from herd.replicas order by node, state")]

    def wait_until_ready(self, seconds_max: float = 90):
        deadline = time.monotonic() + seconds_max
        for each in self.routers:
            while self.states(each.server) != ["primary", "ready"] * len(self.nodes):
                assert time.monotonic() < deadline, self.states(each.server)
                time.sleep(0.05)

    def wait_until_applied(self):
        """Both standbys have what is committed now, and routers know."""
        for node, standby in zip(self.nodes, self.standbys):
            with node.server.connect() as primary, standby.server.connect() as copy:
                (end,) = primary.execute("select pg_current_wal_flush_lsn()").fetchone()
                while copy.execute("select pg_last_wal_replay_lsn() < %s", (end,)).fetchone()[0]:
                    time.sleep(0.01)
        time.sleep(1.3)

    def read_there(self, reader, sql: str, least: int = 1, **how) -> list:
        """The rows; at least so many standbys have answered. On a busy machine the first tries may find none that is near enough."""
        deadline = time.monotonic() + 90
        with self.a.connect() as other:
            while True:
                before = self.reads(other)
                rows = reader.execute(sql, **how).fetchall()
                if self.reads(other) >= before + least:
                    return rows
                assert time.monotonic() < deadline, f"standbys do not answer {sql}"
                time.sleep(0.05)

    def reads(self, connection) -> int:
        """What standbys were asked by this connection's router."""
        return connection.execute("select sum(reads) from herd.replicas where state <> 'primary'").fetchone()[0]


@pytest.fixture(scope="module")
def replicas():
    made = Replicas()
    yield made
    made.stop()
