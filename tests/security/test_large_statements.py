"""Large statements: what reading them takes is counted before, and who waits for nodes keeps nobody from being served."""

import threading
import time

import psycopg
import pytest

from harness import processes, router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-costs"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def one():
    nodes = [router.node(f"large{n}") for n in (1, 2)]
    home, other = map(router.conninfo, nodes)
    made = router.Router(home, [other], more="threads = 1\n[limits]\nconnections = 1000\nlogins = 500\n")
    try:
        with made.server.connect() as boss:
            boss.execute("create role mallory login")
            boss.execute("create table large (id int primary key, v int)")
            boss.execute("select create_distributed_table('large', 'id')")
            boss.execute("grant select on large to mallory")
        yield made
    finally:
        for each in (made, *nodes):
            each.stop()


def _peak_mb(made) -> int:
    return processes.peak_kib(made.process.pid) // 1024


@pytest.mark.parametrize("sql", [
    "select 1 from large where id in (%s)", "select array[%s]", "select 1 from large where id = 1; select array[%s]", "set search_path = %s",
], ids=["keys", "array", "several", "path"])
@pytest.mark.parametrize("extended", [False, True])
def test_more_than_any_may_take(one, sql, extended):
    """Two bytes of text can be some kilobytes of a tree and a plan."""
    text = sql % ",".join(["a" if "path" in sql else "1"] * 1_000_000)
    with one.server.connect(user="mallory", autocommit=True) as mallory:
        began = time.monotonic()
        with pytest.raises(psycopg.errors.StatementTooComplex, match="too complex to be read") as error:
            mallory.execute(text, prepare=extended and ";" not in text)
        assert "statement_bytes" in error.value.diag.message_hint
        assert time.monotonic() - began < 60
        assert mallory.execute("select 1").fetchone() == (1,)
    assert _peak_mb(one) < 1000


def test_a_long_value_is_none(one):
    with one.server.connect(user="mallory") as mallory:
        assert mallory.execute(f"select length('{'x' * 20_000_000}')").fetchone() == (20_000_000,)
        assert mallory.execute(f"select 1 from large where id = any ('{{{','.join(['1'] * 500_000)}}}')").fetchall() == []


def test_who_waits_for_nodes_keeps_no_place(one):
    text = f"select pg_sleep(60) /* {'x' * 17_000} */"
    sleepers = [one.server.connect(user="mallory", autocommit=True) for _ in range(70)]

    def sleep(connection) -> None:
        try:
            connection.execute(text)
        except psycopg.Error:
            pass

    threads = [threading.Thread(target=sleep, args=(c,), daemon=True) for c in sleepers]
    try:
        for thread in threads:
            thread.start()
        time.sleep(2)
        waits, done = [], []

        def large() -> None:
            with one.server.connect(user="mallory") as mallory:
                done.append(len(mallory.execute(f"select array[{','.join(['1'] * 200_000)}]").fetchone()[0]))

        with one.server.connect() as other:
            other.execute("select 1")
            work = threading.Thread(target=large)
            work.start()
            while work.is_alive():
                before = time.monotonic()
                other.execute("select 1")
                waits.append(time.monotonic() - before)
                time.sleep(0.01)
        assert done == [200_000]
        # Sleepers that kept a place would have it for a minute.
        assert max(waits) < 4, max(waits)
    finally:
        for connection in sleepers:
            connection.cancel_safe()
        for thread in threads:
            thread.join(60)
        for connection in sleepers:
            connection.close()


def test_who_waits_to_be_read_is_cancelled(one):
    """One role's statements are some at a time; those that wait for their turn end at once."""
    text = f"select array[{','.join(['1'] * 150_000)}]"
    connections = [one.server.connect(user="mallory", autocommit=True) for _ in range(12)]
    codes = []

    def ask(connection) -> None:
        try:
            connection.execute(text)
            codes.append(None)
        except psycopg.Error as error:
            codes.append(error.sqlstate)

    threads = [threading.Thread(target=ask, args=(c,)) for c in connections]
    try:
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        for connection in connections:
            connection.cancel_safe()
        began = time.monotonic()
        for thread in threads:
            thread.join(120)
        assert time.monotonic() - began < 90
        assert len(codes) == 12 and "57014" in codes, codes
        assert all(c.execute("select 1").fetchone() == (1,) for c in connections)
    finally:
        for connection in connections:
            connection.close()
