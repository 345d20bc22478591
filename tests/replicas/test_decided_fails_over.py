"""A transaction over two nodes whose node fails over to its synchronous standby is there on both or on none, whatever the client has said of waiting."""

import time

import psycopg
import pytest

from elastic.places import Asked, reached
from harness import processes
from harness.until import until

from .test_a_move_fails_over import Synchronous

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("replicas_decided"), pytest.mark.timeout(500)]


@pytest.fixture
def herd():
    made = Synchronous()
    made.a.run(
        "create table d_rows (id int primary key, v int)", "select create_distributed_table('d_rows', 'id')",
        "insert into d_rows select g, 0 from generate_series(1, 40) g",
    )
    yield made
    made.stop()


def _cuts_off(herd) -> None:
    """The second node's standby hears nothing more: not even what is on its way to it already."""
    standby = herd.standbys[1].server
    standby.run("alter system set primary_conninfo = ''", "select pg_reload_conf()")
    with standby.connect() as connection:
        until(lambda: not connection.execute("select 1 from pg_stat_wal_receiver").fetchall())


def _update(server, *settings):
    def runs():
        with server.connect() as connection:
            for sql in (*settings, "update d_rows set v = 1"):
                connection.execute(sql)

    return Asked(runs)


def _fails_over(herd) -> list:
    """What all rows say then, once nothing is in doubt."""
    process = herd.nodes[1].process
    processes.kill_family(process.pid)
    process.wait()
    herd.standbys[1].server.run("select pg_promote()")
    deadline = time.monotonic() + 120
    while True:
        try:
            with herd.b.connect() as connection:
                connection.execute("set statement_timeout = '20s'")
                # Waits for what stands prepared.
                connection.execute("update d_rows set id = id")
                return [v for v, in connection.execute("select distinct v from d_rows")]
        except psycopg.Error as error:
            assert time.monotonic() < deadline, error
            time.sleep(0.5)


@pytest.mark.parametrize("waits", ["local", "off"])
def test_who_does_not_wait_for_the_standby(herd, waits):
    _cuts_off(herd)
    asked = _update(herd.a, f"set synchronous_commit = {waits}")
    asked.join(3)
    assert len(_fails_over(herd)) == 1
    asked.join(60)


def test_who_gives_up_waiting_when_all_is_decided(herd, tmp_path):
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    slow = herd.router(f"two_phase.decided:wait:{flag}")
    asked = _update(slow.server, "set statement_timeout = '500ms'")
    reached(flag, asked)
    _cuts_off(herd)
    flag.unlink()
    asked.join(60)
    # Time for what has been decided to be forgotten.
    time.sleep(8)
    assert _fails_over(herd) == [1]
    slow.stop()
