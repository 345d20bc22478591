"""Nodes notice that a router has died: what it had asked for ends, and gives its locks back."""

import signal
import threading
import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers")]

_RUNNING = "select count(*) from pg_stat_activity where state = 'active' and query like '%%pg_sleep(%s)%%' and pid <> pg_backend_pid()"


def _running(node, seconds: int) -> int:
    with node.server.connect() as direct:
        return direct.execute(_RUNNING % seconds).fetchone()[0]


def _reaches(ask, wanted, seconds_max: float) -> bool:
    deadline = time.monotonic() + seconds_max
    while (got := ask()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return got == wanted


def test_statements_of_a_dead_router_end(pair):
    pair.a.run("create table if not exists dying (id int primary key, v int)", "select create_distributed_table('dying', 'id')",
               "insert into dying select g, g from generate_series(1, 40) g")
    router = pair.routers[1]
    clients = []

    def ask(sql: str) -> None:
        try:
            with psycopg.connect(router.server.conninfo, autocommit=True) as client:
                client.execute(sql)
        except psycopg.Error:
            pass

    try:
        for sql in ("update dying set v = v + 1 where pg_sleep(91) is null", "select pg_sleep(91)"):
            clients.append(threading.Thread(target=ask, args=(sql,)))
            clients[-1].start()
        assert _reaches(lambda: _running(pair.nodes[0], 91) >= 2 and _running(pair.nodes[1], 91) >= 1, True, 40)
        router.process.send_signal(signal.SIGKILL)
        router.process.wait()
        assert _reaches(lambda: sum(_running(node, 91) for node in pair.nodes), 0, 40)
    finally:
        for client in clients:
            client.join()
        router.start()
    with pair.a.connect() as a:
        a.execute("set lock_timeout = '30s'")
        assert a.execute("update dying set v = v + 1").rowcount == 40
        a.execute("drop table dying")


def test_a_setting_of_ones_own_counts(pair):
    with pair.a.connect() as a:
        a.execute("create role looked_after login")
        a.execute("alter role looked_after set client_connection_check_interval = '7s'")
        with psycopg.connect(f"{pair.a.conninfo.replace('user=postgres', '')} user=looked_after", autocommit=True) as own:
            assert own.execute("show client_connection_check_interval").fetchone() == ("7s",)
            own.execute("set client_connection_check_interval = 0")
            assert own.execute("show client_connection_check_interval").fetchone() == ("0",)
        a.execute("drop role looked_after")
