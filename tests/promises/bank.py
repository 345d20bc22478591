"""Promise 1: money moves between accounts on different nodes while routers and nodes are killed with SIGKILL.

Each transfer changes two accounts and writes a ledger row beside each, in one transaction. A client that is told
COMMIT writes the transfer's number to its file and fsyncs it. At the end, read from the nodes themselves:
the sum of money is what it was; both ledger rows of a transfer are there or neither; what was acknowledged is there; what
was reported as failed is not; each account is the sum of its ledger.

`--synchronous-commit` says who asks nodes not to wait for the disk: nobody (`on`), the nodes' configuration (`off`), each
`client` by SET, or the `role`. A transfer is over two nodes, so it is atomic and durable all the same.

`--moves 1`: shards of both tables move, split and merge without pause; 30 s after the last kill nothing of that is left behind.
"""

import os
import random
import threading
import time
from pathlib import Path

import psycopg

from harness.moves import wait_until_tidy

from . import program
from .cluster import Cluster
from .moving import Mover

_MONEY = 1000
# The client can't know: the connection ended during COMMIT, or the router says so itself.
_UNKNOWN = ("08007",)
# What is not flushed by a commit is flushed by PostgreSQL's own process so late that a kill always finds something.
_LATE = "alter system set wal_writer_delay = '10s'"
_WITHOUT_FLUSH = {
    "on": [], "client": [_LATE], "off": [_LATE, "alter system set synchronous_commit = off"],
    "role": [_LATE, "alter role postgres set synchronous_commit = off"],
}


class Client(threading.Thread):
    """Transfers, one after another, by whichever router answers."""

    def __init__(
        self, number: int, seed: int, cluster: Cluster, keys, directory: Path, stop: threading.Event, first: str
    ):
        super().__init__(daemon=True)
        self.first = first
        self.number, self.cluster, self.keys, self.stop = number, cluster, keys, stop
        self.random = random.Random(f"{seed}/{number}")
        self.file = open(directory / f"acknowledged.{number}", "w")
        self.failed: set[str] = set()
        self.unknown: set[str] = set()
        self.done = 0
        self.codes: dict[str, int] = {}
        self.trouble: BaseException | None = None

    def run(self) -> None:
        try:
            count = 0
            while not self.stop.is_set():
                router = self.random.choice(self.cluster.routers)
                try:
                    connection = router.server.connect(autocommit=True)
                    connection.execute(self.first)
                    connection.autocommit = False
                except psycopg.Error:
                    time.sleep(0.05)
                    continue
                try:
                    for _ in range(self.random.randrange(1, 50)):
                        if self.stop.is_set():
                            break
                        count += 1
                        if not self._transfer(connection, f"{self.number}-{count}"):
                            break
                finally:
                    connection.close()
        except BaseException as error:
            self.trouble = error

    def _transfer(self, connection, name: str) -> bool:
        here, there = self.random.sample(range(len(self.keys)), 2)
        source, sink = self.random.choice(self.keys[here]), self.random.choice(self.keys[there])
        amount = self.random.randrange(1, 10)
        committing = False
        try:
            for account, change in ((source, -amount), (sink, amount)):
                changed = connection.execute("update bank_account set balance = balance + %s where id = %s", (change, account)).rowcount
                assert changed == 1, f"transfer {name} has changed {changed} rows of account {account}"
                connection.execute("insert into bank_ledger values (%s, %s, %s)", (account, name, change))
            committing = True
            connection.commit()
        except psycopg.Error as error:
            code = error.sqlstate or "lost"
            self.codes[code] = self.codes.get(code, 0) + 1
            if committing and (error.sqlstate is None or error.sqlstate in _UNKNOWN):
                self.unknown.add(name)
            else:
                self.failed.add(name)
            if connection.closed or connection.broken:
                return False
            try:
                connection.rollback()
            except psycopg.Error:
                return False
            return True
        self.file.write(name + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())
        self.done += 1
        return True


class Watch(threading.Thread):
    """How long prepared transactions stand on the nodes, while their node is up."""

    def __init__(self, cluster: Cluster, stop: threading.Event):
        super().__init__(daemon=True)
        self.cluster, self.stop = cluster, stop
        self.seen: dict[str, float] = {}

    def run(self) -> None:
        every = 0.25
        while not self.stop.is_set():
            for node in self.cluster.nodes:
                try:
                    for gid in node.prepared():
                        self.seen[gid] = self.seen.get(gid, 0.0) + every
                except psycopg.Error:
                    pass
            self.stop.wait(every)


def run(seed: int, seconds: float = 60, clients: int = 16, nodes: int = 3, accounts: int = 60,
        synchronous_commit: str = "on", moves: int = 0, least: int = 0, cluster: Cluster | None = None) -> dict:
    """`least`: it goes on until there are more transfers, and a shard was moved where that is asked for."""
    own = cluster is None
    cluster = cluster or Cluster(nodes=nodes)
    try:
        return _run(seed, seconds, clients, accounts, synchronous_commit, bool(moves), least, cluster)
    finally:
        if own:
            cluster.stop()


def _run(seed: int, seconds: float, clients: int, accounts: int, synchronous_commit: str, moves: bool, least: int, cluster: Cluster) -> dict:
    rng = random.Random(seed)
    # Who keeps what there was can read in the logs how it came.
    kept = ["alter system set wal_keep_size = '8GB'"] if os.environ.get("PGHERD_TEST_KEEP") == "1" else []
    for node in cluster.nodes:
        node.server.run(*_WITHOUT_FLUSH[synchronous_commit], *kept, "select pg_reload_conf()")
    first = "set synchronous_commit = off" if synchronous_commit == "client" else "select 1"
    routers = [cluster.router().start() for _ in range(2)]
    routers[0].server.run(
        "create table bank_account (id int primary key, balance bigint not null)",
        "create table bank_ledger (account int, transfer text, change bigint not null, primary key (account, transfer))",
        "select create_distributed_table('bank_account', 'id')",
        "select create_distributed_table('bank_ledger', 'account', colocate_with => 'bank_account')",
        f"insert into bank_account select g, {_MONEY} from generate_series(1, {accounts}) g",
    )
    keys = cluster.keys_by_node("bank_account")
    assert all(keys), "every node should hold accounts"
    stop = threading.Event()
    crew = [Client(i, seed, cluster, keys, cluster.root, stop, first) for i in range(clients)]
    watch = Watch(cluster, stop)
    movers = [Mover(seed, cluster, "bank_account", stop)] if moves else []
    for thread in (*crew, watch, *movers):
        thread.start()
    kills = {"router": 0, "node": 0, "both": 0}
    end = time.monotonic() + seconds

    def is_enough() -> bool:
        return not least or sum(client.done for client in crew) > least and all(mover.done for mover in movers)

    while time.monotonic() < end or not is_enough() and time.monotonic() < end + program.LONGER_SECONDS_MAX:
        # A move takes some seconds beside so many clients: some are to end by themselves.
        time.sleep(rng.uniform(0.3, 20.0 if moves else 2.0))
        kind = rng.choice(list(kills))
        kills[kind] += 1
        victims = []
        if kind in ("router", "both"):
            victims.append(rng.choice(routers))
        if kind in ("node", "both"):
            victims.append(rng.choice(cluster.nodes))
        rng.shuffle(victims)
        for victim in victims:
            victim.kill()
        time.sleep(rng.uniform(0.0, 1.0))
        # A router needs home to start.
        for victim in sorted(victims, key=lambda v: v in routers):
            victim.start()
    time.sleep(1)
    stop.set()
    for thread in (*crew, *movers):
        thread.join(120)
        assert not thread.is_alive(), f"{thread} hangs"
        if thread.trouble is not None:
            raise thread.trouble
    watch.join(60)
    resolved_in = cluster.wait_until_nothing_is_prepared(10)
    moved = {}
    for mover in movers:
        moved = {"moves": mover.done, "moves' errors": mover.codes, "tidy_s": round(wait_until_tidy(cluster.nodes, 120, others_commit=True), 1)}
    return _judge(cluster, crew, watch, accounts) | moved | {
        "kills": kills, "last_resolved_s": round(resolved_in, 1), "clients": clients, "nodes": len(cluster.nodes),
        "synchronous_commit": synchronous_commit,
    }


def _judge(cluster: Cluster, crew: list[Client], watch: Watch, accounts: int) -> dict:
    balances: dict[int, int] = {}
    ledger: dict[str, list[tuple[int, int]]] = {}
    for node in cluster.nodes:
        with node.server.connect() as connection:
            balances |= dict(connection.execute("select id, balance from bank_account").fetchall())
            for account, transfer, change in connection.execute("select account, transfer, change from bank_ledger"):
                ledger.setdefault(transfer, []).append((account, change))
    acknowledged = {
        line for client in crew for line in Path(client.file.name).read_text().split()
    }
    failed = {name for client in crew for name in client.failed}
    unknown = {name for client in crew for name in client.unknown}
    half = [name for name, rows in ledger.items() if len(rows) != 2 or sum(change for _, change in rows) != 0]
    lost = acknowledged - ledger.keys()
    undead = failed & ledger.keys()
    by_account: dict[int, int] = dict.fromkeys(balances, _MONEY)
    for rows in ledger.values():
        for account, change in rows:
            by_account[account] = by_account.get(account, 0) + change
    figures = {
        "transfers": len(acknowledged), "failed": len(failed), "unknown": len(unknown),
        "unknown_committed": len(unknown & ledger.keys()), "lost": len(lost), "half_applied": len(half),
        "in_doubt": sum(1 for seconds in watch.seen.values() if seconds >= 1),
        "in_doubt_s_max": round(max(watch.seen.values(), default=0.0), 1),
        "errors": _sum(client.codes for client in crew),
    }
    assert len(balances) == accounts, f"{len(balances)} accounts: {figures}"
    wrong = {account: (balance, by_account.get(account)) for account, balance in balances.items() if balance != by_account.get(account)}
    assert sum(balances.values()) == accounts * _MONEY, f"the sum is {sum(balances.values())}; accounts and what their ledgers say: {wrong}: {figures}"
    assert not half, f"half applied: {half[:5]}: {figures}"
    assert not lost, f"acknowledged and lost: {sorted(lost)[:5]}: {figures}"
    assert not undead, f"reported as failed, and there: {sorted(undead)[:5]}: {figures}"
    assert not wrong, f"accounts differ from their ledgers: {wrong}: {figures}"
    router = cluster.routers[0]
    with router.server.connect() as connection:
        seen = connection.execute("select sum(balance), count(*) from bank_account").fetchone()
        assert seen == (accounts * _MONEY, accounts), f"by the router: {seen}"
    return figures


def _sum(counts) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for code, count in each.items():
            total[code] = total.get(code, 0) + count
    return dict(sorted(total.items()))


if __name__ == "__main__":
    program.main("bank", run, program.arguments(__doc__, seconds=60.0, clients=16, nodes=3, accounts=60, synchronous_commit="on", moves=0))
