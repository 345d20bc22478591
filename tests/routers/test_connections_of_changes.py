"""Connections run short, and a change of the schema still comes through: nobody holds one while he waits for somebody who needs it."""

import threading
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers"), pytest.mark.timeout(400)]

# More than a router has connections of its own.
CROWD = 48
WAIT_S = 8


@pytest.fixture(scope="module")
def short(pair):
    """A router with two connections to each node for a role, in front of the same herd."""
    home, other = (router.conninfo(n) for n in pair.nodes)
    made = router.Router(home, [other], more=f"[pool]\nsize = 2\nwait_timeout_ms = {WAIT_S * 1000}\n")
    yield made.server
    made.stop()


@pytest.fixture(scope="module")
def table(pair):
    """Its keys on home, and those elsewhere."""
    pair.a.run(
        "create table few (k int primary key, n int)", "select create_distributed_table('few', 'k')",
        "insert into few select g, 0 from generate_series(1, 100) g",
    )
    keys = []
    for node in pair.nodes:
        with node.server.connect() as connection:
            keys.append([k for (k,) in connection.execute("select k from few order by k")])
    yield keys
    pair.a.run("drop table few")


def run(server, failures, *statements):
    def work():
        try:
            with server.connect() as connection:
                for sql in statements:
                    connection.execute(sql)
        except psycopg.Error as error:
            failures.append(f"{statements}: {error.sqlstate} {error}")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "change",
    ["alter table few add column extra int", "truncate few", "create index on few (n)", "select undistribute_table('few')"],
)
def test_who_has_the_last_connections_of_a_node_is_not_waited_for_while_he_waits(pair, short, table, change):
    home, other = table
    failures = []
    with short.connect() as one, short.connect() as two:
        for session, key in ((one, other[0]), (two, other[1])):
            session.execute("begin")
            session.execute("update few set n = n + 1 where k = %s", (key,))
        begun = time.monotonic()
        changing = run(short, failures, f"begin; {change}; rollback")
        time.sleep(0.5)
        # It wants a connection to the other node. These two have them, and want the table at home.
        for session, key in ((one, home[0]), (two, home[1])):
            session.execute("update few set n = n + 1 where k = %s", (key,))
            session.execute("commit")
        took = time.monotonic() - begun
        changing.join(60)
    assert not failures
    # Who waits for a connection gives up then.
    assert took < WAIT_S - 1, f"held for {took:.1f} s"


def test_many_who_find_the_catalog_old_leave_connections_for_its_load(pair, table):
    stop, slowest, failures = threading.Event(), [0.0], []

    def ask():
        with pair.a.connect() as connection:
            while not stop.is_set():
                begun = time.monotonic()
                try:
                    # It is not there: the router looks whether it has the newest catalog.
                    connection.execute("select * from nosuch")
                except psycopg.Error as error:
                    if error.sqlstate != "42P01":
                        failures.append(f"{error.sqlstate} {error}")
                slowest[0] = max(slowest[0], time.monotonic() - begun)

    crowd = [threading.Thread(target=ask, daemon=True) for _ in range(CROWD)]
    for thread in crowd:
        thread.start()
    try:
        with pair.b.connect() as connection:
            for n in range(25):
                connection.execute(f"alter table few add column c{n} int")
                connection.execute(f"alter table few drop column c{n}")
    finally:
        stop.set()
        for thread in crowd:
            thread.join(90)
    assert not failures, failures[:3]
    assert slowest[0] < 15, f"somebody waited for {slowest[0]:.1f} s"


@pytest.mark.parametrize(
    "sql",
    ["insert into few select k + 1000, n from few", "copy few to stdout", "copy few from stdin", "lock table few", "select count(*) from few"],
)
def test_a_statement_without_connections_leaves_what_came_before(short, table, sql):
    """The transaction has written on home; another node has no connection free. What it wrote is there when it goes back to its savepoint."""
    on_home, elsewhere = table
    hold = [short.connect() for _ in range(2)]
    with short.connect() as connection:
        before = connection.execute("select n from few where k = %s", (on_home[0],)).fetchone()[0]
        for n, holder in enumerate(hold):
            holder.execute("begin")
            holder.execute("select n from few where k = %s", (elsewhere[n],))
            holder.execute("update few set n = n where k = %s", (elsewhere[n],))
        connection.execute("begin")
        connection.execute("update few set n = n + 1 where k = %s", (on_home[0],))
        connection.execute("savepoint s")
        with pytest.raises(psycopg.errors.TooManyConnections):
            if sql.startswith("copy"):
                with connection.cursor().copy(sql) as copy:
                    if "from" in sql:
                        copy.write_row((5000, 1))
                    else:
                        list(copy)
            else:
                connection.execute(sql)
        connection.execute("rollback to s")
        connection.execute("update few set n = n + 1 where k = %s", (on_home[0],))
        connection.execute("commit")
        for holder in hold:
            holder.close()
        assert connection.execute("select n from few where k = %s", (on_home[0],)).fetchone()[0] == before + 2


def test_whoever_has_the_last_connections_gets_what_he_asks_beside(pair, short):
    """Values of sequences, descriptions of statements, tables' columns: one connection more is for these, or as many sessions as there are connections
    would wait for one another until `wait_timeout`."""
    pair.a.run("create table numbered (id bigserial, k int, n int)", "select create_distributed_table('numbered', 'k')")
    with short.connect() as one, short.connect() as other:
        with one.cursor() as a, other.cursor() as b:
            with a.copy("copy numbered (k, n) from stdin") as rows, b.copy("copy numbered (k, n) from stdin") as others:
                # More than a batch of values, of each before the other has ended.
                for n in range(40_000):
                    for copy in (rows, others):
                        copy.write_row((n, 1))
        for connection in (one, other):
            connection.execute("begin")
            connection.execute("update numbered set n = n + 1 where k in (select g from generate_series(1, 50) g) and n < 0")
        for n, connection in enumerate((one, other)):
            # Not seen before: it is described.
            connection.execute(f"select id, {n} from numbered where k = %s", (1,), prepare=True)
            connection.execute(f"insert into numbered (k, n) select {n}, g from generate_series(1, 3) g")
            connection.execute("commit")
        assert one.execute("select count(*), count(distinct id) from numbered").fetchone() == (80_006, 80_006)
    pair.a.run("drop table numbered")
