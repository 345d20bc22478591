"""Shards that move, split, merge, leave a node and go to new ones while sysbench's oltp_read_write, single-row INSERTs (W1) and clients that know
their own rows go on through two routers: what fails (nothing may), how long a statement waits, and how much of the throughput is left.

    python tests/bench/moving_shards.py [--rows 4000000] [--seconds 60] [--threads 16] [--inserts 12] [--writers 4]
    WORKS='move;split, merge' python tests/bench/moving_shards.py

Needs Debian's `sysbench`. A herd begins with two nodes and four shards; fsync and synchronous_commit are on. All tables are colocated: each step
takes a shard of sbtest1 (--rows / 4), one of the inserted rows and one of the writers'. --seconds: how long a work lasts at least, with ten
seconds before its first step and ten behind its last, which are what its throughput is held against.
"""

import os
import re
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from common import SBTEST1, SBTEST1_ROWS, Background, arguments, print_table, value
from elastic.writers import ROWS, Writer
from harness import binaries, router
from harness.started import Routers

_SETTINGS = {
    "wal_level": "logical", "max_wal_senders": "10", "max_replication_slots": "10", "max_connections": "300", "max_wal_size": "4GB",
    "fsync": "on", "synchronous_commit": "on", "shared_buffers": "512MB",
}
_QUIET = 10
_INSERT = """\\set n :n + 1
\\set id :client_id * 100000000 + :n
insert into hits (id, k, c, pad) values (:id, 5, 'some text of a row, some text of a row, some text', 'some more');
"""


class Herd(Routers):
    def start(self):
        self.nodes = [self.kept(router.node(f"moving{n}", _SETTINGS)) for n in range(4)]
        home, second = map(router.conninfo, self.nodes[:2])
        self.routers = [self.kept(router.Router(home, [second], shards=4)) for _ in range(2)]


class Paced(Writer):
    """Leaves the machine to the others."""

    def one(self, connection):
        time.sleep(0.02)
        super().one(connection)


class Load:
    """All clients, from its making to `ended`."""

    def __init__(self, herd: Herd, chosen, directory: Path):
        self.herd, self.directory = herd, directory
        said = open(directory / "sysbench", "w")  # noqa: SIM115
        self.sysbench = subprocess.Popen([
            "sysbench", "oltp_read_write", "--db-driver=pgsql", f"--pgsql-host={herd.a.host}", f"--pgsql-port={herd.a.port}", f"--pgsql-user={herd.a.user}",
            f"--pgsql-db={herd.a.dbname}", "--rand-type=uniform", f"--table_size={chosen.rows}", f"--threads={chosen.threads}", "--time=0", "--report-interval=1",
            "--percentile=99", "run",
        ], stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=os.environ | {"PGSSLMODE": "disable", "PGGSSENCMODE": "disable"})  # fmt: skip
        self.inserts = Background(herd.b, directory, "inserts", _INSERT, "-c", chosen.inserts, "-j", 1, "-D", "n=0")
        self.stop = threading.Event()
        self.writers = [Paced(n, herd.routers[n % 2].server, self.stop) for n in range(chosen.writers)]
        self.begun = time.time()
        for writer in self.writers:
            writer.start()

    def ended(self) -> None:
        self.stop.set()
        for writer in self.writers:
            writer.join(60)
        failed = [repr(w.error) for w in self.writers if w.error]
        if self.sysbench.poll() is not None:
            failed.append((self.directory / "sysbench").read_text()[-1500:])
        self.sysbench.terminate()
        self.sysbench.wait()
        self.inserted = self.inserts.ended()
        if failed:
            raise SystemExit(f"clients failed: {failed}")

    def transactions(self) -> list[tuple[float, float, float]]:
        """sysbench's: when each second ended, how many in it, and how many were begun anew after an error. In small tables some are, on every
        PostgreSQL: who waits for another one's DELETE finds its INSERT there."""
        lines = re.findall(r"\[ (\d+)s \] thds: \d+ tps: ([\d.]+) .*?err/s: ([\d.]+) reconn/s: ([\d.]+)", (self.directory / "sysbench").read_text())
        return [(self.begun + float(second), float(tps), float(errors) + float(lost)) for second, tps, errors, lost in lines]


def filled(herd: Herd, rows: int) -> None:
    herd.a.run(*SBTEST1, "create table hits (id int primary key, k integer not null, c text not null, pad text not null)",
               "create table m_load (id int primary key, v int not null, note text)")  # fmt: skip
    herd.a.run("select create_distributed_table('sbtest1', 'id')", *(f"select create_distributed_table('{t}', 'id', colocate_with => 'sbtest1')" for t in ("hits", "m_load")))
    for first in range(1, rows + 1, 500_000):
        herd.a.run(SBTEST1_ROWS.format(count=rows, first=first, last=min(first + 499_999, rows)))
    herd.a.run(f"insert into m_load select g, 10, 'row ' || g from generate_series(1, {ROWS}) g", "vacuum analyze sbtest1")


class Steps:
    """What is done to the shards. Each work is a list of steps, which leave the herd as they found it, or its first one, made once, does not."""

    def __init__(self, herd: Herd):
        self.herd, self.turn = herd, 0

    def call(self, sql: str):
        self.turn += 1
        return value(self.herd.routers[self.turn % 2].server, sql)

    def shards(self) -> dict[int, int]:
        """Of each the node's number."""
        with self.herd.a.connect() as connection:
            return dict(connection.execute("select s.shard, n.id from herd.shards s join herd.nodes n on n.name = s.node where s.name = 'sbtest1' order by 1").fetchall())

    def move(self):
        shard, node = next(iter(self.shards().items()))
        self.call(f"select herd.move_shard('sbtest1', {shard}, {3 - node})")

    def split(self):
        self.call(f"select herd.split_shard('sbtest1', {next(iter(self.shards()))})")

    def split_away(self):
        shard, node = next(iter(self.shards().items()))
        self.call(f"select herd.split_shard('sbtest1', {shard}, node => {3 - node})")

    def merge(self):
        shards = list(self.shards())
        self.call(f"select herd.merge_shards('sbtest1', {shards[0]}, {shards[-1]})")

    def add(self):
        for node in self.herd.nodes[2:]:
            self.call(f"select citus_add_node('127.0.0.1', {node.port})")

    def drain(self):
        last = value(self.herd.a, "select max(id) from herd.nodes")
        self.call(f"select herd.drain_node({last})")

    def rebalance(self):
        self.call("select herd.rebalance()")


def beside(herd: Herd, chosen, steps: list, once: bool) -> dict:
    """The steps, one after another, beside all clients."""
    with tempfile.TemporaryDirectory() as directory:
        load = Load(herd, chosen, Path(directory))
        try:
            time.sleep(3)
            quiet = time.time()
            time.sleep(_QUIET)
            begun, took = time.time(), []
            while True:
                for step in steps:
                    at = time.time()
                    step()
                    took.append((step.__name__, time.time() - at))
                if once or time.time() - begun > chosen.seconds:
                    break
            over = time.time()
            time.sleep(_QUIET)
        finally:
            load.ended()
        transactions, waits = load.transactions(), load.inserts.waits()
        end = over + _QUIET
        meanwhile = lambda at: begun <= at <= over  # noqa: E731
        apart = lambda at: quiet <= at < begun or over < at <= end  # noqa: E731
        rates = [statistics.mean(n for at, n, _ in transactions if inside(at)) for inside in (apart, meanwhile)]
        inserts = [sum(inside(at) for at, _ in waits) / long for inside, long in ((apart, 2 * _QUIET), (meanwhile, over - begun))]
        ms = sorted(wait for at, wait in waits if meanwhile(at))
        check(herd, chosen, load)
        return {
            "took": took, "errors": int(sum(n for at, _, n in transactions if meanwhile(at))), "oltp/s": rates[1], "oltp kept": rates[1] / rates[0], "W1/s": inserts[1], "W1 kept": inserts[1] / inserts[0],
            "W1 p50 ms": statistics.median(ms), "p99": ms[len(ms) * 99 // 100], "max": ms[-1], "own rows' clients, max ms": max(w.stall for w in load.writers) * 1000,
        }


def check(herd: Herd, chosen, load: Load) -> None:
    """Nothing is lost, nothing is there twice."""
    with herd.b.connect() as connection:
        rows = connection.execute("select count(*), count(distinct id) from sbtest1").fetchone()
        hits = connection.execute("select count(*) from hits").fetchone()[0]
        expected = {id: v for w in load.writers for id, v in w.rows.items()}
        found = connection.execute("select id, v from m_load where id > %s", (ROWS,)).fetchall()
        shared = connection.execute("select count(*), sum(v) from m_load where id <= %s", (ROWS,)).fetchone()
        if hits != load.inserted or len(found) != len(expected) or dict(found) != expected or shared[0] != ROWS or rows != (chosen.rows, chosen.rows):
            raise SystemExit(f"WRONG: {rows} rows, {hits} of {load.inserted} inserted, {len(found)} of {len(expected)} own, {shared}")
        # The next load's clients begin with none.
        connection.execute("delete from m_load where id > %s", (ROWS,))
        connection.execute("truncate hits")


def copied(herd: Herd, steps: Steps) -> list:
    """Nobody else there: a move, and the same rows by COPY from node to node into such a table with its indexes; three of each, in turn."""
    took = {"move": [], "COPY": []}
    for _ in range(3):
        shard, node = next(iter(steps.shards().items()))
        partition = value(herd.a, f"select partition from herd.shards where name = 'sbtest1' and shard = {shard}")
        source, target = herd.nodes[node - 1], herd.nodes[2 - node]
        bytes = value(source.server, f"select pg_table_size('{partition}')")
        target.server.run(
            "drop table if exists copied", "create table copied (id integer not null, k integer not null, c character(120) not null, pad character(60) not null, primary key (id))",
            "create index on copied (k)",
        )
        psql = f"{binaries.postgres_bin() / 'psql'} -X -q -U postgres -h 127.0.0.1 -d postgres -p"
        at = time.time()
        subprocess.run(f"{psql} {source.port} -c 'copy {partition} to stdout' | {psql} {target.port} -c 'copy copied from stdin'", shell=True, check=True)
        took["COPY"].append(bytes / (time.time() - at) / 1e6)
        target.server.run("drop table copied")
        at = time.time()
        steps.move()
        took["move"].append(bytes / (time.time() - at) / 1e6)
    return [[way, statistics.median(each), min(each), max(each)] for way, each in took.items()]


def main() -> None:
    chosen = arguments(__doc__, rows=4_000_000, seconds=60, threads=16, inserts=12, writers=4)
    herd = Herd()
    try:
        steps = Steps(herd)
        works = {
            "move": ([steps.move], False), "split, merge": ([steps.split, steps.merge], False), "split to another node, merge": ([steps.split_away, steps.merge], False),
            "add two nodes, rebalance": ([steps.add, steps.rebalance], True), "drain, rebalance": ([steps.drain, steps.rebalance], False),
        }
        filled(herd, chosen.rows)
        print_table("shard of sbtest1, nobody else there, MB of its heap a second", ["way", "median", "least", "most"], copied(herd, steps))
        table = []
        for name in os.environ.get("WORKS", ";".join(works)).split(";"):
            got = beside(herd, chosen, *works[name])
            took = got.pop("took")
            kinds = {kind: [s for k, s in took if k == kind] for kind, _ in took}
            table.append([name, ", ".join(f"{len(s)} {kind} {statistics.median(s):.1f}" for kind, s in kinds.items()), *got.values()])
            print(table[-1], flush=True)
        clients = chosen.threads + chosen.inserts + chosen.writers
        print_table(f"{clients} clients, two routers, {chosen.rows:,} rows in four shards", ["work", "steps, median s", *got], table)
    finally:
        herd.stop()


if __name__ == "__main__":
    main()
