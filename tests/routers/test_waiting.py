"""A pool of one connection: who waits for it can be cancelled, and gets an error in time."""

import threading
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]


@pytest.fixture(scope="module")
def narrow():
    node = router.node("narrow")
    made = None
    try:
        # The router's own user has a pool of its own: clients log in as another.
        node.server.run("create role visitor login", "grant all on schema public to visitor")
        made = router.Router(router.conninfo(node), [], more="[pool]\nsize = 1\nwait_timeout_ms = 8000\n")
        yield made
    finally:
        if made:
            made.stop()
        node.stop()


def visitor(made):
    return psycopg.connect(made.server.conninfo.replace("user=postgres", "user=visitor"), autocommit=True)


def test_who_waits_for_a_connection_can_be_cancelled(narrow):
    with visitor(narrow) as waiting, visitor(narrow) as holder:
        holder.execute("begin")
        holder.execute("select 1")
        timer = threading.Timer(0.5, waiting.cancel)
        timer.start()
        begun = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            waiting.execute("select 2")
        assert time.monotonic() - begun < 7
        timer.join()
        holder.execute("commit")
        assert waiting.execute("select 3").fetchone() == (3,)


def test_a_cancel_that_comes_too_late_is_forgotten(narrow):
    with visitor(narrow) as one:
        one.execute("select 1")
        one.cancel()
        time.sleep(0.2)
        assert one.execute("select 2").fetchone() == (2,)


def test_waiting_ends_with_an_error(narrow):
    with visitor(narrow) as waiting, visitor(narrow) as holder:
        holder.execute("begin")
        holder.execute("select 1")
        with pytest.raises(psycopg.errors.TooManyConnections, match="no free connection"):
            waiting.execute("select 2")
        holder.execute("commit")
        assert waiting.execute("select 3").fetchone() == (3,)


def test_rows_of_many_clients_need_no_more_than_there_is(narrow):
    """Batches into several tables, with keys from sequences, through one connection."""
    tables = [f"narrow{n}" for n in range(6)]
    for table in tables:
        narrow.server.run(
            f"create table {table} (id bigserial primary key, t text)",
            f"select create_distributed_table('{table}', 'id')",
            f"grant all on {table} to visitor",
            f"grant all on sequence {table}_id_seq to visitor",
        )

    def client(n):
        with visitor(narrow) as connection:
            for i in range(20):
                connection.execute(f"insert into {tables[n % 6]} (t) values ('{n}'), ('{i}')")

    clients = [threading.Thread(target=client, args=(n,), daemon=True) for n in range(24)]
    for one in clients:
        one.start()
    for one in clients:
        one.join(120)
        assert not one.is_alive()
    with narrow.server.connect() as connection:
        counts = [connection.execute(f"select count(*), count(distinct id) from {table}").fetchone() for table in tables]
    assert counts == [(160, 160)] * 6
