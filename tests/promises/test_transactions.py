"""Transactions over nodes as a client sees them: deadlocks, time limits, clients that leave, keys that change."""

import threading
import time

import psycopg
import pytest

from harness.until import until_somebody_waits_for_a_lock

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def keys(herd_many):
    """Table `tx` with 40 rows over both nodes, (id, v = 0); keys by node."""
    herd_many.server.run(
        "drop table if exists tx", "create table tx (id int primary key, v int)", "select create_distributed_table('tx', 'id')",
        "insert into tx select g, 0 from generate_series(1, 40) g",
    )
    found = []
    for node in herd_many.node_servers:
        with node.connect() as connection:
            found.append([row[0] for row in connection.execute("select id from tx order by id")])
    assert all(found)
    return found


def _running(herd_many, pattern: str) -> int:
    """Statements like that which run on nodes now."""
    count = 0
    for node in herd_many.node_servers:
        with node.connect() as connection:
            sql = "select count(*) from pg_stat_activity where state = 'active' and query like %s and pid <> pg_backend_pid()"
            count += connection.execute(sql, (pattern,)).fetchone()[0]
    return count


@pytest.mark.parametrize("round_trip", range(3))
def test_a_deadlock_across_nodes_costs_the_youngest(herd, keys, round_trip):
    """Each node sees a plain wait; together they are a circle. Found soon, the one that began last gets 40P01."""
    here, there = keys[0][round_trip], keys[1][round_trip]
    with herd.connect(autocommit=False) as old, herd.connect(autocommit=False) as young:
        old.execute("update tx set v = 1 where id = %s", (here,))
        time.sleep(0.05)
        young.execute("update tx set v = 2 where id = %s", (there,))
        outcome = {}

        def wait(name, connection, key):
            started = time.monotonic()
            try:
                connection.execute("update tx set v = 3 where id = %s", (key,))
                outcome[name] = "done"
            except psycopg.Error as error:
                outcome[name] = error.sqlstate
                connection.rollback()
            outcome[name + " s"] = time.monotonic() - started

        threads = [threading.Thread(target=wait, args=a) for a in (("old", old, there), ("young", young, here))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert outcome["young"] == "40P01" and outcome["old"] == "done", outcome
        assert outcome["young s"] < 15, outcome
        old.rollback()


def test_a_deadlock_of_three(herd, keys):
    a, b, c = keys[0][5], keys[1][5], keys[0][6]
    connections = [herd.connect(autocommit=False) for _ in range(3)]
    try:
        for connection, key in zip(connections, (a, b, c)):
            connection.execute("update tx set v = 1 where id = %s", (key,))
        outcome = [None] * 3

        def wait(i, key):
            try:
                connections[i].execute("update tx set v = 2 where id = %s", (key,))
                outcome[i] = "done"
            except psycopg.Error as error:
                outcome[i] = error.sqlstate
            connections[i].rollback()

        threads = [threading.Thread(target=wait, args=(i, key)) for i, key in enumerate((b, c, a))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert sorted(outcome) == ["40P01", "done", "done"], outcome
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    "sql", ["select pg_sleep(20) from tx where id = 3", "select count(pg_sleep(20)) from tx", "update tx set v = v + length(pg_sleep(20)::text)"],
    ids=["one node", "all nodes", "update"],
)
def test_statement_timeout(herd, keys, sql):
    with herd.connect() as connection:
        connection.execute("set statement_timeout = '300ms'")
        started = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(sql)
        assert time.monotonic() - started < 15
        assert connection.execute("select count(*) from tx").fetchone() == (40,)


def test_lock_timeout_on_any_node(herd, keys):
    for key in (keys[0][0], keys[1][0]):
        with herd.connect(autocommit=False) as holder, herd.connect(autocommit=False) as waiter:
            holder.execute("update tx set v = 1 where id = %s", (key,))
            waiter.execute("set lock_timeout = '300ms'")
            started = time.monotonic()
            with pytest.raises(psycopg.errors.LockNotAvailable):
                waiter.execute("update tx set v = 2")
            assert time.monotonic() - started < 15
            waiter.rollback()
            holder.rollback()


def test_idle_in_transaction_session_timeout(herd, herd_many, keys):
    """The node ends the session's transaction; nothing of it stays on any node."""
    here, there = keys[0][1], keys[1][1]
    with herd.connect(autocommit=False) as idle:
        idle.execute("set idle_in_transaction_session_timeout = '500ms'")
        idle.execute("update tx set v = 77 where id in (%s, %s)", (here, there))
        time.sleep(1)
        with herd.connect() as other:
            # When its locks are gone it has ended.
            other.execute("set lock_timeout = '30s'")
            assert len(other.execute("select v from tx where id in (%s, %s) for update", (here, there)).fetchall()) == 2
        with pytest.raises(psycopg.Error) as caught:
            idle.execute("update tx set v = 78 where id = %s", (here,))
            idle.commit()
        assert caught.value.sqlstate in ("25P03", "57P01", "08006"), caught.value
    with herd.connect() as other:
        other.execute("set lock_timeout = '30s'")
        assert other.execute("update tx set v = 0 where id in (%s, %s) and v <> 77", (here, there)).rowcount == 2


@pytest.mark.parametrize("sql", ["select pg_sleep(40) from tx where id = 3", "select count(pg_sleep(4)) from tx"], ids=["one node", "all nodes"])
def test_a_client_that_leaves_is_noticed(herd, herd_many, keys, sql):
    """Nobody is left who could want the result: the nodes stop soon."""
    connection = herd.connect()
    connection.pgconn.send_query(sql.encode())
    connection.pgconn.flush()
    deadline = time.monotonic() + 10
    while not _running(herd_many, "%pg_sleep(4%"):
        assert time.monotonic() < deadline, "the statement never ran"
        time.sleep(0.02)
    connection.pgconn.finish()
    # Alone it would run for a quarter of a minute and more.
    deadline = time.monotonic() + 10
    while _running(herd_many, "%pg_sleep(4%"):
        assert time.monotonic() < deadline, "the statement still runs 10 s after its client has left"
        time.sleep(0.05)


def test_a_client_that_waits_for_a_lock_and_leaves(herd, keys):
    key = keys[1][2]
    with herd.connect(autocommit=False) as holder:
        holder.execute("update tx set v = 1 where id = %s", (key,))
        waiter = herd.connect(autocommit=False)
        waiter.execute("update tx set v = 5 where id = %s", (keys[0][2],))
        waiter.pgconn.send_query(f"update tx set v = 5 where id = {key}".encode())
        waiter.pgconn.flush()
        time.sleep(0.3)
        waiter.pgconn.finish()
        # What the one who left had locked is free, although what it waited for is not.
        with herd.connect() as other:
            other.execute("set lock_timeout = '20s'")
            other.execute("update tx set v = 0 where id = %s", (keys[0][2],))
        holder.rollback()


def test_deferred_constraints_fail_the_whole_commit(herd, herd_many):
    herd.run(
        "drop table if exists tx_child, tx_parent", "create table tx_parent (id int primary key)", "select create_distributed_table('tx_parent', 'id')",
        "create table tx_child (id int primary key, foreign key (id) references tx_parent (id) deferrable initially deferred)",
        "select create_distributed_table('tx_child', 'id')", "insert into tx_parent select generate_series(1, 20)",
    )
    with herd.connect(autocommit=False) as connection:
        connection.execute("insert into tx_child select generate_series(1, 20)")
        connection.execute("insert into tx_child values (21)")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.commit()
        connection.rollback()
        assert connection.execute("select count(*) from tx_child").fetchone() == (0,)
        connection.execute("insert into tx_child select generate_series(1, 21)")
        connection.execute("insert into tx_parent values (21)")
        connection.commit()
        assert connection.execute("select count(*) from tx_child").fetchone() == (21,)


def test_a_function_that_writes_is_part_of_the_commit(herd, herd_many, keys):
    """It is called by a SELECT, so only PostgreSQL knows that it writes."""
    herd.run(
        "drop table if exists tx_note", "create table tx_note (x int)",
        "create or replace function tx_write(v int) returns int language plpgsql as $$ begin insert into tx_note values (v); return v; end $$",
    )
    with herd.connect(autocommit=False) as connection:
        connection.execute("select tx_write(1)")
        connection.execute("update tx set v = 4 where id = %s", (keys[1][3],))
        connection.commit()
        assert connection.execute("select count(*) from tx_note").fetchone() == (1,)
    # The function's node took part as a writer: with another one, that is two phases. Decisions are deleted every few
    # seconds, so one look may miss it.
    with herd_many.node_servers[0].connect() as home:
        for _ in range(30):
            decided = home.execute("select count(*) from herd.decision").fetchone()[0]
            with herd.connect(autocommit=False) as connection:
                connection.execute("select tx_write(2)")
                connection.execute("update tx set v = 5 where id = %s", (keys[1][3],))
                connection.commit()
            if home.execute("select count(*) from herd.decision").fetchone()[0] > decided:
                return
    raise AssertionError("the transaction was not committed by two phases")


def test_decisions_are_forgotten(herd, herd_many, keys):
    """The table of decisions does not grow for ever."""
    with herd.connect() as connection:
        connection.execute("update tx set v = 6")
    deadline = time.monotonic() + 60
    while True:
        left = 0
        for node in herd_many.node_servers:
            with node.connect() as connection:
                left += connection.execute("select count(*) from herd.decision").fetchone()[0]
        if left == 0:
            return
        assert time.monotonic() < deadline, f"{left} decisions"
        time.sleep(0.2)


@pytest.mark.xdist_group("promises")
def test_a_deadlock_over_two_routers():
    """Neither router serves both sessions."""
    from .cluster import Cluster

    with Cluster(nodes=2) as cluster:
        one, two = cluster.router().start(), cluster.router().start()
        one.server.run(
            "create table tx2 (id int primary key, v int)", "select create_distributed_table('tx2', 'id')",
            "insert into tx2 select g, 0 from generate_series(1, 40) g",
        )
        here, there = (keys[0] for keys in cluster.keys_by_node("tx2"))
        time.sleep(0.5)
        with one.server.connect(autocommit=False) as old, two.server.connect(autocommit=False) as young:
            old.execute("update tx2 set v = 1 where id = %s", (here,))
            time.sleep(0.05)
            young.execute("update tx2 set v = 2 where id = %s", (there,))
            waiting = threading.Thread(target=lambda: old.execute("update tx2 set v = 3 where id = %s", (there,)))
            waiting.start()
            started = time.monotonic()
            with pytest.raises(psycopg.errors.DeadlockDetected):
                young.execute("update tx2 set v = 3 where id = %s", (here,))
            assert time.monotonic() - started < 20
            young.rollback()
            waiting.join(60)
            assert not waiting.is_alive()
            old.commit()


@pytest.mark.xdist_group("promises")
def test_a_deadlock_through_one_whose_router_died():
    """A backend that waits for a lock does not notice that its router is gone: it holds what it has, and others wait for it."""
    from .cluster import Cluster

    with Cluster(nodes=2) as cluster:
        live, doomed = cluster.router().start(), cluster.router().start()
        live.server.run(
            "create table tx3 (id int primary key, v int)", "select create_distributed_table('tx3', 'id')",
            "insert into tx3 select g, 0 from generate_series(1, 40) g",
        )
        (here, *_), (there, other, *_) = cluster.keys_by_node("tx3")
        time.sleep(0.5)
        update = "update tx3 set v = 1 where id = %s"
        with live.server.connect(autocommit=False) as one, live.server.connect(autocommit=False) as two:
            one.execute(update, (there,))
            with doomed.server.connect(autocommit=False) as lost:
                lost.execute(update, (other,))
                waiting = threading.Thread(target=lambda: pytest.raises(psycopg.Error, lost.execute, update, (there,)))
                waiting.start()
                until_somebody_waits_for_a_lock(node.server for node in cluster.nodes)
                doomed.kill()
                waiting.join(60)
            two.execute(update, (here,))
            outcomes = {}

            def run(name, connection, key):
                try:
                    connection.execute(update, (key,))
                    connection.commit()
                    outcomes[name] = "done"
                except psycopg.Error as error:
                    connection.rollback()
                    outcomes[name] = error.sqlstate

            # Two waits for the one left behind, that for one, and one for two.
            threads = [threading.Thread(target=run, args=a) for a in (("two", two, other), ("one", one, here))]
            for thread in threads:
                thread.start()
                time.sleep(0.1)
            for thread in threads:
                thread.join(60)
            assert sorted(outcomes.values()) == ["40P01", "done"], outcomes


def test_a_statement_of_its_own_begins_again(herd_many):
    """All rows, by several clients at once: who loses a deadlock goes again, unless its client has seen rows of it already."""
    herd_many.server.run(
        "drop table if exists again", "create table again (id int primary key, v int, pad text)",
        "select create_distributed_table('again', 'id')",
        "insert into again select g, 0, repeat('x', 3000) from generate_series(1, 300) g",
    )
    done, failed = [], []

    def work(sql):
        with herd_many.server.connect() as connection:
            for _ in range(4):
                try:
                    rows = connection.execute(sql)
                    done.append(sorted(r[0] for r in rows) if rows.description else rows.rowcount)
                except psycopg.Error as error:
                    failed.append(error.sqlstate)

    everything = "update again set v = v + 1"
    threads = [threading.Thread(target=work, args=(sql,)) for sql in [everything, everything, f"{everything} returning id, pad"]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    # Once each, whoever had to begin again.
    assert all(seen in (300, list(range(1, 301))) for seen in done)
    assert set(failed) <= {"40P01"}
    with herd_many.server.connect() as connection:
        assert connection.execute("select min(v), max(v) from again").fetchone() == (len(done), len(done))


@pytest.mark.parametrize("begin", ["start transaction read only", "begin; set transaction read only"])
def test_a_refused_write_does_not_spoil_the_commit(herd, oracle, keys, begin):
    """A transaction that is read only has nothing to prepare, nor could it write its decision."""
    oracle.run("drop table if exists tx", "create table tx (id int primary key, v int)")
    for server in (oracle, herd):
        with server.connect() as connection:
            connection.execute(begin)
            connection.execute("savepoint s")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                connection.execute("insert into tx values (901, 1), (902, 2), (903, 3), (904, 4)")
            connection.execute("rollback to s")
            connection.execute("select count(*) from tx")
            assert connection.execute("commit").statusmessage == "COMMIT"


def test_what_is_undone_and_what_is_not(herd, keys):
    with herd.connect() as connection:
        connection.execute("begin")
        connection.execute("update tx set v = v + 1000 where id = %s", (keys[0][5],))
        connection.execute("savepoint s")
        connection.execute("update tx set v = v + 1000")
        connection.execute("rollback to s")
        connection.execute("update tx set v = v + 1000 where id = %s", (keys[1][5],))
        assert connection.execute("commit").statusmessage == "COMMIT"
        found = connection.execute("select id from tx where v >= 1000 order by id").fetchall()
        assert found == sorted([(keys[0][5],), (keys[1][5],)])
        connection.execute("update tx set v = v - 1000 where v >= 1000")
