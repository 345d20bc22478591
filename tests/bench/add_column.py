"""ALTER TABLE … ADD COLUMN with a default on a large table, beside clients that write to it through two routers: how long until both routers let the
column be read and written, and how long a statement waited meanwhile. None may fail.

    python tests/bench/add_column.py [--rows 10000000] [--clients 32] [--columns 10]

Two nodes; fsync and synchronous_commit are on.
"""

import statistics
import tempfile
import time
from pathlib import Path

import psycopg

from common import Background, arguments, print_table
from moving_shards import Herd

_WRITE = """\\set id random(1, {rows})
\\set n :n + 1
insert into large (id, v) values ({rows} + {first} + :client_id * 10000000 + :n, 1);
update large set v = v + 1 where id = :id;
select v from large where id = :id;
"""


def until_usable(herd: Herd, column: str, begun: float) -> float:
    """Seconds until each router has read and written it."""
    for server in (herd.a, herd.b):
        with server.connect() as connection:
            while True:
                try:
                    assert connection.execute(f"select {column} from large where id = 5").fetchone() == (7,)
                    connection.execute(f"update large set {column} = 7 where id = 5")
                    break
                except psycopg.errors.UndefinedColumn:
                    time.sleep(0.005)
    return time.time() - begun


def main() -> None:
    chosen = arguments(__doc__, rows=10_000_000, clients=32, columns=10)
    herd = Herd()
    try:
        herd.a.run("create table large (id bigint primary key, v int not null)", "select create_distributed_table('large', 'id')")
        for first in range(1, chosen.rows + 1, 1_000_000):
            herd.a.run(f"insert into large select g, 0 from generate_series({first}, {min(first + 999_999, chosen.rows)}) g")
        herd.a.run("vacuum analyze large")
        with tempfile.TemporaryDirectory() as directory, herd.a.connect() as connection:
            loads = [
                Background(server, Path(directory), f"load{n}", _WRITE.format(rows=chosen.rows, first=n * 500_000_000), "-c", chosen.clients // 2, "-D", "n=0")
                for n, server in enumerate((herd.a, herd.b))
            ]
            spans, changed, usable = [], [], []
            try:
                time.sleep(5)
                for n in range(chosen.columns):
                    begun = time.time()
                    connection.execute(f"alter table large add column c{n} int not null default 7")
                    changed.append((time.time() - begun) * 1000)
                    usable.append(until_usable(herd, f"c{n}", begun) * 1000)
                    spans.append((begun, time.time()))
                    time.sleep(2)
            finally:
                done = [load.ended() for load in loads]
            waits = [wait for load in loads for wait in load.waits()]
        (count,) = herd.b.connect().execute("select count(*) from large").fetchone()
        if count != chosen.rows + sum(done):
            raise SystemExit(f"WRONG: {count} rows of {chosen.rows} and {sum(done)}")
        beside = [max(ms for at, ms in waits if begun <= at <= ended + 1) for begun, ended in spans]
        apart = sorted(ms for at, ms in waits if not any(begun <= at <= ended + 1 for begun, ended in spans))
        rows = [[what, statistics.median(each), min(each), max(each)] for what, each in (("ALTER TABLE", changed), ("usable at both routers", usable), ("longest transaction beside it", beside))]
        rows.append(["transactions apart from it: median, least, longest", statistics.median(apart), apart[0], apart[-1]])
        print_table(f"ADD COLUMN on {chosen.rows:,} rows, {chosen.clients} clients, {sum(done):,} transactions of three statements, none failed", ["ms", "median", "least", "most"], rows)
    finally:
        herd.stop()


if __name__ == "__main__":
    main()
