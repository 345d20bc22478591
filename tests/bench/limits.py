"""What the ways of a herd cost by themselves, without one: a proxy between client and server (PgBouncer, a connection for each client), a table
that is partitioned as a herd's is on one plain PostgreSQL, and commits by two phases there. Beside them the herd; turn by turn. Where a herd
is as fast as these, nothing is left to win but what makes them cheaper.

    python tests/bench/limits.py [--pairs 5] [--seconds 2] [--rows 100000] [--shards 32]
    WORKS=points,ranges CLIENTS=1,8,64 python tests/bench/limits.py

WORKS: points (a transaction of five reads by key, prepared), ranges (a hundred rows), read_only (sysbench's transaction of ten reads by key and four
ranges), tpcb (TPC-B's; every table distributed by its own key).
"""

import os
import shutil
import statistics
import tempfile
from pathlib import Path

from bouncer import PgBouncer
from common import arguments, pgbench, plain, print_table
from harness import router
from two_routers import COLUMNS, FILL, SETTINGS, WORKS as ROUTERS_WORKS, filled, tps_of

_RANGES = [
    "select c from sbtest1 where id between :f{n} and :t{n};", "select sum(k) from sbtest1 where id between :f{n} and :t{n};",
    "select c from sbtest1 where id between :f{n} and :t{n} order by c;", "select distinct c from sbtest1 where id between :f{n} and :t{n} order by c;",
]
_FROM = "\\set f{n} random(1, {rows} - 100)\n\\set t{n} :f{n} + 99\n"


def _read_only() -> str:
    keys = "".join(f"\\set id{n} random(1, {{rows}})\n" for n in range(10)) + "".join(_FROM.replace("{n}", str(n)) for n in range(4))
    reads = "".join(f"select c from sbtest1 where id = :id{n};\n" for n in range(10)) + "".join(f"{r.format(n=n)}\n" for n, r in enumerate(_RANGES))
    return f"{keys}begin;\n{reads}commit;\n"


WORKS = {
    "points": ROUTERS_WORKS["points"],
    "ranges": _FROM.replace("{n}", "0") + _RANGES[0].format(n=0) + "\n",
    "read_only": _read_only(),
    "tpcb": ROUTERS_WORKS["tpcb"],
}
# The table that a side reads in the place of sbtest1.
BY_TABLE = {"plain": "sbtest1", "partitions, hash": "sb_hash", "partitions, range": "sb_range", "herd, hash": "sb_hash", "herd, range": "sb_range"}
# Which sides say something about a work.
SIDES = {
    "points": ["plain", "PgBouncer", "herd, hash"],
    "ranges": list(BY_TABLE),
    "read_only": [*BY_TABLE, "PgBouncer"],
    "tpcb": ["plain", "PgBouncer", "two phases", "herd, hash"],
}


def _bounds(rows: int, shards: int) -> list[str]:
    """As partitions say them."""
    ends = ["minvalue", *(str(rows * n // shards) for n in range(1, shards)), "maxvalue"]
    return [f"from ({ends[n]}) to ({ends[n + 1]})" for n in range(shards)]


def _filled(server, rows: int, shards: int, distributed: bool) -> None:
    filled(server, rows, distributed)
    bounds = _bounds(rows, shards)
    if distributed:
        said = ", ".join(f"'{bound}'" for bound in bounds)
        server.run(
            f"create table sb_hash {COLUMNS}", "select create_distributed_table('sb_hash', 'id')",
            f"create table sb_range {COLUMNS}", f"select create_distributed_table('sb_range', 'id', strategy => 'range', bounds => array[{said}])",
        )
    else:
        server.run(f"create table sb_hash {COLUMNS} partition by hash (id)", f"create table sb_range {COLUMNS} partition by range (id)")
        for n in range(shards):
            server.run(
                f"create table sb_hash_{n} partition of sb_hash for values with (modulus {shards}, remainder {n})",
                f"create table sb_range_{n} partition of sb_range for values {bounds[n]}",
            )
    for table in ("sb_hash", "sb_range"):
        server.run(FILL.format(table=table, rows=rows), f"vacuum analyze {table}")


def _turn(server, script: Path, clients: int, seconds: int, mode: str) -> float:
    said = pgbench(server, "-n", "-M", mode, "-f", script, "-c", clients, "-j", min(clients, 2), "-T", seconds)
    return tps_of(said)


def main() -> None:
    chosen = arguments(__doc__, pairs=5, seconds=2, rows=100_000, shards=32)
    works = os.environ.get("WORKS", ",".join(WORKS)).split(",")
    clients = [int(c) for c in os.environ.get("CLIENTS", "1,8,16,64").split(",")]
    nodes = [router.node(f"bench{n}", SETTINGS) for n in range(2)]
    made = list(nodes)
    try:
        with plain(**SETTINGS, max_prepared_transactions="300") as one, tempfile.TemporaryDirectory() as directory:
            made.append(herd := router.Router(router.conninfo(nodes[0]), [router.conninfo(nodes[1])], shards=chosen.shards))
            servers = dict.fromkeys(BY_TABLE, one.server) | {"two phases": one.server, "herd, hash": herd.server, "herd, range": herd.server}
            if shutil.which("pgbouncer"):
                made.append(bouncer := PgBouncer(one.port, 300, pooling="session"))
                servers["PgBouncer"] = bouncer.server
            _filled(one.server, chosen.rows, chosen.shards, False)
            _filled(herd.server, chosen.rows, chosen.shards, True)
            table = []
            for work in works:
                scripts = {}
                for side in [side for side in SIDES[work] if side in servers]:
                    text = WORKS[work].format(rows=chosen.rows).replace("sbtest1", BY_TABLE.get(side, "sbtest1"))
                    # A name in quotes is put together by pgbench in simple statements only.
                    ends = "prepare transaction 'p:client_id';\ncommit prepared 'p:client_id';\n"
                    text = text.replace("end;\n", ends) if side == "two phases" else text
                    scripts[side] = Path(directory, f"{work}.{side}".replace(" ", "_"))
                    scripts[side].write_text(text)
                for count in clients:
                    turns = []
                    for n in range(chosen.pairs + 1):
                        order = list(scripts) if n % 2 else list(scripts)[::-1]
                        turns.append({
                            side: _turn(servers[side], scripts[side], count, chosen.seconds, "simple" if side == "two phases" else "prepared") for side in order
                        })
                        if work == "tpcb":
                            for server in (one.server, herd.server):
                                server.run("truncate hits")
                    for side in scripts:
                        ratios = sorted(t[side] / t["plain"] for t in turns[1:])
                        tps = statistics.median(t[side] for t in turns[1:])
                        table.append([f"{work}, {count}", side, int(tps), statistics.median(ratios), ratios[0], ratios[-1]])
                        print(table[-1], flush=True)
            print_table("limits", ["work, clients", "way", "tps", "÷ plain", "least", "most"], table)
    finally:
        for one_made in reversed(made):
            one_made.stop()


if __name__ == "__main__":
    main()
