"""kill -9 of a node or of the router: the rest goes on, errors are quick and clear, `herd up` repairs, nothing is lost."""

import time

import psycopg
import pytest

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("faults")]

ANSWER_SECONDS_MAX = 30
# connection_exception and its class, admin_shutdown, crash_shutdown, cannot_connect_now
GONE = ("08", "57P01", "57P02", "57P03")


@pytest.fixture
def table(victim):
    """`down`, 40 rows over both nodes, each with v = 0."""
    victim.router.run(
        "drop table if exists down", "create table down (id int primary key, v int)", "select create_distributed_table('down', 'id')",
        "insert into down values " + ", ".join(f"({i}, 0)" for i in range(1, 41)),
    )
    keys = victim.keys_by_node("down")
    assert sorted(keys[0] + keys[1]) == list(range(1, 41)) and keys[0] and keys[1]
    return keys


def refused(connection, sql: str, *values) -> None:
    """The statement fails as one whose node is gone, and soon."""
    started = time.monotonic()
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(sql, values)
    assert (caught.value.sqlstate or "").startswith(GONE), f"{sql}: {caught.value.sqlstate} {caught.value}"
    assert time.monotonic() - started < ANSWER_SECONDS_MAX


@pytest.mark.parametrize("dead", [1, 0], ids=["second node", "home"])
def test_keys_of_other_nodes_go_on(victim, table, dead):
    alive, gone = table[1 - dead], table[dead]
    with victim.router.connect(prepare_threshold=None) as connection:
        connection.execute("select count(*) from down")
        victim.kill(victim.herd.node_servers[dead].port)
        for key in alive[:5]:
            assert connection.execute("select v from down where id = %s", (key,)).fetchone() == (0,)
        for key in gone[:3]:
            refused(connection, "select v from down where id = %s", key)
            refused(connection, "update down set v = 9 where id = %s", key)
        refused(connection, "select count(*) from down")
        for key in alive[:5]:
            connection.execute("update down set v = 1 where id = %s", (key,))
    with victim.router.connect() as fresh:
        assert fresh.execute("select v from down where id = %s", (alive[0],)).fetchone() == (1,)
    victim.repair()
    with victim.router.connect() as fresh:
        assert fresh.execute("select count(*), sum(v) from down").fetchone() == (40, 5)
        for key in gone[:3]:
            assert fresh.execute("update down set v = 2 where id = %s returning v", (key,)).fetchone() == (2,)


def test_clients_that_come_while_home_is_away_leave_nothing_behind(victim, table):
    key = table[1][0]
    victim.kill(victim.herd.node_servers[0].port)
    with victim.herd.node_servers[1].connect() as node:

        def connections() -> int:
            sql = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
            return node.execute(sql).fetchone()[0]

        before = connections()
        for n in range(30):
            with victim.router.connect(prepare_threshold=None) as client:
                assert client.execute("update down set v = v + 1 where id = %s returning v", (key,)).fetchone() == (n + 1,)
                assert client.execute("select v from down where id = %s", (key,)).fetchone() == (n + 1,)
        deadline = time.monotonic() + 60
        # Those of the router's own may have been opened meanwhile.
        while connections() > before + 3:
            assert time.monotonic() < deadline, (before, connections())
            time.sleep(0.1)
    victim.repair()


def test_what_only_home_has_is_not_said_to_be_nowhere(victim, table):
    victim.router.run("drop table if exists only_home", "create table only_home (id int primary key, v text)")
    victim.kill(victim.herd.node_servers[0].port)
    with victim.router.connect() as connection:
        for sql in (
            "select v from only_home where id = %s", "insert into only_home values (%s)", "select shard from herd.shards where name = %s",
            "select count(*) from only_home join down using (id) where id = %s",
        ):
            refused(connection, sql, 1 if "name" not in sql else "down")
    victim.repair()
    victim.router.run("drop table only_home")


def test_a_transaction_over_both_nodes_is_all_or_nothing(victim, table):
    alive, gone = table[0][0], table[1][0]
    with victim.router.connect(autocommit=False, prepare_threshold=None) as connection:
        connection.execute("update down set v = 5 where id = %s", (alive,))
        connection.execute("update down set v = 5 where id = %s", (gone,))
        victim.kill(victim.herd.node_servers[1].port)
        with pytest.raises(psycopg.Error):
            connection.execute("update down set v = 6 where id = %s", (gone,))
            connection.commit()
        connection.rollback()
        assert connection.execute("select v from down where id = %s", (alive,)).fetchone() == (0,)
    victim.repair()
    with victim.router.connect() as fresh:
        assert fresh.execute("select count(*), sum(v) from down").fetchone() == (40, 0)


def test_an_open_session_survives_the_repair(victim, table):
    key = table[1][0]
    with victim.router.connect(prepare_threshold=0) as connection:
        connection.execute("set timezone = 'Asia/Tokyo'")
        assert connection.execute("select v from down where id = %s", (key,)).fetchone() == (0,)
        victim.kill(victim.herd.node_servers[1].port)
        refused(connection, "select v from down where id = %s", key)
        victim.repair()
        assert connection.execute("select v from down where id = %s", (key,)).fetchone() == (0,)
        assert connection.execute("select count(*) from down").fetchone() == (40,)
        assert connection.execute("show timezone").fetchone() == ("Asia/Tokyo",)


def test_ddl_with_a_node_down_changes_nothing(victim, table):
    victim.kill(victim.herd.node_servers[1].port)
    with victim.router.connect() as connection:
        refused(connection, "alter table down add column w int")
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("select w from down where id = %s", (table[0][0],))
    victim.repair()
    with victim.router.connect() as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("select w from down")
        connection.execute("alter table down add column w int default 3")
        assert connection.execute("select count(*), sum(w) from down").fetchone() == (40, 120)


def test_the_router_killed_and_started_again(victim, table):
    with victim.router.connect() as connection:
        connection.execute("update down set v = 7")
    victim.kill(victim.herd.port)
    with pytest.raises(psycopg.OperationalError):
        victim.router.connect()
    victim.repair()
    with victim.router.connect() as connection:
        assert connection.execute("select count(*), min(v), max(v) from down").fetchone() == (40, 7, 7)


def test_everything_killed_and_started_again(victim, table):
    with victim.router.connect() as connection:
        connection.execute("update down set v = 8")
    for server in (victim.herd.server, *victim.herd.node_servers):
        victim.kill(server.port)
    victim.repair()
    with victim.router.connect() as connection:
        assert connection.execute("select count(*), min(v), max(v) from down").fetchone() == (40, 8, 8)


def test_up_twice_and_down_twice(victim, table):
    assert victim.herd.up().returncode == 0
    with victim.router.connect() as connection:
        assert connection.execute("select count(*) from down").fetchone() == (40,)
    victim.herd.down()
    assert victim.herd.down(check=False).returncode in (0, 1)
    victim.repair()
    with victim.router.connect() as connection:
        assert connection.execute("select count(*) from down").fetchone() == (40,)


def test_a_connection_ended_by_the_administrator(victim, table):
    """pg_terminate_backend of the pool's connections: at most one error a session, then all goes on."""
    with victim.router.connect(prepare_threshold=None) as connection:
        connection.execute("select count(*) from down")
        for node in victim.herd.node_servers:
            node.run("select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()")
        for _ in range(3):
            try:
                connection.execute("select count(*) from down")
                break
            except psycopg.Error as error:
                assert (error.sqlstate or "").startswith(GONE), error
        assert connection.execute("select count(*) from down").fetchone() == (40,)
        assert connection.execute("select v from down where id = 7").fetchone() == (0,)
