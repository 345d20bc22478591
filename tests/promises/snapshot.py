"""`herd.snapshot`: a read over several nodes sees all of a transaction over several nodes, or none of it.

Writers move money between accounts on different nodes, through two routers, so the sum of all accounts never changes. Readers
with herd.snapshot on add the accounts up in every way there is: every sum must be right. Readers with it off do the same
beside them: some of their sums are wrong, or the program would prove nothing. With --kills, routers and nodes die
by SIGKILL meanwhile, and transactions stand half committed until somebody finishes them.
"""

import random
import threading
import time

import psycopg
from psycopg import sql

from . import program
from .cluster import Cluster

_MONEY = 1000
_SUM = "select sum(balance) from snap_account"


class Party(threading.Thread):
    """A client that does something again and again, by whichever router answers."""

    def __init__(self, name: str, seed: int, cluster: Cluster, keys, stop: threading.Event):
        super().__init__(daemon=True, name=name)
        self.cluster, self.keys, self.stop = cluster, keys, stop
        self.random = random.Random(f"{seed}/{name}")
        self.done = 0
        self.codes: dict[str, int] = {}
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                try:
                    connection = self.random.choice(self.cluster.routers).server.connect()
                except psycopg.OperationalError:
                    time.sleep(0.05)
                    continue
                with connection:
                    self._use(connection)
        except BaseException as error:
            self.trouble = error

    def _use(self, connection) -> None:
        try:
            self.begin(connection)
            for _ in range(self.random.randrange(10, 60)):
                if self.stop.is_set():
                    return
                try:
                    self.once(connection)
                    self.done += 1
                except psycopg.Error as error:
                    code = error.sqlstate or "lost"
                    self.codes[code] = self.codes.get(code, 0) + 1
                    if connection.closed or connection.broken:
                        return
        except psycopg.Error as error:
            code = error.sqlstate or "lost"
            self.codes[code] = self.codes.get(code, 0) + 1

    def begin(self, connection) -> None:
        pass

    def once(self, connection) -> None:
        raise NotImplementedError


class Writer(Party):
    def once(self, connection) -> None:
        nodes = self.random.sample(range(len(self.keys)), self.random.randrange(2, len(self.keys) + 1))
        amounts = [self.random.randrange(1, 10) for _ in nodes[1:]]
        changes = [-sum(amounts), *amounts]
        with connection.transaction():
            for node, change in zip(nodes, changes):
                connection.execute(
                    "update snap_account set balance = balance + %s where id = %s", (change, self.random.choice(self.keys[node]))
                )


class Reader(Party):
    """Adds up. `wrong` are the sums that were, each with the way it was read."""

    def __init__(self, *arguments, on: bool, total: int):
        super().__init__(*arguments)
        self.on, self.total = on, total
        self.wrong: list[tuple[str, object]] = []

    def begin(self, connection) -> None:
        connection.execute(sql.SQL("set herd.snapshot = {}").format(sql.Literal("on" if self.on else "off")))

    def once(self, connection) -> None:
        way = self.random.choice((self._sum, self._rows, self._finish, self._copy, self._block, self._plain_block, self._cursor))
        for seen in way(connection):
            if seen != self.total:
                self.wrong.append((way.__name__, seen))

    def _sum(self, connection):
        yield connection.execute(_SUM).fetchone()[0]

    def _rows(self, connection):
        order = self.random.choice(("", " order by balance", " order by id"))
        yield sum(row[0] for row in connection.execute(f"select balance from snap_account{order}"))

    def _finish(self, connection):
        rows = connection.execute("select id %% 3, sum(balance * 1.0) from snap_account group by 1 having count(*) > %s", (0,))
        yield sum(row[1] for row in rows)

    def _copy(self, connection):
        query = self.random.choice(("snap_account (balance)", "(select balance from snap_account order by id)"))
        with connection.cursor().copy(f"copy {query} to stdout") as copy:
            yield sum(int(row[0]) for row in copy.rows())

    def _block(self, connection):
        level = self.random.choice(("repeatable read", "serializable"))
        connection.execute(f"begin isolation level {level}")
        try:
            for _ in range(2):
                yield sum(
                    connection.execute("select balance from snap_account where id = %s", (key,)).fetchone()[0]
                    for keys in self.keys for key in keys
                )
                yield connection.execute(_SUM).fetchone()[0]
        finally:
            if not connection.closed and not connection.broken:
                connection.execute("rollback")

    def _plain_block(self, connection):
        """READ COMMITTED: each statement is whole, with what the block itself has written."""
        with connection.transaction(force_rollback=True):
            connection.execute("savepoint s")
            key = self.random.choice(self.random.choice(self.keys))
            if self.random.random() < 0.3 and connection.execute(
                "update snap_account set balance = balance + 1 where id in "
                "(select id from snap_account where id = %s for update skip locked)", (key,)
            ).rowcount:
                yield connection.execute(_SUM).fetchone()[0] - 1
                return
            for _ in range(2):
                yield connection.execute(_SUM).fetchone()[0]
            yield connection.execute(
                "select (select sum(balance) from snap_account where id %% 2 = 0) + (select sum(balance) from snap_account where id %% 2 = %s)",
                (1,),
            ).fetchone()[0]

    def _cursor(self, connection):
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read")
            connection.execute("declare snap_cursor cursor for select balance from snap_account order by id")
            rows = connection.execute("fetch all from snap_cursor").fetchall()
        yield sum(row[0] for row in rows)


def run(
    seed: int, seconds: float = 60, writers: int = 6, readers: int = 4, nodes: int = 3, accounts: int = 24, kills: bool = False,
    least: int = 0, cluster: Cluster | None = None,
) -> dict:
    """`least`: it goes on until there are more reads, half as many transfers, and some sums that are wrong without the setting."""
    own = cluster is None
    cluster = cluster or Cluster(nodes=nodes)
    try:
        return _run(seed, seconds, writers, readers, accounts, kills, least, cluster)
    finally:
        if own:
            cluster.stop()


def _run(seed: int, seconds: float, writers: int, readers: int, accounts: int, kills: bool, least: int, cluster: Cluster) -> dict:
    routers = [cluster.router().start() for _ in range(2)]
    routers[0].server.run(
        "create table snap_account (id int primary key, balance bigint not null)",
        "select create_distributed_table('snap_account', 'id')",
        f"insert into snap_account select g, {_MONEY} from generate_series(1, {accounts}) g",
    )
    keys = cluster.keys_by_node("snap_account")
    assert all(keys), "every node should hold accounts"
    stop = threading.Event()
    total = accounts * _MONEY
    crew = [Writer(f"writer{i}", seed, cluster, keys, stop) for i in range(writers)]
    on, off = (
        [Reader(f"reader{i} {on}", seed, cluster, keys, stop, on=on, total=total) for i in range(readers)] for on in (True, False)
    )
    for thread in (*crew, *on, *off):
        thread.start()
    end = time.monotonic() + seconds

    def goes_on() -> bool:
        enough = not least or sum(r.done for r in on) > least and sum(w.done for w in crew) > least / 2 and any(r.wrong for r in off)
        return time.monotonic() < end or not enough and time.monotonic() < end + program.LONGER_SECONDS_MAX

    killed = _kill(random.Random(seed), cluster, routers, goes_on) if kills else _wait(goes_on)
    stop.set()
    for thread in (*crew, *on, *off):
        thread.join(120)
        assert not thread.is_alive(), f"{thread.name} hangs"
        if thread.trouble is not None:
            raise thread.trouble
    cluster.wait_until_nothing_is_prepared(10)
    wrong_on, wrong_off = ([seen for reader in each for seen in reader.wrong] for each in (on, off))
    figures = {
        "transfers": sum(w.done for w in crew), "reads_on": sum(r.done for r in on), "wrong_on": len(wrong_on),
        "reads_off": sum(r.done for r in off), "wrong_off": len(wrong_off), "kills": killed,
        "errors_writers": _sum(crew), "errors_on": _sum(on), "errors_off": _sum(off),
    }
    assert not wrong_on, f"torn reads with herd.snapshot on: {wrong_on[:5]}: {figures}"
    with routers[0].server.connect() as connection:
        connection.execute("set herd.snapshot = on")
        assert connection.execute(_SUM).fetchone() == (total,)
    if not kills:
        unexpected = {code: n for code, n in figures["errors_on"].items() if code != "40001"}
        assert not unexpected, f"errors with nothing killed: {figures}"
    return figures


def _wait(goes_on) -> dict:
    while goes_on():
        time.sleep(0.1)
    return {}


def _kill(rng: random.Random, cluster: Cluster, routers, goes_on) -> dict:
    kills = {"router": 0, "node": 0}
    while goes_on():
        time.sleep(rng.uniform(0.3, 1.5))
        kind = rng.choice(("router", "router", "node"))
        victim = rng.choice(routers if kind == "router" else cluster.nodes)
        kills[kind] += 1
        victim.kill()
        time.sleep(rng.uniform(0.0, 0.5))
        victim.start()
    return kills


def _sum(crew) -> dict[str, int]:
    total: dict[str, int] = {}
    for thread in crew:
        for code, count in thread.codes.items():
            total[code] = total.get(code, 0) + count
    return dict(sorted(total.items()))


if __name__ == "__main__":
    options = program.arguments(__doc__, seconds=60.0, writers=6, readers=4, nodes=3, accounts=24, kills=0)
    options.kills = bool(options.kills)
    program.main("snapshot", run, options)
