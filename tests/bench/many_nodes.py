"""A herd of many nodes: databases of a few servers stand for them. What a router's start, its catalog, a change of it and a statement cost, and what
a statement over all nodes does.

    python tests/bench/many_nodes.py [--nodes 1000] [--absent 0] [--shards 100000] [--tables 200] [--routers 10] [--seconds 5]

`absent`: nodes besides that are in the catalog only, with shards of those tables, so that a catalog of a thousand can be looked at where a thousand
databases on one machine would be what takes the time. Of `shards` most are in the catalog only: tables on home without partitions, in groups of two. One table of a shard a node is real.
"""

import dataclasses
import re
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from common import allow_many_files, arguments, pgbench, print_table, run, value
from harness import router
from harness.server import Server

SERVERS = 2
SETTINGS = {
    "max_connections": "4000", "max_prepared_transactions": "2000", "shared_buffers": "256MB", "fsync": "off", "max_wal_size": "4GB",
    "max_files_per_process": "200",
}
WORKS = {"read by key": "\\set id random(1, 100000)\nselect v from {table} where id = :id;\n"}


def resident(process_id: int, what: str = "VmRSS") -> float:
    """MB."""
    return int(re.search(rf"{what}:\s+(\d+)", Path(f"/proc/{process_id}/status").read_text()).group(1)) / 1024


def read_bytes(process_id: int) -> int:
    """That came by its TCP connections that are there: home's and clients'; nodes are reached by sockets."""
    said = run("ss", "-tinHp").splitlines()
    return sum(int(found.group(1)) for line, more in zip(said, said[1:]) if f"pid={process_id}," in line and (found := re.search(r"bytes_received:(\d+)", more)))


def processor(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / 100


def backends(servers) -> list[int]:
    return [value(s.server, "select count(*) from pg_stat_activity where backend_type = 'client backend'") - 1 for s in servers]


def simulate(home: Server, shards: int, tables: int) -> None:
    """Groups of two tables each, whose shards are in the catalog alone."""
    groups = tables // 2
    each = shards // groups
    with home.connect() as c:
        c.execute("set session_replication_role = replica")
        first = c.execute("select coalesce(max(id), 0) + 1 from herd.colocation").fetchone()[0]
        c.execute(
            "insert into herd.colocation (id, strategy, key_types, shard_count) select g, 'hash', '{20}', %s from generate_series(%s::int, %s::int) g",
            (each, first, first + groups - 1),
        )
        c.execute(
            """insert into herd.shard (colocation, number, node, bound)
               select g, s, n.id, format('FOR VALUES WITH (MODULUS %%s, REMAINDER %%s)', %s::int, s)
               from generate_series(%s::int, %s::int) g, generate_series(0, %s::int - 1) s,
                    lateral (select id from (select id, row_number() over (order by id) - 1 as r, count(*) over () as c from herd.node) o where r = (s + g) %% c) n""",
            (each, first, first + groups - 1, each),
        )
        for n in range(tables):
            c.execute(f"create table simulated_{n} (id bigint primary key, a integer not null, b text, c timestamptz) partition by hash (id)")
            c.execute(
                "insert into herd.relation (schema, name, kind, colocation, prefix, oid) values ('public', %s, 'd', %s, %s, to_regclass(%s))",
                (f"simulated_{n}", first + n // 2, f"simulated_{n}", f"simulated_{n}"),
            )
        c.execute("update herd.epoch set epoch = epoch + 1, kinds = kinds + 1")
        c.execute("vacuum analyze herd.shard")


def add_absent(home: Server, nodes: int) -> None:
    """Rows of the catalog for nodes that nobody can reach, and shards on them in place of those that are in the catalog alone."""
    with home.connect() as c:
        c.execute("set session_replication_role = replica")
        c.execute("insert into herd.node (id, name, host, port, database) select 10000 + n, 'absent' || n, '127.0.0.1', 1, 'absent' || n from generate_series(1, %s) n", (nodes,))
        c.execute("update herd.shard set node = 10001 + number %% %s where colocation in (select colocation from herd.relation where name like 'simulated%%')", (nodes,))
        c.execute("update herd.epoch set epoch = epoch + 1, kinds = kinds + 1")
        c.execute("vacuum analyze herd.shard")


def loaded_in(started: router.Router) -> float:
    """Milliseconds, as its log says."""
    took = re.findall(r"took.*?=.*?([\d.]+)(ms|s)", re.sub(r"\x1b\[[0-9;]*m", "", started.log()))
    return float(took[-1][0]) * (1000 if took[-1][1] == "s" else 1)


def a_change(server: Server, count: int = 7) -> float:
    """Milliseconds of a statement that changes the catalog a little."""
    took = []
    with server.connect() as c:
        c.execute("create table if not exists changed (a int)")
        for n in range(count):
            started = time.monotonic()
            c.execute(f"comment on table changed is '{n}'")
            c.execute(f"alter table changed add column c{n} int")
            took.append((time.monotonic() - started) * 500)
        c.execute("drop table changed")
    return statistics.median(took)


def main() -> None:
    chosen = arguments(__doc__, nodes=1000, absent=0, shards=100_000, tables=200, routers=10, seconds=5)
    allow_many_files()
    servers = [router.node(f"many{n}", SETTINGS) for n in range(SERVERS + 1)]
    home = servers[0]
    addresses = Path(tempfile.mkdtemp(prefix="many", dir="/tmp"))
    addresses.chmod(0o755)
    routers = []
    table = []

    def note(what: str, figure, unit: str) -> None:
        table.append([what, figure, unit])
        print(f"{what}: {figure:,.2f} {unit}" if isinstance(figure, float) else f"{what}: {figure} {unit}", flush=True)

    try:
        started = time.monotonic()
        for n in range(1, chosen.nodes):
            servers[1 + n % SERVERS].server.run(f"create database n{n}")
            # A server is one node: each has another address.
            Path(addresses, f"n{n}").symlink_to(servers[1 + n % SERVERS].root)
        note("databases made in", time.monotonic() - started, "s")
        nodes = [router.conninfo(servers[1 + n % SERVERS], host=f"{addresses}/n{n}", dbname=f"n{n}") for n in range(1, chosen.nodes)]
        # Another herd, on the same servers.
        for server, name in ((home, "few"), (servers[1], "few")):
            server.server.run(f"create database {name}")
        started = time.monotonic()
        few = router.Router(router.conninfo(home, dbname="few"), [router.conninfo(servers[1], dbname="few")], shards=2)
        routers.append(few)
        note("a router of 2 nodes up in", time.monotonic() - started, "s")
        few_server = dataclasses.replace(few.server, dbname="few")
        few_server.run("create table few (id bigint primary key, v int)", "select create_distributed_table('few', 'id')", "insert into few select g, g from generate_series(1, 100000) g")
        note("router, 2 nodes", resident(few.process.pid), "MB")
        note("a change, 2 nodes, 1 router", a_change(few_server), "ms")
        started = time.monotonic()
        big = router.Router(router.conninfo(home), nodes, shards=chosen.nodes, start_seconds_max=3000)
        routers.append(big)
        note(f"{chosen.nodes} nodes joined in", time.monotonic() - started, "s")
        note("a change, all nodes, 2 routers", a_change(big.server), "ms")
        note("nodes", value(big.server, "select count(*) from herd.nodes"), "")
        started = time.monotonic()
        big.server.run("create table many (id bigint primary key, v int)")
        note("create table", time.monotonic() - started, "s")
        started = time.monotonic()
        big.server.run(f"select create_distributed_table('many', 'id', shard_count => {chosen.nodes})")
        note("create_distributed_table", time.monotonic() - started, "s")
        started = time.monotonic()
        big.server.run("insert into many select g, g from generate_series(1, 100000) g")
        note("insert of 100 000 rows", time.monotonic() - started, "s")
        for n in range(4):
            started = time.monotonic()
            value(big.server, "select count(*), sum(v) from many")
            note("count and sum over all nodes", (time.monotonic() - started) * 1000, "ms")
        started = time.monotonic()
        big.server.run("alter table many add column w int not null default 7")
        note("alter table … add column, on all nodes", time.monotonic() - started, "s")
        # The same on two nodes of the many.
        big.server.run("create table two (id bigint primary key, v int)", "select create_distributed_table('two', 'id', shard_count => 2)", "insert into two select g, g from generate_series(1, 100000) g")
        note("router, all nodes", resident(big.process.pid), "MB")
        with tempfile.TemporaryDirectory() as directory:
            for name, r in (("few", few), ("two", big), ("many", big)) * 5:
                script = Path(directory, name)
                script.write_text(WORKS["read by key"].format(table=name))
                spent = processor(r.process.pid)
                said = pgbench(few_server if name == "few" else big.server, "-n", "-M", "prepared", "-f", script, "-c", 8, "-j", 2, "-T", chosen.seconds)
                done = int(re.search(r"actually processed: (\d+)", said).group(1))
                note(f"read by key of {name}", done / chosen.seconds, "statements/s")
                note("router's processor time a statement", (processor(r.process.pid) - spent) / done * 1e6, "µs")
        simulate(home.server, chosen.shards, chosen.tables)
        big.server.run("create table other (a int)")
        note("a change, all shards, 2 routers", a_change(big.server), "ms")
        before, spent = read_bytes(big.process.pid), processor(big.process.pid)
        big.server.run("comment on table other is 'x'", "alter table other add b int")
        time.sleep(1)
        note("bytes that the router reads for 2 changes and a second", read_bytes(big.process.pid) - before, "bytes")
        note("processor time", (processor(big.process.pid) - spent) * 1000, "ms")
        note("router, all shards", resident(big.process.pid), "MB")
        for n in range(chosen.routers):
            started = time.monotonic()
            routers.append(router.Router(router.conninfo(home), nodes, shards=8, start_seconds_max=300))
            note("a further router up in", time.monotonic() - started, "s")
        note("the catalog loaded in", loaded_in(routers[-1]), "ms")
        note("its memory", resident(routers[-1].process.pid), "MB")
        time.sleep(5)
        before = [(read_bytes(r.process.pid), processor(r.process.pid)) for r in routers[1:]]
        time.sleep(10)
        note("idle: bytes a router reads a second", int(statistics.median((read_bytes(r.process.pid) - b[0]) / 10 for r, b in zip(routers[1:], before))), "bytes")
        note("idle: processor time of a router, of one core", statistics.median((processor(r.process.pid) - b[1]) / 10 * 100 for r, b in zip(routers[1:], before)), "%")
        note("a change, all routers", a_change(big.server), "ms")
        note("connections of clients to servers", str(backends(servers)), "")
        if chosen.absent:
            add_absent(home.server, chosen.absent)
            routers.append(router.Router(router.conninfo(home), nodes, shards=8, start_seconds_max=300))
            note(f"the catalog with {chosen.absent} absent nodes besides loaded in", loaded_in(routers[-1]), "ms")
            note("its memory", resident(routers[-1].process.pid), "MB")
        print_table("many nodes", ["what", "figure", "unit"], table)
    finally:
        for made in [*routers, *servers]:
            made.stop()
        shutil.rmtree(addresses)


if __name__ == "__main__":
    main()
