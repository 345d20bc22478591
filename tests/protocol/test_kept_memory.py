"""A node's process keeps the memory of its statements: it is not given back to the system behind each, and taken anew, page by page, by the next."""

import contextlib
import platform

import pytest

pytestmark = pytest.mark.real_herd
RANGE = "select t from kept_memory where id between %s and %s"


def _faults(herd) -> dict[int, int]:
    """Pages that the system gave to the processes of the role's connections, by process."""
    found = {}
    for node in herd.node_servers:
        with node.connect() as connection:
            for (pid,) in connection.execute("select pid from pg_stat_activity where usename = 'kept_memory_role'").fetchall():
                with open(f"/proc/{pid}/stat") as stat:
                    found[pid] = int(stat.read().rpartition(")")[2].split()[7])
    return found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator keeps memory its own way")
def test_memory_stays_with_a_node(herd_many):
    server = herd_many.server
    server.run(
        "create table kept_memory (id int primary key, t text)", "select create_distributed_table('kept_memory', 'id', shard_count => 32)",
        "insert into kept_memory select g, md5(g::text) from generate_series(1, 20000) g", "analyze kept_memory",
        "create role kept_memory_role login", "grant select on kept_memory to kept_memory_role",
    )
    sessions, rounds = 4, 100
    with contextlib.ExitStack() as stack:
        # Each in a transaction, so that each has a connection of its own of every node.
        connections = [stack.enter_context(server.connect(user="kept_memory_role")) for _ in range(sessions)]
        for connection in connections:
            connection.execute("begin isolation level repeatable read")

        def some(many):
            for n in range(1, many + 1):
                for connection in connections:
                    assert len(connection.execute(RANGE, (n, n + 99), prepare=True).fetchall()) == 100

        # Plans and catalogs are there.
        some(20)
        before = _faults(herd_many)
        some(rounds)
        after = _faults(herd_many)
    server.run("drop table kept_memory", "drop role kept_memory_role")
    taken = {pid: (after[pid] - before[pid]) / rounds for pid in before}
    assert len(taken) >= 2 * sessions and max(taken.values()) < 2, taken
