"""Changes of the schema beside others: only what conflicts in PostgreSQL conflicts, and who waits can stop waiting."""

import threading
import time

import psycopg
import pytest

from .cluster import Cluster

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("promises"), pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def server():
    made = Cluster(nodes=2)
    try:
        one = made.router().start().server
        one.run(
            "create table a (k int primary key, n int)", "select create_distributed_table('a', 'k')",
            "create table b (k int primary key, n int)", "select create_distributed_table('b', 'k')",
            "create table c (k int primary key, n int)", "create table alone (k int primary key, n int)",
            "insert into a select g, 0 from generate_series(1, 50) g", "insert into b select g, 0 from generate_series(1, 50) g",
            "insert into alone values (1, 0)",
        )
        yield one
    finally:
        made.stop()


@pytest.fixture
def open_change(server):
    """A transaction that has changed table a and stays open."""
    with server.connect() as connection:
        connection.execute("begin")
        connection.execute("alter table a add column held int")
        yield connection
        connection.execute("rollback")


def _within(seconds: float, connection, sql: str):
    started = time.monotonic()
    done = connection.execute(sql)
    assert time.monotonic() - started < seconds, sql
    return done


def test_other_tables_change_meanwhile(server, open_change):
    with server.connect() as other:
        other.execute("set statement_timeout = '10s'")
        for sql in (
            "alter table b add column m int", "create index b_n on b (n)", "alter table b rename to bb", "alter table bb rename to b",
            "drop index b_n", "alter table b drop column m", "create table d (k int)", "drop table d", "truncate b",
            "insert into b select g, 0 from generate_series(1, 50) g", "update b set n = n + 1", "update alone set n = n + 1",
        ):
            _within(5, other, sql)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("set lock_timeout = '700ms'")
            other.execute("alter table a add column more int")


@pytest.mark.parametrize("limit, error", [
    ("statement_timeout", psycopg.errors.QueryCanceled), ("lock_timeout", psycopg.errors.LockNotAvailable),
])
@pytest.mark.parametrize("change", [
    "select create_distributed_table('c', 'k')", "alter table a add column more int", "alter table a rename to aa",
])
def test_limits_end_the_wait(server, open_change, limit, error, change):
    with server.connect() as waiting:
        waiting.execute(f"set {limit} = '1200ms'")
        started = time.monotonic()
        with pytest.raises(error):
            waiting.execute(change)
        assert 1 < time.monotonic() - started < 4


@pytest.mark.parametrize("change", ["select create_distributed_table('c', 'k')", "alter table a add column more int"])
def test_a_cancel_ends_the_wait(server, open_change, change):
    with server.connect() as waiting:
        timer = threading.Timer(1, waiting.cancel)
        timer.start()
        started = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            waiting.execute(change)
        assert time.monotonic() - started < 4
        timer.join()


def test_a_default_keeps_nobody_waiting(server):
    """The catalog is read while the table is locked."""
    with server.connect() as holder, server.connect() as other:
        holder.execute("alter table a alter column n set default 7")
        holder.execute("begin")
        holder.execute("alter table a rename to renamed")
        other.execute("set statement_timeout = '10s'")
        for sql in ("alter table b rename to bb", "alter table bb rename to b", "create table d (k int default 1)", "drop table d"):
            _within(5, other, sql)
        holder.execute("rollback")
        holder.execute("alter table a alter column n drop default")


def test_who_waits_goes_on_when_the_other_has_ended(server):
    with server.connect() as holder, server.connect() as waiting:
        holder.execute("begin")
        holder.execute("alter table a add column held int")
        timer = threading.Timer(1, lambda: holder.execute("commit"))
        timer.start()
        waiting.execute("alter table a drop column held")
        timer.join()
        assert waiting.execute("select * from a limit 1").description[-1].name == "n"
