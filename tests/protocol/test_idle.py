"""A session that waits for its client ends when PostgreSQL's would, and no other: while it works on one node it waits on none."""

import select
import time

import psycopg
import pytest

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def filled(herd, oracle):
    for server in (herd, oracle):
        server.run("drop table if exists idle", "create table idle (k int primary key, v int)")
        if server is herd:
            server.run("select create_distributed_table('idle', 'k')")
        server.run("insert into idle select g, 0 from generate_series(1, 40) g", "drop role if exists idler", "create role idler login", "grant all on idle to idler")
    yield
    for server in (herd, oracle):
        server.run("drop table idle", "drop role idler")


def test_a_long_statement_on_one_node_ends_nothing_on_others(filled, herd, oracle):
    for server in (herd, oracle):
        with server.connect() as connection:
            connection.execute("set idle_in_transaction_session_timeout = '1s'")
            connection.execute("set idle_session_timeout = '1s'")
            connection.execute("begin")
            connection.execute("update idle set v = 1")
            connection.execute("select pg_sleep(1.8)")
            connection.execute("update idle set v = v + 1")
            connection.execute("select pg_sleep(1.8) from idle where k = 3")
            connection.execute("update idle set v = v + 1")
            connection.execute("commit")
            assert connection.execute("select sum(v) from idle").fetchone() == (120,)


ENDS = {
    "idle in transaction": (["set idle_in_transaction_session_timeout = '700ms'", "begin", "update idle set v = 1"], "25P03"),
    "SET LOCAL": (["begin", "set local idle_in_transaction_session_timeout = 700", "update idle set v = 1"], "25P03"),
    "failed": (["set idle_in_transaction_session_timeout = '0.7s'", "begin", "select 1/0"], "25P03"),
    "idle": (["set idle_session_timeout = '700ms'", "select count(*) from idle"], "57P05"),
    "a session is not in a transaction": (["set idle_in_transaction_session_timeout = '700ms'", "select count(*) from idle"], None),
    "nor a transaction a session": (["set idle_session_timeout = '700ms'", "begin", "select count(*) from idle"], None),
    "SET LOCAL is over": (["begin", "set local idle_session_timeout = '700ms'", "commit"], None),
    "undone": (["begin", "set idle_session_timeout = '700ms'", "rollback"], None),
    "RESET": (["set idle_session_timeout = '700ms'; reset idle_session_timeout"], None),
    "DISCARD": (["set idle_session_timeout = '700ms'; set idle_in_transaction_session_timeout = '700ms'", "discard all", "begin"], None),
}


def _ended(connection) -> None:
    """Until the server has said something that it was not asked for: why it ends the connection."""
    assert select.select([connection.fileno()], [], [], 30)[0], "it does not end"


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_a_wait_ends_as_in_postgresql(filled, herd, oracle, ends):
    statements, code = ends
    told = []
    for server in (herd, oracle):
        with server.connect() as connection:
            for sql in statements:
                try:
                    connection.execute(sql)
                except psycopg.errors.DivisionByZero:
                    pass
            _ended(connection) if code else time.sleep(1.2)
            try:
                connection.execute("rollback" if "select 1/0" in statements else "select 1")
                told.append(None)
            except psycopg.Error as e:
                told.append((e.sqlstate, str(e).splitlines()[0]))
            if code is not None:
                assert connection.closed
    assert told[0] == told[1]
    assert (told[0] and told[0][0]) == code
    # What it had changed is undone, and its locks are gone.
    with herd.connect() as other:
        other.execute("set lock_timeout = '20s'")
        other.execute("update idle set v = v")
        assert other.execute("select sum(v) from idle").fetchone() == (0,)


def test_values_are_postgresqls(filled, herd, oracle):
    told = []
    for server in (herd, oracle):
        with server.connect() as connection:
            said = []
            for name in ("idle_session_timeout", "idle_in_transaction_session_timeout"):
                for value in ("300", "'300'", "'90s'", "'60000'", "'1.5s'", "' 2 h '", "-1", "'x'", "'5 minutes'", "default", "1e3", "3000000000"):
                    try:
                        connection.execute(f"set {name} = {value}")
                        said.append(None)
                    except psycopg.Error as e:
                        said.append((e.sqlstate, str(e)))
                    said.append(connection.execute(f"show {name}").fetchall())
            told.append(said)
    assert told[0] == told[1]


def test_of_roles_and_clients(filled, herd, oracle):
    told = []
    for server in (herd, oracle):
        said = []
        server.run("alter role idler set idle_session_timeout = '90s'", "alter role idler set idle_in_transaction_session_timeout = '700ms'")
        base = server.conninfo.replace("user=postgres", "user=idler")
        for options in ("", " options='-c idle_session_timeout=5min'"):
            with psycopg.connect(base + options, autocommit=True) as connection:
                said.append(connection.execute("show idle_session_timeout").fetchall())
                connection.execute("set idle_session_timeout = '7s'")
                connection.execute("reset idle_session_timeout")
                said.append(connection.execute("show idle_session_timeout").fetchall())
                connection.execute("begin")
                connection.execute("update idle set v = v")
                connection.execute("select pg_sleep(1.2)")
                connection.execute("update idle set v = v")
                _ended(connection)
                with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
                    connection.execute("select 1")
        told.append(said)
    assert told[0] == told[1]
