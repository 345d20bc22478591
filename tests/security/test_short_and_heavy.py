"""Short statements that would take gigabytes, or minutes of the thread that serves everybody: each ends soon, with rows or an error, and the router stays small."""

import threading
import time

import psycopg
import pytest

from harness import processes, router
from protocol.frames import describe, parse, sync
from protocol.raw import Raw

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("security-heavy"), pytest.mark.timeout(500)]

# Above what the router takes before, in MiB; without limits these took from 4 000 to more than the machine has.
_MORE = 1500


@pytest.fixture(scope="module")
def made():
    nodes = [router.node(f"heavy{n}") for n in (1, 2)]
    home, other = map(router.conninfo, nodes)
    one = router.Router(home, [other])
    try:
        with one.server.connect() as boss:
            boss.execute("create table heavy (id int primary key, v int)")
            boss.execute("select create_distributed_table('heavy', 'id')")
            boss.execute("insert into heavy select g, g from generate_series(1, 100) g")
            boss.execute("create table heavy_few (id int primary key, v int)")
            boss.execute("select create_reference_table('heavy_few')")
            boss.execute("create table heavy_json (id jsonb, v int)")
            boss.execute("select create_distributed_table('heavy_json', 'id')")
            boss.execute(f"create table heavy_wide ({', '.join(f'column_with_a_rather_long_name_so_that_it_takes_place_{n:04} int' for n in range(1600))})")
            boss.execute("select create_distributed_table('heavy_wide', 'column_with_a_rather_long_name_so_that_it_takes_place_0000')")
        yield one
    finally:
        for each in (one, *nodes):
            each.stop()


def _peak_mib(made) -> int:
    return processes.peak_kib(made.process.pid) >> 10


def _w(columns: str) -> str:
    return f"with w as (select 1 k, {columns}) "


_TEN = ", ".join(f"1 as c{n}" for n in range(9))
_HUNDRED = ", ".join(f"1 as c{n}" for n in range(99))
_STATEMENTS = {
    "lateral beside using": _w(_TEN) + "select 1 from w a0 " + " ".join(f"join w a{n} using (k)" for n in range(1, 60)) + ", " + ", ".join(f"lateral (select 1) b{n}" for n in range(130)),
    "more lateral beside using": _w(_TEN) + "select 1 from w a0 " + " ".join(f"join w a{n} using (k)" for n in range(1, 150)) + ", " + ", ".join(f"lateral (select 1) b{n}" for n in range(700)),
    "using": _w(_HUNDRED) + "select 1 from w a0 " + " ".join(f"join w a{n} using (k)" for n in range(1, 240)),
    "terms above groups": "select " + "+".join(["1"] * 2500) + " from heavy group by v",
    "order by many of many": "select " + ", ".join(["-v"] * 1600) + " from heavy order by " + ", ".join(["+v"] * 2500) + " limit 1 + 1",
    "updates of one table": "with " + ", ".join(f"a{n} as (update heavy set v = 1)" for n in range(500)) + " select 1",
    "deletes of nothing": "with " + ", ".join(f"c{n} as (delete from heavy_gone)" for n in range(8_000)) + " select 1",
    "text put together": "do $$declare n int; begin select count(*) into n from heavy; execute 'select ' || repeat('1,', 20000000) || '1'; end$$",
    "partners": "select 1 from heavy_few r, " + ", ".join(f"heavy a{n}" for n in range(400)) + " where " + " and ".join(f"a{n}.v = r.v" for n in range(400)) + f" and r.v in ({', '.join(['1'] * 4000)})",
    "stars": "select " + ", ".join(["*"] * 1800) + " from heavy_wide group by column_with_a_rather_long_name_so_that_it_takes_place_0001",
    "jsonb numbers": f"select v from heavy_json where id = '[{', '.join(['1e131071'] * 1600)}]'",
}


@pytest.mark.parametrize("name", _STATEMENTS)
def test_a_short_statement(made, name):
    before, waits, done, said = _peak_mib(made), [0.0], threading.Event(), []

    def run() -> None:
        try:
            with made.server.connect() as connection:
                connection.execute("set statement_timeout = '60s'")
                connection.execute(_STATEMENTS[name])
            said.append("00000")
        except psycopg.Error as error:
            said.append(error.sqlstate)
        finally:
            done.set()

    with made.server.connect() as other:
        other.execute("select v from heavy where id = 1")
        begun = time.monotonic()
        thread = threading.Thread(target=run)
        thread.start()
        while not done.wait(0.05):
            asked = time.monotonic()
            assert other.execute("select v from heavy where id = 1").fetchone() is not None
            waits.append(time.monotonic() - asked)
        thread.join()
    taken = time.monotonic() - begun
    # An error in the server's own words, not its end.
    assert said and said[0] and not said[0].startswith("08"), said
    assert _peak_mib(made) - before < _MORE, (name, _peak_mib(made), said)
    assert taken < 120 and max(waits) < 30, (taken, max(waits), said)


def test_a_view_that_is_read_often(made):
    before = _peak_mib(made)
    with made.server.connect() as connection:
        connection.execute(f"create temp view heavy_view as select id from heavy where id not in ({', '.join(['1'] * 200_000)})")
        with pytest.raises(psycopg.Error) as error:
            connection.execute("select 1 from " + ", ".join(f"heavy_view v{n}" for n in range(16)))
        assert error.value.sqlstate in ("54001", "54000"), error.value
    assert _peak_mib(made) - before < _MORE, _peak_mib(made)


@pytest.mark.parametrize("large", [False, True])
def test_answers_that_nobody_reads(made, large):
    """Eight bytes ask for some hundred thousand each. Whoever has sent a large statement is served elsewhere."""
    before = _peak_mib(made)
    clients = [Raw(made.server) for _ in range(10)]
    try:
        types = (20,) * 30_000
        for client in clients:
            client.send(parse("select * from heavy_wide where column_with_a_rather_long_name_so_that_it_takes_place_0000 = $1", "s", types) + sync())
            assert [kind for kind, _ in client.until_ready()] == ["1", "Z"]
            if large:
                client.send(parse(f"select {', '.join(['1'] * 9_000)}", "large") + sync())
                client.until_ready()
        for client in clients:
            client.socket.settimeout(2)
            try:
                client.send(describe("S", "s") * 5_000)
            except TimeoutError:
                pass
        time.sleep(3)
        assert _peak_mib(made) - before < 400, _peak_mib(made)
    finally:
        for client in clients:
            client.socket.close()


def test_statements_with_many_columns(made):
    """What is kept of them counts, not their texts alone."""
    with made.server.connect() as connection:
        kept = 0
        with pytest.raises(psycopg.Error) as error:
            for n in range(3_000):
                connection.pgconn.prepare(f"s{n}".encode(), b"select * from heavy_wide")
                result = connection.pgconn.prepare(f"t{n}".encode(), b"select * from heavy_wide")
                if result.error_message:
                    raise psycopg.errors.lookup(result.error_field(67).decode())(result.error_message.decode())
                kept += 2
        assert error.value.sqlstate in ("53200", "54000"), error.value
        assert kept < 2_500, kept
