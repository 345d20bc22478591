"""A node whose processes stand still keeps only those waiting who want something of it; and a commit over nodes heeds no limits of its client's, as PostgreSQL's."""

import signal
import threading

import psycopg
import pytest

from harness import processes, router
from harness.server import cut
from harness.started import Routers
from harness.until import until, until_somebody_waits_for_a_lock

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers-hangs"), pytest.mark.timeout(300)]


class Three(Routers):
    """Home and two more nodes."""

    def start(self):
        self.nodes = [self.kept(router.node(f"hangs{i}")) for i in range(3)]
        home, *others = map(router.conninfo, self.nodes)
        self.routers = [self.kept(router.Router(home, others, shards=6))]

    def keys(self) -> dict[int, int]:
        """A key on each node."""
        keys = {}
        for number, node in enumerate(self.nodes):
            with node.server.connect() as connection:
                shards = [n for n, in connection.execute("select oid::regclass::text from pg_class where relname like 'hangs%' and relnamespace = 'herd_shards'::regnamespace and relkind = 'r'")]
                keys[number] = min(id for shard in shards for id, in connection.execute(f"select id from {shard}"))
        return keys


@pytest.fixture(scope="module")
def three():
    made = Three()
    made.a.run(
        "create table hangs (id int primary key, v int)", "select create_distributed_table('hangs', 'id')",
        "insert into hangs select g, 0 from generate_series(1, 60) g",
    )
    yield made
    made.stop()


@pytest.fixture
def hung(three):
    process = three.nodes[2].process.pid
    processes.freeze_family(process)
    yield three
    for process_id in [process, *processes.children(process)]:
        processes.signal(process_id, signal.SIGCONT)


def _says(connection, sql, *values):
    try:
        connection.execute(sql, *values)
    except psycopg.Error as error:
        return error.sqlstate
    return "done"


def test_deadlocks_of_the_others_are_broken(three, request):
    keys = three.keys()
    update = "update hangs set v = v + 1 where id = %s"
    with three.a.connect() as one, three.a.connect() as other:
        request.getfixturevalue("hung")
        for connection, node in ((one, 0), (other, 1)):
            connection.execute("begin")
            connection.execute(update, (keys[node],))
        said = []
        threads = [threading.Thread(target=lambda c=c, n=n: said.append(_says(c, update, (keys[n],)))) for c, n in ((one, 1), (other, 0))]
        threads[0].start()
        until_somebody_waits_for_a_lock(node.server for node in three.nodes[:2])
        threads[1].start()
        [thread.join(60) for thread in threads]
        assert sorted(said) == ["40P01", "done"]
        for connection in (one, other):
            connection.execute("rollback")


def test_who_left_is_noticed_beside(three, request):
    """Several have left whose statements the node that hangs had: those on others are cancelled nevertheless."""
    keys = three.keys()
    gone = [three.a.connect() for _ in range(4)]
    busy = three.a.connect()
    asleep = "select pg_sleep(120) from hangs where id = %s"
    threads = [threading.Thread(target=_says, args=(c, asleep, (keys[2],))) for c in gone] + [threading.Thread(target=_says, args=(busy, asleep, (keys[1],)))]
    sleeping = "select count(*) from pg_stat_activity where query like '%pg_sleep(120)%' and state = 'active' and pid <> pg_backend_pid()"
    [thread.start() for thread in threads]
    with three.nodes[1].server.connect() as second, three.nodes[2].server.connect() as third:
        until(lambda: (second.execute(sleeping).fetchone()[0], third.execute(sleeping).fetchone()[0]) == (1, 4))
        request.getfixturevalue("hung")
        for connection in (*gone, busy):
            cut(connection)
        until(lambda: second.execute(sleeping).fetchone()[0] == 0, 12)
    [thread.join(60) for thread in threads]


def test_commit_heeds_no_limits(three):
    """A reader of one state of all nodes holds commits up for a moment."""
    stop, said = threading.Event(), []

    def reads():
        with three.a.connect() as connection:
            while not stop.is_set():
                connection.execute("begin isolation level repeatable read")
                connection.execute("select count(*) from hangs")
                connection.execute("commit")

    readers = [threading.Thread(target=reads) for _ in range(4)]
    [reader.start() for reader in readers]
    try:
        with three.a.connect() as connection:
            for n in range(150):
                connection.execute("begin")
                connection.execute("update hangs set v = v + 1 where id in (1, 2, 3, 4, 5, 6, 7, 8)")
                connection.execute("set local lock_timeout = '1ms'")
                connection.execute("set local statement_timeout = '2s'")
                said.append(_says(connection, "commit"))
    finally:
        stop.set()
        [reader.join(60) for reader in readers]
    assert set(said) == {"done"}
