"""Promise 15: names move while 32 clients write. Nothing is misdirected, lost, or fails for it.

Beside the writers run, each in a loop of its own: two tables exchange their names; a table changes its schema; one is
dropped and made anew; columns and indexes come and go; one is distributed and made local again. What a writer was told is kept:
every acknowledged change must be in the table that had the name at that time, and every statement must answer, as it
would on one PostgreSQL, where each of these waits for a lock and then goes on with what the name means now.

A writer has keys of its own, so no two wait for each other's rows. `who` (or `made`) tells which table answered; it must have had the
name at some time between question and answer, and all statements of a transaction must meet the same one.
No writer may be held for `stall_s_max`: each of these changes takes a small part of that.
"""

import itertools
import random
import threading
import time

import psycopg

from . import program
from .cluster import Cluster

_KEYS_EACH = 6
_CHANGES = ("rename", "schema", "anew", "alter", "index", "kind")


class Names:
    """Which table had a name when: changes with the times between which each took place."""

    def __init__(self, first):
        self.lock = threading.Lock()
        self.changes = [(0.0, 0.0, first)]

    def may_be(self, since: float, until: float) -> set:
        with self.lock:
            changes = list(self.changes)
        found = set()
        for i, (begun, _, value) in enumerate(changes):
            ended = changes[i + 1][1] if i + 1 < len(changes) else float("inf")
            if begun <= until and ended >= since:
                found.add(value)
        return found


class Writer(threading.Thread):
    def __init__(self, number: int, seed: int, world: "World"):
        super().__init__(daemon=True)
        self.world, self.random = world, random.Random(f"{seed}/{number}")
        self.router = world.cluster.routers[number % len(world.cluster.routers)]
        self.keys = range(number * _KEYS_EACH, (number + 1) * _KEYS_EACH)
        # Changes by (table, who, key): told, and not known.
        self.told: dict[tuple, int] = {}
        self.unknown: dict[tuple, int] = {}
        self.codes: dict[str, int] = {}
        # Rows that went by COPY: the table, the key, and who may have got it.
        self.copied: list[tuple] = []
        self.new_keys = itertools.count(1_000_000 * (number + 1))
        self.misdirected: list[str] = []
        self.statements, self.stall, self.stalled_in = 0, 0.0, ""
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            connection = self.router.server.connect(autocommit=True)
            connection.execute("set search_path = s1, s2, public")
            while not self.world.stop.is_set():
                table = self.random.choice(self.world.tables)
                act = self.random.choice((self._one, self._several, self._block, self._read, self._insert, self._copy, self._copy_out))
                started = time.monotonic()
                try:
                    act(connection, table)
                except psycopg.Error as error:
                    code = f"{table}.{act.__name__[1:]}: {error.sqlstate} {str(error).splitlines()[0][:70]}"
                    self.codes[code] = self.codes.get(code, 0) + 1
                    if connection.broken:
                        connection = self.router.server.connect(autocommit=True)
                        connection.execute("set search_path = s1, s2, public")
                took = time.monotonic() - started
                if took > self.stall:
                    self.stall, self.stalled_in = took, f"{table}.{act.__name__[1:]}"
        except BaseException as error:
            self.trouble = error

    def _ask(self, connection, sql: str, *values):
        self.statements += 1
        return connection.execute(sql, values).fetchall()

    def _judge(self, table: str, what: str, rows: list, count: int, since: float) -> None:
        may = self._may(table, since)
        met = {row[0] for row in rows}
        if len(rows) != count or len(met) > 1 or not met <= may:
            self.misdirected.append(f"{what} of {table}: {len(rows)} rows of {count}, {met or 'nobody'} of {may}")

    def _may(self, table: str, since: float) -> set:
        names = self.world.names.get(table)
        return names.may_be(since, time.monotonic()) if names else {"-"}

    def _count(self, counts: dict, table: str, rows: list) -> None:
        for who, key in rows:
            counts[table, who, key] = counts.get((table, who, key), 0) + 1

    def _one(self, connection, table: str) -> None:
        since = time.monotonic()
        rows = self._ask(connection, f"update {table} set n = n + 1 where k = %s returning who, k", self.random.choice(self.keys))
        self._judge(table, "update", rows, 1, since)
        self._count(self.told, table, rows)

    def _several(self, connection, table: str) -> None:
        since = time.monotonic()
        keys = self.random.sample(self.keys, 4)
        rows = self._ask(connection, f"update {table} set n = n + 1 where k = any(%s) returning who, k", keys)
        self._judge(table, "update of several", rows, 4, since)
        self._count(self.told, table, rows)

    def _block(self, connection, table: str) -> None:
        since, rows, ended = time.monotonic(), [], False
        connection.execute("begin")
        try:
            for key in self.random.sample(self.keys, 3):
                sql = f"update {table} set n = n + 1 where k = %s returning who, k"
                rows += self._ask(connection, sql, key)
            ended = True
            connection.execute("commit")
        except psycopg.Error as error:
            if ended and error.sqlstate in (None, "08007"):
                self._count(self.unknown, table, rows)
            if not connection.broken:
                connection.execute("rollback")
            raise
        self._judge(table, "block", rows, 3, since)
        self._count(self.told, table, rows)

    def _read(self, connection, table: str) -> None:
        since = time.monotonic()
        count = self.world.keys
        rows = self._ask(connection, f"select who, count(*) from {table} where k < {count} group by who")
        self._judge(table, "read", [(who, 0) for who, n in rows for _ in range(n)], count, since)

    def _insert(self, connection, table: str) -> None:
        since, keys = time.monotonic(), [next(self.new_keys) for _ in range(3)]
        rows = self._ask(connection, f"insert into {table} (k, n) values (%s, 1), (%s, 1), (%s, 1) returning who, k", *keys)
        self._judge(table, "insert", rows, 3, since)
        self._count(self.told, table, rows)

    def _copy(self, connection, table: str) -> None:
        since, keys = time.monotonic(), [next(self.new_keys) for _ in range(5)]
        self.statements += 1
        with connection.cursor() as cursor, cursor.copy(f"copy {table} (k, n) from stdin") as copy:
            for key in keys:
                copy.write_row((key, 1))
        self.copied += [(table, key, self._may(table, since)) for key in keys]

    def _copy_out(self, connection, table: str) -> None:
        since = time.monotonic()
        self.statements += 1
        with connection.cursor() as cursor, cursor.copy(f"copy {table} (who, k) to stdout") as copy:
            rows = [(who, int(key)) for who, key in copy.rows() if int(key) < self.world.keys]
        self._judge(table, "copy", rows, self.world.keys, since)


class Changer(threading.Thread):
    """One kind of change, again and again."""

    def __init__(self, kind: str, world: "World", pause: float, seed: int):
        super().__init__(daemon=True)
        self.kind, self.world, self.pause = kind, world, pause
        self.random = random.Random(f"{seed}/{kind}")
        self.router = self.random.choice(world.cluster.routers)
        self.done, self.longest, self.codes = 0, 0.0, {}
        self.took: list[float] = []
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            connection = self.router.server.connect(autocommit=True)
            connection.execute("set search_path = public")
            while not self.world.stop.is_set():
                time.sleep(self.random.uniform(0.5, 1.5) * self.pause)
                started = time.monotonic()
                try:
                    getattr(self, f"_{self.kind}")(connection)
                    self.done += 1
                except psycopg.Error as error:
                    code = f"{error.sqlstate} {' '.join(str(error).split())[:300]}"
                    self.codes[code] = self.codes.get(code, 0) + 1
                    connection.execute("rollback")
                self.took.append(time.monotonic() - started)
        except BaseException as error:
            self.trouble = error

    def _change(self, connection, table: str, value, *statements: str) -> None:
        """In one transaction; the name may mean the new table from now on, and only it once this is over."""
        names = self.world.names[table]
        with names.lock:
            names.changes.append((time.monotonic(), float("inf"), value))
        try:
            connection.execute("begin")
            for sql in statements:
                connection.execute(sql)
            connection.execute("commit")
        except psycopg.Error:
            with names.lock:
                del names.changes[-1]
            raise
        with names.lock:
            names.changes[-1] = (names.changes[-1][0], time.monotonic(), value)

    def _rename(self, connection) -> None:
        now = self.world.names["front"].changes[-1][2]
        self._change(
            connection, "front", "B" if now == "A" else "A", "alter table front rename to aside",
            "alter table back rename to front", "alter table aside rename to back",
        )

    def _schema(self, connection) -> None:
        there, here = ("s1", "s2") if self.done % 2 else ("s2", "s1")
        connection.execute(f"alter table {here}.roam set schema {there}")

    def _anew(self, connection) -> None:
        made = f"made {self.done + 1}"
        self._change(
            connection, "fresh", made, "drop table fresh", f"create table fresh (k int primary key, n bigint, who text default '{made}')",
            f"insert into fresh select g, 0, '{made}' from generate_series(0, {self.world.keys - 1}) g",
            f"select create_distributed_table('fresh', 'k', shard_count => {4 + self.done % 3 * 2}, colocate_with => 'none')",
        )

    def _alter(self, connection) -> None:
        connection.execute("alter table wide " + ("drop column extra" if self.done % 2 else "add column extra int default 7"))

    def _index(self, connection) -> None:
        connection.execute("drop index wide_n" if self.done % 2 else "create index wide_n on wide (n)")

    def _kind(self, connection) -> None:
        if self.done % 2:
            connection.execute("select undistribute_table('kind')")
        else:
            connection.execute("select create_distributed_table('kind', 'k', colocate_with => 'none')")


class World:
    def __init__(self, cluster: Cluster, writers: int, what: list[str]):
        self.cluster, self.stop, self.keys = cluster, threading.Event(), writers * _KEYS_EACH
        self.names = {"front": Names("A"), "fresh": Names("made 0")}
        by_kind = {"rename": "front", "schema": "roam", "anew": "fresh", "alter": "wide", "index": "wide", "kind": "kind"}
        self.tables = sorted({by_kind[kind] for kind in what} | {"plain"})

    def make(self) -> None:
        def table(name: str, who: str, distribute: str | None) -> list[str]:
            statements = [
                f"create table {name} (k int primary key, n bigint, who text default '{who}')",
                f"insert into {name} select g, 0, '{who}' from generate_series(0, {self.keys - 1}) g",
            ]
            return statements + [f"select create_distributed_table('{name}', 'k', {distribute})"] * (distribute is not None)

        alone = "colocate_with => 'none'"
        self.cluster.routers[0].server.run(
            "create schema s1", "create schema s2", *table("front", "A", alone),
            # Other shards: who goes to the wrong table's finds nothing.
            *table("back", "B", f"shard_count => 5, {alone}"), *table("s1.roam", "-", alone), *table("fresh", "made 0", alone),
            *table("wide", "-", alone), *table("kind", "-", None), *table("plain", "-", None),
        )

    def found(self) -> dict[tuple, int]:
        """The changes that are there, read from the nodes themselves."""
        found: dict[tuple, int] = {}
        for node in self.cluster.nodes:
            with node.server.connect() as connection:
                connection.execute("set search_path = s1, s2, public")
                for table in self.tables:
                    if connection.execute("select to_regclass(%s)", (table,)).fetchone()[0] is None:
                        continue
                    for name in ("front", "back") if table == "front" else (table,):
                        for who, key, n in connection.execute(f"select who, k, n from {name}"):
                            found[table, who, key] = found.get((table, who, key), 0) + n
        return found


def run(
    seed: int, seconds: float = 60, writers: int = 32, nodes: int = 3, pause: float = 0.3, what: str = ",".join(_CHANGES),
    stall_s_max: float = 20, least: int = 0, cluster: Cluster | None = None,
) -> dict:
    """`least`: it goes on until there are more statements, and something was changed in each way."""
    own = cluster is None
    cluster = cluster or Cluster(nodes=nodes)
    try:
        return _run(seed, seconds, writers, pause, [w for w in what.split(",") if w], stall_s_max, least, cluster)
    finally:
        if own:
            cluster.stop()


def _run(seed: int, seconds: float, writers: int, pause: float, what: list[str], stall_s_max: float, least: int, cluster: Cluster) -> dict:
    for _ in range(2):
        cluster.router().start()
    world = World(cluster, writers, what)
    world.make()
    crew = [Writer(i, seed, world) for i in range(writers)]
    changers = [Changer(kind, world, pause, seed) for kind in what]
    for thread in (*crew, *changers):
        thread.start()
    end = time.monotonic() + seconds

    def is_enough() -> bool:
        return not least or sum(w.statements for w in crew) > least and all(c.done for c in changers)

    while time.monotonic() < end or not is_enough() and time.monotonic() < end + program.LONGER_SECONDS_MAX:
        if any(thread.trouble for thread in (*crew, *changers)):
            break
        time.sleep(0.1)
    world.stop.set()
    for thread in (*crew, *changers):
        thread.join(120)
        assert not thread.is_alive(), f"{thread} hangs"
        if thread.trouble is not None:
            raise thread.trouble
    found, told, unknown = world.found(), _sum(w.told for w in crew), _sum(w.unknown for w in crew)
    misdirected = [text for w in crew for text in w.misdirected]
    for table, key, may in (row for w in crew for row in w.copied if row[0] != "fresh"):
        met = {who for who in ("A", "B", "-") if (table, who, key) in found}
        if len(met) != 1 or not met <= may:
            misdirected.append(f"copied to {table}: {key} is in {met or 'nobody'} of {may}")
        for who in met:
            told[table, who, key] = 1
    # What is dropped takes its changes with it.
    kept = [key for key in told if key[0] != "fresh"]
    lost = {key: told[key] - found.get(key, 0) for key in kept if found.get(key, 0) < told[key]}
    more = {
        key: n for key, n in found.items()
        if key[0] != "fresh" and n > told.get(key, 0) + unknown.get(key, 0)
    }
    slowest = max(crew, key=lambda w: w.stall)
    figures = {
        "statements": sum(w.statements for w in crew), "failed": _sum(w.codes for w in crew), "misdirected": len(misdirected),
        "lost": sum(lost.values()), "unasked": len(more), "stall_s_max": round(slowest.stall, 2), "stalled_in": slowest.stalled_in,
        "changes": {c.kind: c.done for c in changers}, "changes_failed": {c.kind: c.codes for c in changers if c.codes},
        "change_s_max": {c.kind: round(max(c.took, default=0), 2) for c in changers}, "writers": writers,
    }
    assert not misdirected, f"misdirected: {misdirected[:5]}: {figures}"
    assert not lost, f"acknowledged and lost: {list(lost.items())[:5]}: {figures}"
    assert not more, f"there, and nobody was told: {list(more.items())[:5]}: {figures}"
    assert not figures["failed"] and not figures["changes_failed"], f"failed: {figures}"
    assert slowest.stall < stall_s_max, f"a writer was held for {slowest.stall:.1f} s: {figures}"
    return figures


def _sum(counts) -> dict:
    total: dict = {}
    for each in counts:
        for key, count in each.items():
            total[key] = total.get(key, 0) + count
    return total


if __name__ == "__main__":
    options = program.arguments(__doc__, seconds=60.0, writers=32, nodes=3, pause=0.3, what=",".join(_CHANGES), stall_s_max=20.0)
    program.main("renames", run, options)
