"""Statements and tables a herd has to refuse, errors that come from a node, limits: a clear error, and the session goes on."""

import socket
import threading
import time

import psycopg
import pytest

from protocol.frames import query
from protocol.raw import Raw


@pytest.fixture
def connection(herd):
    with herd.connect() as made:
        yield made


@pytest.fixture
def table(herd):
    herd.run(
        "drop table if exists bad cascade", "create table bad (id int primary key, v int)", "select create_distributed_table('bad', 'id')",
        "insert into bad values " + ", ".join(f"({i}, {i})" for i in range(1, 41)),
    )
    yield "bad"
    herd.run("drop table bad cascade")


@pytest.mark.real_herd
@pytest.mark.parametrize(
    "definition, column, codes",
    [
        ("id int primary key", "nosuch", ["42703"]),
        ("id int primary key, p point", "p", ["0A000", "42883", "42704", "42P16", "42P17"]),
        ("id int, j json", "j", ["0A000", "42883", "42704", "42P16", "42P17"]),
        ("id int primary key, v int", "v", ["0A000", "42P16", "42830"]),
    ],
    ids=["no such column", "point", "json", "primary key without the key"],
)
def test_keys_that_cannot_be(connection, definition, column, codes):
    connection.execute("drop table if exists bad_key")
    connection.execute(f"create table bad_key ({definition})")
    connection.execute("insert into bad_key (id) values (1)")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select create_distributed_table('bad_key', %s)", (column,))
    assert caught.value.sqlstate in codes, caught.value
    # Nothing half made: still the local table it was.
    assert connection.execute("select count(*) from bad_key").fetchone() == (1,)
    connection.execute("drop table bad_key")


@pytest.mark.real_herd
def test_tables_that_cannot_be(connection, table):
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("select create_distributed_table('nosuch', 'id')")
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("select create_distributed_table('bad', 'id')")
    assert caught.value.sqlstate and "already distributed" in str(caught.value)
    assert connection.execute("select count(*) from bad").fetchone() == (40,)


@pytest.mark.real_herd
def test_what_is_not_supported_says_so_with_a_hint(connection, table):
    """Never silently wrong: what can't be right is an error that says what to do."""
    with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
        connection.execute("select * from bad a join bad b on a.v = b.v + 1 for update")
    assert caught.value.diag.message_hint
    assert connection.execute("select count(*) from bad").fetchone() == (40,)


def test_a_full_disk_on_one_node(connection, table):
    """As a node reports it (53100), for some rows of a statement over many shards: nothing of it is kept."""
    connection.execute("drop function if exists bad_disk cascade")
    connection.execute(
        "create function bad_disk() returns trigger language plpgsql as $$ begin "
        "if new.id = 107 then raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end if; "
        "return new; end $$"
    )
    connection.execute("create trigger bad_disk before insert on bad for each row execute function bad_disk()")
    with pytest.raises(psycopg.errors.DiskFull):
        connection.execute("insert into bad values " + ", ".join(f"({i}, 1)" for i in range(100, 116)))
    with pytest.raises(psycopg.errors.DiskFull), connection.cursor().copy("copy bad from stdin") as copy:
        for i in range(100, 116):
            copy.write_row((i, 1))
    assert connection.execute("select count(*) from bad").fetchone() == (40,)
    connection.execute("insert into bad values (106, 1), (108, 1), (109, 1)")
    assert connection.execute("select count(*) from bad").fetchone() == (43,)
    connection.execute("drop function bad_disk cascade")


def test_statement_timeout(connection, table):
    connection.execute("set statement_timeout = '300ms'")
    started = time.monotonic()
    for sql in ("select pg_sleep(20) from bad where id = 1", "select count(pg_sleep(20)) from bad", "select pg_sleep(20)"):
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(sql)
    assert time.monotonic() - started < 18
    assert connection.execute("select count(*) from bad").fetchone() == (40,)


def test_lock_timeout(herd, table):
    with herd.connect(autocommit=False) as holder, herd.connect() as waiter:
        holder.execute("update bad set v = 0 where id = 7")
        waiter.execute("set lock_timeout = '300ms'")
        for sql in ("update bad set v = 1 where id = 7", "update bad set v = 1", "select v from bad where id = 7 for update"):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                waiter.execute(sql)
        assert waiter.execute("update bad set v = 1 where id = 8 returning v").fetchone() == (1,)
        holder.rollback()
        assert waiter.execute("update bad set v = 1 where id = 7 returning v").fetchone() == (1,)


def test_a_waiting_update_goes_on_after_the_commit(herd, table):
    """Read committed: the second update sees the first one's row."""
    with herd.connect(autocommit=False) as holder, herd.connect() as waiter:
        holder.execute("update bad set v = v + 100 where id = 7")
        done = threading.Thread(target=lambda: waiter.execute("update bad set v = v + 1 where id = 7"))
        done.start()
        time.sleep(0.3)
        holder.commit()
        done.join(60)
        assert not done.is_alive()
        assert waiter.execute("select v from bad where id = 7").fetchone() == (108,)


def test_a_client_that_leaves_in_the_middle(herd, table):
    """Of a transaction, of a COPY: nothing stays, no lock stays."""
    for _ in range(3):
        connection = herd.connect(autocommit=False)
        connection.execute("update bad set v = -1")
        connection.pgconn.finish()
        connection = herd.connect()
        copying = connection.cursor().copy("copy bad from stdin")
        copy = copying.__enter__()
        copy.write("".join(f"{i}\t1\n" for i in range(1000, 9000)))
        connection.pgconn.finish()
    with herd.connect() as other:
        other.execute("set lock_timeout = '30s'")
        other.execute("update bad set v = v")
        assert other.execute("select count(*), min(v) from bad").fetchone() == (40, 1)


def test_more_clients_than_a_node_has_connections_for(herd, table):
    """120 idle sessions, each with state of its own, and all of them answered."""
    connections = [herd.connect(prepare_threshold=None) for _ in range(120)]
    try:
        for i, connection in enumerate(connections):
            assert connection.execute("select v from bad where id = %s", (i % 40 + 1,)).fetchone() == (i % 40 + 1,)
        for connection in connections:
            assert connection.execute("select count(*) from bad").fetchone() == (40,)
    finally:
        for connection in connections:
            connection.close()


def test_half_open_logins_do_not_stop_others(herd):
    opened = [socket.create_connection((herd.host, herd.port)) for _ in range(50)]
    for each in opened[::2]:
        each.send(b"\0\0\0")
    try:
        with herd.connect() as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    finally:
        for each in opened:
            each.close()


@pytest.mark.real_herd
@pytest.mark.parametrize(
    "sql",
    ["select repeat('x', 10000) from bad, generate_series(1, 4000) where id = 7", "select repeat('x', 10000) from bad, generate_series(1, 100)"],
    ids=["one shard", "all shards"],
)
def test_a_client_that_does_not_read_fills_no_memory(herd_many, table, sql):
    process_id = herd_many.process_id(herd_many.port)
    with Raw(herd_many.server) as warm:
        warm.transcript(query("select count(*) from bad"))
    before = _resident_kib(process_id)
    readers = [Raw(herd_many.server) for _ in range(8)]
    for raw in readers:
        raw.send(query(sql))
    time.sleep(3)
    grown = _resident_kib(process_id) - before
    for raw in readers:
        raw.socket.close()
    # Eight results of 40 MB each would be 320 MB.
    assert grown < 60_000, f"the router grew by {grown} KiB"


def _resident_kib(process_id: int) -> int:
    with open(f"/proc/{process_id}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
