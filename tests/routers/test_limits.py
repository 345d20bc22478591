"""What a router takes on at most, and what it does with the smallest pool."""

import socket
import struct
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-limits")]


@pytest.fixture(scope="module")
def nodes():
    made = [router.node(f"limits{i}") for i in (1, 2)]
    for node in made:
        node.server.run("create role crowd login")
    yield made
    for node in made:
        node.stop()


def _router(nodes, more: str) -> router.Router:
    home, other = map(router.conninfo, nodes)
    return router.Router(home, [other], more=more)


def _connect(made: router.Router, user: str) -> psycopg.Connection:
    return psycopg.connect(f"host=127.0.0.1 port={made.port} user={user} dbname=postgres sslmode=disable connect_timeout=10", autocommit=True)


def test_connections_per_user(nodes):
    made = _router(nodes, "[limits]\nconnections_per_user = 2\n")
    try:
        first, second = _connect(made, "crowd"), _connect(made, "crowd")
        with pytest.raises(psycopg.OperationalError, match='too many connections for role "crowd"'):
            _connect(made, "crowd")
        # Others have places of their own.
        with _connect(made, "postgres") as other:
            assert other.execute("select 1").fetchone() == (1,)
        first.close()
        deadline = time.monotonic() + 60
        while True:
            try:
                _connect(made, "crowd").close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
        assert second.execute("select 1").fetchone() == (1,)
        second.close()
    finally:
        made.stop()


def test_logins_and_messages(nodes):
    made = _router(nodes, "[limits]\nlogins = 3\nlogin_timeout_s = 2\nmessage_bytes_max = 100000\n")
    try:
        with _connect(made, "postgres") as known:
            half_open = [socket.create_connection(("127.0.0.1", made.port), 10) for _ in range(3)]
            time.sleep(0.3)
            with pytest.raises(psycopg.OperationalError, match="too many logins"):
                _connect(made, "postgres")
            # Whoever is in is not concerned; and the half-open ones do not stay.
            assert known.execute("select 1").fetchone() == (1,)
            time.sleep(2)
            deadline = time.monotonic() + 30
            while True:
                try:
                    late = _connect(made, "postgres")
                    break
                except psycopg.OperationalError:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            with late:
                assert late.execute("select length(%s)", ("x" * 90_000,)).fetchone() == (90_000,)
                with pytest.raises(psycopg.OperationalError):
                    late.execute("select length(%s)", ("x" * 110_000,))
            for each in half_open:
                each.close()
        # A startup packet has a limit of its own, whatever it says of its length.
        for length in (10_001, 0x7FFFFFFF, 0xFFFFFFFF, 3):
            with socket.create_connection(("127.0.0.1", made.port), 10) as each:
                each.sendall(struct.pack("!I", length) + b"\0\3\0\0")
                answer = each.recv(1000)
                assert answer == b"" or answer[:1] == b"E", answer
    finally:
        made.stop()


def test_a_pool_of_one(nodes):
    """Every kind of statement gets by with one connection to a node, or says at once that it can't."""
    made = _router(nodes, "[pool]\nsize = 1\nwait_timeout_ms = 20000\n")
    statements = [
        "create table one (id int primary key, v int)", "insert into one select g, g from generate_series(1, 50) g",
        "select create_distributed_table('one', 'id')", "create index on one (v)", "alter table one add column w int default 1",
        "create table two (id int primary key)", "select create_reference_table('two')", "insert into two values (1), (2)",
        "begin", "create table three (id int)", "alter table three add column x int", "select create_distributed_table('three', 'id')",
        "insert into three values (1, 2), (2, 3)", "commit", "create index concurrently on one (w)", "create view four as select * from one",
        "create function five() returns int language sql as 'select 1'", "create type six as enum ('a')", "alter type six add value 'b'",
        "grant select on one to crowd", "alter table one rename to uno", "vacuum uno", "analyze uno", "update uno set v = v + 1",
        "select count(*), max(v) from uno", "update uno set id = id + 1000 where id = 1", "select v, count(*) from uno group by 1 having count(*) > 1 order by 1",
        "explain select * from uno", "select * from herd.locks", "truncate uno", "insert into uno values (1, 1), (2, 2), (3, 3)",
        "drop view four", "select undistribute_table('uno')", "drop function five()", "drop type six",
    ]
    try:
        with made.server.connect() as connection:
            for sql in statements:
                started = time.monotonic()
                connection.execute(sql)
                assert time.monotonic() - started < 15, sql
            for sql in ("insert into three select id + 10, v from uno", "create table seven as select * from three"):
                started = time.monotonic()
                connection.execute(sql)
                assert time.monotonic() - started < 15, sql
            assert connection.execute("select count(*) from three").fetchone() == connection.execute("select count(*) from seven").fetchone() == (5,)
            connection.execute("drop table uno, two, three, seven")
    finally:
        made.stop()
