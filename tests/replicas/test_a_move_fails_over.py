"""The node that a shard leaves dies for good while a job copies from it, or catches up, and its standby takes its place: the job begins that shard again, and no row is lost
or there twice. Standbys are synchronous here, as they must be for that."""

import os
import threading
import time

import psycopg
import pytest

from elastic.places import reached
from harness import processes, router
from harness.moves import wait_until_tidy

from .conftest import Replicas

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("replicas_move"), pytest.mark.timeout(500)]

ROWS = 600


class Synchronous(Replicas):
    """Whose standbys have what was acknowledged; `servers` are those that are primaries now."""

    def start(self):
        super().start()
        self.servers = list(self.nodes)
        for node in self.nodes:
            node.server.run("alter system set synchronous_standby_names = '*'", "select pg_reload_conf()")

    def router(self, failpoint: str) -> router.Router:
        os.environ["HERD_FAILPOINT"] = failpoint
        try:
            home, other = map(self.conninfo, self.nodes, self.standbys)
            return self.kept(router.Router(home, [other], more='auth = "trust"\n'))
        finally:
            os.environ.pop("HERD_FAILPOINT", None)

    def fails_over(self, at: int) -> None:
        process = self.nodes[at].process
        processes.kill_family(process.pid)
        process.wait()
        self.standbys[at].server.run("select pg_promote()")
        self.servers[at] = self.standbys[at]


@pytest.fixture(scope="module")
def synchronous():
    made = Synchronous()
    yield made
    made.stop()


class Writer(threading.Thread):
    """Adds rows and changes them, and knows what was acknowledged, and of what nobody knows."""

    def __init__(self, server, stop: threading.Event):
        super().__init__()
        self.server, self.over, self.there, self.doubtful, self.lost, self.error = server, stop, set(), set(), 0, None

    def run(self):
        connection, id = None, ROWS
        while not self.over.is_set():
            id += 1
            try:
                connection = connection or self.server.connect()
                connection.execute("insert into f_rows values (%s, %s)", (id, id))
                self.there.add(id)
            except psycopg.Error as error:
                if (error.sqlstate or "08006")[:2] not in ("08", "57", "40"):
                    self.error = error
                    return
                self.doubtful.add(id)
                self.lost += 1
                if connection is None or connection.closed:
                    connection = None
                time.sleep(0.05)
        if connection is not None:
            connection.close()


@pytest.mark.parametrize("place, at", [("move.rows", 1), ("move.followed", 0)])
def test_the_source_fails_over(synchronous, tmp_path, place, at):
    a, b = synchronous.a, synchronous.b
    a.run(
        "drop table if exists f_rows", "create table f_rows (id int primary key, v int not null)", "select create_distributed_table('f_rows', 'id', colocate_with => 'none')",
        f"insert into f_rows select g, g from generate_series(1, {ROWS}) g",
    )
    with b.connect() as connection:
        nodes = [name for name, in connection.execute("select name from herd.nodes order by id")]
        of = "select shard, node from herd.shards where name = 'f_rows'"
        before = dict(connection.execute(of).fetchall())
    shard = next(shard for shard, node in sorted(before.items()) if node == nodes[at])
    tmp_path.chmod(0o777)
    flag = tmp_path / "flag"
    slow = synchronous.router(f"{place}:wait:{flag}")
    stop = threading.Event()
    writer = Writer(b, stop)
    writer.start()
    try:
        with slow.server.connect() as connection:
            (job,) = connection.execute(f"select herd.move_shard('f_rows', {shard}, '{nodes[1 - at]}', background => true)").fetchone()
        reached(flag)
        synchronous.fails_over(at)
        flag.unlink()
        deadline = time.monotonic() + 150
        while True:
            try:
                with b.connect() as connection:
                    connection.execute("set statement_timeout = '60s'")
                    connection.execute("select herd.wait_job(%s)", (job,))
                    break
            except psycopg.Error as error:
                # Home may be away.
                assert (error.sqlstate or "08006")[:2] in ("08", "57") and time.monotonic() < deadline, error
                time.sleep(0.2)
        time.sleep(0.5)
        deadline = time.monotonic() + 60
        while len(writer.there) <= 20 and writer.is_alive() and time.monotonic() < deadline:
            time.sleep(0.1)
        stop.set()
        writer.join(60)
        assert writer.error is None and not writer.is_alive(), writer.error
        with b.connect() as connection:
            assert dict(connection.execute(of).fetchall()) == before | {shard: nodes[1 - at]}
            assert connection.execute("select tries > 1 from herd.jobs where id = %s", (job,)).fetchone() == (True,)
            found = [id for id, in connection.execute("select id from f_rows where id > %s and v = id", (ROWS,))]
            assert len(found) == len(set(found)) and writer.there <= set(found) <= writer.there | writer.doubtful, (len(found), len(writer.there), len(writer.doubtful))
            assert connection.execute("select count(*), count(distinct id), sum(v) from f_rows where id <= %s", (ROWS,)).fetchone() == (ROWS, ROWS, ROWS * (ROWS + 1) // 2)
            assert len(writer.there) > 20, len(writer.there)
        wait_until_tidy(synchronous.servers, 120)
        with b.connect() as connection:
            assert connection.execute("select object, problem from herd.verify").fetchall() == []
    finally:
        stop.set()
        writer.join(60)
        flag.unlink(missing_ok=True)
        slow.stop()
