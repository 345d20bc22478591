"""Column copies: strict reads miss nothing that was acknowledged before they began, one's own writes and others', and show nothing that never
was, while routers, nodes and stores are killed with SIGKILL.

The rows of a *group* are one writer's alone, on one node; he does one thing after another, and notes what the group comes to (rows, sums) before he
asks for it and once it is acknowledged. Who reads that group with `herd.columns = on` must see one of the states from what was acknowledged when
he began to what was asked for when he ended: an older one is *stale*, any other one *wrong*. A group of which a write's end is not known is left alone.
In the end, when all is up again, columns must show what rows do, of all groups.

`--moves 1`: shards of the table move, split and merge without pause. `--freshness 10s`: reads may be so stale, and are counted; it shows that the program
would find them.
"""

import random
import re
import threading
import time
import urllib.request

import psycopg
from harness import ports

from . import program
from .cluster import Cluster
from .moving import Mover

_TABLE = "fresh_rows"
# What a group comes to.
_STATE = "count(*), sum(v), sum(length(t))"
# A group has so many rows at most, then the oldest go.
_ROWS_MAX = 400
# Classes of errors after which a write may have been done all the same.
_UNKNOWN = ("08", "57")
_LONG = 3000


class Group:
    """Rows of one writer, as he knows them."""

    def __init__(self, number: int):
        self.number = number
        self.rows: dict[int, tuple[int, int]] = {}
        self.states: list[tuple[int, int, int]] = [(0, 0, 0)]
        # The number of the state that is known to be there.
        self.acknowledged = 0
        # A write's end is not known.
        self.is_closed = False
        self.next_id = 1

    def judge(self, seen: tuple[int, int, int], least: int) -> str | None:
        """What is wrong with what a read has shown, that began when state `least` was acknowledged."""
        if seen in self.states[least:] or self.is_closed:
            return None
        kind = "stale" if seen in self.states else "wrong"
        return f"{kind}: group {self.number} was {seen}, acknowledged {self.states[least]}, asked for {self.states[least + 1:][:3]}"


class Client(threading.Thread):
    """What writers and readers share: a connection to whichever router answers, and what they have seen."""

    def __init__(self, name: str, seed: int, cluster: Cluster, groups: list[Group], stop: threading.Event, freshness: str):
        super().__init__(daemon=True)
        self.freshness = freshness
        self.cluster, self.groups, self.stop, self.random = cluster, groups, stop, random.Random(f"{seed}/{name}")
        self.reads = 0
        self.slowest_s = 0.0
        self.found: list[str] = []
        self.codes: dict[str, int] = {}
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                try:
                    with self.random.choice(self.cluster.routers).server.connect() as connection:
                        connection.execute("set herd.columns = on")
                        connection.execute(f"set herd.freshness = '{self.freshness}'")
                        for _ in range(self.random.randrange(1, 200)):
                            if self.stop.is_set() or connection.closed:
                                break
                            self.one(connection)
                except psycopg.Error as error:
                    self.failed(error)
                    self.stop.wait(0.05)
        except BaseException as error:
            self.trouble = error

    def failed(self, error: psycopg.Error) -> None:
        code = error.sqlstate or "lost"
        self.codes[code] = self.codes.get(code, 0) + 1

    def read(self, connection, groups: list[Group]) -> None:
        """One strict read of these groups, and what is wrong with it."""
        least = [group.acknowledged for group in groups]
        begun = time.monotonic()
        # Not by `=`: what one shard has goes to rows.
        numbers = [group.number for group in groups]
        some = f" where grp between {min(numbers)} and {max(numbers)}" if len(numbers) < 3 else ""
        seen = {row[0]: row[1:] for row in connection.execute(f"select grp, {_STATE} from {_TABLE}{some} group by grp").fetchall()}
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
        self.reads += 1
        told = (group.judge(seen.get(group.number, (0, 0, 0)), at) for group, at in zip(groups, least))
        self.found += [wrong for wrong in told if wrong]


class Reader(Client):
    """Reads what others write."""

    def one(self, connection) -> None:
        groups = [group for group in self.groups if not group.is_closed]
        if len(groups) > 1 and self.random.random() < 0.5:
            groups = [self.random.choice(groups)]
        if groups:
            self.read(connection, groups)
        else:
            self.stop.wait(0.05)


class Writer(Client):
    """Writes to two groups of his own, and reads what he has written."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.own: list[Group] = []
        self.writes = 0
        self.unknown = 0

    def one(self, connection) -> None:
        self.own = [group for group in self.own if not group.is_closed]
        while len(self.own) < 2:
            self.own.append(self._new_group())
        groups = self.own if self.random.random() < 0.2 else [self.random.choice(self.own)]
        planned = [self._plan(group) for group in groups]
        statements = [statement for _, asked in planned for statement in asked]
        kept = self.random.random() > 0.1
        # A group's state is one of these even while the write is under way: each group's part is one node's.
        for group, (rows, _) in zip(groups, planned):
            if kept:
                group.states.append(_state(rows))
        try:
            if len(statements) > 1 or not kept:
                for statement in [("begin",), *statements, ("commit" if kept else "rollback",)]:
                    connection.execute(*statement)
            else:
                connection.execute(*statements[0])
        except psycopg.Error as error:
            self.failed(error)
            is_unknown = error.sqlstate is None or error.sqlstate[:2] in _UNKNOWN
            for group in groups:
                if is_unknown:
                    group.is_closed = True
                elif kept:
                    self._as_before(group)
            self.unknown += is_unknown
            if not connection.closed:
                connection.execute("rollback")
            return
        for group, (rows, _) in zip(groups, planned):
            if kept:
                group.rows, group.acknowledged = rows, len(group.states) - 1
        self.writes += kept
        if self.random.random() < 0.5:
            self.read(connection, groups if len(groups) == 1 else self.own)

    def _as_before(self, group: Group) -> None:
        group.states.append(_state(group.rows))
        group.acknowledged = len(group.states) - 1

    def _new_group(self) -> Group:
        group = Group(len(self.groups) + 1)
        # Another writer may have taken the number meanwhile.
        with _numbers:
            group.number = len(self.groups) + 1
            self.groups.append(group)
        return group

    def _plan(self, group: Group) -> tuple[dict, list[tuple]]:
        """What the group's rows will be, and by which statements."""
        rows, r, g = dict(group.rows), self.random, group.number
        kind = r.choice(("insert", "insert", "several", "update", "all", "long", "delete", "key", "undone")) if rows else "insert"
        if len(rows) > _ROWS_MAX:
            kind = "clear"
        one = r.choice(list(rows)) if rows else 0
        new = range(group.next_id, group.next_id + r.choice((1, 1, 3, 40)))
        group.next_id = new.stop
        if kind in ("insert", "several", "undone"):
            values = [(i, r.randrange(100), r.choice(("", "a", "word", "é" * 7))) for i in new]
            rows |= {i: (v, len(t)) for i, v, t in values}
            parts = [values] if kind == "insert" else [values[i : i + 1] for i in range(len(values))]
            asked = [(f"insert into {_TABLE} values " + ", ".join(f"({g}, {i}, {v}, '{t}')" for i, v, t in part),) for part in parts]
            if kind == "undone":
                asked = [("savepoint s",), (f"update {_TABLE} set v = v + 1000 where grp = {g}",), ("rollback to s",), *asked]
            return rows, asked
        if kind == "update":
            rows[one] = (rows[one][0] + 1, rows[one][1])
            return rows, [(f"update {_TABLE} set v = v + 1 where grp = {g} and id = {one}",)]
        if kind == "all":
            return {i: (v + 1, t) for i, (v, t) in rows.items()}, [(f"update {_TABLE} set v = v + 1 where grp = {g}",)]
        if kind == "long":
            # Not compressible: it is kept apart, and not told again when other columns change.
            text = "".join(r.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=_LONG))
            rows[one] = (rows[one][0], _LONG)
            return rows, [(f"update {_TABLE} set t = %s where grp = {g} and id = {one}", (text,))]
        if kind == "delete":
            del rows[one]
            return rows, [(f"delete from {_TABLE} where grp = {g} and id = {one}",)]
        if kind == "key":
            rows[new.start] = rows.pop(one)
            return rows, [(f"update {_TABLE} set id = {new.start} where grp = {g} and id = {one}",)]
        return {}, [(f"delete from {_TABLE} where grp = {g}",)]


_numbers = threading.Lock()


def _state(rows: dict[int, tuple[int, int]]) -> tuple[int, int, int]:
    return len(rows), sum(v for v, _ in rows.values()), sum(t for _, t in rows.values())


class Answered(threading.Thread):
    """How many statements columns have answered, by the routers' metrics, which begin anew with each start."""

    def __init__(self, cluster: Cluster, pages: list[int], stop: threading.Event):
        super().__init__(daemon=True)
        self.cluster, self.pages, self.stop = cluster, pages, stop
        self.counted: dict[tuple, dict[str, int]] = {}

    def run(self) -> None:
        while not self.stop.is_set():
            self.look()
            self.stop.wait(0.3)

    def look(self) -> None:
        for router, page in zip(self.cluster.routers, self.pages):
            process = router.process
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{page}/metrics", timeout=2) as opened:
                    found = re.findall(r'herd_column_reads_total\{by="(\w+)"\} (\d+)', opened.read().decode())
            except OSError:
                continue
            self.counted[(router.name, process and process.pid)] = {by: int(n) for by, n in found}

    def total(self, by: str) -> int:
        return sum(counts.get(by, 0) for counts in self.counted.values())


def run(seed: int, seconds: float = 600, writers: int = 6, readers: int = 4, moves: int = 0, freshness: str = "strict",
        least: int = 0, cluster: Cluster | None = None) -> dict:
    """`least`: it goes on until there are more writes, as many answers of columns, and half as many reads of one's own."""
    own = cluster is None
    cluster = cluster or Cluster(nodes=2, columns=True)
    try:
        return _run(seed, seconds, writers, readers, bool(moves), freshness, least, cluster)
    finally:
        if own:
            cluster.stop()


def _run(seed: int, seconds: float, writers: int, readers: int, moves: bool, freshness: str, least: int, cluster: Cluster) -> dict:
    rng = random.Random(seed)
    stores = "".join(f'\n[[column]]\nnode = "{s.node}"\nstore = "host=127.0.0.1 port={s.server.port} dbname=herd user=herd"\n' for s in cluster.stores)
    pages = [ports.free_row(1) for _ in range(2)]
    for page in pages:
        cluster.router(config=f'metrics = "127.0.0.1:{page}"\n{stores}').start()
    cluster.routers[0].server.run(
        f"create table {_TABLE} (grp int, id int, v bigint not null, t text not null, primary key (grp, id))",
        f"select create_distributed_table('{_TABLE}', 'grp')", f"select herd.add_column_copy('{_TABLE}')",
    )
    _wait_until_ready(cluster, 150)
    stop, groups = threading.Event(), []
    crew = [Writer(f"writer {i}", seed, cluster, groups, stop, freshness) for i in range(writers)]
    crew += [Reader(f"reader {i}", seed, cluster, groups, stop, freshness) for i in range(readers)]
    answered = Answered(cluster, pages, stop)
    movers = [Mover(seed, cluster, _TABLE, stop)] if moves else []
    for thread in (*crew, answered, *movers):
        thread.start()
    kills = {"router": 0, "node": 0, "store": 0}
    end = time.monotonic() + seconds

    def is_enough() -> bool:
        own = [client for client in crew if isinstance(client, Writer)]
        return not least or sum(w.writes for w in own) > least and sum(w.reads for w in own) > least / 2 and answered.total("columns") > least

    while (time.monotonic() < end or not is_enough() and time.monotonic() < end + program.LONGER_SECONDS_MAX) and not any(client.trouble for client in crew):
        time.sleep(rng.uniform(0.3, 8.0 if moves else 3.0))
        victims = rng.choice((("router",), ("node",), ("store",), ("store",), ("node", "store"), ("router", "store"), ("router", "node", "store")))
        chosen = [rng.choice({"router": cluster.routers, "node": cluster.nodes, "store": cluster.stores}[kind]) for kind in victims]
        for kind, victim in rng.sample(list(zip(victims, chosen)), len(chosen)):
            kills[kind] += 1
            victim.kill()
        time.sleep(rng.uniform(0.0, 1.5))
        # A router needs home to start, a store does not need its node.
        for victim in sorted(chosen, key=lambda v: (v in cluster.routers, rng.random())):
            victim.start()
    time.sleep(1)
    stop.set()
    for thread in (*crew, *movers, answered):
        thread.join(120)
        assert not thread.is_alive(), f"{thread} hangs"
        if getattr(thread, "trouble", None) is not None:
            raise thread.trouble
    answered.look()
    ready_in = _wait_until_ready(cluster, 200)
    return _judge(cluster, crew, groups, freshness == "strict") | {
        "by_columns": answered.total("columns"), "passed_over": answered.total("rows"), "kills": kills, "ready_in_s": round(ready_in, 1),
        **({"moves": movers[0].done} if movers else {}),
    }


def _wait_until_ready(cluster: Cluster, seconds_max: float) -> float:
    """Seconds until all stores have all copies."""
    begun = time.monotonic()
    while not all((copies := store.copies()) and all(copy["state"] == "ready" for copy in copies) for store in cluster.stores):
        assert time.monotonic() < begun + seconds_max, [store.copies() for store in cluster.stores]
        time.sleep(0.1)
    return time.monotonic() - begun


def _judge(cluster: Cluster, crew: list[Client], groups: list[Group], strict: bool) -> dict:
    found = [wrong for client in crew for wrong in client.found]
    codes: dict[str, int] = {}
    for client in crew:
        for code, count in client.codes.items():
            codes[code] = codes.get(code, 0) + count
    figures = {
        "writes": sum(w.writes for w in crew if isinstance(w, Writer)), "unknown": sum(w.unknown for w in crew if isinstance(w, Writer)),
        "groups": len(groups), "reads_own": sum(c.reads for c in crew if isinstance(c, Writer)),
        "reads_others": sum(c.reads for c in crew if isinstance(c, Reader)), "stale": sum(w.startswith("stale") for w in found),
        "wrong": sum(w.startswith("wrong") for w in found), "slowest_read_s": round(max(c.slowest_s for c in crew), 1), "errors": dict(sorted(codes.items())),
    }
    broken = found if strict else [wrong for wrong in found if not wrong.startswith("stale")]
    assert not broken, f"{broken[:5]}: {figures}"
    everything = f"select grp, {_STATE}, sum(id), min(t), max(t), sum(v * id) from {_TABLE} group by grp order by grp"
    with cluster.routers[0].server.connect() as connection:
        connection.execute("set herd.columns = off")
        by_rows = connection.execute(everything).fetchall()
        connection.execute("set herd.columns = on")
        by_columns = connection.execute(everything).fetchall()
    different = [(one, other) for one, other in zip(by_rows, by_columns) if one != other]
    assert by_rows == by_columns, f"columns show another table than rows: {different[:3]}: {figures}"
    known = {group.number: _state(group.rows) for group in groups if not group.is_closed and group.rows}
    kept = {row[0]: row[1:4] for row in by_rows}
    lost = [number for number, state in known.items() if kept.get(number) != state]
    assert not lost, f"groups that are not what was acknowledged: {lost[:5]}: {figures}"
    return figures


if __name__ == "__main__":
    program.main("fresh", run, program.arguments(__doc__, seconds=600.0, writers=6, readers=4, moves=0, freshness="strict"))
