"""Promise 2: at every step of a commit by two phases, the router or a node dies; another router finishes the work.

The places are those of crates/txn/src/failpoint.rs, on the way of commit.rs. After each death nothing of the herd's may
stand prepared for longer than 10 s, rows on all nodes must agree, what the client was told must be true, and prepared
transactions that are not this herd's must be as they were.
"""

import random
import threading
import time

import psycopg

from . import program
from .cluster import Cluster

PLACES = [
    "two_phase.begin", "two_phase.announced", "two_phase.prepare_sent", "two_phase.prepared", "two_phase.decision_sent",
    "two_phase.decided", "two_phase.end_sent", "two_phase.finished",
]
# Who dies. "decider" is the node that decides (home, which a change of the schema always writes to), "participant"
# another, "all" every node and the router.
VICTIMS = ["router", "decider", "participant", "router and decider", "router and participant", "all"]
_RECOVERED_SECONDS_MAX = 10
_FOREIGN = ["theirs", "herd_", "herd_0000000000000000_1_00000000deadbeef_1_1", "herd_x_1_2_3_4", "herd-of-cows_1_2_3_4"]


class Case:
    """One commit that is interrupted."""

    def __init__(self, cluster: Cluster, kind: str, place: str, victim: str, number: int):
        self.cluster, self.kind, self.place, self.victim, self.number = cluster, kind, place, victim, number
        self.outcome = "?"
        self.column = f"c{number}"

    def run(self) -> float:
        """Seconds recovery took; `outcome` says what the client was told."""
        file = self.cluster.root / f"reached{self.number}"
        first = self.cluster.routers[0]
        by_router_alone = self.victim == "router"
        action = "abort" if by_router_alone else f"wait:{file}"
        first.start(HERD_FAILPOINT=f"{self.place}:{action}")
        client = threading.Thread(target=self._client, args=(first.server,))
        client.start()
        if not by_router_alone:
            deadline = time.monotonic() + 60
            while not file.exists():
                assert time.monotonic() < deadline and client.is_alive(), f"{self}: never reached ({self.outcome})"
                time.sleep(0.01)
            decider, *others = self.cluster.nodes
            dead = {
                "decider": [decider], "participant": [others[0]], "router and decider": [decider],
                "router and participant": [others[-1]], "all": self.cluster.nodes,
            }[self.victim]
            if "router" in self.victim or self.victim == "all":
                first.kill()
            for node in dead:
                node.kill()
            file.unlink()
            if first.is_up():
                client.join(60)
            for node in dead:
                node.start()
        client.join(60)
        assert not client.is_alive(), f"{self}: the client hangs"
        first.kill()
        seconds = self.cluster.wait_until_nothing_is_prepared(_RECOVERED_SECONDS_MAX)
        self._check()
        return seconds

    def _client(self, server) -> None:
        try:
            with server.connect(autocommit=False) as connection:
                if self.kind == "dml":
                    connection.execute("update crash set v = %s", (self.number,))
                else:
                    connection.execute(f"alter table crash add column {self.column} int default {self.number}")
                    connection.execute("update crash set v = %s", (self.number,))
                connection.commit()
            self.outcome = "committed"
        except psycopg.Error as error:
            self.outcome = f"error {error.sqlstate}"

    def _check(self) -> None:
        values = set()
        for node in self.cluster.nodes:
            with node.server.connect() as connection:
                # A node can be back before its recovery of the last statement's locks is.
                values |= {row[0] for row in connection.execute("select distinct v from crash")}
                columns = connection.execute(
                    "select count(*) from pg_attribute where attrelid = 'crash'::regclass and attname = %s", (self.column,)
                ).fetchone()[0]
                values.add(self.number if columns == 1 else None) if self.kind == "ddl" else None
        if self.kind == "ddl":
            done = values == {self.number}
            assert done or (None in values and self.number not in values), f"{self}: half done: {values}"
        else:
            assert len(values) == 1, f"{self}: half done: {values}"
            done = values == {self.number}
        told = self.outcome
        assert done or told != "committed", f"{self}: told {told}, and it is not"
        # Anything but an unknown outcome says that nothing was committed.
        assert not done or told in ("committed", "error None", "error 08007"), f"{self}: told {told}, and it is"
        with self.cluster.routers[1].server.connect() as connection:
            assert connection.execute("select count(distinct v), count(*) from crash").fetchone() == (1, 40), f"{self}"
            if self.kind == "ddl" and done:
                deadline = time.monotonic() + 60
                while True:
                    # Word of a change that its router could not tell of comes within seconds.
                    try:
                        row = connection.execute(f"select min({self.column}), max({self.column}) from crash").fetchone()
                        assert row == (self.number, self.number), f"{self}: {row}"
                        break
                    except psycopg.errors.UndefinedColumn:
                        assert time.monotonic() < deadline, f"{self}: the other router does not learn of the column"
                        time.sleep(0.2)

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}, dead: {self.victim}"


def run(seed: int, cases: int = 0, nodes: int = 3, cluster: Cluster | None = None) -> dict:
    """All cases, or so many of them."""
    own = cluster is None
    cluster = cluster or Cluster(nodes=nodes)
    try:
        return _run(seed, cases, cluster)
    finally:
        if own:
            cluster.stop()


def _run(seed: int, cases: int, cluster: Cluster) -> dict:
    wanted = [(kind, place, victim) for kind in ("dml", "ddl") for place in PLACES for victim in VICTIMS]
    random.Random(seed).shuffle(wanted)
    # A short run still dies at every place.
    wanted.sort(key=lambda case: case[0] != "dml") if cases == 0 else None
    if cases:
        first = [next(case for case in wanted if case[1] == place) for place in PLACES]
        wanted = (first + [case for case in wanted if case not in first])[:cases]
    cluster.router("first")
    cluster.router("second").start()
    cluster.routers[1].server.run(
        "create table crash (id int primary key, v int)", "select create_distributed_table('crash', 'id')",
        "insert into crash select g, 0 from generate_series(1, 40) g",
    )
    assert all(cluster.keys_by_node("crash"))
    for node in cluster.nodes:
        for gid in _FOREIGN:
            node.server.run(f"begin; select txid_current(); prepare transaction '{gid}'")
    took, outcomes = [], {}
    for number, (kind, place, victim) in enumerate(wanted, 1):
        case = Case(cluster, kind, place, victim, number)
        took.append(case.run())
        outcomes[case.outcome] = outcomes.get(case.outcome, 0) + 1
    for node in cluster.nodes:
        assert node.prepared() == sorted(_FOREIGN), f"foreign prepared transactions of node {node.number}: {node.prepared()}"
        for gid in _FOREIGN:
            node.server.run(f"rollback prepared '{gid}'")
    return {
        "cases": len(wanted), "outcomes": outcomes, "recovered_s_max": round(max(took), 1), "half_applied": 0,
        "foreign_touched": 0,
    }


if __name__ == "__main__":
    program.main("crash matrix", run, program.arguments(__doc__, cases=0, nodes=3))
