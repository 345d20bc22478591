"""The stores of a herd that is measured: stopped, started again by `herd up`, waited for. It does not know what is in their copies."""

import os
import signal
import time
from pathlib import Path

from common import value
from harness import processes
from harness.herd import Herd
from harness.server import Server


class Stores:
    """Those of all nodes, in the nodes' order."""

    def __init__(self, herd: Herd):
        self.herd = herd
        self.servers = [Server(f"store {i}", herd.port + herd.nodes + i, user="herd", dbname="herd") for i in range(1, herd.nodes + 1)]

    def pids(self) -> list[int]:
        """Their processes."""
        return [pid for i in range(1, self.herd.nodes + 1) for pid in processes.with_argument(str(self.herd.dir / f"column{i}.toml"))]

    def stop(self) -> None:
        for pid in self.pids():
            os.kill(pid, signal.SIGTERM)
        while self.pids():
            time.sleep(0.02)

    def copies(self, server: Server) -> list[dict]:
        with server.connect() as connection:
            cursor = connection.execute("SHOW copies")
            return [dict(zip((column.name for column in cursor.description), row)) for row in cursor.fetchall()]

    def wait_until_ready(self) -> float:
        """Until every store can be asked for all of its copies, of which it has some; how long that took, in seconds."""
        begun = time.monotonic()
        for server in self.servers:
            while not (copies := self.copies(server)) or any(copy["state"] != "ready" for copy in copies):
                time.sleep(0.05)
        return time.monotonic() - begun

    def ends(self) -> list[int]:
        """Where each node's log ends."""
        return [_number(value(node, "select pg_current_wal_insert_lsn()")) for node in self.herd.node_servers]

    def wait_until_applied(self, ends: list[int]) -> None:
        for server, end in zip(self.servers, ends):
            while _number(self.copies(server)[0]["applied"]) < end:
                time.sleep(0.02)

    def processor_s(self) -> float:
        """Processor time of all of them so far."""
        ticks = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def bytes_read(self) -> int:
        """What all of them have read from files and sockets so far, cached by the system or not."""
        lines = [line for pid in self.pids() for line in Path(f"/proc/{pid}/io").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("rchar"))


def _number(lsn: str) -> int:
    high, low = lsn.split("/")
    return (int(high, 16) << 32) | int(low, 16)
