"""Two routers on one herd: what is changed through one is there through the other at once, and nothing is mixed up."""

import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]

ROUNDS = 25
# Routers learn of changes by NOTIFY: until they wait for each other, the next statement may come sooner.


@pytest.fixture
def both(pair):
    """Sessions that stay open, as a pool of clients keeps them."""
    with pair.a.connect() as a, pair.b.connect() as b:
        yield a, b


@pytest.fixture
def clean(pair):
    def drop():
        pair.a.run("drop table if exists two", "drop table if exists two_other")

    drop()
    yield
    drop()


def test_create_and_distribute_through_one_use_through_the_other(both, clean):
    for n in range(ROUNDS):
        a, b = both if n % 2 else both[::-1]
        a.execute("create table two (id int primary key, v int)")
        a.execute("select create_distributed_table('two', 'id')")
        b.execute("insert into two select g, g from generate_series(1, 20) g")
        assert a.execute("select count(*), sum(v) from two").fetchone() == (20, 210)
        assert b.execute("select v from two where id = 7").fetchone() == (7,)
        a.execute("drop table two")
        with pytest.raises(psycopg.errors.UndefinedTable):
            b.execute("select count(*) from two")


def test_alter_through_one_use_through_the_other(both, clean):
    a, b = both
    a.execute("create table two (id int primary key, v int)")
    a.execute("select create_distributed_table('two', 'id')")
    for n in range(ROUNDS):
        a, b = b, a
        a.execute(f"alter table two add column c{n} int default {n}")
        b.execute(f"insert into two (id, c{n}) values ({n}, {n}), ({n + 1000}, {n})")
        assert b.execute(f"select id, c{n} from two where id = {n}").fetchone() == (n, n)
        assert b.execute(f"select count(*) from two where c{n} = {n}").fetchone() == ((n + 1) * 2,)
        # Before the first use through `a`: `*` is what the table has now.
        assert len(b.execute("select * from two").description) == n + 3


def test_a_prepared_statement_sees_the_others_change(both, clean):
    a, b = both
    a.execute("create table two (id int primary key, v int, w int)")
    a.execute("select create_distributed_table('two', 'id')")
    b.execute("insert into two values (1, 1), (2, 2), (3, 3)")
    for n in range(ROUNDS):
        for key in (1, 2, 3):
            assert b.execute("select v from two where id = %s", (key,), prepare=True).fetchone() == (key + n,)
        a.execute("alter table two alter column w type bigint" if n % 2 else "alter table two alter column w type int")
        a.execute("update two set v = v + 1")


def test_drop_and_create_anew_under_the_same_name(both, clean):
    """The old table's partitions are gone: no statement of the other router may find their rows."""
    a, b = both
    for n in range(ROUNDS):
        a.execute("create table two (id int primary key, v int)")
        a.execute("select create_distributed_table('two', 'id')")
        b.execute("insert into two values (1, %s)", (n,))
        assert b.execute("select v from two where id = 1").fetchone() == (n,)
        a.execute("drop table two")


def test_no_key_is_missing_right_after_the_table_was_distributed(both, clean):
    """A router that still takes the table for a local one would find home's part of it only, and say nothing."""
    a, b = both
    for n in range(ROUNDS):
        a.execute("create table two (id int primary key, v int)")
        assert b.execute("select count(*) from two").fetchone() == (0,)
        a.execute("select create_distributed_table('two', 'id')")
        a.execute("insert into two select g, g from generate_series(1, 10) g")
        found = [b.execute("update two set v = v + 1 where id = %s", (key,)).rowcount for key in range(1, 11)]
        assert found == [1] * 10, f"round {n}"
        assert b.execute("select count(*) from two").fetchone() == (10,)
        a.execute("drop table two")


def test_reference_and_local_tables(both, clean):
    a, b = both
    for n in range(ROUNDS):
        a.execute("create table two (id int primary key, v int)")
        b.execute("insert into two values (1, 1)")
        a.execute("select create_reference_table('two')")
        b.execute("insert into two values (2, 2)")
        assert a.execute("select count(*) from two").fetchone() == (2,)
        a.execute("select undistribute_table('two')")
        b.execute("insert into two values (3, 3)")
        assert a.execute("select count(*) from two").fetchone() == (3,)
        b.execute("drop table two")


def test_no_row_goes_astray_while_a_table_is_distributed(pair, clean):
    """Rows inserted through `b` while `a` distributes the table and back are there exactly once, or were refused."""
    pair.a.run("create table two (id int primary key, v int)")
    acknowledged, refused, stop = [], [], threading.Event()

    def insert():
        with pair.b.connect() as connection:
            n = 0
            while not stop.is_set():
                n += 1
                try:
                    connection.execute("insert into two values (%s, %s)", (n, n))
                    acknowledged.append(n)
                except psycopg.Error as error:
                    refused.append((n, error.sqlstate, str(error)))

    thread = threading.Thread(target=insert, daemon=True)
    thread.start()
    try:
        with pair.a.connect() as a:
            for _ in range(4):
                a.execute("select create_distributed_table('two', 'id')")
                a.execute("select undistribute_table('two')")
        deadline = time.monotonic() + 60
        while len(acknowledged) <= 10 and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        stop.set()
        thread.join(90)
    assert not thread.is_alive()
    for server in (pair.a, pair.b):
        with server.connect() as connection:
            found = [row[0] for row in connection.execute("select id from two order by id").fetchall()]
            lost = sorted(set(acknowledged) - set(found))
            assert not lost, f"{len(lost)} acknowledged rows lost, the first {lost[:5]}; refused: {refused[:3]}"
            assert set(found) - set(acknowledged) <= {n for n, *_ in refused}
    assert len(acknowledged) > 10, refused[:5]


def test_a_deadlock_over_nodes_between_sessions_of_two_routers(pair, clean):
    pair.a.run("create table two (id int primary key, v int)", "select create_distributed_table('two', 'id')")
    pair.a.run("insert into two select g, 100 from generate_series(1, 40) g")
    held = [_keys(node.server)[0] for node in pair.nodes]
    states = []

    def second(connection, key):
        try:
            connection.execute("update two set v = v + 1 where id = %s", (key,))
            states.append(None)
        except psycopg.Error as error:
            states.append(error.sqlstate)
        connection.rollback()

    with pair.a.connect(autocommit=False) as a, pair.b.connect(autocommit=False) as b:
        for connection, key in ((a, held[0]), (b, held[1])):
            connection.execute("set local lock_timeout = '40s'")
            connection.execute("update two set v = v - 1 where id = %s", (key,))
        threads = [threading.Thread(target=second, args=args, daemon=True) for args in ((a, held[1]), (b, held[0]))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(states, key=str) == ["40P01", None]


def _keys(server) -> list[int]:
    with server.connect() as connection:
        return [row[0] for row in connection.execute("select id from two order by id").fetchall()]


def test_both_write_the_same_rows(pair, clean):
    """Transactions over both nodes through both routers at once are atomic; rows are locked in the same order everywhere."""
    pair.a.run("create table two (id int primary key, v int)", "select create_distributed_table('two', 'id')")
    pair.a.run("insert into two select g, 100 from generate_series(1, 10) g")
    # What `b` does before it knows of the table is another test's matter.
    with pair.b.connect() as connection:
        for _ in range(1200):
            if connection.execute("explain select * from two").fetchone()[0] == "Herd scatter":
                break
            time.sleep(0.05)
        else:
            pytest.fail("the other router does not hear of the table")
    done, errors = [], []

    def transfer(server, seed):
        with server.connect(autocommit=False) as connection:
            for n in range(60):
                one, other = sorted(((seed * 7 + n * 3) % 10 + 1, (seed * 5 + n) % 10 + 1))
                if one == other:
                    continue
                try:
                    connection.execute("set local lock_timeout = '90s'")
                    connection.execute("update two set v = v - 1 where id = %s", (one,))
                    connection.execute("update two set v = v + 1 where id = %s", (other,))
                    connection.commit()
                    done.append(1)
                except psycopg.Error as error:
                    errors.append((error.sqlstate, str(error)))
                    connection.rollback()

    servers = (pair.a, pair.b, pair.a, pair.b)
    threads = [threading.Thread(target=transfer, args=args, daemon=True) for args in zip(servers, range(4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert not any(thread.is_alive() for thread in threads)
    assert not errors, errors[:3]
    assert len(done) > 100
    with pair.b.connect() as connection:
        assert connection.execute("select sum(v), count(*) from two").fetchone() == (1000, 10)
    for node in pair.nodes:
        with node.server.connect() as connection:
            assert connection.execute("select count(*) from pg_prepared_xacts").fetchone() == (0,)


def test_sessions_of_the_other_router_are_terminated_and_cancelled(pair):
    with pair.a.connect() as victim, pair.b.connect() as killer:
        pid = victim.info.backend_pid
        assert killer.execute("select pg_cancel_backend(%s)", (pid,)).fetchone() == (True,)
        assert victim.execute("select 1").fetchone() == (1,)
        assert killer.execute("select pg_terminate_backend(%s)", (pid,)).fetchone() == (True,)
        with pytest.raises(psycopg.errors.AdminShutdown):
            victim.execute("select 1")


@pytest.mark.parametrize("sql", ["alter table two add column w int", "lock table two", "truncate two"])
def test_who_reads_through_one_is_waited_for_through_the_other(both, clean, sql):
    a, b = both
    a.execute("create table two (id int primary key, v int)")
    a.execute("select create_distributed_table('two', 'id')")
    a.execute("begin")
    a.execute("select v from two where id = 1")
    b.execute("begin")
    change = threading.Thread(target=b.execute, args=(sql,), daemon=True)
    change.start()
    change.join(0.7)
    assert change.is_alive(), "it did not wait"
    a.execute("commit")
    change.join(60)
    assert not change.is_alive()
    b.execute("rollback")
