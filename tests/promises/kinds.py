"""Tables change their kind while 32 clients write in transactions over several nodes. Nobody's statement fails for it, nothing is lost.

One table becomes distributed, is clustered, becomes local, reference, and local again, round after round. Writers have keys of their own,
so none waits for another's rows: some write the table itself, beside others, in blocks that meet it first, last or in the middle; some
write other tables only. As on one PostgreSQL, where ALTER TABLE makes a writer wait and never fail, each statement must succeed, and
every acknowledged change be there at the end. How long each change took, and writers were held, is told, and judged only by
a bound of 10 s, or 10 s for each 100 000 rows: far more than either takes, and far less than when shards were copied in vain again and again.
"""

import random
import threading
import time

import psycopg

from . import program
from .cluster import Cluster

_KEYS_EACH = 8
_ROUND = (
    ("distribute", "select create_distributed_table('t', 'k', colocate_with => 'none')"), ("cluster", "select herd.cluster('t', 't_pkey')"),
    ("undistribute", "select undistribute_table('t')"), ("reference", "select create_reference_table('t')"),
    ("undo reference", "select undistribute_table('t')"),
)


class Writer(threading.Thread):
    def __init__(self, number: int, seed: int, world: "World"):
        super().__init__(daemon=True)
        self.world, self.random = world, random.Random(f"{seed}/{number}")
        self.router = world.cluster.routers[number % len(world.cluster.routers)]
        self.keys = range(number * _KEYS_EACH, (number + 1) * _KEYS_EACH)
        # Half of them never meet the table that changes.
        self.involved = number % 2 == 0
        self.told: dict[tuple, int] = {}
        self.codes: dict[str, int] = {}
        self.done = 0
        # When each began and ended that took longer than a moment, and what it was.
        self.waits: list[tuple[float, float, str]] = []
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            connection = self.router.server.connect(autocommit=True)
            while not self.world.stop.is_set():
                started = time.monotonic()
                what = self._step(connection)
                ended = time.monotonic()
                if ended - started > 0.1:
                    self.waits.append((started, ended, what))
                self.done += 1
        except BaseException as error:
            self.trouble = error

    def _step(self, connection) -> str:
        others = [(t, self.random.choice(self.keys)) for t in ("a", "b", "a")]
        if not self.involved:
            return self._block(connection, others)
        act = self.random.choice(("one", "first", "middle", "last", "read", "insert", "read first"))
        t = ("t", self.random.choice(self.keys))
        if act == "one":
            return self._guarded(connection, act, lambda: self._update(connection, *t), [t])
        if act == "insert":
            key = self.world.fresh()
            return self._guarded(connection, act, lambda: connection.execute("insert into t values (%s, 1)", (key,)), [("t", key)])
        if act == "read":
            return self._guarded(connection, act, lambda: connection.execute("select n from t where k = %s", (t[1],)).fetchone(), [])
        if act == "read first":
            return self._guarded(connection, act, lambda: self._read_first(connection, t[1]), [t])
        places = {"first": [t, *others], "middle": [others[0], t, *others[1:], t], "last": [*others, t]}
        return self._block(connection, places[act], act)

    def _update(self, connection, table: str, key: int) -> None:
        done = connection.execute(f"update {table} set n = n + 1 where k = %s", (key,))
        assert done.rowcount == 1, f"{table} has lost {key}"

    def _read_first(self, connection, key: int) -> None:
        """Over all nodes, and then a write: it keeps what it reads, and wants more of it."""
        connection.execute("begin")
        (n,) = connection.execute("select count(*) from t where k = any(%s)", (list(self.keys),)).fetchone()
        assert n == len(self.keys), f"t has lost some of {self.keys}"
        self._update(connection, "t", key)
        connection.execute("commit")

    def _block(self, connection, writes: list, act: str = "others") -> str:
        def work() -> None:
            connection.execute("begin")
            for table, key in writes:
                self._update(connection, table, key)
            connection.execute("commit")

        return self._guarded(connection, act, work, writes)

    def _guarded(self, connection, act: str, work, writes: list) -> str:
        try:
            work()
        except psycopg.Error as error:
            code = f"{act}: {error.sqlstate} {' '.join(str(error).split())[:120]}"
            self.codes[code] = self.codes.get(code, 0) + 1
            connection.execute("rollback")
        else:
            for write in writes:
                self.told[write] = self.told.get(write, 0) + 1
        return act


class World:
    def __init__(self, cluster: Cluster, writers: int, rows: int):
        self.cluster, self.stop = cluster, threading.Event()
        self.keys, self.rows = writers * _KEYS_EACH, max(rows, writers * _KEYS_EACH)
        self.lock, self.next = threading.Lock(), self.rows

    def fresh(self) -> int:
        with self.lock:
            self.next += 1
            return self.next

    def make(self) -> None:
        self.cluster.routers[0].server.run(
            *(sql for t in "ab" for sql in (
                f"create table {t} (k int primary key, n bigint)", f"select create_distributed_table('{t}', 'k')",
                f"insert into {t} select g, 0 from generate_series(0, {self.keys - 1}) g",
            )),
            "create table t (k int primary key, n bigint)", f"insert into t select g, 0 from generate_series(0, {self.rows - 1}) g",
        )

    def found(self) -> dict[tuple, int]:
        with self.cluster.routers[0].server.connect() as connection:
            return {(t, k): n for t in "abt" for k, n in connection.execute(f"select k, n from {t} where n <> 0")}


def run(
    seed: int, seconds: float = 0, rounds: int = 1, writers: int = 32, nodes: int = 3, rows: int = 2000, stall_s_max: float = 20.0, cluster: Cluster | None = None
) -> dict:
    own = cluster is None
    cluster = cluster or Cluster(nodes=nodes)
    try:
        for _ in range(2):
            cluster.router().start()
        return _run(seed, seconds, rounds, writers, rows, stall_s_max, cluster)
    finally:
        if own:
            cluster.stop()


def _run(seed: int, seconds: float, rounds: int, writers: int, rows: int, stall_s_max: float, cluster: Cluster) -> dict:
    world = World(cluster, writers, rows)
    world.make()
    crew = [Writer(i, seed, world) for i in range(writers)]
    for thread in crew:
        thread.start()
    changes, failed, begun = [], [], time.monotonic()
    with cluster.routers[0].server.connect() as connection:
        while rounds > 0 or time.monotonic() - begun < seconds:
            rounds -= 1
            for name, sql in _ROUND:
                time.sleep(1)
                started = time.monotonic()
                try:
                    connection.execute(sql)
                except psycopg.Error as error:
                    failed.append(f"{name}: {error.sqlstate} {' '.join(str(error).split())[:200]}")
                changes.append((name, started, time.monotonic()))
    time.sleep(1)
    world.stop.set()
    for thread in crew:
        thread.join(120)
        assert not thread.is_alive(), f"{thread} hangs"
        if thread.trouble is not None:
            raise thread.trouble

    def stall(since: float, until: float, involved: bool) -> str:
        waits = [(e - s, what) for w in crew if w.involved is involved for s, e, what in w.waits if s < until and e > since]
        longest = max(waits, default=(0, ""))
        return f"{longest[0]:.2f} {longest[1]}"

    told: dict[tuple, int] = {}
    codes: dict[str, int] = {}
    for writer in crew:
        for counts, total in ((writer.told, told), (writer.codes, codes)):
            for key, count in counts.items():
                total[key] = total.get(key, 0) + count
    found = world.found()
    wrong = {key: (told.get(key, 0), found.get(key, 0)) for key in told.keys() | found.keys() if told.get(key, 0) != found.get(key, 0)}
    held, held_in = max(((e - s, what) for w in crew for s, e, what in w.waits), default=(0.0, ""))
    longest, longest_change = max((u - s, n) for n, s, u in changes)
    figures = {
        "held_s_max": round(held, 2), "held_in": held_in, "change_s_max": round(longest, 2), "longest_change": longest_change,
        "changes": [f"{n}: {u - s:.2f} s, held others {stall(s, u, False)}, its own writers {stall(s, u, True)}" for n, s, u in changes],
        "transactions": sum(w.done for w in crew), "failed": codes, "changes_failed": failed, "lost_or_unasked": len(wrong),
        "writers": writers, "rows": world.rows,
    }
    assert not wrong, f"told and found differ: {list(wrong.items())[:5]}: {figures}"
    assert not codes and not failed, f"failed: {figures}"
    stall_s_max = max(stall_s_max, rows / 10_000)
    assert held < stall_s_max, f"a writer was held for {held:.1f} s: {figures}"
    assert longest < stall_s_max, f"a change took {longest:.1f} s: {figures}"
    return figures


if __name__ == "__main__":
    options = program.arguments(__doc__, seconds=0.0, rounds=1, writers=32, nodes=3, rows=2000)
    program.main("kinds", run, options)
