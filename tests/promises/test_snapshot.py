"""`herd.snapshot`: reads at a commit that stands still half-way, time limits there, and what the setting means for a session."""

import threading
import time

import psycopg
import pytest

from .cluster import Cluster

pytestmark = [pytest.mark.real_herd, pytest.mark.timeout(400), pytest.mark.xdist_group("snapshot")]

_TOTAL = 40_000
_SUM = "select sum(v) from cut"


@pytest.fixture(scope="module")
def cluster():
    """Two nodes; router `plain` serves the tests, each of which starts with 40 accounts of 1000."""
    with Cluster(nodes=2) as made:
        made.plain = made.router("plain").start()
        made.plain.server.run(
            "create table cut (id int primary key, v int not null)", "select create_distributed_table('cut', 'id')",
            "insert into cut select g, 1000 from generate_series(1, 40) g",
        )
        made.keys = made.keys_by_node("cut")
        assert all(made.keys)
        yield made


@pytest.fixture
def session(cluster):
    with cluster.plain.server.connect() as connection:
        connection.execute("set herd.snapshot = on")
        yield connection


@pytest.fixture
def half(cluster, tmp_path):
    """A transfer of 10 between the nodes that is prepared and not yet decided; `go` lets it go on and waits for its end."""
    yield from _stopped_at("two_phase.prepared", cluster, tmp_path)


@pytest.fixture
def decided(cluster, tmp_path):
    """The same, decided and not yet done: one node shows it, the other does not."""
    yield from _stopped_at("two_phase.decided", cluster, tmp_path)


def _stopped_at(place, cluster, tmp_path):
    flag = tmp_path / "reached"
    tmp_path.chmod(0o777)
    router = cluster.router(f"slow{time.monotonic_ns()}").start(HERD_FAILPOINT=f"{place}:wait:{flag}")
    writing = threading.Thread(target=_transfer, args=(router.server, cluster.keys, 10))
    writing.start()
    _until(flag.exists)

    def go():
        flag.unlink(missing_ok=True)
        writing.join(60)
        assert not writing.is_alive()

    yield go
    go()
    router.kill()


def _transfer(server, keys, amount: int) -> None:
    with server.connect(autocommit=False) as connection:
        connection.execute("update cut set v = v - %s where id = %s", (amount, keys[0][0]))
        connection.execute("update cut set v = v + %s where id = %s", (amount, keys[1][0]))
        connection.commit()


def _until(done, seconds_max: float = 60) -> None:
    deadline = time.monotonic() + seconds_max
    while not done():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def _gates(cluster) -> int:
    """Exclusive gates held or waited for, over all nodes."""
    count = 0
    for node in cluster.nodes:
        with node.server.connect() as connection:
            count += connection.execute(
                "select count(*) from pg_locks where relation = 'herd.gate'::regclass and mode = 'ExclusiveLock'"
            ).fetchone()[0]
    return count


def _open_transactions(cluster) -> int:
    count = 0
    for node in cluster.nodes:
        with node.server.connect() as connection:
            sql = "select count(*) from pg_stat_activity where state like 'idle in transaction%'"
            count += connection.execute(sql).fetchone()[0]
    return count


def test_what_is_decided_is_finished_first(cluster, session, decided):
    """Its router stands still; whoever reads all nodes has it finished, and waits for nobody."""
    with cluster.plain.server.connect() as off:
        torn = off.execute(_SUM).fetchone()[0]
    assert torn != _TOTAL, "the test needs a transaction that is visible on one node alone"
    started = time.monotonic()
    assert session.execute(_SUM).fetchone() == (_TOTAL,)
    # Who waits gives up after eight seconds and more.
    assert time.monotonic() - started < 8
    decided()
    assert session.execute(_SUM).fetchone() == (_TOTAL,)


def test_a_read_waits_for_a_commit_that_is_half_done(cluster, session, half):
    seen = []
    reading = threading.Thread(target=lambda: seen.append(session.execute(_SUM).fetchone()[0]))
    reading.start()
    _until(lambda: _gates(cluster) > 0)
    time.sleep(0.3)
    assert not seen
    with cluster.plain.server.connect() as watcher:
        # Also to be seen while it waits, as what it is.
        _until(lambda: any("herd.snapshot" in row[0] for row in watcher.execute("select waiter_query from herd.locks")))
    half()
    reading.join(60)
    assert seen == [_TOTAL]
    assert _gates(cluster) == 0


def test_nobody_is_judged_a_deadlock_at_the_gate(cluster, session, half):
    """Longer than the search for deadlocks takes, with another writer behind the reader."""
    reading = threading.Thread(target=lambda: session.execute(_SUM))
    reading.start()
    _until(lambda: _gates(cluster) > 0)
    errors = []

    def write():
        try:
            with cluster.plain.server.connect(autocommit=False) as connection:
                connection.execute("update cut set v = v - 1 where id = %s", (cluster.keys[0][1],))
                connection.execute("update cut set v = v + 1 where id = %s", (cluster.keys[1][1],))
                connection.commit()
        except psycopg.Error as error:
            errors.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    time.sleep(2.5)
    half()
    for thread in (reading, writing):
        thread.join(60)
        assert not thread.is_alive()
    assert not errors


@pytest.mark.parametrize("limit, code", [("lock_timeout", "55P03"), ("statement_timeout", "57014")])
def test_time_limits_hold_at_the_gate(cluster, session, half, limit, code):
    session.execute(f"set {limit} = '400ms'")
    started = time.monotonic()
    with pytest.raises(psycopg.Error) as caught:
        session.execute(_SUM)
    assert caught.value.sqlstate == code
    assert 0.3 < time.monotonic() - started < 8
    _until(lambda: _gates(cluster) == 0)
    # In a block as well, which has failed then.
    session.execute("begin isolation level repeatable read")
    with pytest.raises(psycopg.Error) as caught:
        session.execute("select v from cut where id = 1")
    assert caught.value.sqlstate == code
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        session.execute("select 1")
    session.execute("rollback")
    half()
    assert session.execute(_SUM).fetchone() == (_TOTAL,)


@pytest.mark.parametrize("sql", [_SUM, "copy (select v from cut order by id) to stdout", "insert into cut select id + 100, v from cut"])
def test_a_wait_at_the_gate_can_be_cancelled(cluster, session, half, sql):
    def cancel():
        _until(lambda: _gates(cluster) > 0)
        session.cancel()

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    started = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled):
        if sql.startswith("copy"):
            with session.cursor().copy(sql) as copy:
                copy.read()
        else:
            session.execute(sql)
    assert time.monotonic() - started < 8
    cancelling.join(60)
    _until(lambda: _gates(cluster) == 0)
    half()
    assert session.execute("select sum(v), count(*) from cut").fetchone() == (_TOTAL, 40)


def test_a_reader_gives_up_in_the_end(cluster, session, half):
    started = time.monotonic()
    with pytest.raises(psycopg.errors.SerializationFailure) as caught:
        session.execute(_SUM)
    assert 8 < time.monotonic() - started < 45
    assert "snapshot" in str(caught.value)


@pytest.mark.parametrize("place", ["two_phase.decided", "two_phase.end_sent", "two_phase.prepared", "two_phase.decision_sent"])
def test_what_a_dead_router_left_is_finished_first(cluster, session, place):
    """Its gate went with it: what stands prepared tells of it."""
    router = cluster.router(f"dies{time.monotonic_ns()}").start(HERD_FAILPOINT=f"{place}:abort")
    with pytest.raises(psycopg.OperationalError):
        _transfer(router.server, cluster.keys, 10)
    for _ in range(5):
        assert session.execute(_SUM).fetchone() == (_TOTAL,)
    cluster.wait_until_nothing_is_prepared(10)
    router.kill()


def test_a_router_that_dies_at_the_gate_leaves_nothing(cluster, half):
    router = cluster.router(f"reads{time.monotonic_ns()}").start()

    def read():
        with pytest.raises(psycopg.OperationalError), router.server.connect() as connection:
            connection.execute("set herd.snapshot = on")
            connection.execute(_SUM)

    reading = threading.Thread(target=read)
    reading.start()
    _until(lambda: _gates(cluster) > 0)
    router.kill()
    reading.join(60)
    # A backend that waits for a lock does not see its client leave, but it waits a second at most.
    _until(lambda: _gates(cluster) == 0)


def test_the_setting(cluster, session):
    with cluster.plain.server.connect() as fresh:
        assert fresh.execute("show herd.snapshot").fetchone() == ("repeatable",)
    assert session.execute("show herd.snapshot").fetchone() == ("on",)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        session.execute("set herd.snapshot = maybe")
    session.execute("reset herd.snapshot")
    assert session.execute("show herd.snapshot").fetchone() == ("repeatable",)


@pytest.mark.parametrize("sql", [
    _SUM, "select sum(v * 1.0) from cut", "select (select sum(v) from cut where id %% 2 = 0) + (select sum(v) from cut where id %% 2 = 1)",
    "select v from cut order by id", "select v from cut", "copy (select v from cut) to stdout",
])
@pytest.mark.parametrize("wrote", [False, True])
def test_each_statement_of_a_read_committed_block_is_whole(cluster, session, half, sql, wrote):
    """It waits for the commit that is half done, sees all of it, and what the block itself has written."""
    seen = []

    def read():
        if sql.startswith("copy"):
            with session.cursor().copy(sql.replace("%%", "%")) as copy:
                seen.append(sum(int(row[0]) for row in copy.rows()))
        else:
            seen.append(sum(row[0] for row in session.execute(sql, ())))

    session.execute("begin")
    if wrote:
        session.execute("update cut set v = v + 3 where id = %s", (cluster.keys[0][4],))
    reading = threading.Thread(target=read)
    reading.start()
    _until(lambda: _gates(cluster) > 0)
    time.sleep(0.1)
    assert not seen
    half()
    reading.join(60)
    assert seen == [_TOTAL + 3 * wrote]
    # The next statement sees what was committed meanwhile.
    before = session.execute("select v from cut where id = %s", (cluster.keys[0][0],)).fetchone()[0]
    _transfer(cluster.plain.server, cluster.keys, 1)
    after, total = session.execute("select sum(v) filter (where id = %s), sum(v) from cut", (cluster.keys[0][0],)).fetchone()
    assert (after, total) == (before - 1, _TOTAL + 3 * wrote)
    session.execute("rollback")


def test_read_committed_blocks_refuse_what_they_can_not_do(session, cluster):
    for sql in ("copy cut to stdout", "insert into cut select id, v from cut where false"):
        session.execute("begin")
        assert session.execute("select v from cut where id = 7").fetchone() == (1000,)
        with pytest.raises(psycopg.errors.FeatureNotSupported) as caught:
            if sql.startswith("copy"):
                with session.cursor().copy(sql) as copy:
                    copy.read()
            else:
                session.execute(sql)
        assert "REPEATABLE READ" in caught.value.diag.message_hint
        session.execute("rollback")
    # Turned on too late.
    session.execute("set herd.snapshot = off")
    session.execute("begin isolation level repeatable read")
    session.execute(_SUM)
    session.execute("set herd.snapshot = on")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        session.execute(_SUM)
    session.execute("rollback")


def test_a_read_committed_block_does_the_rest(session, cluster):
    session.execute("begin")
    assert session.execute("update cut set v = v + 1").rowcount == 40
    session.execute("savepoint s")
    assert session.execute(_SUM).fetchone() == (_TOTAL + 40,)
    session.execute("declare c cursor for select v from cut order by id")
    assert len(session.execute("fetch all from c").fetchall()) == 40
    assert len(session.execute("select id from cut where id <= 3 order by id for update").fetchall()) == 3
    with pytest.raises(psycopg.errors.DivisionByZero):
        session.execute("select sum(v / 0) from cut")
    session.execute("rollback to savepoint s")
    for binary in (False, True):
        assert session.execute("select count(*) from cut where v < %s", (1_000_000,), binary=binary, prepare=True).fetchone() == (40,)
    session.execute("rollback")
    # Two statements of one string, the first of which writes.
    results = session.execute("update cut set v = v; select sum(v) from cut")
    assert results.nextset() and results.fetchone() == (_TOTAL,)


def test_a_change_of_the_schema_does_not_meet_a_reader_in_a_circle(session, cluster):
    """It holds the table on all nodes when it comes to the gate; a reader that has the gates must not wait for the table."""
    stop, errors = threading.Event(), []

    def change():
        while not stop.is_set():
            try:
                cluster.plain.server.run("alter table cut add column w int", "alter table cut drop column w")
            except psycopg.Error as error:
                errors.append(error)

    changing = threading.Thread(target=change)
    changing.start()
    slowest, count = 0.0, 0
    begun = time.monotonic()
    while time.monotonic() < begun + (4 if count > 3 else 60):
        started = time.monotonic()
        session.execute("begin")
        try:
            assert session.execute(_SUM).fetchone() == (_TOTAL,)
            count += 1
        except psycopg.Error as error:
            assert error.sqlstate in ("40001", "40P01"), error
        session.execute("rollback")
        slowest = max(slowest, time.monotonic() - started)
    stop.set()
    changing.join(60)
    assert not errors and count > 3 and slowest < 8, (errors[:2], count, slowest)


@pytest.mark.parametrize("begin", [
    ["begin isolation level repeatable read"], ["start transaction isolation level serializable"],
    ["begin", "set transaction isolation level repeatable read"],
    ["set herd.snapshot = repeatable", "begin", "set transaction /* one snapshot */ isolation level repeatable read"],
    ["set default_transaction_isolation = 'repeatable read'", "begin"],
    ["set session characteristics as transaction isolation level serializable", "begin read only"],
])
def test_blocks_that_read_repeatably_see_one_cut(cluster, session, begin):
    for statement in begin:
        session.execute(statement)
    session.execute("savepoint s")
    before = session.execute("select v from cut where id = %s", (cluster.keys[0][0],)).fetchone()
    _transfer(cluster.plain.server, cluster.keys, 5)
    other = session.execute("select v from cut where id = %s", (cluster.keys[1][0],)).fetchone()
    assert session.execute(_SUM).fetchone() == (_TOTAL,)
    session.execute("rollback to savepoint s")
    assert session.execute("select v from cut where id = %s", (cluster.keys[0][0],)).fetchone() == before
    assert session.execute("select v from cut where id = %s", (cluster.keys[1][0],)).fetchone() == other
    session.execute("commit")
    assert session.execute("select v from cut where id = %s", (cluster.keys[1][0],)).fetchone() == (other[0] + 5,)


def test_own_writes_are_seen(session, cluster):
    session.execute("begin isolation level repeatable read")
    session.execute("update cut set v = v + 1 where id = %s", (cluster.keys[0][2],))
    session.execute("insert into cut values (1001, 7)")
    assert session.execute(_SUM).fetchone() == (_TOTAL + 8,)
    session.execute("declare c cursor for select v from cut where id > 1000")
    assert session.execute("fetch all from c").fetchall() == [(7,)]
    with session.cursor().copy("copy (select id from cut where v < 100 order by id) to stdout") as copy:
        assert list(copy.rows()) == [("1001",)]
    session.execute("commit")
    session.execute("delete from cut where id = 1001")
    session.execute("update cut set v = v - 1 where id = %s", (cluster.keys[0][2],))
    assert session.execute(_SUM).fetchone() == (_TOTAL,)


def test_a_pinned_session_keeps_what_it_has(session, cluster):
    session.execute("create temporary table mine (x int)")
    session.execute("insert into mine values (1)")
    assert session.execute(_SUM).fetchone() == (_TOTAL,)
    assert session.execute("select x from mine").fetchone() == (1,)
    results = session.execute("select sum(v) from cut; select x from mine")
    assert results.fetchone() == (_TOTAL,) and results.nextset() and results.fetchone() == (1,)
    session.execute("begin isolation level repeatable read")
    assert session.execute("select x from mine").fetchone() == (1,)
    assert session.execute(_SUM).fetchone() == (_TOTAL,)
    session.execute("insert into mine values (2)")
    session.execute("update cut set v = v where id = %s", (cluster.keys[1][2],))
    session.execute("commit")
    assert session.execute("select count(*) from mine").fetchone() == (2,)
    _transfer(cluster.plain.server, cluster.keys, 1)


def test_statements_of_every_kind(session, cluster):
    session.execute("create sequence if not exists cut_sequence")
    assert session.execute("explain analyze select sum(v) from cut").fetchall()
    assert len(session.execute("select id from cut where id <= 3 order by id for update").fetchall()) == 3
    for binary in (False, True):
        assert session.execute("select count(*) from cut where v < %s", (1_000_000,), binary=binary, prepare=True).fetchone() == (40,)
    assert session.execute("select nextval('cut_sequence')").fetchone()
    assert session.execute("insert into cut select id + 2000, v from cut").rowcount == 40
    assert session.execute("insert into cut select g, 0 from generate_series(3000, 3010) g").rowcount == 11
    assert session.execute("delete from cut where id > 1000").rowcount == 51
    # One string, one cut, as long as it begins with the read.
    results = session.execute("select sum(v) from cut; select count(*) from cut")
    assert results.fetchone() == (_TOTAL,) and results.nextset() and results.fetchone() == (40,)
    session.execute("create table cut_copy as select id, v from cut")
    assert session.execute("select sum(v) from cut_copy").fetchone() == (_TOTAL,)
    session.execute("drop table cut_copy")
    with session.transaction():
        session.execute("set transaction isolation level repeatable read")
        with session.cursor(name="rows") as cursor:
            cursor.itersize = 7
            assert len(list(cursor.execute("select id from cut"))) == 40
    session.execute("begin isolation level serializable read only deferrable")
    assert session.execute(_SUM).fetchone() == (_TOTAL,)
    session.execute("rollback")
    assert session.execute(_SUM).fetchone() == (_TOTAL,)
    _until(lambda: _open_transactions(cluster) == 0)


def test_one_node_costs_nothing(session, cluster):
    """Statements of one node take no gate, even while a reader could not have one."""
    session.execute("set statement_timeout = '5s'")
    for _ in range(3):
        assert session.execute("select v from cut where id = 7").fetchone() == (1000,)
    session.execute("update cut set v = v where id = 7")


@pytest.mark.parametrize("begin", [None, "begin", "begin isolation level repeatable read"])
def test_a_node_that_is_down_is_an_error_soon(cluster, session, begin):
    """All nodes are needed, also by a block that has not used this one yet."""
    if begin:
        session.execute(begin)
    cluster.nodes[1].kill()
    try:
        started = time.monotonic()
        with pytest.raises(psycopg.Error) as caught:
            session.execute(_SUM)
        assert caught.value.sqlstate in ("08006", "08001", "57P01", "57P03"), caught.value
        assert time.monotonic() - started < 40
        if begin:
            session.execute("rollback")
    finally:
        cluster.nodes[1].start()
    assert session.execute(_SUM).fetchone() == (_TOTAL,)
