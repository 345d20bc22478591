"""Routers of two builds in front of the same nodes, and a plain PostgreSQL with the same settings, turn by turn: statements a second, and the
processor time that a statement costs the client, the router and the servers (from /proc).

    python tests/bench/two_routers.py [--pairs 5] [--seconds 2] [--rows 100000] [--shards 32]
    HERD_BIN=… HERD_BIN_B=… WORKS=reads,inserts CLIENTS=1,8 python tests/bench/two_routers.py

Without HERD_BIN_B there is one router. WORKS: reads (by key), inserts (of one row), updates (by key), points (a transaction of five reads), two (one of two
updates by key), tpcb (TPC-B's, every table distributed by its own key); and of all shards: totals, groups, top (ten rows by another column), range (a
hundred keys), join (of two tables by their keys), rows (an INSERT of ten).
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

from common import arguments, pgbench, plain, print_table, value
from harness import router

SETTINGS = {"fsync": "on", "synchronous_commit": os.environ.get("SYNCHRONOUS_COMMIT", "off"), "shared_buffers": "512MB", "max_connections": "300", "max_wal_size": "4GB"}
_KEY = "\\set id random(1, {rows})\n"
WORKS = {
    "reads": _KEY + "select c from sbtest1 where id = :id;\n",
    "inserts": "\\set id random(1, 1000000000000)\ninsert into hits (id, k, c, pad) values (:id, 5, 'some text of a row', 'some more');\n",
    "updates": _KEY + "update sbtest1 set c = 'changed' where id = :id;\n",
    "points": "".join(_KEY.replace("id", f"id{n}") for n in range(5)) + "begin;\n" + "".join(f"select c from sbtest1 where id = :id{n};\n" for n in range(5)) + "commit;\n",
    "two": "".join(_KEY.replace("id", f"id{n}") for n in range(2)) + "begin;\n" + "".join(f"update sbtest1 set c = 'two' where id = :id{n};\n" for n in range(2)) + "commit;\n",
    "totals": "select count(*), min(k), max(k), sum(k) from sbtest1;\n",
    "groups": "select k % 10 as g, count(*), avg(k) from sbtest1 group by 1 order by 1;\n",
    "top": "select id, k, c from sbtest1 order by k desc limit 10;\n",
    "range": _KEY + "select c from sbtest1 where id between :id and :id + 99;\n",
    "join": "select count(*), sum(a.balance + s.k) from accounts a join sbtest1 s on a.aid = s.id where s.k % 7 = 3;\n",
    "rows": "\\set id random(1, 1000000000000)\ninsert into hits (id, k, c, pad) values " + ", ".join(f"(:id::bigint + {n}, 5, 'some text of a row', 'some more')" for n in range(10)) + ";\n",
    "tpcb": """\\set aid random(1, {rows})
\\set bid random(1, 100)
\\set tid random(1, 1000)
\\set delta random(-5000, 5000)
begin;
update accounts set balance = balance + :delta where aid = :aid;
select balance from accounts where aid = :aid;
update tellers set balance = balance + :delta where tid = :tid;
update branches set balance = balance + :delta where bid = :bid;
insert into hits (id, k, c, pad) values (:aid, :tid, 'some text of a row', 'some more');
end;
""",
}
# Of sbtest1, and its rows.
COLUMNS = "(id integer primary key, k integer not null default 0, c character(120) not null, pad character(60) not null)"
FILL = "insert into {table} select g, g, md5(g::text), md5(g::text) from generate_series(1, {rows}) g"
KEYED = {"accounts": "aid", "tellers": "tid", "branches": "bid"}
_TICK = os.sysconf("SC_CLK_TCK")


def spent(process_id: int) -> float:
    """Seconds of processor time of a process and of its children, those that have ended included."""
    total = 0.0
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        own = int(directory.name) == process_id
        if own or int(fields[1]) == process_id:
            total += sum(map(int, fields[11:15] if own else fields[11:13])) / _TICK
    return total


def filled(server, rows: int, distributed: bool) -> None:
    server.run(f"create table sbtest1 {COLUMNS}")
    server.run("create table hits (id bigint, k integer not null, c text not null, pad text not null)")
    for table, key in KEYED.items():
        server.run(f"create table {table} ({key} integer primary key, balance integer not null default 0)")
    if distributed:
        server.run(*(f"select create_distributed_table('{table}', '{key}')" for table, key in (KEYED | {"sbtest1": "id", "hits": "id"}).items()))
    for (table, key), count in zip(KEYED.items(), (rows, 1000, 100)):
        server.run(f"insert into {table} ({key}) select generate_series(1, {count})", f"vacuum analyze {table}")
    server.run(FILL.format(table="sbtest1", rows=rows), "vacuum analyze sbtest1")


def postmaster(server) -> int:
    return int((Path(value(server, "show data_directory")) / "postmaster.pid").read_text().split()[0])


def tps_of(said: str) -> float:
    """Of what pgbench says; none of its transactions may have failed."""
    if "number of failed transactions: 0 " not in said:
        raise SystemExit(said)
    return float(next(line for line in said.splitlines() if line.startswith("tps")).split()[2])


def turn(server, script: str, clients: int, seconds: int, processes: dict[str, list[int]]) -> dict[str, float]:
    before = {name: sum(map(spent, ids)) for name, ids in processes.items()}
    children = os.times()
    said = pgbench(server, "-n", "-M", "prepared", "-f", script, "-c", clients, "-j", min(clients, 2), "-T", seconds)
    ended = os.times()
    # Backends that served it end, and are counted by their postmaster then.
    time.sleep(0.3)
    done = int(next(line for line in said.splitlines() if "actually processed" in line).split(":")[1].split("/")[0])
    tps = tps_of(said)
    costs = {name: (sum(map(spent, ids)) - before[name]) / done * 1e6 for name, ids in processes.items()}
    client = (ended.children_user + ended.children_system - children.children_user - children.children_system) / done * 1e6
    return {"tps": tps, "client": client, "router": 0.0, "servers": 0.0} | costs


def main() -> None:
    chosen = arguments(__doc__, pairs=5, seconds=2, rows=100_000, shards=32)
    works = os.environ.get("WORKS", ",".join(WORKS)).split(",")
    clients = [int(c) for c in os.environ.get("CLIENTS", "1,8").split(",")]
    nodes = [router.node(f"bench{n}", SETTINGS) for n in range(2)]
    routers = []
    try:
        with plain(**SETTINGS) as one, tempfile.TemporaryDirectory() as directory:
            builds = [os.environ.get("HERD_BIN"), os.environ.get("HERD_BIN_B")]
            for build in builds[: 2 if builds[1] else 1]:
                if build:
                    os.environ["HERD_BIN"] = build
                routers.append(router.Router(router.conninfo(nodes[0]), [router.conninfo(nodes[1])], shards=chosen.shards))
            filled(one.server, chosen.rows, False)
            filled(routers[0].server, chosen.rows, True)
            masters = [postmaster(n.server) for n in nodes]
            sides = {"plain": (one.server, {"servers": [postmaster(one.server)]})}
            for name, r in zip(("A", "B"), routers):
                sides[name] = (r.server, {"router": [r.process.pid], "servers": masters})
            table = []
            for work in works:
                script = Path(directory, work)
                script.write_text(WORKS[work].format(rows=chosen.rows))
                for count in clients:
                    turns = []
                    for n in range(chosen.pairs + 1):
                        order = list(sides) if n % 2 else list(sides)[::-1]
                        turns.append({name: turn(sides[name][0], script, count, chosen.seconds, sides[name][1]) for name in order})
                        for server in (one.server, routers[0].server):
                            server.run("truncate hits")
                    del turns[0]
                    for name in sides:
                        ratios = sorted(t[name]["tps"] / t["plain"]["tps"] for t in turns)
                        middle = {key: statistics.median(t[name][key] for t in turns) for key in turns[0][name]}
                        of_servers = statistics.median((t[name]["router"] + t[name]["servers"]) / t["plain"]["servers"] for t in turns)
                        table.append([f"{work}, {count}", name, int(middle["tps"]), statistics.median(ratios), ratios[0], ratios[-1], middle["client"], middle["router"], middle["servers"], of_servers])
                        print(table[-1], flush=True)
            print_table("two routers", ["work, clients", "build", "tps", "÷ plain", "least", "most", "client µs", "router µs", "servers µs", "servers ÷ plain"], table)
    finally:
        for made in [*routers, *nodes]:
            made.stop()


if __name__ == "__main__":
    main()
