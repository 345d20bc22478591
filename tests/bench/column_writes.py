"""What a column copy costs those who write: W1 by 64 clients into a table with a copy and into one without, in turns on one herd, the stores running in
both; and how far the copy is behind while W1 goes at a fixed rate. A row is inserted every 25 ms and looked for by reads that wait for nothing
(`herd.freshness` is an hour); what is told is how long after its acknowledgement one first showed it.

    python tests/bench/column_writes.py [--clients 64] [--seconds 5] [--pairs 5] [--rate 10000] [--lag 20]
"""

import statistics
import threading
import time
from pathlib import Path

from column_catch_up import _ONE_ROW
from column_stores import Stores
from common import SBTEST1, arguments, herd, pgbench, print_table, value

_MARKS = 2_000_000_000


def anew(server, stores: Stores, copied: bool) -> None:
    server.run(*SBTEST1, "select create_distributed_table('sbtest1', 'id')")
    if copied:
        server.run("select herd.add_column_copy('sbtest1')")
        stores.wait_until_ready()


def w1(server, script: Path, clients: int, seconds: int, *more) -> tuple[float, int]:
    said = pgbench(server, "-n", "-f", script, "-D", "n=0", "-c", clients, "-j", 2, "-T", seconds, *more)
    return float(said.split("tps = ")[1].split()[0]), int(said.split("actually processed: ")[1].split()[0])


class Marks(threading.Thread):
    """Rows that are looked for, until it is told to stop; in milliseconds how long each took to be seen."""

    def __init__(self, server):
        super().__init__()
        self.server, self.stop, self.lags, self.next = server, threading.Event(), [], _MARKS

    def run(self) -> None:
        waiting: dict[int, float] = {}
        with self.server.connect() as writer, self.server.connect() as reader:
            reader.execute("set herd.columns = on")
            reader.execute("set herd.freshness = '1h'")
            while waiting or not self.stop.is_set():
                tick = time.monotonic()
                if not self.stop.is_set():
                    writer.execute(f"insert into sbtest1 (id) values ({self.next})")
                    waiting[self.next] = time.monotonic()
                    self.next += 1
                shown = reader.execute(f"select id, count(*) from sbtest1 where id between {min(waiting)} and {self.next} group by id").fetchall()
                now = time.monotonic()
                self.lags += [(now - waiting.pop(number)) * 1000 for number, _ in shown if number in waiting]
                time.sleep(max(0.0, 0.025 - (time.monotonic() - tick)))


def main() -> None:
    chosen = arguments(__doc__, clients=64, seconds=5, pairs=5, rate=10_000, lag=20)
    with herd(columns=True) as made:
        for node in made.node_servers:
            node.run("alter system set synchronous_commit = off", "select pg_reload_conf()")
        server, stores, script = made.server, Stores(made), made.root / "one_row.sql"
        script.write_text(_ONE_ROW)
        rates: dict[bool, list[float]] = {False: [], True: []}
        for pair in range(chosen.pairs):
            for copied in (False, True) if pair % 2 == 0 else (True, False):
                anew(server, stores, copied)
                tps, count = w1(server, script, chosen.clients, chosen.seconds)
                rates[copied].append(tps)
                if value(server, "select count(*) from sbtest1") != count:
                    raise SystemExit("another number of rows than was acknowledged")
        ratios = [with_one / without for without, with_one in zip(rates[False], rates[True])]
        print_table(
            f"W1, {chosen.clients} clients, {chosen.pairs} pairs of {chosen.seconds} s", ["", "without a copy", "with one", "ratio", "range"],
            [["tps", statistics.median(rates[False]), statistics.median(rates[True]), statistics.median(ratios), f"{min(ratios):.2f}–{max(ratios):.2f}"]],
        )
        anew(server, stores, True)
        plan = "\n".join(row[0] for row in _columns(server, "explain select id, count(*) from sbtest1 where id between 1 and 2 group by id"))
        if "Columns: " not in plan or "Columns: no" in plan:
            raise SystemExit(f"columns do not answer:\n{plan}")
        marks = Marks(server)
        marks.start()
        tps, _ = w1(server, script, chosen.clients, chosen.lag, "--rate", chosen.rate)
        marks.stop.set()
        marks.join()
        lags = sorted(marks.lags)
        at = [lags[min(len(lags) - 1, int(part * len(lags)))] for part in (0.5, 0.99)]
        print_table(f"Lag while W1 goes at {tps:,.0f} rows/s, {chosen.lag} s", ["rows looked for", "p50 ms", "p99 ms", "at most ms"], [[len(lags), *at, lags[-1]]])


def _columns(server, sql: str) -> list[tuple]:
    with server.connect() as connection:
        connection.execute("set herd.columns = on")
        return connection.execute(sql).fetchall()


if __name__ == "__main__":
    main()
