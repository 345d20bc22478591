"""Promise: primaries of a local herd with standbys (`herd up --ha`) are lost one after another, home's too, and nothing that was acknowledged is.

Kinds, in turn: PostgreSQL is killed (`postgres`), it and its Patroni (`both`), all of PostgreSQL's processes hang (`hangs`), Patroni as well (`all hangs`),
and they hang until another one leads while nobody watches over them (`unwatched`), as where a machine is cut off: that is Patroni's ttl. What hung
then goes on, as a primary that does not know: nothing of it may be accepted. Beside every other failover one etcd of three is away. Writers commit rows
over both nodes all the time: how long none is acknowledged is told for each.
"""

import os
import random
import signal
import statistics
import time

from harness import processes
from harness.herd import Herd
from harness.writer import CODES, ROWS, Writer

from . import program

_KINDS = ("postgres", "both", "hangs", "all hangs", "unwatched")
_FAILOVER_SECONDS_MAX = 90


class Failing:
    def __init__(self, herd: Herd):
        self.herd = herd

    def members(self, node: str) -> list[dict]:
        return next(one["members"] for one in self.herd.status()["nodes"] if one["name"] == node)

    def leader(self, node: str) -> dict | None:
        return next((member for member in self.members(node) if member["role"] == "leader"), None)

    def wait_until_complete(self, node: str) -> None:
        deadline = time.monotonic() + _FAILOVER_SECONDS_MAX
        while sorted(member["role"] for member in self.members(node)) != ["leader", "sync standby"]:
            assert time.monotonic() < deadline, f"{node} is not complete: {self.members(node)}"
            time.sleep(0.3)

    def fail(self, node: str, kind: str) -> list[int]:
        """Processes that have to be told to go on."""
        leader = self.leader(node)
        if kind == "unwatched":
            os.kill(self.herd.status()["watch"]["pid"], signal.SIGKILL)
        if kind in ("hangs", "all hangs", "unwatched"):
            if kind == "all hangs":
                os.kill(leader["patroni_pid"], signal.SIGSTOP)
            family = processes.freeze_family(leader["pid"])
            return family if kind == "unwatched" else []
        if kind == "both":
            os.kill(leader["patroni_pid"], signal.SIGKILL)
        os.kill(leader["pid"], signal.SIGKILL)
        return []


def run(seed: int, count: int = 20) -> dict:
    rng = random.Random(seed)
    herd, writer = Herd(nodes=2, shards=8, ha=True), None
    try:
        failing = Failing(herd)
        herd.server.run("create table rows (id bigint primary key, batch bigint)", "select create_distributed_table('rows', 'id')")
        writer = Writer(herd.server)
        took: dict[str, list[float]] = {kind: [] for kind in _KINDS}
        for n in range(count):
            for node in ("node1", "node2"):
                failing.wait_until_complete(node)
            writer.wait_for(20, 60)
            if n % 2:
                processes.signal(rng.choice(herd.status()["etcd"])["pid"], signal.SIGKILL)
                time.sleep(1)
            kind, node = _KINDS[n % len(_KINDS)], rng.choice(("node1", "node2"))
            former = failing.leader(node)["name"]
            writer.longest_pause()
            hung = failing.fail(node, kind)
            at = time.monotonic()
            while (now := failing.leader(node)) is None or now["name"] == former:
                assert time.monotonic() < at + _FAILOVER_SECONDS_MAX, f"nobody leads {node}: {failing.members(node)}"
                time.sleep(0.2)
            writer.wait_for(20, _FAILOVER_SECONDS_MAX)
            took[kind].append(writer.longest_pause())
            print(f"{n + 1}: {node}, {kind}: {took[kind][-1]:.1f} s", flush=True)
            for process_id in hung:
                processes.signal(process_id, signal.SIGCONT)
            herd.up()
        for node in ("node1", "node2"):
            failing.wait_until_complete(node)
        writer.wait_for(20, 60)
        writer.stop()
        with herd.server.connect() as connection:
            counted = dict(connection.execute("select batch, count(*) from rows group by 1").fetchall())
            in_doubt = connection.execute("select count(*) from herd.transactions").fetchone()[0]
        lost = [batch for batch in writer.acknowledged if batch not in counted]
        half = [batch for batch, rows in counted.items() if rows != ROWS]
        figures = {
            "failovers": count, "acknowledged": len(writer.acknowledged), "lost": len(lost), "half_applied": len(half), "in_doubt": in_doubt,
            "pause_s": {kind: {"median": round(statistics.median(s), 1), "max": round(max(s), 1)} for kind, s in took.items() if s},
        }
        assert not lost and not half, f"{lost[:5]} {half[:5]}: {figures}"
        assert set(writer.codes) <= CODES, f"{set(writer.codes)}: {figures}"
        return figures
    finally:
        if writer is not None:
            writer.stop()
        herd.stop()


if __name__ == "__main__":
    program.main("failovers", run, program.arguments(__doc__, count=20))
