"""herd.transactions and herd.locks: what is in doubt, and who waits for whom, over all nodes."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def keys(herd_many):
    herd_many.server.run(
        "drop table if exists seen", "create table seen (id int primary key, v int)", "select create_distributed_table('seen', 'id')",
        "insert into seen select g, 0 from generate_series(1, 40) g",
    )
    found = []
    for node in herd_many.node_servers:
        with node.connect() as connection:
            found.append([row[0] for row in connection.execute("select id from seen order by id")])
    return found


def test_who_waits_for_whom(herd, keys):
    key = keys[1][0]
    with herd.connect(autocommit=False) as holder, herd.connect() as waiter, herd.connect() as watcher:
        assert watcher.execute("select count(*) from herd.locks").fetchone() == (0,)
        holder.execute("update seen set v = 1 where id = %s", (key,))
        waiting = threading.Thread(target=lambda: waiter.execute("update seen set v = 2 where id = %s", (key,)))
        waiting.start()
        try:
            deadline = time.monotonic() + 60
            while not (rows := watcher.execute("select * from herd.locks l where waiting > interval '1 ms'").fetchall()):
                assert time.monotonic() < deadline
            ((node, waiter_pid, waiter_session, who, waited, sql, holder_pid, holder_session, *_),) = rows
            assert who == "postgres" and sql.startswith("update") and waited.total_seconds() < 60
            assert waiter_pid != holder_pid and {waiter_session, holder_session} == {waiter.info.backend_pid, holder.info.backend_pid}
            assert watcher.execute("select name from herd.nodes where id = %s", (node,)).fetchone()
            # With a WITH of its own, in a subquery, beside others, described first.
            assert watcher.execute("with n as (select 1 as x) select x, locks.node from n, herd.locks").fetchall() == [(1, node)]
            watcher.prepare_threshold = 0
            for _ in range(3):
                assert watcher.execute("select (select count(*) from herd.locks where node = %s)", (node,)).fetchone() == (1,)
        finally:
            holder.rollback()
            waiting.join(60)


def test_what_is_in_doubt(herd, herd_many, keys):
    """A transaction whose decider's transaction is still open is left alone, and shown."""
    with herd_many.node_servers[0].connect() as home:
        herd_id = home.execute("select id from herd.herd").fetchone()[0]
        home.execute("begin")
        # As a decider does: its gate is held as long as its number counts.
        home.execute("lock table herd.gate in row share mode")
        xid = home.execute("select pg_current_xact_id()").fetchone()[0]
        gid = f"herd_{herd_id}_1_00000000deadbeef_7_{xid}_2"
        with herd_many.node_servers[1].connect() as other:
            other.execute("begin")
            other.execute("create table never_there (x int)")
            other.execute(f"prepare transaction '{gid}'")
        try:
            time.sleep(3)
            with herd.connect() as connection:
                row = connection.execute("select node, gid, owner, decider, router, state from herd.transactions").fetchone()
                assert row == (2, gid, "postgres", 1, "00000000deadbeef", "undecided")
        finally:
            home.execute("rollback")
        deadline = time.monotonic() + 60
        with herd.connect() as connection:
            while connection.execute("select count(*) from herd.transactions").fetchone() != (0,):
                assert time.monotonic() < deadline, "not recovered"
                time.sleep(0.2)
    with herd_many.node_servers[1].connect() as other:
        assert other.execute("select to_regclass('never_there')").fetchone() == (None,)


def test_a_role_sees_what_its_nodes_let_it_see(herd):
    herd.run("drop role if exists onlooker", "create role onlooker login")
    with psycopg.connect(herd.conninfo, user="onlooker") as connection:
        assert connection.execute("select count(*) from herd.locks").fetchone() == (0,)
        assert connection.execute("select count(*) from herd.transactions").fetchone() == (0,)
