"""Servers whose shards move, and routers in front of them, one of which may be told to die or to wait at a place."""

import os
import time

import pytest

from harness import processes, router
from harness.moves import wait_until_tidy
from harness.started import Routers

LOGICAL = {"wal_level": "logical", "max_wal_senders": "6", "max_replication_slots": "6"}
NODES = 3


class Elastic(Routers):
    """A herd of home and two more nodes, with two routers, `a` and `b`."""

    def start(self):
        self.nodes = [self.kept(router.node(f"elastic{i}", LOGICAL)) for i in range(NODES)]
        self._home, *self._others = (router.conninfo(n) for n in self.nodes)
        self.routers = [self.router() for _ in range(2)]

    def router(self, failpoint: str | None = None) -> router.Router:
        """One more; `failpoint` as in crates/txn/src/failpoint.rs."""
        if failpoint:
            os.environ["HERD_FAILPOINT"] = failpoint
        try:
            return self.kept(router.Router(self._home, self._others, shards=6))
        finally:
            os.environ.pop("HERD_FAILPOINT", None)

    def on_node(self, number: int, sql: str, values=None) -> list:
        """Asked directly; `number` as in herd.nodes."""
        with self.nodes[number - 1].server.connect() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def kills(self, number: int) -> None:
        """The whole server, as if its machine had lost power; its files stay."""
        process = self.nodes[number - 1].process
        processes.kill_family(process.pid)
        process.wait()

    def starts(self, number: int) -> None:
        """Where it was, with what it had."""
        node = self.nodes[number - 1]
        deadline = time.monotonic() + 90
        while not node._try_start():
            assert time.monotonic() < deadline, node.log()[-2000:]
            time.sleep(0.1)

    def shards(self, table: str) -> dict[int, int]:
        """The node of each shard, as in herd.nodes."""
        with self.a.connect() as connection:
            sql = "select s.shard, n.id from herd.shards s join herd.nodes n on n.name = s.node where s.name = %s"
            return dict(connection.execute(sql, (table,)).fetchall())

    def moves(self, table: str, shard: int, through=None) -> int:
        """Moves a shard to the next node; the number of that."""
        node = self.shards(table)[shard] % NODES + 1
        (through or self.a).run(f"select herd.move_shard('{table}', {shard}, {node})")
        return node

    def without_tables(self) -> None:
        """Before a node is drained: of what other tests made, some may not be moved."""
        with self.a.connect() as connection:
            tables = connection.execute("select string_agg(format('%I.%I', schema, name), ', ') from herd.tables").fetchone()[0]
            if tables:
                connection.execute(f"drop table {tables} cascade")

    def is_tidy(self, seconds_max: float = 90) -> None:
        wait_until_tidy(self.nodes, seconds_max)


@pytest.fixture(scope="session")
def elastic():
    made = Elastic()
    yield made
    made.stop()
