"""Reads at the beginning of a READ COMMITTED transaction begin on no node in a herd of several routers, too: who wants the table for himself
through another router waits for the transaction all the same."""

import random
import signal
import threading
import time

import psycopg
import pytest

from harness import router

pytestmark = [pytest.mark.real_herd, pytest.mark.xdist_group("routers"), pytest.mark.timeout(500)]

OPEN = "select count(*) from pg_stat_activity where state like 'idle in transaction%' and pid <> pg_backend_pid()"


@pytest.fixture
def read(pair):
    pair.a.run(
        "drop table if exists re_t, re_other", "create table re_t (id int primary key, v int)", "create table re_other (id int primary key)",
        "select create_distributed_table('re_t', 'id')", "select create_distributed_table('re_other', 'id')", "insert into re_t select g, g from generate_series(1, 100) g",
    )
    yield pair
    pair.a.run("drop table if exists re_t, re_other")


def _open_on_nodes(pair) -> int:
    total = 0
    for node in pair.nodes:
        with node.server.connect() as connection:
            total += connection.execute(OPEN).fetchone()[0]
    return total


def _begins(pair) -> psycopg.Connection:
    """A transaction through `a` that has read, and has begun nowhere."""
    reader = pair.a.connect()
    reader.execute("begin")
    assert reader.execute("select count(*) from re_t").fetchone() == (100,)
    assert reader.execute("select v from re_t where id = 7").fetchone() == (7,)
    # Routers' own are short.
    deadline = time.monotonic() + 60
    while _open_on_nodes(pair):
        assert time.monotonic() < deadline
    return reader


def _running(connection, sql: str) -> tuple[threading.Thread, list]:
    """It runs beside; what it fails with will be in the list."""
    failed = []

    def run():
        try:
            connection.execute(sql)
        except psycopg.Error as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, failed


@pytest.mark.parametrize("change", ["alter table re_t add column more int default 5", "drop table re_t", "truncate re_t", "alter table re_t rename to re_renamed", "begin; lock table re_t; commit", "select undistribute_table('re_t')"])
def test_a_change_waits_for_readers_of_another_router(read, change):
    with _begins(read) as reader, read.b.connect() as b:
        thread, failed = _running(b, change)
        for _ in range(4):
            time.sleep(0.4)
            assert thread.is_alive(), failed
            assert reader.execute("select * from re_t where id = 7").fetchone() == (7, 7)
            assert reader.execute("select sum(v) from re_t").fetchone() == (5050,)
        reader.execute("commit")
        ended = time.monotonic()
        thread.join(60)
        assert not thread.is_alive() and failed == []
        assert time.monotonic() - ended < 40
        b.execute("drop table if exists re_renamed")


def _waits(server, sql, reader, question, expected):
    """Until the reader's transaction ends."""
    connection = server.connect()
    thread, failed = _running(connection, sql)
    for _ in range(3):
        time.sleep(0.4)
        assert thread.is_alive(), (sql, failed)
        assert reader.execute(question).fetchone() == expected, sql
    reader.execute("commit")
    thread.join(60)
    assert not thread.is_alive() and failed == [], (sql, failed)
    connection.close()


@pytest.mark.parametrize("through", ["a", "b"])
def test_changes_that_do_not_name_the_table(read, through):
    server = getattr(read, through)
    for change, question, after in (
        ("truncate re_up cascade", "select count(*) from re_of", 0),
        ("drop schema re_room cascade", "select count(*) from re_room.re_within", None),
        ("truncate re_at_1", "select count(*) from re_at", 10),
        ("alter table re_at add column more int", "select count(*) from re_at_2", 10),
        ("begin; lock table re_at; truncate re_at_2; commit", "select count(*) from re_at_2", 0),
        ("drop domain re_short cascade", "select count(*) from re_typed where id > 0", 20),
    ):
        read.a.run(
            "drop schema if exists re_room cascade", "drop table if exists re_of, re_up, re_at, re_typed", "drop domain if exists re_short", "create schema re_room",
            "create domain re_short as text check (length(value) < 9)",
            "create table re_up (id int primary key)", "create table re_of (id int primary key)", "create table re_room.re_within (id int)",
            "create table re_at (id int, at int) partition by range (at)", "create table re_at_1 partition of re_at for values from (0) to (10)", "create table re_at_2 partition of re_at for values from (10) to (20)",
            "create table re_typed (id int, t re_short)",
            *(f"select create_distributed_table('{t}', 'id')" for t in ("re_up", "re_of", "re_room.re_within", "re_at", "re_typed")),
            "alter table re_of add foreign key (id) references re_up", "insert into re_up select generate_series(0, 19)", "insert into re_of select generate_series(0, 19)", "insert into re_room.re_within select generate_series(0, 19)",
            "insert into re_at select g, g from generate_series(0, 19) g", "insert into re_typed select g + 1, 'x' from generate_series(0, 19) g",
        )
        with read.a.connect() as reader:
            reader.execute("begin")
            expected = reader.execute(question).fetchone()
            _waits(server, change, reader, question, expected)
            if after is not None:
                assert reader.execute(question).fetchone() == (after,), change
    read.a.run("drop table if exists re_of, re_up, re_at, re_typed", "drop domain if exists re_short")


@pytest.mark.parametrize("first", ["lock table re_t", "alter table re_t add column more int"])
@pytest.mark.parametrize("second", ["alter table re_t add column again int", "truncate re_t", "lock table re_t"])
def test_who_has_the_table_does_not_wait_for_who_waits_for_it(read, first, second):
    with read.b.connect() as b, read.a.connect() as reader:
        b.execute("begin")
        b.execute(first)
        time.sleep(1.3)
        reader.execute("begin")
        rows = []
        thread = threading.Thread(target=lambda: rows.append(reader.execute("select count(*) from re_t where id < 1000").fetchone()))
        thread.start()
        time.sleep(0.7)
        assert rows == []
        b.execute("set local lock_timeout = '30s'")
        b.execute(second)
        b.execute("commit")
        thread.join(60)
        assert rows == [(0 if second.startswith("truncate") else 100,)]
        reader.execute("commit")


def test_a_lock_is_not_given_while_somebody_who_has_read_is_there(read):
    with read.a.connect() as writer, read.a.connect() as reader, read.b.connect() as b:
        writer.execute("begin")
        writer.execute("update re_t set v = v")
        b.execute("begin")
        locked = threading.Thread(target=b.execute, args=("lock table re_t",))
        locked.start()
        time.sleep(0.5)
        reader.execute("begin")
        assert reader.execute("select v from re_t where id = 7").fetchone() == (7,)
        writer.execute("commit")
        time.sleep(1)
        assert locked.is_alive()
        assert reader.execute("select v from re_t where id = 8").fetchone() == (8,)
        reader.execute("commit")
        locked.join(60)
        assert not locked.is_alive()
        b.execute("commit")


def test_a_lock_marks_what_it_locks(read):
    """What is locked besides is waited for, what is not locked is not taken for locked, and going back to a savepoint forgets what is given back alone."""
    read.a.run(
        "drop table if exists re_at", "create table re_at (id int, at int) partition by range (at)", "create table re_at_1 partition of re_at for values from (0) to (10)",
        "create table re_at_2 partition of re_at for values from (10) to (20)", "select create_distributed_table('re_at', 'id')", "insert into re_at select g, g from generate_series(0, 19) g",
    )
    with read.b.connect() as b, read.a.connect() as reader:
        for lock in ("lock table re_at_1", "lock table only re_at"):
            b.execute("begin")
            b.execute(lock)
            reader.execute("begin")
            if lock.endswith("_1"):
                assert reader.execute("select count(*) from re_at_2").fetchone() == (10,)
                b.execute("set local lock_timeout = '1s'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    b.execute("truncate re_at_2")
            reader.execute("commit")
            b.execute("rollback")
        for between in ("savepoint s; set local work_mem = '5MB'; rollback to s", "savepoint s; release s", "savepoint s; lock table re_other; rollback to s"):
            b.execute("begin; set local lock_timeout = '30s'; lock table re_at")
            reader.execute("begin")
            rows = []
            thread = threading.Thread(target=lambda: rows.append(reader.execute("select count(*) from re_at_2").fetchone()))
            thread.start()
            time.sleep(0.7)
            b.execute(between)
            b.execute("alter table re_at add column more int")
            b.execute("truncate re_at_2")
            b.execute("rollback")
            thread.join(60)
            assert rows == [(10,)], between
            reader.execute("commit")
        # A lock that is given back is one no more.
        b.execute("begin; savepoint s; lock table re_t; rollback to s; set local lock_timeout = '1s'")
        reader.execute("begin")
        assert reader.execute("select count(*) from re_t").fetchone() == (100,)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            b.execute("truncate re_t")
        b.execute("rollback")
        reader.execute("commit")
    read.a.run("drop table re_at")


def test_who_reads_another_table_is_not_waited_for(read):
    with _begins(read) as reader, read.b.connect() as b:
        b.execute("create table re_away (id int primary key); select create_distributed_table('re_away', 'id'); create view re_view as select * from re_away; create function re_f() returns int return 1; create table re_local (id int)")
        b.execute("set lock_timeout = '20s'")
        for sql in ("drop view re_view cascade", "drop function re_f() cascade", "drop view if exists re_nope cascade", "drop sequence if exists re_nope cascade", "truncate re_away cascade", "drop table re_away cascade", "drop table re_local cascade", "drop schema if exists re_nope cascade"):
            b.execute(sql)
        assert reader.execute("select count(*) from re_t").fetchone() == (100,)
        # Each has read what the other does not want.
        b.execute("begin; select count(*) from re_other; create table re_x (id int); drop table re_x cascade; commit")
        reader.execute("commit")


def test_a_lock_comes_through_under_many_readers(read):
    stop, done = threading.Event(), [0]

    def reads(server):
        with server.connect() as c:
            while not stop.is_set():
                c.execute("begin")
                c.execute("select count(*) from re_t")
                c.execute("select v from re_t where id = 3")
                c.execute("commit")
                done[0] += 1

    threads = [threading.Thread(target=reads, args=(s,)) for s in (read.a, read.b) * 4]
    [t.start() for t in threads]
    try:
        for server in (read.a, read.b):
            with server.connect() as c:
                for sql in ("begin; lock table re_t; update re_t set v = v where id = 1; commit", "begin; lock table re_t, re_other; commit", "alter table re_t add column more int", "alter table re_t drop column more cascade", "truncate re_other cascade"):
                    c.execute("set statement_timeout = '100s'")
                    c.execute(sql)
    finally:
        stop.set()
        [t.join(90) for t in threads]
    assert done[0] > 20


def test_who_may_not_is_told_so_at_once(read):
    with _begins(read) as reader, read.b.connect() as b:
        b.execute("drop role if exists re_nobody; create role re_nobody; grant usage on schema public to re_nobody")
        b.execute("set role re_nobody")
        begun = time.monotonic()
        for sql in ("lock table re_t", "drop function re_t_f() cascade", "truncate re_t cascade"):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction)):
                b.execute("begin; " + sql)
            b.execute("rollback")
        assert time.monotonic() - begun < 30
        b.execute("reset role; drop owned by re_nobody; drop role re_nobody")
        reader.execute("commit")


def test_what_touches_other_tables_or_less_does_not_wait(read):
    with _begins(read) as reader, read.b.connect() as b:
        b.execute("set lock_timeout = '20s'")
        b.execute("alter table re_other add column more int")
        b.execute("create index on re_t (v)")
        b.execute("insert into re_t values (101, 101)")
        assert reader.execute("select count(*) from re_t").fetchone() == (101,)
        reader.execute("commit")


def test_limits_of_who_waits(read):
    with _begins(read) as reader, read.b.connect() as b:
        b.execute("set lock_timeout = '1s'")
        for sql in ("alter table re_t add column more int", "begin; lock table re_t"):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                b.execute(sql)
            b.execute("rollback")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            b.execute("begin; lock table re_t nowait")
        b.execute("rollback")
        # Nobody waits in front of the table any more.
        assert reader.execute("select count(*) from re_t").fetchone() == (100,)
        with read.a.connect() as third:
            assert third.execute("select count(*) from re_t").fetchone() == (100,)


def test_what_bears_no_seal_is_not_believed(read):
    with _begins(read) as reader, read.b.connect() as b, read.nodes[0].server.connect() as forger:
        ids = [n for n, in forger.execute("select id from herd.router").fetchall()]
        thread, failed = _running(b, "alter table re_t add column more int")
        until = time.monotonic() + 2
        while time.monotonic() < until:
            for to in ids:
                for said in ids:
                    for number in range(40):
                        forger.execute(f"notify herd_epoch, 'read! {to % 2**64} {number} {said % 2**64} 0 {'0' * 64}'")
        assert thread.is_alive() and failed == []
        reader.execute("commit")
        thread.join(60)
        assert failed == []


def test_a_router_that_dies_is_not_waited_for(read):
    home, other = (router.conninfo(n) for n in read.nodes)
    third = router.Router(home, [other])
    try:
        for end in (signal.SIGSTOP, signal.SIGKILL):
            reader = third.server.connect()
            reader.execute("begin")
            assert reader.execute("select count(*) from re_t").fetchone() == (100,)
            third.process.send_signal(end)
            begun = time.monotonic()
            read.b.run("alter table re_t add column more int", "alter table re_t drop column more")
            assert time.monotonic() - begun < 80
            if end == signal.SIGSTOP:
                third.process.send_signal(signal.SIGCONT)
                # Its tables have changed meanwhile.
                with pytest.raises(psycopg.errors.SerializationFailure):
                    reader.execute("select count(*) from re_t")
                reader.execute("rollback")
                assert reader.execute("select count(*) from re_t").fetchone() == (100,)
                reader.close()
    finally:
        third.process.send_signal(signal.SIGKILL)
        third.stop()


def test_readers_and_changes_through_both(read):
    """A transaction sees one form of the table from its first read to its last."""
    stop, failed, done = threading.Event(), [], [0, 0]

    def reads(server, seed):
        dice = random.Random(seed)
        try:
            with server.connect() as c:
                # By the simple protocol; the extended one's statements are prepared, and their columns may not change.
                c.prepare_threshold = None
                while not stop.is_set():
                    c.execute("begin")
                    try:
                        answer = c.execute("select * from re_t where id = %s", (3,)) if seed < 2 else c.execute("select * from re_t where id = 3")
                    except psycopg.errors.FeatureNotSupported as error:
                        assert "cached plan must not change result type" in str(error)
                        c.execute("rollback")
                        continue
                    first = len(answer.description)
                    assert {len(row) for row in answer.fetchall()} == {first}
                    for _ in range(dice.randrange(4)):
                        time.sleep(dice.random() * 0.02)
                        sql = dice.choice(["select * from re_t where id = 5", "select * from re_t order by id limit 3", "select * from re_t where v > 50"])
                        assert len(c.execute(sql).description) == first, "another form"
                    if dice.random() < 0.3:
                        c.execute("update re_t set v = v where id = 4")
                        assert len(c.execute("select * from re_t where id = 5").description) == first, "another form behind a write"
                    c.execute(dice.choice(["commit", "rollback"]))
                    done[0] += 1
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    def changes(server, name):
        try:
            with server.connect() as c:
                while not stop.is_set():
                    c.execute(f"alter table re_t add column {name} int default 1")
                    time.sleep(0.03)
                    c.execute(f"alter table re_t drop column {name}")
                    done[1] += 1
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=reads, args=(s, n)) for n, s in enumerate((read.a, read.b, read.a, read.b))]
    threads += [threading.Thread(target=changes, args=(s, n)) for n, s in (("of_a", read.a), ("of_b", read.b))]
    [t.start() for t in threads]
    begun = time.monotonic()
    # On a slow machine until both have been done some times.
    while not failed and time.monotonic() < begun + (12 if done[0] > 50 and done[1] > 2 else 120):
        time.sleep(0.1)
    stop.set()
    [t.join(90) for t in threads]
    assert failed == [] and not any(t.is_alive() for t in threads)
    assert done[0] > 50 and done[1] > 2, done
    print(f"{done[0]} transactions, {done[1]} pairs of changes")


def test_rows_have_the_columns_that_were_told(read):
    """Statements by themselves, of many clients at once, while columns come and go through both routers: each row has the columns that were told."""
    stop, failed, done = threading.Event(), [], [0, 0]
    statements = [
        "select * from re_t where id = %s", "select * from re_t where id = %s or id = 4", "update re_t set v = v where id = %s returning *",
        "update re_t set v = v where id in (%s, 4, 5) returning *", "insert into re_t values (%s, 1) on conflict (id) do update set v = re_t.v returning *",
    ]

    def runs(server, seed):
        dice = random.Random(seed)
        try:
            with server.connect() as c:
                c.prepare_threshold = None
                while not stop.is_set():
                    try:
                        answer = c.execute(dice.choice(statements), (dice.randrange(1, 40),), binary=seed % 3 == 0)
                    except psycopg.errors.FeatureNotSupported as error:
                        assert "cached plan must not change result type" in str(error)
                        continue
                    except psycopg.errors.DeadlockDetected:
                        continue
                    columns = len(answer.description)
                    assert {len(row) for row in answer.fetchall()} == {columns}
                    done[0] += 1
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    def changes(server):
        try:
            with server.connect() as c:
                while not stop.is_set():
                    c.execute("alter table re_t add column more int default 1")
                    c.execute("alter table re_t drop column more")
                    done[1] += 1
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=runs, args=((read.a, read.b)[n % 2], n)) for n in range(12)] + [threading.Thread(target=changes, args=(read.b,))]
    [t.start() for t in threads]
    begun = time.monotonic()
    while not failed and time.monotonic() < begun + (10 if done[0] > 50 and done[1] > 0 else 120):
        time.sleep(0.1)
    stop.set()
    [t.join(90) for t in threads]
    assert failed == [] and not any(t.is_alive() for t in threads)
    assert done[0] > 50 and done[1] > 0, done
    print(f"{done[0]} statements, {done[1]} pairs of changes")


@pytest.mark.parametrize("change", ["alter table re_t add column n int default 7", "truncate re_t"])
def test_a_savepoint_does_not_give_back_what_was_read(read, change):
    """The first node that takes part joins inside a savepoint, and loses what it has locked; a change of another table comes behind that."""
    with read.a.connect() as reader, read.b.connect() as changer:
        reader.execute("begin")
        assert reader.execute("select v from re_t where id = 7").fetchone() == (7,)
        for statement in ("savepoint s", "insert into re_other values (1)", "rollback to s", "release s", "alter table re_other add column q int"):
            reader.execute(statement)
        thread, failed = _running(changer, change)
        time.sleep(2)
        assert thread.is_alive(), "it did not wait for who has read the table"
        assert reader.execute("select * from re_t where id = 7").fetchone() == (7, 7)
        reader.execute("commit")
        thread.join(90)
        assert not thread.is_alive() and not failed, failed
