"""A herd of its own for tests that kill its processes."""

import os
import signal
import time

import pytest

from harness.herd import Herd


class Victim:
    """A herd whose processes are killed; `repair` is `herd up` again."""

    def __init__(self, herd: Herd):
        self.herd = herd

    @property
    def router(self):
        return self.herd.server

    def kill(self, port: int) -> None:
        """SIGKILL to the process that listens on a port, and waits until it is gone."""
        process_id = self.herd.process_id(port)
        os.kill(process_id, signal.SIGKILL)
        for _ in range(600):
            if not _is_alive(process_id):
                return
            time.sleep(0.05)
        raise AssertionError(f"process {process_id} survives SIGKILL")

    def repair(self) -> None:
        self.herd.up()

    def keys_by_node(self, table: str) -> list[list[int]]:
        """Which ids each node holds, asked of the nodes themselves."""
        found = []
        for node in self.herd.node_servers:
            with node.connect() as connection:
                found.append([row[0] for row in connection.execute(f"select id from {table} order by id")])
        return found


def _is_alive(process_id: int) -> bool:
    try:
        with open(f"/proc/{process_id}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def _own_herd():
    herd = Herd(nodes=2, shards=8)
    yield herd
    herd.stop()


@pytest.fixture
def victim(_own_herd):
    """Whole at the start of each test."""
    made = Victim(_own_herd)
    made.repair()
    return made
