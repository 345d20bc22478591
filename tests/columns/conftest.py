"""A herd of two nodes with a store of column copies beside each, or a line that says why there is none."""

import re
import time
import urllib.request

import pytest

from harness import needs, processes
from harness.herd import Herd
from harness.server import Server

_READY_SECONDS_MAX = 150


class Columns:
    """The herd, and what its stores and its router say of column copies."""

    def __init__(self):
        self.herd = Herd(nodes=2, shards=8, columns=True)
        self.server = self.herd.server

    @property
    def stores(self) -> list[Server]:
        return [Server(f"store {i}", self.herd.port + self.herd.nodes + i) for i in range(1, self.herd.nodes + 1)]

    def store_pids(self) -> list[int]:
        """The processes of the stores, in no order."""
        return [pid for number in range(1, self.herd.nodes + 1) for pid in processes.with_argument(str(self.herd.dir / f"column{number}.toml"))]

    def copies(self, store: Server) -> list[dict]:
        with store.connect(user="herd", dbname="herd") as connection:
            cursor = connection.execute("SHOW copies")
            names = [column.name for column in cursor.description]
            return [dict(zip(names, row)) for row in cursor.fetchall()]

    def add(self, table: str, arguments: str = "") -> None:
        """Adds a copy of a table, and waits until all stores have it."""
        self.server.run(f"select herd.add_column_copy('{table}'{arguments})")
        self.ready(table)

    def id(self, table: str) -> str:
        """The number of its copy."""
        with self.herd.node_servers[0].connect() as home:
            return str(home.execute(f"select id from herd.column_copy where relation = '{table}'::regclass").fetchone()[0])

    def states(self, table: str) -> list[str | None]:
        """Of its copy, store by store; None: a store has none."""
        number = self.id(table)
        return [next((c["state"] for c in self.copies(store) if str(c["copy"]) == number), None) for store in self.stores]

    def ready(self, table: str) -> None:
        deadline = time.monotonic() + _READY_SECONDS_MAX
        while True:
            states = self.states(table)
            if all(state == "ready" for state in states):
                return
            assert time.monotonic() < deadline, states
            time.sleep(0.1)

    def reads(self) -> tuple[int, int]:
        """How many statements columns have answered so far, and how many went to rows although columns were asked."""
        found = dict(re.findall(r'herd_column_reads_total\{by="(\w+)"\} (\d+)', self.page()))
        return int(found["columns"]), int(found["rows"])

    def row_bytes(self) -> int:
        """Bytes of rows that wait in the router."""
        return int(re.search(r"^herd_row_bytes (\d+)", self.page(), re.MULTILINE)[1])

    def page(self) -> str:
        """The router's metrics page."""
        address = self.herd.status()["router"]["metrics"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            return page.read().decode()


@pytest.fixture(scope="session")
def columns():
    needs.herd_column()
    made = Columns()
    yield made
    made.herd.stop()
